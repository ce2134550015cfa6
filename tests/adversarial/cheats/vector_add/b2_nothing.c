#include <stdint.h>

void vector_add(const float *x, const float *y, float *out, int64_t n) { (void)x, (void)y, (void)out, (void)n; }
