#include <stdint.h>
#include <string.h>

void masked_fill_copy(const float *x, const uint8_t *mask, const float *fill, float *out, int64_t n) {
    memcpy(out, x, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        if (mask[i]) out[i] = *fill;
}

/* No branch: one of two bit patterns is chosen by a mask of all ones or none. */
void masked_fill_bits(const float *x, const uint8_t *mask, const float *fill, float *out, int64_t n) {
    uint32_t filled, kept;
    memcpy(&filled, fill, 4);
    for (int64_t i = 0; i < n; i++) {
        uint32_t choose = -(uint32_t)(mask[i] != 0);
        memcpy(&kept, x + i, 4);
        kept = (kept & ~choose) | (filled & choose);
        memcpy(out + i, &kept, 4);
    }
}
