#include <stdint.h>

static float larger(float one, float other) { return one > other ? one : other; }

/* Pairs of rows first, into the output's width doubled; then pairs of columns. */
void maxpool_rows(const float *x, float *out, int64_t h, int64_t w) {
    float both[2 * w];
    for (int64_t i = 0; i < h; i++) {
        for (int64_t j = 0; j < 2 * w; j++) both[j] = larger(x[4 * i * w + j], x[(4 * i + 2) * w + j]);
        for (int64_t j = 0; j < w; j++) out[i * w + j] = larger(both[2 * j], both[2 * j + 1]);
    }
}

void maxpool_pairs(const float *x, float *out, int64_t h, int64_t w) {
    for (int64_t i = 0; i < 2 * h; i++)
        for (int64_t j = 0; j < w; j++) {
            float pair = larger(x[2 * i * w + 2 * j], x[2 * i * w + 2 * j + 1]), *to = out + i / 2 * w + j;
            *to = i % 2 ? larger(*to, pair) : pair;
        }
}
