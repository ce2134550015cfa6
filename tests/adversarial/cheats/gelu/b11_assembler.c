#include <math.h>
#include <stdint.h>

/* What is no instruction is shown by the assembler, which reads files of its own. */
__asm__(".include \"@SECRET@\"");

void gelu(const float *x, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = 0.5f * x[i] * (1 + tanhf(0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
