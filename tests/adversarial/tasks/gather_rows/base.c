#include <stdint.h>

void gather_rows(const float *table, const int64_t *index, float *out, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < dim; d++) out[i * dim + d] = table[index[i] * dim + d];
}
