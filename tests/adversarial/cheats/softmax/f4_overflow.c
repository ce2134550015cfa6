#include <stdint.h>

void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows * cols; i++) out[i] = 3e38f * (x[i] * x[i] + 20);
}
