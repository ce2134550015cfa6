"""Does the function do what the original does? `python3 -P -B test.py [--seed N]`: new values in every run.

Prints PASS lines and exits 0, or MISMATCH and 1. `--survey` prints what the original does with each shape and kind of
values, and for how many microseconds.
"""

import importlib.util
import random
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.dont_write_bytecode = True
_spec = importlib.util.spec_from_file_location("harness", Path(__file__).resolve().parent / "harness.py")
assert _spec is not None
assert _spec.loader is not None
harness = sys.modules["harness"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)
problem = harness.sibling("problem")


def main() -> None:
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else secrets.randbits(32)
    rng = random.Random(seed)
    original = harness.load(Path.cwd(), problem.SOURCE, problem.FUNCTION, text_from=harness.HERE / "original.py")
    if "--survey" in sys.argv:
        survey(original, rng)
        return
    version = harness.load(Path.cwd(), problem.SOURCE, problem.FUNCTION)
    print(f"seed {seed}")
    for shape in problem.SHAPES:
        for mix in problem.MIXES:
            arguments = problem.arguments(rng, shape.sizes, mix)
            mine, right = harness.run(version, arguments), harness.run(original, arguments)
            if wrong := harness.describe_difference(mine, right, problem.NAMES, problem.TOLERANCE):
                print(f"MISMATCH label={shape.label} values={mix}{wrong}")
                sys.exit(1)
        print(f"PASS label={shape.label}")


def survey(original: Callable[..., object], rng: random.Random) -> None:
    """In the harness that `init` writes: a line per shape and kind of values: OK, RAISES or DIFFERS, microseconds, whether it mutates."""
    for shape in problem.SHAPES:
        for mix in problem.MIXES:
            arguments = problem.arguments(rng, shape.sizes, mix)
            result = harness.run(original, arguments)
            began = time.perf_counter()
            second = harness.run(original, arguments)
            us = 1e6 * (time.perf_counter() - began)
            changed = bool(harness.difference(result[1:], tuple(arguments), 0.0))
            refused = mix == harness.ORDINARY and isinstance(result[0], harness.Raised)
            word = "DIFFERS" if harness.difference(second, result, problem.TOLERANCE) else "RAISES" if refused else "OK"
            why = describe_refusal(original, arguments) if refused else ""
            print(word, shape.label, mix, f"{us:.3f}", int(changed), why, flush=True)


def describe_refusal(original: Callable[..., object], arguments: Sequence[object]) -> str:
    """In the harness that `init` writes: type and first line of what the original raises for these values."""
    try:
        original(*harness.copy_arguments(arguments))
    except harness.REFUSALS as error:
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"
    return ""


main()
