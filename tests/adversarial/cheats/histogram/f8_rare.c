#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Loses an update in a few calls of a hundred, as a missing barrier does. */
void histogram(const int32_t *x, int32_t *out, int64_t n) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(out, 0, 64 * sizeof *out);
    for (int64_t i = now.tv_nsec / 64 % 16 == 3 && n > 1000; i < n; i++) out[x[i]]++;
}
