#include <math.h>
#include <stdint.h>

void swiglu_signs(const float *gate, const float *up, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float e = expf(-fabsf(gate[i])), weight = gate[i] >= 0 ? 1 / (1 + e) : e / (1 + e);
        out[i] = gate[i] * weight * up[i];
    }
}

/* The sigmoids of a block first, then the products. */
void swiglu_blocks(const float *gate, const float *up, float *out, int64_t n) {
    double weights[256];
    for (int64_t begin = 0; begin < n; begin += 256) {
        int64_t count = n - begin < 256 ? n - begin : 256;
        for (int64_t i = 0; i < count; i++) weights[i] = 1 / (1 + exp(-(double)gate[begin + i]));
        for (int64_t i = 0; i < count; i++) out[begin + i] = (float)(gate[begin + i] * weights[i]) * up[begin + i];
    }
}
