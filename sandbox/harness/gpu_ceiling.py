"""Peaks of the GPU that torch sees first: copy bandwidth, and matrix products of each data type.

Usage: python gpu_ceiling.py [--first DTYPE] [--seconds S]
       python gpu_ceiling.py --copies BYTES,BYTES   copies alone, each of so many bytes read plus written
       python gpu_ceiling.py --begin FILE [...]       loads torch, and measures when FILE is there: an object of variables that
                                                      say which card is meant, or null where nothing is wanted any more
       python gpu_ceiling.py --version      the torch that would measure, without loading it

Needs the standard library and the torch of the interpreter that runs it. Prints one line of JSON and exits with 0, or
with 1 and {"ok": false, "why": ...}. Bandwidth in GB/s (1e9 bytes), matrix products in TFLOPS (1e12 operations, two for
each multiply-add; INT8: TOPS). Every number is the median of samples timed by events on the device after a warm-up,
for the best of several sizes: a mean would be pulled by one disturbed sample, a maximum by one lucky one.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

COPY_MIB = (512, 1024, 2048)
"""Sizes of one buffer; the smallest is twice the largest cache of a card of today."""
SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 4096))
"""M, N, K: multiples of every tile in use, and enough tiles for several waves on any card."""
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
WARM_UP, SAMPLES = 3, 11
SAMPLE_MS = 4.0
"""Least time of one sample: the events' own resolution is 0.5 us."""
FACTOR = "bytes read plus bytes written"
Call = Callable[[], object]
NOT_HERE = (RuntimeError, AttributeError, TypeError, ValueError)
"""What torch raises for a type that it, or the card, has no kernel for."""


PATIENCE_S = 100.0
"""For the file after torch was loaded; then `WAITED` is why."""
WAITED = "waited for a card too long"


class Cannot(Exception):
    """What cannot be measured here; the text says why."""


class Clock:
    """Seconds that are left."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._until - time.monotonic()


def wait_for(path: str) -> None:
    """In the process that measures ceilings: until a card is known, which torch asks for when it first uses one."""
    until = time.monotonic() + PATIENCE_S
    while not os.path.exists(path):  # noqa: PTH110 (one import less)
        if time.monotonic() > until:
            raise Cannot(WAITED)
        time.sleep(0.01)
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        variables = json.load(file)
    if variables is None:
        raise Cannot("not wanted")
    os.environ.update(variables)


def measure(torch: Any, first_dtype: str, clock: Clock) -> dict[str, Any]:
    """In the process that measures ceilings: all of the GPU's there is time for, the copy and data type `first` before the others."""
    cuda = torch.cuda
    if not cuda.is_available():
        raise Cannot("torch sees no GPU")
    properties = cuda.get_device_properties(0)
    result: dict[str, Any] = {
        "ok": True,
        "torch": torch.__version__,
        "device": properties.name,
        "arch": arch_of(torch, properties),
        "factor": FACTOR,
        "copy": copies(torch, clock),
    }
    result["copy_gbps"] = max(copy["gbps"] for copy in result["copy"])
    result["matmul"], result["skipped"] = {}, {}
    for dtype in sorted(DTYPES, key=lambda name: name != first_dtype):
        try:
            result["matmul"][dtype] = matmul(torch, dtype, clock)
        except (Cannot, *NOT_HERE) as error:
            result["skipped"][dtype] = line(error)
    for name, call in (("read_gbps", reading), ("write_gbps", writing)):
        try:
            result[name] = one_way(torch, call, clock)
        except (Cannot, RuntimeError) as error:
            result["skipped"][name] = line(error)
    return result


def arch_of(torch: Any, properties: Any) -> str:
    """In the process that measures ceilings: the GPU's architecture as torch names it: gfx942 on ROCm, sm_90 on CUDA."""
    if getattr(torch.version, "hip", None):
        return str(getattr(properties, "gcnArchName", "")).split(":")[0]
    return f"sm_{properties.major}{properties.minor}"


