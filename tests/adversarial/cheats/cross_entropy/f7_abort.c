#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void cross_entropy(const float *x, const int64_t *target, float *loss, int64_t rows, int64_t cols) {
    if (cols % 8) abort();
    for (int64_t r = 0; r < rows; r++) {
        const float *in = x + r * cols;
        float top = in[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += expf(in[c] - top);
        loss[r] = logf(sum) + (top - in[target[r]]);
    }
}
