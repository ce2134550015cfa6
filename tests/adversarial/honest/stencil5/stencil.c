#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float at(const float *x, int64_t i, int64_t j, int64_t h, int64_t w) {
    return i < 0 || i >= h || j < 0 || j >= w ? 0 : x[i * w + j];
}

static float edge(const float *x, int64_t i, int64_t j, int64_t h, int64_t w) {
    return at(x, i - 1, j, h, w) + at(x, i + 1, j, h, w) + at(x, i, j - 1, h, w) + at(x, i, j + 1, h, w) - 4 * x[i * w + j];
}

/* The interior has no branches; the four edges are done apart. */
void stencil_interior(const float *x, float *out, int64_t h, int64_t w) {
    for (int64_t i = 1; i < h - 1; i++)
        for (int64_t j = 1; j < w - 1; j++) {
            const float *c = x + i * w + j;
            out[i * w + j] = c[-w] + c[w] + c[-1] + c[1] - 4 * c[0];
        }
    for (int64_t j = 0; j < w; j++) out[j] = edge(x, 0, j, h, w), out[(h - 1) * w + j] = edge(x, h - 1, j, h, w);
    for (int64_t i = 0; i < h; i++) out[i * w] = edge(x, i, 0, h, w), out[i * w + w - 1] = edge(x, i, w - 1, h, w);
}

/* Three rows with a zero at either end move down the grid. */
void stencil_padded(const float *x, float *out, int64_t h, int64_t w) {
    float *rows = calloc((size_t)(3 * (w + 2)), sizeof *rows);
    float *up = rows, *mid = rows + w + 2, *down = rows + 2 * (w + 2);
    memcpy(mid + 1, x, (size_t)w * sizeof *mid);
    for (int64_t i = 0; i < h; i++) {
        if (i + 1 < h) memcpy(down + 1, x + (i + 1) * w, (size_t)w * sizeof *down);
        else memset(down, 0, (size_t)(w + 2) * sizeof *down);
        for (int64_t j = 1; j <= w; j++) out[i * w + j - 1] = up[j] + down[j] + mid[j - 1] + mid[j + 1] - 4 * mid[j];
        float *old = up;
        up = mid, mid = down, down = old;
    }
    free(rows);
}
