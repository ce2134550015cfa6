"""Hardware counters through `perf stat`, where the kernel and the processor permit them."""

import tempfile
from pathlib import Path

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.values import Named
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.profiles.profilers.seen import Seen, Tree, Unavailable
from ridgeline.sandbox.workspace.commands import Commands, said

EVENTS = {
    "instructions": "instructions",
    "cycles": "cycles",
    "L1-dcache-load-misses": "d1_misses",
    "LLC-load-misses": "ll_misses",
    "branch-misses": "branch_misses",
}
"""perf's event and the counter it becomes."""
TIMEOUT_S = 60


class Perf:
    """Asks once which events count here."""

    def __init__(self) -> None:
        self._events: tuple[str, ...] | Unavailable | None = None

    def look(self, commands: Commands, tree: Tree) -> Seen | Unavailable:
        """Counters of the whole profile command: perf stat cannot stop at a function."""
        if self._events is None:
            self._events = _supported()
        if isinstance(self._events, Unavailable):
            return self._events
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            out = Path(folder) / "perf.csv"
            argv = ("perf", "stat", "-x", ",", "-o", str(out), "-e", ",".join(self._events), "--", *tree.argv)
            ended = commands.plain("profile.command", argv, cwd=tree.path, timeout_s=TIMEOUT_S, timed=True)
            if not ended.ok:
                return Unavailable(why=f"perf: {said(ended)}")
            text = out.read_text()
        counters = parse(text)
        if not counters:
            return Unavailable(why="perf: no event was counted")
        return Seen(
            counters=counters, notes=("perf counts the whole command",), report=text.encode(), seconds=ended.seconds
        )


def parse(text: str) -> tuple[Named, ...]:
    """Counters in `perf stat -x,` output: `value,unit,event,...`; events that were not counted are left out."""
    counters: list[Named] = []
    for line in text.splitlines():
        cells = line.split(",")
        if len(cells) < 3 or line.startswith("#"):
            continue
        name = EVENTS.get(cells[2].split(":")[0])
        if name and cells[0].replace(".", "", 1).isdigit():
            counters.append(Named(name=name, value=float(cells[0])))
    return tuple(counters)


def _supported() -> tuple[str, ...] | Unavailable:
    try:
        ended = run(("perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "--", "true"), cwd=Path("/"), timeout_s=20)
    except ProgramMissing:
        return Unavailable(why="perf is not installed")
    if not ended.ok:
        last = ended.output.strip().splitlines()[-1:] or ["no output"]
        return Unavailable(why=f"perf stat is refused here: {last[0].strip()}")
    counted = {counter.name for counter in parse(ended.output)}
    if "instructions" not in counted:
        return Unavailable(why="perf: hardware events are <not supported> on this machine (usual in virtual machines)")
    return tuple(event for event, name in EVENTS.items() if name in counted)
