#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void gemm_int8_rows(const int8_t *a, const int8_t *b, int32_t *c, int64_t m, int64_t n, int64_t k) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}

/* b turned round and widened to 16 bits, for products of pairs. */
void gemm_int8_packed(const int8_t *a, const int8_t *b, int32_t *c, int64_t m, int64_t n, int64_t k) {
    int16_t *turned = malloc((size_t)(n * k) * sizeof *turned);
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) turned[j * k + p] = b[p * n + j];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int32_t sum = 0;
            for (int64_t p = 0; p < k; p++) sum += (int16_t)a[i * k + p] * turned[j * k + p];
            c[i * n + j] = sum;
        }
    free(turned);
}
