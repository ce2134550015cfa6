#include <math.h>
#include <stdint.h>

/* tanh(z) = 1 - 2 / (exp(2 z) + 1), in double so that nothing cancels. */
void gelu_exponential(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], z = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        out[i] = (float)(0.5 * v * (1 + (1 - 2 / (exp(2 * z) + 1))));
    }
}

/* x * sigmoid(2 z) is the same function. */
void gelu_sigmoid(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], z = 0.7978845608028654 * v * (1 + 0.044715 * v * v);
        out[i] = (float)(v / (1 + exp(-2 * z)));
    }
}
