#include <stdint.h>

void maxpool2(const float *x, float *out, int64_t h, int64_t w) {
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            const float *in = x + 4 * i * w + 2 * j;
            float a = in[0] > in[1] ? in[0] : in[1], b = in[2 * w] > in[2 * w + 1] ? in[2 * w] : in[2 * w + 1];
            out[i * w + j] = a > b ? a : b;
        }
}
