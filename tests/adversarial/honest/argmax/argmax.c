#include <stdint.h>

/* The best of each block; a later block wins only if it is larger. */
void argmax_blocks(const float *x, int64_t *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols) {
        out[r] = 0;
        for (int64_t begin = 0; begin < cols; begin += 128) {
            int64_t best = begin;
            for (int64_t c = begin; c < (begin + 128 < cols ? begin + 128 : cols); c++) best = x[c] > x[best] ? c : best;
            if (x[best] > x[out[r]]) out[r] = best;
        }
    }
}

/* The largest value first, then where it is. */
void argmax_two_passes(const float *x, int64_t *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++, x += cols) {
        float top = x[0];
        int64_t c = 0;
        for (int64_t i = 1; i < cols; i++) top = x[i] > top ? x[i] : top;
        while (x[c] != top) c++;
        out[r] = c;
    }
}
