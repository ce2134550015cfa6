#include <stdint.h>

void sum_int64(const int64_t *x, int64_t *out, int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (uint64_t)x[i];
    out[0] = (int64_t)sum;
}
