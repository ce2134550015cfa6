"""Is kernel.py right? `python3 -P -B test.py [--seed N]`. Prints PASS lines and exits 0, or MISMATCH and exits 1.

The data is new in each run; the seed is printed, so that a failure can be seen again. Without a GPU the small shapes
run in Triton's interpreter. The same file serves each Triton task; problem.py says what is right.
"""

import secrets
import sys
import types
from pathlib import Path


def sibling(name: str) -> types.ModuleType:
    """A module of this folder from its source alone: other things that lie here may come from an earlier candidate."""
    path = Path(__file__).resolve().parent / f"{name}.py"
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


import torch  # noqa: E402

problem = sibling("problem")
harness = sibling("harness")
EDGE = 256
"""Elements before and after each input: a multiple of 16 bytes, so that the input stays aligned."""
MOST_ROWS = 64
"""Rows compared in fp64 where there are more."""


def mismatch(label: str, mix: str, rel_err: float, why: str) -> None:
    print(f"MISMATCH label={label} rel_err={rel_err:.3e} data={mix}: {why}")
    sys.exit(1)


def framed(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The inputs between NaNs, which show in the result when something outside an input is used."""
    frames = []
    for tensor in data:
        zone = torch.full((tensor.numel() + 2 * EDGE,), torch.nan, dtype=tensor.dtype, device=tensor.device)
        frames.append(zone[EDGE : EDGE + tensor.numel()].view(tensor.shape))
    return tuple(frames)


def poison(shape: tuple[int, ...]) -> None:
    """Fill the memory that torch will hand out next: the result of an earlier call cannot pass for a new one."""
    blocks = [torch.full(shape, torch.nan, dtype=problem.DTYPE, device=harness.DEVICE) for _ in range(4)]
    del blocks


def check_values(out: torch.Tensor, data: tuple[torch.Tensor, ...], rows: torch.Tensor) -> tuple[float, str]:
    """(relative error, what is wrong or nothing)."""
    right = problem.trusted(data)
    value, bound = problem.exact(data, rows)
    error = float(harness.distance(out[rows], value))
    allowed = max(2.0 * float(harness.distance(right[rows], value)), problem.LEAST_ERROR)
    if not error <= allowed:
        return error, f"the error's norm is above {allowed:.1e}, twice that of torch"
    if not bool(((out[rows].double() - value).abs() <= bound).all()):
        return error, "an element's error is above what fp32 arithmetic and one rounding give"
    whole = float(harness.distance(out, right))
    return (error, "") if whole <= 2.0 * allowed else (whole, "too far from torch's result")


def check_call(
    run: harness.Run, shape: problem.Shape, data: tuple[torch.Tensor, ...], mix: str, rng: torch.Generator
) -> float:
    """One call with everything checked; the relative error."""
    before = [tensor.clone() for tensor in data]
    wanted = problem.output(shape)
    poison(wanted)
    out = run(*data)
    if not isinstance(out, torch.Tensor) or tuple(out.shape) != wanted or out.dtype != problem.DTYPE:
        mismatch(shape.label, mix, float("inf"), f"the result is no tensor of {problem.DTYPE} and shape {wanted}")
    if out.device != data[0].device or not out.is_contiguous():
        mismatch(shape.label, mix, float("inf"), "the result is on another device or not contiguous")
    if any(not torch.equal(old, new) for old, new in zip(before, data, strict=True)):
        mismatch(shape.label, mix, float("inf"), "an input was changed")
    error, why = check_values(out, data, harness.some_rows(wanted[0], MOST_ROWS, rng))
    if why:
        mismatch(shape.label, mix, error, why)
    return error


def check_shape(run: harness.Run, shape: problem.Shape, mixes: tuple[str, ...], rng: torch.Generator) -> float:
    """All kinds of data through the same arrays, so that an answer kept by address is found out; the largest error."""
    worst = 0.0
    data: tuple[torch.Tensor, ...] = ()
    for mix in mixes:
        fresh = problem.inputs(shape, mix, rng)
        data = data or framed(fresh)
        for tensor, values in zip(data, fresh, strict=True):
            tensor.copy_(values)
        worst = max(worst, check_call(run, shape, data, mix, rng))
    print(f"PASS label={shape.label} rel_err={worst:.3e}")
    return worst


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and (len(arguments) != 2 or arguments[0] != "--seed" or not arguments[1].isdecimal()):
        sys.exit("usage: test.py [--seed N]")
    seed = int(arguments[1]) if arguments else secrets.randbits(32)
    print(f"seed {seed}")
    rng = harness.generator(seed)
    run = harness.kernel(harness.HERE, "kernel")
    worst = [check_shape(run, shape, problem.MIXES, rng) for shape in problem.TESTED]
    if harness.GPU:
        worst += [check_shape(run, shape, problem.MIXES[:2], rng) for shape in problem.BENCHED]
    else:
        print("no GPU: run in Triton's interpreter, small shapes only")
    print(f"PASS {len(worst)} shapes, largest relative error {max(worst):.3e}")


if __name__ == "__main__":
    main()
