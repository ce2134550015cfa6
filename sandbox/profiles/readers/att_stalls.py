"""Where the time of traced waves went: shares of their lifetimes by class and by kind, and the hottest lines."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ridgeline.graph.kernel_profile import Hotspot, Stall, StallShare, TracedKind
from ridgeline.sandbox.profiles.readers import amd_instructions
from ridgeline.sandbox.profiles.readers.att_code import Instruction

HOTSPOTS = 20
RAW_NAMES = 8
SPLIT = ("wait_lgkm", "wait_vm+lgkm")
"""Waits for one of several kinds of data: which, only the instructions they waited for can tell."""
_WAITED: dict[str, Stall] = {
    "smem": "smem_wait",
    "lds_read": "lds_wait",
    "lds_write": "lds_wait",
    "lds_other": "lds_wait",
}

Producers = Mapping[int, Mapping[int, int]]


def by_class(code: Sequence[Instruction], producers: Producers, wave_cycles: int) -> tuple[StallShare, ...]:
    """Shares of `wave_cycles`, largest first: stall cycles by class, then `tail`, `issue` and `idle`.

    `tail` is the latency of s_endpgm (draining stores); `issue` the latency of all others that was no stall. Together
    they are 1 in a trace whose checksum holds.
    """
    cycles: dict[Stall, float] = defaultdict(float)
    names: dict[Stall, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row, stall, amount in _attributed(code, producers):
        cycles[stall] += amount
        names[stall][row.isa.partition(" ")[0]] += amount
    cycles["idle"] = sum(row.idle for row in code)
    shares = [
        StallShare(stall=stall, share=amount / wave_cycles, basis="wave_time", raw_names=_largest(names[stall]))
        for stall, amount in cycles.items()
        if amount
    ]
    return tuple(sorted(shares, key=lambda share: -share.share))


def _attributed(code: Sequence[Instruction], producers: Producers) -> Iterator[tuple[Instruction, Stall, float]]:
    kinds = {row.line: row.kind for row in code}
    matrix = after_matrix(code)
    for row in code:
        if row.kind == "endpgm":
            yield row, "tail", row.latency
            continue
        yield row, "issue", max(0, row.latency - row.stall)
        for stall, part in _classes(row, kinds, producers, matrix):
            yield row, stall, row.stall * part


def _classes(
    row: Instruction, kinds: Mapping[int, str], producers: Producers, matrix: frozenset[int]
) -> Iterable[tuple[Stall, float]]:
    if row.line in matrix:
        return (("matrix", 1.0),)
    if row.kind not in SPLIT or row.line not in producers:
        return ((amd_instructions.stall(row.kind), 1.0),)
    waited: dict[Stall, int] = defaultdict(int)
    for line, count in producers[row.line].items():
        waited[_waited(kinds.get(line, "other"))] += count
    total = sum(waited.values())
    return [(stall, count / total) for stall, count in waited.items()] if total else (("unknown_wait", 1.0),)


def _waited(kind: str) -> Stall:
    if kind.startswith("vmem_"):
        return "mem_wait"
    return _WAITED.get(kind, "unknown_wait")


def after_matrix(code: Sequence[Instruction]) -> frozenset[int]:
    """Lines of s_nop that stand directly after an MFMA: they wait for its result and belong to the matrix pipe."""
    lines, previous = [], ""
    for row in code:
        if row.kind == "nop":
            lines += [row.line] if previous == "mfma" else []
        else:
            previous = row.kind
    return frozenset(lines)


def _largest(amounts: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(amounts, key=lambda name: -amounts[name])[:RAW_NAMES])


def by_kind(code: Sequence[Instruction]) -> tuple[TracedKind, ...]:
    """Sums per kind of instruction, most stall cycles first."""
    rows: dict[str, list[Instruction]] = defaultdict(list)
    for row in code:
        rows[row.kind].append(row)
    kinds = [
        TracedKind(
            kind=kind, instructions=len(found), hits=sum(row.hits for row in found),
            latency=sum(row.latency for row in found), stall=sum(row.stall for row in found),
            idle=sum(row.idle for row in found),
        )
        for kind, found in rows.items()
    ]  # fmt: skip
    return tuple(sorted(kinds, key=lambda kind: (-kind.stall, -kind.latency, kind.kind)))


def hotspots(code: Sequence[Instruction], producers: Producers, wave_cycles: int) -> tuple[Hotspot, ...]:
    """The instructions on which waves spent most of their time (latency: stall and issue), at most 20."""
    kinds = {row.line: row.kind for row in code}
    matrix = after_matrix(code)
    hottest = sorted((row for row in code if row.latency), key=lambda row: (-row.latency, row.line))[:HOTSPOTS]
    return tuple(
        Hotspot(
            isa=row.isa, pc=row.address, source=row.source, share=row.latency / wave_cycles, hits=row.hits,
            kernel=row.kernel,
            stall=_main_class(row, kinds, producers, matrix),
        )
        for row in hottest
    )  # fmt: skip


def _main_class(row: Instruction, kinds: Mapping[int, str], producers: Producers, matrix: frozenset[int]) -> Stall:
    if row.kind != "endpgm" and 2 * row.stall < row.latency:
        return "issue"
    return max(_classes(row, kinds, producers, matrix), key=lambda one: one[1])[0]
