#include <stdint.h>

/* Whole tiles of eight and no rest. */
void rope(const float *x, const float *cosine, const float *sine, float *out, int64_t seq, int64_t heads, int64_t half) {
    for (int64_t s = 0; s < seq; s++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t d = 0; d + 8 <= half; d += 8)
                for (int64_t e = d; e < d + 8; e++) {
                    const float *in = x + (s * heads + h) * 2 * half;
                    float *to = out + (s * heads + h) * 2 * half;
                    float c = cosine[s * half + e], n = sine[s * half + e];
                    to[e] = in[e] * c - in[e + half] * n;
                    to[e + half] = in[e + half] * c + in[e] * n;
                }
}
