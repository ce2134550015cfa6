"""One fresh process: every kernel, four roles, both engines, interleaved; one JSON line on standard output.

A block is a random order of the four roles and its mirror image, for example ADBCCBDA: between any two roles it is
ABBA or BAAB, and a linear drift cancels. Which role is compiled and captured first is drawn anew in every process.
"""
# mypy: ignore-errors

import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from ridgeline.evals.research.noise.gpu_kernels import Case, cases

WARM_SECONDS = 0.5
FLUSH_BYTES = 128 << 20
"""Written before each sample of engine `event`: more than twice the 50 MB of L2."""
SMI = (
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "clocks_event_reasons.active",
)
Launch = Callable[[], Any]


def main(seed: int, blocks: int) -> None:
    """A noise study's process: measures everything once, that many blocks of each kernel with each engine, and writes the line."""
    began = time.perf_counter()
    rng = random.Random(seed)
    torch.manual_seed(seed)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    before = _smi()
    _load()
    order = list(cases())
    rng.shuffle(order)
    started = time.perf_counter() - began
    kernels = {case.name: _measure(case, blocks, rng=rng, flush=flush) for case in order}
    line = {
        "seed": seed,
        "started_s": round(started, 2),
        "before": before,
        "after": _smi(),
        "kernels": kernels,
        "measured_s": round(time.perf_counter() - began, 2),
    }
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


def about() -> dict[str, Any]:
    """What a noise recording says of itself: device, versions, kernels."""
    device = torch.cuda.get_device_properties(0)
    return {
        "device": device.name,
        "multiprocessors": device.multi_processor_count,
        "l2_bytes": device.L2_cache_size,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": __import__("triton").__version__,
        "smi": list(SMI),
        "kernels": {
            case.name: {
                "planted": case.planted,
                "sizes": case.sizes,
                "chain": case.chain,
                "bytes_per_call": case.bytes_per_call,
                "cache": "rotating" if case.chain * case.bytes_per_call >= 2 * device.L2_cache_size else "warm",
            }
            for case in cases()
        },
    }


def _measure(case: Case, blocks: int, *, rng: random.Random, flush: torch.Tensor) -> dict[str, Any]:
    began = time.perf_counter()
    captured = "".join(rng.sample("ABCD", 4))
    inputs = [case.inputs() for _ in range(case.chain)]
    outputs = {role: [case.output() for _ in inputs] for role in captured}
    single: dict[str, Launch] = {}
    chained: dict[str, Launch] = {}
    code: dict[str, str] = {}
    for role in captured:
        launch = case.bind(case.sizes[role])
        single[role] = lambda launch=launch, out=outputs[role][0]: launch(inputs[0], out)
        code[role] = _digest(single[role]())
        chained[role] = _capture(launch, inputs, outputs[role])
    _same_results(case, chained, outputs)
    samplers = {
        "event": lambda role: _event(single[role], flush),
        "graph": lambda role: _time(chained[role]) / case.chain,
    }
    record: dict[str, Any] = {"captured": captured, "code": code, "prepared_s": round(time.perf_counter() - began, 3)}
    for engine, sample in samplers.items():
        began = time.perf_counter()
        for role in captured:
            sample(role)
        record[engine] = [_block(rng, sample) for _ in range(blocks)]
        record[f"{engine}_s"] = round(time.perf_counter() - began, 3)
    return record


def _block(rng: random.Random, sample: Callable[[str], float]) -> list[Any]:
    half = "".join(rng.sample("ABCD", 4))
    order = half + half[::-1]
    return [order, *(round(sample(role), 3) for role in order)]


def _capture(launch: Callable[[Any, Any], Any], inputs: list[Any], out: list[Any]) -> Launch:
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch(inputs[0], out[0])
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        for operands, result in zip(inputs, out, strict=True):
            launch(operands, result)
    return graph.replay


def _time(run: Launch) -> float:
    """Microseconds between two events around a studied call."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def _event(run: Launch, flush: torch.Tensor) -> float:
    flush.zero_()
    return _time(run)


def _same_results(case: Case, chained: dict[str, Launch], outputs: dict[str, list[Any]]) -> None:
    for role in "AB":
        for out in outputs[role]:
            out.fill_(float("nan"))
        chained[role]()
    torch.cuda.synchronize()
    some = min(case.sizes["A"], 1 << 20) if case.name.startswith("add") else slice(None)
    results, twin_results = outputs["A"][-1], outputs["B"][-1]
    if isinstance(some, int):
        results, twin_results = results[:some], twin_results[:some]
    elif case.name.startswith("softmax"):
        results, twin_results = results[: case.sizes["A"]], twin_results[: case.sizes["A"]]
    if not torch.equal(results, twin_results) or bool(results.isnan().any()):
        raise RuntimeError(f"{case.name}: twins disagree, or left results unwritten")


def _digest(compiled: Any) -> str:
    """Digest of a studied kernel's machine code, where Triton made it; empty for a library's kernel."""
    asm = getattr(compiled, "asm", None)
    return hashlib.sha256(asm["cubin"]).hexdigest()[:12] if asm else ""


def _load() -> None:
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    out, end = torch.empty_like(a), time.perf_counter() + WARM_SECONDS
    while time.perf_counter() < end:
        torch.mm(a, a, out=out)
        torch.cuda.synchronize()


def _smi() -> str:
    query = ["nvidia-smi", f"--query-gpu={','.join(SMI)}", "--format=csv,noheader,nounits"]
    process = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    return process.stdout.strip() or f"nvidia-smi exited with {process.returncode}"


if __name__ == "__main__":
    if sys.argv[1] == "about":
        sys.stdout.write(json.dumps(about()) + "\n")
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
