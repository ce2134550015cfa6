/* For a build that runs on a GPU: where arrays lie, how they get there, and how calls are timed by the device. */
#ifndef RIDGELINE_DEVICE_H
#define RIDGELINE_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#ifdef __HIP_PLATFORM_AMD__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

extern "C" void ridgeline_call(void **arrays, const long long *sizes);

static void ridgeline_check(GPU(Error_t) error) {
    if (error != GPU(Success)) {
        fprintf(stderr, "error: %s\n", GPU(GetErrorString)(error));
        exit(2);
    }
}

extern "C" __attribute__((visibility("default"))) void *ridgeline_place(size_t bytes) {
    void *at = nullptr;
    ridgeline_check(GPU(Malloc)(&at, bytes ? bytes : 1));
    return at;
}

extern "C" __attribute__((visibility("default"))) void ridgeline_copy(void *to, const void *from, size_t bytes, int to_device) {
    ridgeline_check(GPU(Memcpy)(to, from, bytes, to_device ? GPU(MemcpyHostToDevice) : GPU(MemcpyDeviceToHost)));
    ridgeline_check(GPU(GetLastError)());
}

/* Microseconds of one of `calls` calls, between two events of the device. */
extern "C" __attribute__((visibility("default"))) double ridgeline_time_us(void **arrays, const long long *sizes, int calls) {
    GPU(Event_t) start, end;
    float ms = 0.0f;
    ridgeline_check(GPU(EventCreate)(&start));
    ridgeline_check(GPU(EventCreate)(&end));
    ridgeline_call(arrays, sizes);
    ridgeline_check(GPU(EventRecord)(start));
    for (int i = 0; i < calls; i++) {
        ridgeline_call(arrays, sizes);
    }
    ridgeline_check(GPU(EventRecord)(end));
    ridgeline_check(GPU(EventSynchronize)(end));
    ridgeline_check(GPU(EventElapsedTime)(&ms, start, end));
    ridgeline_check(GPU(EventDestroy)(start));
    ridgeline_check(GPU(EventDestroy)(end));
    return (double)ms * 1e3 / calls;
}

#endif
