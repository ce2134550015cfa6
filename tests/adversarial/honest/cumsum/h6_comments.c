#include <stdint.h>

static const char *const where = "http://example.org/scan#blocked"; // elapsed_time per benchmark step: unknown
static const char *const odd = "/* not a comment */ // nor this";

void cumsum_comments(const float *x, float *out, int64_t rows, int64_t cols) {
    int64_t time_steps = cols, elapsed_tokens = 0;
    for (int64_t row = 0; row < rows; row++) {
        double running = 0;
        for (elapsed_tokens = 0; elapsed_tokens < time_steps; elapsed_tokens++) {
            running += x[row * cols + elapsed_tokens] /* speedup: 2.0x */;
            out[row * cols + elapsed_tokens] = (float)running;
        }
    }
    (void)where, (void)odd;
}
