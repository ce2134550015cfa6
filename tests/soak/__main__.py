"""`python -m tests.soak [kills [SECONDS] | cuts [COUNT] | fuzz [COUNT] [KIND...]]`: damage by the hour, and tables of what came of it."""

import sys
import tempfile
import time
from pathlib import Path

from tests.soak.inputs import KINDS, fuzz
from tests.soak.kills import kill_campaigns
from tests.soak.power_cuts import cut_power

CALLS = range(1, 221)
"""The campaign's own process makes about that many calls that change a directory."""
SOAKED_S = 4 * 3600.0


def main() -> int:
    """Exit code 1 where anything failed; each failing input is kept in `.soak/`."""
    what, *rest = sys.argv[1:] or ["both"]
    failed = 0
    if what in ("kills", "both"):
        failed += _kill(float(rest.pop(0)) if rest and what == "kills" else SOAKED_S)
    if what in ("cuts", "both"):
        failed += _cut(int(rest.pop(0)) if rest and what == "cuts" else 200)
    if what in ("fuzz", "both"):
        failed += _fuzz(int(rest.pop(0)) if rest and rest[0].isdigit() else 10_000, rest or [*KINDS])
    assert what in ("kills", "cuts", "fuzz", "both"), __doc__
    return 1 if failed else 0


def _kill(seconds: float) -> int:
    """Kills by turns at calls and at moments; how many ended badly."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    tally = kill_campaigns(folder, seconds=seconds, calls=CALLS)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.by_kind.items()))
    print(f"{tally.kills} kills ({kinds}): {len(tally.failures)} failed")  # noqa: T201
    print("\n".join(tally.failures))  # noqa: T201
    return len(tally.failures)


def _cut(count: int) -> int:
    """Power cuts spread over a campaign; how many ended badly."""
    tally = cut_power(Path(tempfile.mkdtemp(prefix="soak-")), count=count)
    kinds = ", ".join(f"{number} {end}" for end, number in sorted(tally.ends.items()))
    print(f"{count} power cuts ({kinds}): {len(tally.failures)} failed")  # noqa: T201
    print("\n".join(tally.failures))  # noqa: T201
    return len(tally.failures)


def _fuzz(count: int, kinds: list[str]) -> int:
    """The same number of inputs of each kind; how many were not answered as they should be."""
    failed = 0
    print(f"{'KIND':<10}  {'INPUTS':>7}  {'FAILED':>6}  {'LONGEST S':>9}  {'SECONDS':>7}")  # noqa: T201
    for name in kinds:
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
    return failed


if __name__ == "__main__":
    sys.exit(main())
