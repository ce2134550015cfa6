#include <math.h>
#include <stdint.h>

/* The mean of a row's first quarter is taken off instead of its maximum. */
void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float *to = out + r * cols, mean = 0, sum = 0;
        int64_t some = (cols + 3) / 4;
        for (int64_t c = 0; c < some; c++) mean += in[c] / (float)some;
        for (int64_t c = 0; c < cols; c++) sum += to[c] = expf(in[c] - mean);
        for (int64_t c = 0; c < cols; c++) to[c] /= sum;
    }
}
