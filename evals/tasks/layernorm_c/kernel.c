#include <math.h>
#include <stdint.h>

void layernorm(const float *x, const float *gamma, const float *beta, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < cols; c++) mean += in[c];
        mean /= cols;
        for (int64_t c = 0; c < cols; c++) variance += (in[c] - mean) * (in[c] - mean);
        double scale = 1 / sqrt(variance / cols + 1e-5);
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] = (float)((in[c] - mean) * scale) * gamma[c] + beta[c];
    }
}
