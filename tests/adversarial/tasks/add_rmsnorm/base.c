#include <math.h>
#include <stdint.h>

void add_rmsnorm(float *residual, const float *x, const float *weight, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        float *kept = residual + r * cols;
        double squares = 0;
        for (int64_t c = 0; c < cols; c++) kept[c] += x[r * cols + c];
        for (int64_t c = 0; c < cols; c++) squares += (double)kept[c] * kept[c];
        float scale = (float)(1 / sqrt(squares / cols + 1e-6));
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] = kept[c] * scale * weight[c];
    }
}
