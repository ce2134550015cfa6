"""The ways in which a thread trace misleads, each a named test that it passes or fails."""

import re
from collections.abc import Sequence

from ridgeline.graph.kernel_profile import ThreadTrace
from ridgeline.sandbox.profiles.readers.att_code import Instruction
from ridgeline.sandbox.profiles.readers.own_name import own_name

_UNNAMED = re.compile(r"\s*$|\d+ / 0x")
"""How the viewer's files name a dispatch of which they know only the code object and address."""
TOLERANCE = 0.01
"""Of the checksum: 22 whole traces lie between 0.9974 and 1.0005."""
MEANING = {
    "hits": "no instruction was executed: nothing was traced",
    "att_sum": "latency and idle do not add up to the waves' lifetimes: the trace is cut or was decoded wrongly",
    "rows": "an instruction stalled longer than it took",
    "mfma_hits": "the code holds MFMA and no traced wave executed one: these waves left early and say nothing about it",
    "label": "the code's label is none of the traced dispatches",
    "waves": "no wave was traced: no block ran on the traced unit; choose another unit or mask",
    "no_loss": "waves begin or end that the trace does not show whole: the buffer was full or decoding failed",
}
"""What a failed test means, for people."""


def validate(
    trace: ThreadTrace, code: Sequence[Instruction], *, dispatches: frozenset[str], stitched: bool, waves: int | None
) -> tuple[tuple[str, bool], ...]:
    """(name, passed) of every test that the recording has the data for; names are the keys of MEANING.

    `waves` is the number of lifetimes in the recording, None where it holds none. That the label is the kernel which
    was asked for, and that there are at least as many waves as a block has, only the caller can test.
    """
    tests = {"hits": trace.hits > 0, "rows": all(row.stall <= row.latency for row in code)}
    if trace.checksum is not None:
        tests["att_sum"] = adds_up(trace.latency + trace.idle, trace.wave_cycles)
    matrix = [row.hits for row in code if row.kind == "mfma"]
    if matrix:
        tests["mfma_hits"] = sum(matrix) > 0
    if trace.kernel and (named := {own_name(name) for name in dispatches if not _UNNAMED.match(name)}):
        labels = {trace.kernel} | {row.label for row in code if row.kernel == trace.kernel}
        tests["label"] = any(name in label for name in named for label in labels)
    if waves is not None:
        tests["waves"] = waves > 0
    ends = _ends(code)
    tests["no_loss"] = stitched and ends is not None
    if ends is not None and waves is not None:
        tests["no_loss"] &= adds_up(ends, waves) and _begins(code) >= (1 - TOLERANCE) * waves
    return tuple((name, tests[name]) for name in MEANING if name in tests)


def adds_up(found: int, wanted: int) -> bool:
    """Whether two counts are the same within the tolerance; of counts and not ratios, so that 1 per cent is exact."""
    return abs(found - wanted) <= TOLERANCE * wanted


def _ends(code: Sequence[Instruction]) -> int | None:
    """How often a wave ended: each ends once. None where the code has no end, so it is not all there."""
    hits = [row.hits for row in code if row.kind == "endpgm"]
    return sum(hits) if hits else None


def _begins(code: Sequence[Instruction]) -> int:
    """How often the first instruction of a kernel was executed; more often than waves where it heads a loop."""
    first = {row.kernel: row.hits for row in reversed(code)}
    return sum(first.values())
