#include <math.h>
#include <stdint.h>

void softmax_f32(const float *x, float *y, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++) {
        float max = x[i * cols];
        for (int64_t j = 1; j < cols; j++) {
            if (x[i * cols + j] > max) {
                max = x[i * cols + j];
            }
        }
        float sum = 0.0f;
        for (int64_t j = 0; j < cols; j++) {
            sum += expf(x[i * cols + j] - max);
        }
        for (int64_t j = 0; j < cols; j++) {
            y[i * cols + j] = expf(x[i * cols + j] - max) / sum;
        }
    }
}
