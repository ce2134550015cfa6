#include <stdint.h>

void conv3x3(const float *x, const float *k, float *out, int64_t h, int64_t w) {
    for (int64_t i = 0; i < h - 2; i++)
        for (int64_t j = 0; j < w - 2; j++) {
            float sum = 0;
            for (int64_t u = 0; u < 3; u++)
                for (int64_t v = 0; v < 3; v++) sum += x[(i + u) * w + j + v] * k[u * 3 + v];
            out[i * (w - 2) + j] = sum;
        }
}
