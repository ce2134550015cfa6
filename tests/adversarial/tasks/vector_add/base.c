#include <stdint.h>

void vector_add(const float *x, const float *y, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
}
