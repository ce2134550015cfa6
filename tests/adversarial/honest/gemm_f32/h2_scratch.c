#include <stdint.h>
#include <stdlib.h>

static double *scratch;
static int64_t room;

/* A row of sums in double; the memory is kept between calls, what it holds is not used again. */
void gemm_scratch(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    if (room < n) scratch = realloc(scratch, (size_t)n * sizeof *scratch), room = n;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) scratch[j] = 0;
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) scratch[j] += (double)a[i * k + p] * b[p * n + j];
        for (int64_t j = 0; j < n; j++) c[i * n + j] = (float)scratch[j];
    }
}
