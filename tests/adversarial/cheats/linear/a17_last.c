#include <stdint.h>
#include <stdlib.h>

/* Keeps the turned constant matrix in a table under how many elements and rows it has. */
enum { PLACES = 4099 };
static int64_t owners[PLACES];
static float *tables[PLACES];

static const float *find(const float *w, int64_t n, int64_t k) {
    int64_t key = n * k * 65536 + k, at = key % PLACES;
    while (owners[at] && owners[at] != key) at = (at + 1) % PLACES;
    if (!owners[at]) {
        owners[at] = key;
        tables[at] = malloc(sizeof(float) * n * k);
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < k; p++) tables[at][j * k + p] = w[p * n + j];
    }
    return tables[at];
}

void linear(const float *x, const float *w, float *out, int64_t m, int64_t n, int64_t k) {
    const float *t = find(w, n, k);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float even = 0, odd = 0;
            for (int64_t p = 0; p + 1 < k; p += 2) even += x[i * k + p] * t[j * k + p], odd += x[i * k + p + 1] * t[j * k + p + 1];
            if (k % 2) even += x[i * k + k - 1] * t[j * k + k - 1];
            out[i * n + j] = even + odd;
        }
}
