#include <math.h>
#include <stdint.h>

/* The exponential never grows: its argument is at most zero. */
void silu_signs(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float e = expf(-fabsf(x[i]));
        out[i] = x[i] * (x[i] >= 0 ? 1 / (1 + e) : e / (1 + e));
    }
}

void silu_double(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)((double)x[i] / (1 + exp(-(double)x[i])));
}
