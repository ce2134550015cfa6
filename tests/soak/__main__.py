"""`python -m tests.soak fuzz [COUNT] [KIND...]`: hours of damage, and a table of what came of it."""

import sys
import tempfile
import time
from pathlib import Path

from tests.soak.inputs import KINDS, fuzz


def main() -> int:
    """Exit code 1 where anything failed; each failing input is kept in `.soak/`."""
    what, *rest = sys.argv[1:] or ["fuzz"]
    assert what == "fuzz", __doc__
    count = int(rest.pop(0)) if rest and rest[0].isdigit() else 10_000
    failed = 0
    print(f"{'KIND':<10}  {'INPUTS':>7}  {'FAILED':>6}  {'LONGEST S':>9}  {'SECONDS':>7}")  # noqa: T201
    for name in rest or KINDS:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            began = time.monotonic()
            tally = fuzz(KINDS[name], range(count), Path(folder))
        took = time.monotonic() - began
        row = f"{name:<10}  {tally.inputs:>7}  {len(tally.failures):>6}  {tally.longest_s:>9.2f}  {took:>7.0f}"
        print(row, flush=True)  # noqa: T201
        failed += len(tally.failures)
        for failure in tally.failures:
            place = Path(".soak")
            place.mkdir(exist_ok=True)
            (place / f"{name}-{failure.seed}.input").write_bytes(failure.data)
            (place / f"{name}-{failure.seed}.txt").write_text(failure.why, errors="backslashreplace")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
