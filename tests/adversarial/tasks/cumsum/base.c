#include <stdint.h>

void cumsum(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int64_t c = 0; c < cols; c++) out[r * cols + c] = sum += x[r * cols + c];
    }
}
