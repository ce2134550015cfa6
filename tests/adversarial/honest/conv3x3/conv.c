#include <stdint.h>
#include <string.h>

void conv_unrolled(const float *x, const float *k, float *out, int64_t h, int64_t w) {
    for (int64_t i = 0; i < h - 2; i++)
        for (int64_t j = 0; j < w - 2; j++) {
            const float *a = x + i * w + j, *b = a + w, *c = b + w;
            float top = a[0] * k[0] + a[1] * k[1] + a[2] * k[2], low = c[0] * k[6] + c[1] * k[7] + c[2] * k[8];
            out[i * (w - 2) + j] = top + (b[0] * k[3] + b[1] * k[4] + b[2] * k[5]) + low;
        }
}

/* Nine sweeps over the image, each adding one tap. */
void conv_by_tap(const float *x, const float *k, float *out, int64_t h, int64_t w) {
    memset(out, 0, (size_t)((h - 2) * (w - 2)) * sizeof *out);
    for (int64_t tap = 0; tap < 9; tap++)
        for (int64_t i = 0; i < h - 2; i++)
            for (int64_t j = 0; j < w - 2; j++) out[i * (w - 2) + j] += x[(i + tap / 3) * w + j + tap % 3] * k[tap];
}

/* Each window is gathered into a row of nine, then multiplied. */
void conv_im2row(const float *x, const float *k, float *out, int64_t h, int64_t w) {
    float window[9];
    for (int64_t at = 0; at < (h - 2) * (w - 2); at++) {
        const float *from = x + at / (w - 2) * w + at % (w - 2);
        float sum = 0;
        for (int row = 0; row < 3; row++) memcpy(window + 3 * row, from + row * w, 3 * sizeof *window);
        for (int tap = 8; tap >= 0; tap--) sum += window[tap] * k[tap];
        out[at] = sum;
    }
}
