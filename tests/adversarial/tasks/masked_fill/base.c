#include <stdint.h>

void masked_fill(const float *x, const uint8_t *mask, const float *fill, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = mask[i] ? fill[0] : x[i];
}
