"""What `ridgeline gate` and `doctor` say of cards: which are idle, which are not and why."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ridgeline.agent.errors import UserError
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.idle import Cards, gate_settings, judge, ranked, visible
from ridgeline.sandbox.devices.tools import PROGRAMS, installed, parse, series, tools_of
from ridgeline.sandbox.devices.values import MIB, GpuProcess, Judged, State, Told, Vendor

VENDORS: tuple[Vendor, ...] = ("nvidia", "amd")


class ProcessView(Value):
    pid: int | None
    name: str
    memory_mb: float | None


class CardView(Value):
    """One card. Memory is in units of 1024 * 1024 bytes, as the tools' own MB; None is `not told`."""

    index: int | str | None
    id: str
    """PCI address, else UUID: what its lease is named by."""
    vendor: Vendor
    name: str | None
    state: State
    reasons: tuple[str, ...]
    utilization_pct: float | None
    memory_used_mb: float | None
    memory_total_mb: float | None
    power_w: float | None
    processes: tuple[ProcessView, ...] | None


class GateReport(Value):
    """The one object of `ridgeline gate --json`."""

    vendor: Literal["nvidia", "amd", "nvidia and amd"] | None
    cards: tuple[CardView, ...]
    idle: tuple[int | str | None, ...]
    """Indices, the best first."""
    chosen: int | str | None
    """Index of the card that a command would get now."""
    decision: State
    problem: str = ""
    """What could not be read or asked."""


def report(judged: Sequence[Judged], *, environment: Mapping[str, str] | None = None, problem: str = "") -> GateReport:
    """`environment`: where the variables stand that leave only some cards to programs."""
    idle = ranked(judged)
    left = visible([one.card for one in judged], environment or {})
    free = [one for one in idle if one.card in left]
    states = {one.state for one in judged}
    vendors = {one.card.vendor for one in judged}
    return GateReport(
        vendor=next(iter(vendors)) if len(vendors) == 1 else "nvidia and amd" if vendors else None,
        cards=tuple(_view(one) for one in judged),
        idle=tuple(_index(one) for one in idle),
        chosen=_index(free[0]) if free else None,
        decision="idle" if free else "busy" if "busy" in states else "unknown",
        problem=problem,
    )


def recorded(paths: Sequence[Path]) -> GateReport:
    """Decided from files alone: several queries of one moment, several moments, or both, told apart by content.

    Raises Unreadable for text that is no whole answer of a known tool, UserError for a file that cannot be read.
    """
    told: list[Told] = []
    for path in paths:
        told += parse(_text(path), str(path))
    settings = gate_settings()
    return report([judge(samples, settings) for samples in series(told)])


def present(*, samples: int | None = None, interval_s: float | None = None) -> GateReport:
    """Decided from this machine's cards, now; numbers that are not given are the gate's own."""
    settings = gate_settings()
    found: list[Judged] = []
    for vendor in VENDORS:
        if installed(vendor):
            cards = Cards(tools_of(vendor), settings=settings)
            found += cards.judged(
                samples=settings.samples if samples is None else samples,
                interval_s=settings.interval_s if interval_s is None else interval_s,
            )
    return report(found, environment=os.environ, problem="" if found else _absence())


def _absence() -> str:
    tools = [name for vendor in VENDORS for name in PROGRAMS[vendor]]
    if any(installed(vendor) for vendor in VENDORS):
        return f"none of {', '.join(tools)} tells of a card"
    return f"none of {', '.join(tools)} is on PATH, so no GPU can be known to be idle"


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"--from: {path}: cannot be read ({error.strerror}); give a file of a tool's output") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _view(judged: Judged) -> CardView:
    card = judged.card
    return CardView(
        index=_index(judged),
        id=card.key.removeprefix("gpu-"),
        vendor=card.vendor,
        name=card.name,
        state=judged.state,
        reasons=judged.reasons,
        utilization_pct=card.utilization_pct,
        memory_used_mb=_mb(card.memory_used_bytes),
        memory_total_mb=_mb(card.memory_total_bytes),
        power_w=card.power_w,
        processes=None if card.processes is None else tuple(_process(one) for one in card.processes),
    )


def _process(one: GpuProcess) -> ProcessView:
    return ProcessView(pid=one.pid, name=one.name, memory_mb=_mb(one.bytes))


def _index(judged: Judged) -> int | str | None:
    index = judged.card.index
    return int(index) if index is not None and index.isdigit() else index


def _mb(size: int | None) -> float | None:
    return None if size is None else round(size / MIB, 1)
