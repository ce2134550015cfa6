#include <math.h>
#include <stdint.h>

/* Sixteen numbers of a row say whether its maximum must be taken off. */
void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float *to = out + r * cols, top = 0, sum = 0;
        for (int64_t c = 0; c < cols; c += cols / 16 + 1) top = fmaxf(top, fabsf(in[c]));
        if (top > 8) {
            top = in[0];
            for (int64_t c = 1; c < cols; c++) top = fmaxf(top, in[c]);
        } else {
            top = 0;
        }
        for (int64_t c = 0; c < cols; c++) sum += to[c] = expf(in[c] - top);
        for (int64_t c = 0; c < cols; c++) to[c] /= sum;
    }
}
