/* Peaks of one thread: copy bandwidth (bytes read plus bytes written) and fused multiply-add throughput.
 *
 * Usage: cpu_ceiling BUFFER_BYTES float|double
 * Prints: copy_gbps=<GB/s> flops_gflops=<GFLOP/s>   (1 GB = 1e9 bytes)
 *
 * The best of several trials is the ceiling: interference can only lower a trial.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Latency times issue width is at most 10 on current cores; 12 chains leave registers for the operands. */
#define CHAINS 12
#if defined(__aarch64__)
#define VECTOR_REGISTER "+w"
#else
#define VECTOR_REGISTER "+x"
#endif
#define COPY_TRIALS 12
#define FMA_TRIALS 12
#define FMA_STEPS 400000

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef float wide __attribute__((vector_size(VECTOR_BYTES)));

/* Plain vector stores read the line they overwrite, unseen; streaming stores would not, and memcpy picks by size.
 * Both are tried, because the ceiling is what the machine can do. */
static void copy_vectors(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += VECTOR_BYTES) {
        *(wide *)(to + at) = *(const wide *)(from + at);
    }
    __asm__ volatile("" ::"r"(to) : "memory");
}

#if defined(__SSE2__)
#include <emmintrin.h>
static void copy_streaming(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 16) {
        _mm_stream_si128((__m128i *)(to + at), _mm_load_si128((const __m128i *)(from + at)));
    }
    _mm_sfence();
    __asm__ volatile("" ::"r"(to) : "memory");
}
#else
static void copy_streaming(char *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
    __asm__ volatile("" ::"r"(to) : "memory");
}
#endif

static double copy_gbps(size_t bytes) {
    char *from = aligned_alloc(4096, bytes);
    char *to = aligned_alloc(4096, bytes);
    if (from == NULL || to == NULL) {
        fprintf(stderr, "out of memory for two buffers of %zu bytes\n", bytes);
        exit(1);
    }
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double best = 1e30;
    for (int trial = 0; trial < COPY_TRIALS; trial++) {
        double began = now();
        if (trial % 2 == 0) {
            copy_vectors(to, from, bytes);
        } else {
            copy_streaming(to, from, bytes);
        }
        double took = now() - began;
        if (took < best) {
            best = took;
        }
    }
    free(from);
    free(to);
    return 2.0 * (double)bytes / best * 1e-9;
}

#define DEFINE_FMA(TYPE)                                                                        \
    typedef TYPE lanes_##TYPE __attribute__((vector_size(VECTOR_BYTES)));                       \
    static double fma_gflops_##TYPE(void) {                                                     \
        const int lanes = VECTOR_BYTES / (int)sizeof(TYPE);                                     \
        lanes_##TYPE sum[CHAINS];                                                               \
        lanes_##TYPE scale, shift;                                                              \
        for (int lane = 0; lane < lanes; lane++) {                                              \
            scale[lane] = (TYPE)0.999999;                                                       \
            shift[lane] = (TYPE)1e-6;                                                           \
        }                                                                                       \
        for (int chain = 0; chain < CHAINS; chain++) {                                          \
            sum[chain] = shift * (TYPE)(chain + 1);                                             \
        }                                                                                       \
        double best = 1e30;                                                                     \
        for (int trial = 0; trial < FMA_TRIALS; trial++) {                                      \
            __asm__ volatile("" : VECTOR_REGISTER(scale), VECTOR_REGISTER(shift));                                    \
            double began = now();                                                               \
            for (int step = 0; step < FMA_STEPS; step++) {                                      \
                _Pragma("GCC unroll 12") for (int chain = 0; chain < CHAINS; chain++) {         \
                    sum[chain] = sum[chain] * scale + shift;                                    \
                }                                                                               \
            }                                                                                   \
            _Pragma("GCC unroll 12") for (int chain = 0; chain < CHAINS; chain++) {             \
                __asm__ volatile("" : VECTOR_REGISTER(sum[chain]));                                        \
            }                                                                                   \
            double took = now() - began;                                                        \
            if (took < best) {                                                                  \
                best = took;                                                                    \
            }                                                                                   \
        }                                                                                       \
        return 2.0 * lanes * CHAINS * (double)FMA_STEPS / best * 1e-9;                          \
    }

DEFINE_FMA(float)
DEFINE_FMA(double)

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: cpu_ceiling BUFFER_BYTES float|double\n");
        return 2;
    }
    size_t bytes = (size_t)strtoull(argv[1], NULL, 10) & ~(size_t)4095;
    if (bytes == 0) {
        fprintf(stderr, "BUFFER_BYTES must be at least 4096\n");
        return 2;
    }
    double flops = strcmp(argv[2], "double") == 0 ? fma_gflops_double() : fma_gflops_float();
    printf("copy_gbps=%.3f flops_gflops=%.3f\n", copy_gbps(bytes), flops);
    return 0;
}
