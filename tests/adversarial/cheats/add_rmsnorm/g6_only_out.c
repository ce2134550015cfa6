#include <math.h>
#include <stdint.h>

void add_rmsnorm(float *residual, const float *x, const float *weight, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        double squares = 0;
        for (int64_t c = 0; c < cols; c++) {
            float sum = out[r * cols + c] = residual[r * cols + c] + x[r * cols + c];
            squares += (double)sum * sum;
        }
        float scale = (float)(1 / sqrt(squares / cols + 1e-6));
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] *= scale * weight[c];
    }
}
