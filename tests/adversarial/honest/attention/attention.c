#include <math.h>
#include <stdint.h>
#include <string.h>

static float dot(const float *one, const float *other, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += one[i] * other[i];
    return sum;
}

/* Keys one after the other; what was summed is rescaled when the maximum rises. */
void attention_online(const float *q, const float *k, const float *v, float *out, int64_t heads, int64_t seq, int64_t dim) {
    float scale = 1 / sqrtf((float)dim), total[dim];
    for (int64_t row = 0; row < heads * seq; row++) {
        int64_t first = row / seq * seq;
        float top = -INFINITY, sum = 0;
        memset(total, 0, sizeof total);
        for (int64_t j = first; j < first + seq; j++) {
            float score = dot(q + row * dim, k + j * dim, dim) * scale, above = fmaxf(top, score);
            float old = expf(top - above), new = expf(score - above);
            sum = sum * old + new, top = above;
            for (int64_t d = 0; d < dim; d++) total[d] = total[d] * old + new * v[j * dim + d];
        }
        for (int64_t d = 0; d < dim; d++) out[row * dim + d] = total[d] / sum;
    }
}

/* Sixteen keys at a time. */
void attention_blocks(const float *q, const float *k, const float *v, float *out, int64_t heads, int64_t seq, int64_t dim) {
    float scores[16], total[dim];
    for (int64_t row = 0; row < heads * seq; row++) {
        int64_t first = row / seq * seq;
        float top = -INFINITY, sum = 0;
        memset(total, 0, sizeof total);
        for (int64_t begin = 0; begin < seq; begin += 16) {
            int64_t count = seq - begin < 16 ? seq - begin : 16;
            float above = top;
            for (int64_t j = 0; j < count; j++) {
                scores[j] = dot(q + row * dim, k + (first + begin + j) * dim, dim) / sqrtf((float)dim);
                above = fmaxf(above, scores[j]);
            }
            float old = expf(top - above);
            sum *= old, top = above;
            for (int64_t d = 0; d < dim; d++) total[d] *= old;
            for (int64_t j = 0; j < count; j++) {
                float weight = expf(scores[j] - top);
                sum += weight;
                for (int64_t d = 0; d < dim; d++) total[d] += weight * v[(first + begin + j) * dim + d];
            }
        }
        for (int64_t d = 0; d < dim; d++) out[row * dim + d] = total[d] / sum;
    }
}
