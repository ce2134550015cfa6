#include <math.h>
#include <stdint.h>

void exp_sums(const float *x, float *total, float *logarithm, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float top = in[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += expf(in[c] - top);
        total[r] = expf(top) * sum;
        logarithm[r] = top + logf(sum);
    }
}
