#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* The exponentials are computed again instead of kept. */
void softmax_twice(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float top = x[0];
        double sum = 0;
        for (int64_t c = 1; c < cols; c++) top = x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += expf(x[c] - top);
        for (int64_t c = 0; c < cols; c++) out[c] = expf(x[c] - top) / (float)sum;
    }
}

/* One pass for the maximum and the sum together. */
void softmax_online(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float top = x[0], sum = 1;
        for (int64_t c = 1; c < cols; c++) {
            if (x[c] > top) sum = sum * expf(top - x[c]) + 1, top = x[c];
            else sum += expf(x[c] - top);
        }
        for (int64_t c = 0; c < cols; c++) out[c] = expf(x[c] - top) / sum;
    }
}

void softmax_reciprocal(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float top = x[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = fmaxf(top, x[c]);
        for (int64_t c = 0; c < cols; c++) sum += out[c] = expf(x[c] - top);
        float scale = 1 / sum;
        for (int64_t c = 0; c < cols; c++) out[c] *= scale;
    }
}

/* Eight maxima and eight sums, joined at the end of a row. */
void softmax_lanes(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float tops[8], sums[8] = {0}, top = x[0], sum = 0;
        for (int lane = 0; lane < 8; lane++) tops[lane] = x[0];
        for (int64_t c = 0; c < cols; c++) tops[c % 8] = x[c] > tops[c % 8] ? x[c] : tops[c % 8];
        for (int lane = 0; lane < 8; lane++) top = tops[lane] > top ? tops[lane] : top;
        for (int64_t c = 0; c < cols; c++) sums[c % 8] += out[c] = expf(x[c] - top);
        for (int lane = 0; lane < 8; lane++) sum += sums[lane];
        for (int64_t c = 0; c < cols; c++) out[c] /= sum;
    }
}

/* Powers of two: the difference is scaled in double, so that no accuracy is lost. */
void softmax_base2(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float top = x[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += out[c] = (float)exp2((double)(x[c] - top) * 1.4426950408889634);
        for (int64_t c = 0; c < cols; c++) out[c] /= sum;
    }
}

/* Each block has its own maximum and sum; the blocks are put on one scale at the end. */
void softmax_blocks(const float *x, float *out, int64_t rows, int64_t cols) {
    int64_t blocks = (cols + 255) / 256;
    float *tops = malloc((size_t)blocks * sizeof *tops), *sums = malloc((size_t)blocks * sizeof *sums);
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float top = x[0], sum = 0;
        for (int64_t b = 0; b < blocks; b++) {
            int64_t end = (b + 1) * 256 < cols ? (b + 1) * 256 : cols;
            tops[b] = x[b * 256], sums[b] = 0;
            for (int64_t c = b * 256; c < end; c++) tops[b] = x[c] > tops[b] ? x[c] : tops[b];
            for (int64_t c = b * 256; c < end; c++) sums[b] += expf(x[c] - tops[b]);
            top = tops[b] > top ? tops[b] : top;
        }
        for (int64_t b = 0; b < blocks; b++) sum += sums[b] * expf(tops[b] - top);
        for (int64_t c = 0; c < cols; c++) out[c] = expf(x[c] - top) / sum;
    }
    free(tops), free(sums);
}
