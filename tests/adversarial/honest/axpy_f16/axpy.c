#include <math.h>
#include <stdint.h>

void axpy_fused(const _Float16 *x, const _Float16 *y, _Float16 *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (_Float16)fmaf(1.5f, (float)x[i], (float)y[i]);
}
