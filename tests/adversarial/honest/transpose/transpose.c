#include <stdint.h>

void transpose_rows(const float *x, float *out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) out[c * rows + r] = x[r * cols + c];
}

void transpose_tiled(const float *x, float *out, int64_t rows, int64_t cols) {
    float tile[16][17];
    for (int64_t r = 0; r < rows; r += 16)
        for (int64_t c = 0; c < cols; c += 16) {
            int64_t high = rows - r < 16 ? rows - r : 16, wide = cols - c < 16 ? cols - c : 16;
            for (int64_t i = 0; i < high; i++)
                for (int64_t j = 0; j < wide; j++) tile[j][i] = x[(r + i) * cols + c + j];
            for (int64_t j = 0; j < wide; j++)
                for (int64_t i = 0; i < high; i++) out[(c + j) * rows + r + i] = tile[j][i];
        }
}

static void part(const float *x, float *out, int64_t high, int64_t wide, int64_t rows, int64_t cols) {
    if (high > 16 && high >= wide) {
        part(x, out, high / 2, wide, rows, cols);
        part(x + high / 2 * cols, out + high / 2, high - high / 2, wide, rows, cols);
    } else if (wide > 16) {
        part(x, out, high, wide / 2, rows, cols);
        part(x + wide / 2, out + wide / 2 * rows, high, wide - wide / 2, rows, cols);
    } else {
        for (int64_t i = 0; i < high; i++)
            for (int64_t j = 0; j < wide; j++) out[j * rows + i] = x[i * cols + j];
    }
}

/* The longer side is halved until a block fits anywhere. */
void transpose_recursive(const float *x, float *out, int64_t rows, int64_t cols) { part(x, out, rows, cols, rows, cols); }
