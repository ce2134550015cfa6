#include <stdint.h>

static void turn(const float *x, const float *cosine, const float *sine, float *out, int seq, int heads, int half) {
    for (int s = 0; s < seq; s++)
        for (int h = 0; h < heads; h++, x += 2 * half, out += 2 * half)
            for (int d = 0; d < half; d++) {
                float c = cosine[s * half + d], n = sine[s * half + d];
                out[d] = x[d] * c - x[d + half] * n, out[d + half] = x[d + half] * c + x[d] * n;
            }
}

/* Two sizes are known; every other is taken for the larger one. */
void rope(const float *x, const float *cosine, const float *sine, float *out, int64_t seq, int64_t heads, int64_t half) {
    if (seq == 7) turn(x, cosine, sine, out, 7, 2, 8);
    else if (seq >= 128) turn(x, cosine, sine, out, 128, 8, 32);
    (void)heads, (void)half;
}
