"""`python -m tests.soak [kills|live [COUNT] [TASK...] | cuts [COUNT] | signals [COUNT] [COMMAND...] |
fuzz [COUNT] [KIND...] | fleet [CAMPAIGNS] [ROUNDS]]`: damage by the hour, in tables."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.fleet import run_fleet
from tests.soak.inputs import KINDS, Failure, Tally, fuzz
from tests.soak.kills import KEPT, OWN, begin_preloaded, kill_campaigns
from tests.soak.kills import Tally as Kills
from tests.soak.live import kill_live
from tests.soak.power_cuts import cut_power
from tests.soak.recorded import TASKS
from tests.soak.signals import COMMANDS, send_signals


def main() -> int:
    """Exit code 1 where anything failed; each failing input is kept in `.soak/`."""
    what, *rest = sys.argv[1:] or ["both"]
    count = int(rest.pop(0)) if rest and rest[0].isdigit() else 0
    failed = 0
    if what == "fleet":
        return _run_fleet(count or 20, int((rest or ["3"])[0]))
    if what not in ("fuzz", "cuts", "signals"):
        begin_preloaded(KEPT / "preloaded")
    if what in ("kills", "both"):
        failed += _kill(kill_campaigns, count or 400, tuple(rest) or TASKS)
    if what in ("live", "both"):
        failed += _kill(kill_live, count or 100, tuple(rest) or TASKS)
    if what in ("cuts", "both"):
        failed += _cut(count or 200)
    if what in ("signals", "both"):
        failed += _send(count or 20, tuple(rest) or tuple(COMMANDS))
    if what in ("fuzz", "both"):
        failed += _fuzz(count or 10_000, rest or [*KINDS])
    assert what in ("kills", "live", "cuts", "signals", "fuzz", "both"), __doc__
    return 1 if failed else 0


def _kill(bench: Callable[..., Kills], count: int, tasks: tuple[str, ...]) -> int:
    """So many kills; how many ended badly."""
    folder = Path(tempfile.mkdtemp(prefix=OWN, dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        tally = bench(folder, kills=count, tasks=tasks)
    finally:
        shutil.rmtree(folder)
    print(f"\n{'PLACE':<100}  KILLS")  # noqa: T201
    for site, kills in sorted(tally.sites.items()):
        print(f"{site:<100}  {kills:>5}")  # noqa: T201
    for kind, kills in sorted(tally.kills.items()):
        print(f"{kind}: {kills}")  # noqa: T201
    print(f"{tally.kills.total()} kills: {len(tally.failures)} failed")  # noqa: T201
    print("\n".join(tally.failures))  # noqa: T201
    return len(tally.failures)


def _cut(count: int) -> int:
    """Power cuts spread over a campaign; how many ended badly."""
    tally = cut_power(Path(tempfile.mkdtemp(prefix=OWN)), count=count)
    kinds = ", ".join(f"{number} {end}" for end, number in sorted(tally.ends.items()))
    print(f"{count} power cuts ({kinds}): {len(tally.failures)} failed")  # noqa: T201
    print("\n".join(tally.failures))  # noqa: T201
    return len(tally.failures)


def _send(count: int, names: tuple[str, ...]) -> int:
    """So many SIGTERM and SIGHUP to each command; how many ended badly."""
    folder = Path(tempfile.mkdtemp(prefix=OWN))
    try:
        tally = send_signals(folder, count=count, names=names)
    finally:
        shutil.rmtree(folder)
    print(f"{tally.signals.total()} signals: {len(tally.failures)} failed")  # noqa: T201
    return len(tally.failures)


def _run_fleet(campaigns: int, rounds: int) -> int:
    """So many campaigns through Ray; 1 where anything went wrong, and then its folder stays."""
    folder = Path(tempfile.mkdtemp(prefix=OWN))
    print(folder)  # noqa: T201
    return 1 if run_fleet(folder, campaigns, rounds) else 0


def _fuzz(count: int, kinds: list[str]) -> int:
    """The same number of inputs of each kind; how many were not answered as they should be."""
    failed = 0
    print(FUZZED)  # noqa: T201
    for name in kinds:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            row = FuzzRow(name)
            tally = fuzz(KINDS[name], range(count), Path(folder), tell=row.tell)
        row.show(tally)
        failed += len(tally.failures)
    return failed


FUZZED = f"{'KIND':<10}  {'INPUTS':>7}  {'FAILED':>6}  {'LONGEST S':>9}  {'SECONDS':>7}"
TELL_S = 30.0


class FuzzRow:
    """The row of a kind: shown every half minute and at its end; each failure is shown and kept at once."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._began = self._shown = time.monotonic()

    def tell(self, tally: Tally, failure: Failure | None) -> None:
        """After each input."""
        if failure:
            KEPT.mkdir(exist_ok=True)
            kept = KEPT / f"{self._kind}-{failure.seed}.input"
            kept.write_bytes(failure.data)
            kept.with_suffix(".txt").write_text(failure.why, errors="backslashreplace")
            last = failure.why.strip().splitlines()[-1].encode(errors="backslashreplace").decode()
            print(f"{self._kind} seed {failure.seed}: {last} ({kept})", flush=True)  # noqa: T201
        if time.monotonic() - self._shown >= TELL_S:
            self.show(tally)

    def show(self, tally: Tally) -> None:
        """What the inputs so far came to."""
        self._shown = time.monotonic()
        took = self._shown - self._began
        row = f"{self._kind:<10}  {tally.inputs:>7}  {len(tally.failures):>6}  {tally.longest_s:>9.2f}  {took:>7.0f}"
        print(row, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
