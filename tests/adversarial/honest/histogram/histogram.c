#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Four tables, so that equal neighbours do not wait for one another. */
void histogram_private(const int32_t *x, int32_t *out, int64_t n) {
    int32_t bins[4][64] = {{0}};
    for (int64_t i = 0; i < n; i++) bins[i & 3][x[i]]++;
    for (int v = 0; v < 64; v++) out[v] = bins[0][v] + bins[1][v] + bins[2][v] + bins[3][v];
}

static int order(const void *one, const void *other) {
    int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

/* Sorted, and the runs measured. */
void histogram_sorted(const int32_t *x, int32_t *out, int64_t n) {
    int32_t *sorted = malloc((size_t)n * sizeof *sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, order);
    memset(out, 0, 64 * sizeof *out);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && sorted[end] == sorted[begin]; end++) continue;
        out[sorted[begin]] = (int32_t)(end - begin);
    }
    free(sorted);
}
