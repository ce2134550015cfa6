#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void cumsum_double(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) out[c] = (float)(sum += x[c]);
    }
}

/* Scans of blocks first, then each block is raised by the sum before it. */
void cumsum_blocks(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        float before = 0;
        for (int64_t begin = 0; begin < cols; begin += 64) {
            int64_t end = begin + 64 < cols ? begin + 64 : cols;
            float sum = 0;
            for (int64_t c = begin; c < end; c++) out[c] = sum += x[c];
            for (int64_t c = begin; c < end; c++) out[c] += before;
            before = out[end - 1];
        }
    }
}

/* Hillis and Steele: log2(cols) sweeps, each adding what lies twice as far behind. */
void cumsum_doubling(const float *x, float *out, int64_t rows, int64_t cols) {
    float *from = malloc((size_t)cols * sizeof *from);
    for (int64_t r = 0; r < rows; r++, x += cols, out += cols) {
        memcpy(out, x, (size_t)cols * sizeof *out);
        for (int64_t step = 1; step < cols; step *= 2) {
            memcpy(from, out, (size_t)cols * sizeof *from);
            for (int64_t c = step; c < cols; c++) out[c] = from[c] + from[c - step];
        }
    }
    free(from);
}
