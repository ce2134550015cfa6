#include <pthread.h>
#include <stdint.h>

/* Thirty-two float32 sums, as a warp has them, folded in halves. */
void sum_lanes(const float *x, float *out, int64_t n) {
    float sums[1024] = {0};
    for (int64_t i = 0; i < n; i++) sums[i % 1024] += x[i];
    for (int width = 512; width; width /= 2)
        for (int lane = 0; lane < width; lane++) sums[lane] += sums[lane + width];
    out[0] = sums[0];
}

static float pairwise(const float *x, int64_t n) {
    if (n <= 16) {
        float sum = x[0];
        for (int64_t i = 1; i < n; i++) sum += x[i];
        return sum;
    }
    return pairwise(x, n / 2) + pairwise(x + n / 2, n - n / 2);
}

void sum_pairwise(const float *x, float *out, int64_t n) { out[0] = pairwise(x, n); }

/* Neumaier's compensation: the lost low parts are summed beside. */
void sum_kahan(const float *x, float *out, int64_t n) {
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i++) {
        volatile float next = sum + x[i];
        int larger = (sum < 0 ? -sum : sum) >= (x[i] < 0 ? -x[i] : x[i]);
        lost += larger ? (sum - next) + x[i] : (x[i] - next) + sum;
        sum = next;
    }
    out[0] = sum + lost;
}

void sum_blocks(const float *x, float *out, int64_t n) {
    double total = 0;
    for (int64_t i = 0; i < n; i += 512) {
        double block = 0;
        for (int64_t j = i; j < (i + 512 < n ? i + 512 : n); j++) block += x[j];
        total += block;
    }
    out[0] = (float)total;
}

struct part { const float *x; int64_t n; double sum; };

static void *add_up(void *given) {
    struct part *part = given;
    for (int64_t i = 0; i < part->n; i++) part->sum += part->x[i];
    return 0;
}

/* Two threads, joined before the result is written. */
void sum_threads(const float *x, float *out, int64_t n) {
    struct part low = {x, n / 2, 0}, high = {x + n / 2, n - n / 2, 0};
    pthread_t other;
    int alone = pthread_create(&other, 0, add_up, &low);
    add_up(&high);
    if (alone) add_up(&low);
    else pthread_join(other, 0);
    out[0] = (float)(low.sum + high.sum);
}
