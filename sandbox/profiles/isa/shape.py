"""What a listing consists of: instructions by kind, widths, matrix instructions, waits, loops."""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable

from ridgeline.sandbox.profiles.isa.values import Code, Count, Instruction, Loop, Shape, Width

WAITED = re.compile(r"(\w+cnt(?:_\w+)?)\((\d+)\)")
MOST_LOOPS = 32
MOST_SPANS = 1000
"""Loops that are looked at: each is compared with each."""
MOST_SOURCES = 3


def shape_of(code: Code) -> Shape:
    """Counts over the whole listing. Static: how often each instruction runs is not known."""
    return Shape(
        instructions=len(code.instructions),
        kinds=_by_kind(code.instructions),
        widths=_widths(code.instructions),
        matrix=_counted(i.mnemonic for i in code.instructions if i.kind == "matrix"),
        waits=_counted(word for i in code.instructions if i.kind == "wait" for word in _waits(i)),
        loops=loops(code),
    )


def loops(code: Code) -> tuple[Loop, ...]:
    """Every branch back, outermost and longest first; at most 32.

    A branch to itself is the trap that fills up behind a kernel's end, not a loop; neither is a way back from slow
    paths that compilers lay behind the kernel's end.
    """
    spans = _spans(code)
    hot = _hottest(code, [(first, last) for first, last, _ in spans])
    found = [
        Loop(
            label=label,
            first=first,
            last=last,
            depth=1 + sum(_inside((first, last), (other[0], other[1])) for other in spans),
            counts=_by_kind(code.instructions[first : last + 1]),
            source=_sources(code.instructions[first : last + 1]),
            hot=(first, last) == hot,
        )
        for first, last, label in spans[:MOST_LOOPS]
    ]
    return tuple(found)


def _spans(code: Code) -> list[tuple[int, int, str]]:
    """First and last instruction and label of each loop, the longest first."""
    places = dict(code.labels)
    stops = [index for index, instruction in enumerate(code.instructions) if _ends(instruction)]
    last: dict[str, int] = {}
    for index, instruction in enumerate(code.instructions):
        goal = instruction.target if instruction.kind == "branch" else None
        if goal in places and places[goal] < index and bisect(stops, index) == bisect(stops, places[goal]):
            last[goal] = index
    found = sorted(((places[label], end, label) for label, end in last.items()), key=lambda s: (s[0] - s[1], s[0]))
    return found[:MOST_SPANS]


def _ends(instruction: Instruction) -> bool:
    return instruction.kind == "end" and not instruction.text.startswith("@")


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def _hottest(code: Code, spans: list[tuple[int, int]]) -> tuple[int, int] | None:
    innermost = [span for span in spans if not any(_inside(other, span) for other in spans)]
    return max(innermost, key=lambda span: _weight(code.instructions[span[0] : span[1] + 1]), default=None)


def _weight(body: tuple[Instruction, ...]) -> tuple[int, int]:
    return sum(i.kind == "matrix" for i in body), len(body)


def _by_kind(body: Iterable[Instruction]) -> tuple[Count, ...]:
    return _counted(i.kind for i in body)


def _widths(body: Iterable[Instruction]) -> tuple[Width, ...]:
    counts = Counter((i.kind, i.lane_bytes) for i in body if i.lane_bytes is not None)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], -item[0][1]))
    return tuple(Width(kind=kind, lane_bytes=width, count=count) for (kind, width), count in ordered)


def _waits(instruction: Instruction) -> list[str]:
    """vmcnt(0) lgkmcnt(0) of one wait are two; other spellings stand for themselves."""
    return [f"{name}({value})" for name, value in WAITED.findall(instruction.text)] or [instruction.mnemonic]


def _sources(body: Iterable[Instruction]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(i.source for i in body if i.source).most_common(MOST_SOURCES))


def _counted(names: Iterable[str]) -> tuple[Count, ...]:
    return tuple(Count(name=name, count=count) for name, count in Counter(names).most_common())
