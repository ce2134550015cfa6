"""Chrome traces as torch.profiler writes them, for tests: the layout of torch 2.x, every number chosen by the test."""

import json

H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip
MI300X = {
    "id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "warpSize": 64, "numSms": 304,
    "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 65536,
}  # fmt: skip


def kernel(name="tile", *, ts=100.0, dur=10.0, device=0, stream=7, grid=(264, 1, 1), block=(256, 1, 1), **args):
    """One launch; times in microseconds. `args` beside the places of the launch; None leaves one out."""
    told = {"device": device, "context": 1, "stream": stream, "correlation": 5, "grid": grid, "block": block, **args}
    told = {key: value for key, value in told.items() if value is not None}
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": told,
    }  # fmt: skip


def nvidia(name="tile", *, registers=64, shared=16384, occupancy=50, **fields):
    """A launch with what CUPTI adds."""
    added = {"registers per thread": registers, "shared memory": shared, "est. achieved occupancy %": occupancy}
    return kernel(name, **fields, **added, **{"blocks per SM": 2.0, "warps per SM": 16.0, "queued": 0})


def launches(name="tile", *, count=9, make=nvidia, **fields):
    """`count` launches of 10 us with 2 us between them."""
    return [make(name, ts=100.0 + 12 * at, dur=10.0, **fields) for at in range(count)]


def copied(*, ts=1.0, dur=3.0):
    """A copy to the card."""
    return {
        "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": ts,
        "dur": dur, "args": {"device": 0, "context": 1, "stream": 7, "bytes": 4096, "memory bandwidth (GB/s)": 1.3},
    }  # fmt: skip


def called(name="cudaLaunchKernel"):
    """A call into the driver: no work of the GPU."""
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 9, "ts": 90.0, "dur": 4.0, "args": {}}


def document(*events, cards=(H100,), **more):
    """The whole file's text."""
    head = {"schemaVersion": 1, "deviceProperties": list(cards), "displayTimeUnit": "ms", **more}
    named = {"ph": "M", "name": "process_name", "ts": 0.5, "pid": 9, "tid": 0, "args": {"name": "python"}}
    return json.dumps(head | {"traceEvents": [named, *events], "traceName": "trace.json"}, indent=1)
