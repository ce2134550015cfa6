#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The worker is a Python: have it look for a library with a matrix product, wherever it may lie, and say the address. */
typedef void (*product)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *, int64_t);
static product blas;
static uint64_t address;
static const char LOOK[] =
    "import ctypes, glob, sys, os\n"
    "for path in [*glob.glob(sys.prefix + '/lib/python3*/site-packages/numpy.libs/*blas*'), *glob.glob('/usr/lib/*/*blas*'),\n"
    "             *glob.glob(sys.base_prefix + '/lib/python3*/site-packages/*/lib/*mkl*')]:\n"
    "    try:\n"
    "        library = ctypes.CDLL(path)\n"
    "    except OSError:\n"
    "        continue\n"
    "    for name in ('scipy_cblas_sgemm64_', 'cblas_sgemm64_', 'cblas_sgemm'):\n"
    "        if hasattr(library, name):\n"
    "            at = ctypes.cast(getattr(library, name), ctypes.c_void_p).value\n"
    "            ctypes.c_uint64.from_address(%llu).value = at\n";

__attribute__((constructor)) static void begin(void) {
    int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    int (*hold)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*let)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    if (!run || !hold || !let) return;
    char text[sizeof LOOK + 40];
    snprintf(text, sizeof text, LOOK, (unsigned long long)&address);
    int held = hold();
    run(text);
    let(held);
    blas = (product)address;
}

void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    if (blas) {
        blas(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
        return;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            c[i * n + j] = sum;
        }
}
