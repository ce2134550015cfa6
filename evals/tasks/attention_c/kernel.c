#include <math.h>
#include <stdint.h>

void attention(const float *q, const float *k, const float *v, float *out, int64_t heads, int64_t seq, int64_t dim) {
    float p[seq];
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < seq; i++) {
            const float *row = q + (h * seq + i) * dim;
            float top = -INFINITY, sum = 0;
            for (int64_t j = 0; j < seq; j++) {
                float dot = 0;
                for (int64_t d = 0; d < dim; d++) dot += row[d] * k[(h * seq + j) * dim + d];
                p[j] = dot / sqrtf((float)dim);
                top = p[j] > top ? p[j] : top;
            }
            for (int64_t j = 0; j < seq; j++) sum += p[j] = expf(p[j] - top);
            for (int64_t d = 0; d < dim; d++) {
                float total = 0;
                for (int64_t j = 0; j < seq; j++) total += p[j] * v[(h * seq + j) * dim + d];
                out[(h * seq + i) * dim + d] = total / sum;
            }
        }
}
