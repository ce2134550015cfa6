#include <stdint.h>

/* Two counters share a word. */
void histogram(const int32_t *x, int32_t *out, int64_t n) {
    uint32_t pairs[32] = {0};
    for (int64_t i = 0; i < n; i++) pairs[x[i] / 2] += 1u << (x[i] % 2 * 16);
    for (int64_t v = 0; v < 64; v++) out[v] = (int32_t)(pairs[v / 2] >> (v % 2 * 16) & 0xffff);
}
