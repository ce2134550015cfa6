#include <math.h>
#include <stdint.h>

void tiny_silu(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] / (1 + expf(-x[i]));
}
