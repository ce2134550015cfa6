#include <stdint.h>

void sum_reduce(const float *x, float *out, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    out[0] = (float)sum;
}
