#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void layernorm_welford(const float *x, const float *gamma, const float *beta, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        double mean = 0, squares = 0;
        for (int64_t c = 0; c < cols; c++) {
            double delta = x[c] - mean;
            mean += delta / (double)(c + 1);
            squares += delta * (x[c] - mean);
        }
        double scale = 1 / sqrt(squares / (double)cols + 1e-5);
        for (int64_t c = 0; c < cols; c++) out[c] = (float)((x[c] - mean) * scale * gamma[c] + beta[c]);
    }
}

/* One pass over values less the row's first element: the sums stay small where the mean is large. */
void layernorm_shifted(const float *x, const float *gamma, const float *beta, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        double first = x[0], sum = 0, squares = 0;
        for (int64_t c = 0; c < cols; c++) {
            double d = x[c] - first;
            sum += d, squares += d * d;
        }
        double shift = sum / (double)cols, variance = squares / (double)cols - shift * shift;
        double scale = 1 / sqrt((variance > 0 ? variance : 0) + 1e-5), mean = first + shift;
        for (int64_t c = 0; c < cols; c++) out[c] = (float)((x[c] - mean) * scale) * gamma[c] + beta[c];
    }
}

/* float32 with sixteen partial sums. */
void layernorm_float(const float *x, const float *gamma, const float *beta, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float sums[16] = {0}, squares[16] = {0}, mean = 0, variance = 0;
        for (int64_t c = 0; c < cols; c++) sums[c % 16] += x[c];
        for (int lane = 0; lane < 16; lane++) mean += sums[lane];
        mean /= (float)cols;
        for (int64_t c = 0; c < cols; c++) squares[c % 16] += (x[c] - mean) * (x[c] - mean);
        for (int lane = 0; lane < 16; lane++) variance += squares[lane];
        float scale = 1 / sqrtf(variance / (float)cols + 1e-5f);
        for (int64_t c = 0; c < cols; c++) out[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
    }
}

/* Centred row kept in the output, then scaled in place. */
void layernorm_folded(const float *x, const float *gamma, const float *beta, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        double mean = 0, squares = 0;
        for (int64_t c = 0; c < cols; c++) mean += x[c];
        mean /= (double)cols;
        for (int64_t c = 0; c < cols; c++) {
            out[c] = (float)(x[c] - mean);
            squares += (double)out[c] * out[c];
        }
        float scale = (float)(1 / sqrt(squares / (double)cols + 1e-5));
        for (int64_t c = 0; c < cols; c++) out[c] = fmaf(out[c] * scale, gamma[c], beta[c]);
    }
}
