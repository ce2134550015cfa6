"""What gcc says about the loops it vectorized and those it did not, from a build in a scratch copy."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.profilers.seen import Seen, Unavailable
from ridgeline.sandbox.workspace.commands import Commands, said
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.scratch import scratch_copy

REMARK = re.compile(r"^(?:\./)?(?P<place>(?P<file>[^:\s]+):\d+:\d+): (?P<kind>optimized|missed): +(?P<text>.*)$")
FLAGS = "-fopt-info-vec-optimized -fopt-info-vec-missed"
KEPT = 8
"""Remarks that are quoted as notes."""
TEXT_BYTES = 400_000


def look(commands: Commands, tree: Path) -> Seen | Unavailable:
    """Build once more with CFLAGS_EXTRA in the environment, which the project's build must pass on to gcc."""
    contract = commands.contract
    command = contract.rebuild.command
    if command is None:
        return Unavailable(why="compiler report: the contract has no rebuild.command")
    with scratch_copy(tree) as copy:
        sources = [path for path in _files(copy) if matches(path, contract.kernel_source)]
        for path in sources:
            os.utime(copy / path)  # newer than what was built from it, so that make compiles it again
        ended = commands.plain(
            "rebuild.command",
            command,
            cwd=copy,
            timeout_s=contract.timeouts.build_s,
            extra={"CFLAGS_EXTRA": FLAGS},
        )
    if not ended.ok:
        return Unavailable(why=f"compiler report: {said(ended)}")
    counters, remarks = parse(ended.output, sources)
    if not counters:
        mend = "let the build append $(CFLAGS_EXTRA) to gcc's flags"
        return Unavailable(why=f"compiler report: no vectorization remarks were printed; {mend}")
    report = ended.output.encode()[:TEXT_BYTES]
    return Seen(counters=counters, notes=remarks[:KEPT], report=report, seconds=ended.seconds)


def parse(output: str, sources: Iterable[str]) -> tuple[tuple[Named, ...], tuple[str, ...]]:
    """Counters of loops by place in the kernel's own files, and the distinct remarks on loops that stayed scalar.

    A loop that was vectorized for any of its versions counts as vectorized. Both are empty without any remark.
    """
    mine = set(sources)
    found = [match for match in map(REMARK.match, output.splitlines()) if match and match["file"] in mine]
    if not found:
        return (), ()
    vectorized = {m["place"] for m in found if m["kind"] == "optimized" and "vectorized using" in m["text"]}
    scalar = {m["place"] for m in found if m["text"].startswith("couldn't vectorize loop")} - vectorized
    why = [f"gcc: {m['place']}: {m['text']}" for m in found if m["kind"] == "missed" and m["place"] not in vectorized]
    counters = (
        Named(name="vectorized_loops", value=len(vectorized)),
        Named(name="missed_vectorizations", value=len(scalar)),
    )
    return counters, tuple(dict.fromkeys(why))


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
