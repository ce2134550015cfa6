#include <math.h>
#include <stdint.h>

/* One pass: the sum is scaled anew where the maximum grows. */
void exp_sums_online(const float *x, float *total, float *logarithm, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float top = in[0], sum = 1;
        for (int64_t c = 1; c < cols; c++) {
            if (in[c] > top) {
                sum = sum * expf(top - in[c]) + 1;
                top = in[c];
            } else {
                sum += expf(in[c] - top);
            }
        }
        total[r] = expf(top) * sum;
        logarithm[r] = top + logf(sum);
    }
}
