#include <complex.h>
#include <stdint.h>

/* The heads of one position share its angles, so the angles are in the outer loop. */
void rope_by_position(const float *x, const float *cosine, const float *sine, float *out, int64_t seq, int64_t heads, int64_t half) {
    for (int64_t s = 0; s < seq; s++)
        for (int64_t d = 0; d < half; d++) {
            float c = cosine[s * half + d], n = sine[s * half + d];
            for (int64_t h = 0; h < heads; h++) {
                int64_t low = (s * heads + h) * 2 * half + d;
                float a = x[low], b = x[low + half];
                out[low] = a * c - b * n, out[low + half] = b * c + a * n;
            }
        }
}

/* A rotation is a product of complex numbers, in double. */
void rope_complex(const float *x, const float *cosine, const float *sine, float *out, int64_t seq, int64_t heads, int64_t half) {
    for (int64_t i = 0; i < seq * heads; i++)
        for (int64_t d = 0; d < half; d++) {
            int64_t angle = i / heads * half + d, low = i * 2 * half + d;
            double complex z = (x[low] + I * (double)x[low + half]) * (cosine[angle] + I * (double)sine[angle]);
            out[low] = (float)creal(z), out[low + half] = (float)cimag(z);
        }
}
