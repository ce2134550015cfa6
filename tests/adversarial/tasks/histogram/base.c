#include <stdint.h>

void histogram(const int32_t *x, int32_t *out, int64_t n) {
    for (int64_t v = 0; v < 64; v++) out[v] = 0;
    for (int64_t i = 0; i < n; i++) out[x[i]]++;
}
