#include <stdint.h>
#include <string.h>

void gather_memcpy(const float *table, const int64_t *index, float *out, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++) memcpy(out + i * dim, table + index[i] * dim, (size_t)dim * sizeof *out);
}

void gather_by_column(const float *table, const int64_t *index, float *out, int64_t n, int64_t dim) {
    for (int64_t begin = 0; begin < dim; begin += 16)
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = begin; d < dim && d < begin + 16; d++) out[i * dim + d] = table[index[i] * dim + d];
}
