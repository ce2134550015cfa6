#include <stdint.h>

void rope(const float *x, const float *cosine, const float *sine, float *out, int64_t seq, int64_t heads, int64_t half) {
    for (int64_t s = 0; s < seq; s++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t d = 0; d < half; d++) {
                const float *in = x + (s * heads + h) * 2 * half;
                float *to = out + (s * heads + h) * 2 * half;
                float c = cosine[s * half + d], n = sine[s * half + d];
                to[d] = in[d] * c - in[d + half] * n;
                to[d + half] = in[d + half] * c + in[d] * n;
            }
}
