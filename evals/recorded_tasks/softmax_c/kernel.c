#include <math.h>

#include "kernel.h"

void softmax_f32(const float *x, float *y, int rows, int cols) {
    for (int i = 0; i < rows; i++) {
        float max = x[i * cols];
        for (int j = 1; j < cols; j++) {
            if (x[i * cols + j] > max) {
                max = x[i * cols + j];
            }
        }
        float sum = 0.0f;
        for (int j = 0; j < cols; j++) {
            sum += expf(x[i * cols + j] - max);
        }
        for (int j = 0; j < cols; j++) {
            y[i * cols + j] = expf(x[i * cols + j] - max) / sum;
        }
    }
}
