#include <cstdint>

extern "C" void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    (void)x, (void)out, (void)rows, (void)cols;
}
