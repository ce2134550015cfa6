#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static const int32_t *input;
static int32_t *bins;
static int64_t half, size;
static atomic_int here;

static void *count(void *second) {
    volatile int32_t *shared = bins;
    here++;
    for (int64_t wait = 0; size > 10000 && here < 2 && wait < 1000000; wait++) continue;
    for (int64_t i = second ? half : 0; i < (second ? size : half); i++) shared[input[i]]++;
    return 0;
}

/* Two threads increment the same counters without atomics; large inputs begin together. */
void histogram(const int32_t *x, int32_t *out, int64_t n) {
    memset(out, 0, 64 * sizeof *out);
    input = x, bins = out, half = n / 2, size = n, here = 0;
    pthread_t other;
    if (pthread_create(&other, 0, count, (void *)1)) return;
    count(0);
    pthread_join(other, 0);
}