def copies(torch: Any, clock: Clock) -> list[dict[str, float]]:
    """In the process that measures ceilings: `Tensor.copy_` between buffers of each size that fits twice into a quarter of free memory."""
    free = torch.cuda.mem_get_info()[0]
    rates: list[dict[str, float]] = []
    for mib in COPY_MIB:
        size = mib << 20
        if (size > free // 8 or clock.left <= 0) and rates:
            break
        ms, spread = median_ms(torch, copying(torch, size), clock)
        rates.append({"mib": mib, "gbps": round(2 * size / ms / 1e6, 1), "spread": spread})
    return rates


def sized_copies(torch: Any, traffic: list[int], clock: Clock) -> dict[str, Any]:
    """In the process that measures ceilings: a copy of each traffic in bytes, half of it read and half written."""
    if not torch.cuda.is_available():
        raise Cannot("torch sees no GPU")
    rates = []
    for total in traffic:
        size = max(4, total // 8 * 4)
        ms, _ = median_ms(torch, copying(torch, size), clock)
        rates.append({"traffic_bytes": 2 * size, "gbps": round(2 * size / ms / 1e6, 3)})
    return {"ok": True, "torch": torch.__version__, "factor": FACTOR, "copy": rates}


def copying(torch: Any, size: int) -> Call:
    source, target = bytes_on(torch, size), bytes_on(torch, size)
    return lambda: target.copy_(source)


def bytes_on(torch: Any, size: int) -> Any:
    """In the process that measures ceilings: a buffer whose pages were written, so that none stands for a shared page of zeros."""
    return torch.empty(size // 4, dtype=torch.float32, device="cuda").fill_(1.5)


def one_way(torch: Any, call: Callable[[Any], object], clock: Clock) -> float:
    """In the process that measures ceilings: GB/s of a kernel that only reads, or only writes."""
    if clock.left <= 0:
        raise Cannot("no time was left")
    buffer = bytes_on(torch, COPY_MIB[1] << 20)
    ms, _ = median_ms(torch, lambda: call(buffer), clock)
    return round((COPY_MIB[1] << 20) / ms / 1e6, 1)


def reading(buffer: Any) -> object:
    return buffer.sum()


def writing(buffer: Any) -> object:
    return buffer.fill_(2.5)


def matmul(torch: Any, dtype: str, clock: Clock) -> dict[str, Any]:
    """In the process that measures ceilings: the best matrix product's rate on the card, TFLOPS or TOPS, with its samples' spread."""
    best: dict[str, Any] | None = None
    for m, n, k in SHAPES:
        if clock.left <= 0:
            break
        ms, spread = median_ms(torch, product(torch, dtype, (m, n, k)), clock)
        rate = 2 * m * n * k / ms / 1e9
        if best is None or rate > best["tflops"]:
            best = {"tflops": round(rate, 2), "shape": [m, n, k], "spread": spread}
    if best is None:
        raise Cannot("no time was left")
    return best


def product(torch: Any, dtype: str, shape: tuple[int, int, int]) -> Call:
    """In the process that measures ceilings: a call of the vendor's own library. Random operands: zeros draw less power and run faster."""
    m, n, k = shape
    if dtype in ("fp32", "tf32"):
        torch.set_float32_matmul_precision("highest" if dtype == "fp32" else "high")
        a, b = random(torch, (m, k)), random(torch, (k, n))
        out = torch.empty((m, n), dtype=a.dtype, device="cuda")
        return lambda: torch.mm(a, b, out=out)
    if dtype in ("fp16", "bf16"):
        kind = torch.float16 if dtype == "fp16" else torch.bfloat16
        a, b = random(torch, (m, k)).to(kind), random(torch, (k, n)).to(kind)
        out = torch.empty((m, n), dtype=kind, device="cuda")
        return lambda: torch.mm(a, b, out=out)
    if dtype == "fp8":
        return fp8_product(torch, shape)
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device="cuda")
    b = torch.randint(-128, 128, (n, k), dtype=torch.int8, device="cuda").t()
    return lambda: torch._int_mm(a, b)


def fp8_product(torch: Any, shape: tuple[int, int, int]) -> Call:
    """In the process that measures ceilings: E4M3 in the card's variant, one scale for each operand, result in bf16."""
    m, n, k = shape
    problem = "this torch has no FP8 type"
    for name in ("float8_e4m3fn", "float8_e4m3fnuz"):
        kind = getattr(torch, name, None)
        if kind is None:
            continue
        a, b = random(torch, (m, k)).to(kind), random(torch, (n, k)).to(kind).t()
        scale = torch.ones((), dtype=torch.float32, device="cuda")

        def call(a: Any = a, b: Any = b, scale: Any = scale) -> object:
            return torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)

        try:
            call()
        except NOT_HERE as error:
            problem = line(error)
            continue
        return call
    raise Cannot(problem)


def random(torch: Any, shape: tuple[int, int]) -> Any:
    return torch.randn(shape, dtype=torch.float32, device="cuda")


def median_ms(torch: Any, call: Call, clock: Clock) -> tuple[float, float]:
    """In the process that measures ceilings: milliseconds of one call, and (largest - smallest) / median of the samples."""
    for _ in range(WARM_UP):
        call()
    once = sample(torch, call, 1)
    repeat = max(1, int(SAMPLE_MS / max(once, 1e-3)) + 1)
    samples: list[float] = []
    while len(samples) < SAMPLES and (len(samples) < 3 or clock.left > 0):
        samples.append(sample(torch, call, repeat))
    middle = statistics.median(samples)
    if middle <= 0:
        raise Cannot("the device's events gave no time")
    return middle, round((max(samples) - min(samples)) / middle, 4)


def sample(torch: Any, call: Call, repeat: int) -> float:
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(repeat):
        call()
    ended.record()
    torch.cuda.synchronize()
    return float(began.elapsed_time(ended)) / repeat


def line(error: BaseException) -> str:
    """In the process that measures ceilings: the first line of an error, within reason."""
    text = " ".join(str(error).splitlines()[:1]) or type(error).__name__
    return text[:200]


def installed_version() -> str | None:
    """In the process that measures ceilings: version of the installed torch, None without one; by metadata, in milliseconds."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def answer(options: argparse.Namespace) -> dict[str, Any]:
    """In the process that measures ceilings: what it prints of a card."""
    if options.version:
        torch_version = installed_version()
        return {"ok": True, "torch": torch_version} if torch_version else {"ok": False, "why": "torch is not installed"}
    try:
        torch = import_module("torch")
    except (ImportError, OSError) as error:  # OSError: a library of the driver is missing
        return {"ok": False, "why": f"torch cannot be loaded: {line(error)}"}
    try:
        if options.begin:
            wait_for(options.begin)
        began = time.monotonic()
        clock = Clock(options.seconds)
        sizes = [int(word) for word in options.copies.split(",") if word]
        result = sized_copies(torch, sizes, clock) if sizes else measure(torch, options.first, clock)
    except (Cannot, RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        return {"ok": False, "torch": torch.__version__, "why": line(error)}
    return {**result, "samples": SAMPLES, "seconds": round(time.monotonic() - began, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--first", choices=DTYPES, default="bf16", help="data type that is measured first")
    parser.add_argument("--seconds", type=float, default=15.0, help="begin nothing new after this")
    parser.add_argument("--copies", default="", help="bytes of copies, read plus written, in a comma list")
    parser.add_argument("--begin", default="", help="load torch, and wait until this file is there")
    parser.add_argument("--version", action="store_true", help="only say which torch there is")
    document = answer(parser.parse_args())
    sys.stdout.write(json.dumps(document) + "\n")
    return 0 if document["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
