#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct job { const float *a, *b; float *c; int64_t m, n, k; };

static void *work(void *given) {
    struct job *job = given;
    memset(job->c, 0, (size_t)(job->m * job->n) * sizeof *job->c);
    for (int64_t i = 0; i < job->m; i++)
        for (int64_t p = 0; p < job->k; p++)
            for (int64_t j = 0; j < job->n; j++) job->c[i * job->n + j] += job->a[i * job->k + p] * job->b[p * job->n + j];
    return 0;
}

/* The upper half beside the lower one; both are finished before this returns. */
void gemm_two_threads(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    struct job low = {a, b, c, m / 2, n, k}, high = {a + m / 2 * k, b, c + m / 2 * n, m - m / 2, n, k};
    pthread_t other;
    int alone = pthread_create(&other, 0, work, &low);
    work(&high);
    if (alone) work(&low);
    else pthread_join(other, 0);
}
