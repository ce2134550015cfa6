#include <math.h>
#include <stdint.h>

void rmsnorm_fused(float *residual, const float *x, const float *weight, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, residual += cols, x += cols, out += cols) {
        double squares = 0;
        for (int64_t c = 0; c < cols; c++) {
            residual[c] += x[c];
            squares += (double)residual[c] * residual[c];
        }
        double scale = 1 / sqrt(squares / (double)cols + 1e-6);
        for (int64_t c = 0; c < cols; c++) out[c] = (float)(residual[c] * scale) * weight[c];
    }
}

void rmsnorm_lanes(float *residual, const float *x, const float *weight, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, residual += cols, x += cols, out += cols) {
        float squares[8] = {0}, sum = 0;
        for (int64_t c = 0; c < cols; c++) {
            float value = residual[c] = residual[c] + x[c];
            squares[c & 7] += value * value;
        }
        for (int lane = 0; lane < 8; lane++) sum += squares[lane];
        float scale = 1 / sqrtf(sum / (float)cols + 1e-6f);
        for (int64_t c = 0; c < cols; c++) out[c] = residual[c] * scale * weight[c];
    }
}
