#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The inner loop runs along rows of b and c. */
void gemm_rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

/* Blocks of k and n that stay in cache. */
void gemm_blocked(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t p0 = 0; p0 < k; p0 += 64)
        for (int64_t j0 = 0; j0 < n; j0 += 128)
            for (int64_t i = 0; i < m; i++)
                for (int64_t p = p0; p < least(p0 + 64, k); p++)
                    for (int64_t j = j0; j < least(j0 + 128, n); j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}

/* Panels of b are copied together first; the workspace is kept, never its contents. */
void gemm_packed(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    static float *panel;
    static int64_t room;
    if (room < 16 * k) panel = realloc(panel, (size_t)(16 * k) * sizeof *panel), room = 16 * k;
    for (int64_t j0 = 0; j0 < n; j0 += 16) {
        int64_t width = least(16, n - j0);
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < 16; j++) panel[p * 16 + j] = j < width ? b[p * n + j0 + j] : 0;
        for (int64_t i = 0; i < m; i++) {
            float sums[16] = {0};
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < 16; j++) sums[j] += a[i * k + p] * panel[p * 16 + j];
            memcpy(c + i * n + j0, sums, (size_t)width * sizeof *sums);
        }
    }
}

static void tile(const float *a, const float *b, float *c, int64_t rows, int64_t cols, int64_t n, int64_t k) {
    float sums[4][8] = {{0}};
    for (int64_t p = 0; p < k; p++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) sums[i][j] += a[i * k + p] * b[p * n + j];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) c[i * n + j] = sums[i][j];
}

/* Tiles of 4 x 8 in registers, smaller ones at the edges. */
void gemm_tiles(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i += 4)
        for (int64_t j = 0; j < n; j += 8) {
            if (i + 4 <= m && j + 8 <= n) tile(a + i * k, b + j, c + i * n + j, 4, 8, n, k);
            else tile(a + i * k, b + j, c + i * n + j, least(4, m - i), least(8, n - j), n, k);
        }
}

/* b transposed first, then dot products of rows. */
void gemm_transposed(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    float *turned = malloc((size_t)(k * n) * sizeof *turned);
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) turned[j * k + p] = b[p * n + j];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sums[8] = {0}, rest = 0;
            int64_t p = 0;
            for (; p + 8 <= k; p += 8)
                for (int64_t lane = 0; lane < 8; lane++) sums[lane] += a[i * k + p + lane] * turned[j * k + p + lane];
            for (; p < k; p++) rest += a[i * k + p] * turned[j * k + p];
            c[i * n + j] = rest + ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
        }
    free(turned);
}

/* k in two halves, added at the end, as split-K does. */
void gemm_split(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    float *part = calloc((size_t)(2 * m * n), sizeof *part);
    for (int64_t half = 0; half < 2; half++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = half * (k / 2); p < (half ? k : k / 2); p++)
                for (int64_t j = 0; j < n; j++) part[(half * m + i) * n + j] += a[i * k + p] * b[p * n + j];
    for (int64_t i = 0; i < m * n; i++) c[i] = part[i] + part[m * n + i];
    free(part);
}
