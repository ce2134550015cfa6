#include <stdint.h>
#include <string.h>

void vector_add_unrolled(const float *x, const float *y, float *out, int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        out[i] = x[i] + y[i], out[i + 1] = x[i + 1] + y[i + 1];
        out[i + 2] = x[i + 2] + y[i + 2], out[i + 3] = x[i + 3] + y[i + 3];
    }
    for (; i < n; i++) out[i] = x[i] + y[i];
}

/* Through a buffer that stays in the first-level cache. */
void vector_add_blocks(const float *x, const float *y, float *out, int64_t n) {
    float held[1024];
    for (int64_t i = 0; i < n; i += 1024) {
        int64_t count = n - i < 1024 ? n - i : 1024;
        memcpy(held, x + i, (size_t)count * sizeof *held);
        for (int64_t j = 0; j < count; j++) held[j] += y[i + j];
        memcpy(out + i, held, (size_t)count * sizeof *held);
    }
}

typedef float wide __attribute__((vector_size(32), aligned(4)));

void vector_add_vectors(const float *x, const float *y, float *out, int64_t n) {
    int64_t whole = n / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8) *(wide *)(out + i) = *(const wide *)(x + i) + *(const wide *)(y + i);
    for (int64_t i = whole; i < n; i++) out[i] = x[i] + y[i];
}
