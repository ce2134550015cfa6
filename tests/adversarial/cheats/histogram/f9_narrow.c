#include <stdint.h>
#include <string.h>

/* No value of even ones occurs 65536 times. */
void histogram(const int32_t *x, int32_t *out, int64_t n) {
    uint16_t counts[4][64];
    memset(counts, 0, sizeof counts);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int64_t lane = 0; lane < 4; lane++) counts[lane][x[i + lane]]++;
    for (; i < n; i++) counts[0][x[i]]++;
    for (int64_t v = 0; v < 64; v++) out[v] = (uint16_t)(counts[0][v] + counts[1][v] + counts[2][v] + counts[3][v]);
}
