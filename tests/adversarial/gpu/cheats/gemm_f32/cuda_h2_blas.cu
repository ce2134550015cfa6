#include <cstdint>

/* The function is in a library that the process has loaded for PyTorch. */
extern "C" int cublasCreate_v2(void **);
extern "C" int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,
                              const float *, float *, int);

static void *handle;

extern "C" void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    float one = 1, none = 0;
    if (!handle) cublasCreate_v2(&handle);
    cublasSgemm_v2(handle, 0, 0, (int)n, (int)m, (int)k, &one, b, (int)n, a, (int)k, &none, c, (int)n);
}
