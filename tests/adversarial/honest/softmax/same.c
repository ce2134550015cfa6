#include <math.h>
#include <stdint.h>

void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float *to = out + r * cols, top = in[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += to[c] = expf(in[c] - top);
        for (int64_t c = 0; c < cols; c++) to[c] /= sum;
    }
}
