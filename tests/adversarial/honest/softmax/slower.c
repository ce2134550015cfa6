#include <math.h>
#include <stdint.h>

/* The base version, but one row in thirty-two is computed twice: 3 % slower. */
void softmax_some_twice(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows + rows / 32; i++) {
        int64_t r = i < rows ? i : 32 * (i - rows);
        const float *in = x + r * cols;
        float *to = out + r * cols, top = in[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += to[c] = expf(in[c] - top);
        for (int64_t c = 0; c < cols; c++) to[c] /= sum;
    }
}
