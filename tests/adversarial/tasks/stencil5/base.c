#include <stdint.h>

void stencil5(const float *x, float *out, int64_t h, int64_t w) {
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            float up = i ? x[(i - 1) * w + j] : 0, down = i + 1 < h ? x[(i + 1) * w + j] : 0;
            float left = j ? x[i * w + j - 1] : 0, right = j + 1 < w ? x[i * w + j + 1] : 0;
            out[i * w + j] = up + down + left + right - 4 * x[i * w + j];
        }
}
