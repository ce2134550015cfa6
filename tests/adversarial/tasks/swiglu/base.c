#include <math.h>
#include <stdint.h>

void swiglu(const float *gate, const float *up, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}
