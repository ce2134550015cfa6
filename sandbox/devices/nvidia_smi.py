"""What nvidia-smi prints as CSV: cards, and the processes on them; the header says which is which. Pure."""

import re
from collections.abc import Iterable, Mapping

from ridgeline.sandbox.devices.quantity import amount, memory, pci, percent, text, whole
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Told, Unreadable

GPU_FIELDS = (
    "index,uuid,pci.bus_id,name,utilization.gpu,utilization.memory,memory.used,memory.total,power.draw,power.limit,"
    "clocks.sm,compute_mode,mig.mode.current"
)
CARDS_QUERY = ("nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv")
PROCESSES_QUERY = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv")
MOVING = frozenset({"utilization.gpu", "memory.used", "power.draw"})
STANDING = frozenset({"index", "name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "timestamp", "memory.total"})
KNOWN = MOVING | STANDING | {"pid"}
CLOCKS = ("clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics")
BARE = (
    "index,uuid,pci.bus_id,name,utilization.gpu,memory.used,memory.total,power.draw,power.limit,clocks.sm,"
    "compute_mode,mig.mode.current"
)
"""What a line without a header is taken for when it begins with a card's number, UUID and address."""
BARE_CARD = re.compile(r"\s*\d+, *GPU-[0-9a-fA-F-]+, *[0-9a-fA-F]{8}:")
BARE_PROCESS = re.compile(r"\s*(?:GPU|MIG)-[0-9a-fA-F-]+, *\d+,")
UNIT = re.compile(r"\s*\[([A-Za-z%]+)\]$")


def is_csv(line: str) -> bool:
    """Whether the line is a header of nvidia-smi's, or begins as its usual lines do where no header was asked for."""
    return _is_header(line) or _bare(line) is not None


def _is_header(line: str) -> bool:
    names = [UNIT.sub("", cell.strip()) for cell in line.split(",")]
    return len(KNOWN.intersection(names)) >= 2 or bool(MOVING.intersection(names))


def read(text_: str, source: str) -> tuple[Told, ...]:
    """One `Told` per moment. Raises Unreadable for a line with too few cells, and where no names are known."""
    lines, first = text_.splitlines(), 1
    at = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if at is None:
        header_line = next((names for line in lines if (names := _bare(line)) is not None), None)
        if header_line is None:
            raise Unreadable(source, line=1, why="no header of nvidia-smi's CSV")
        lines, at, first = [header_line, *lines], 0, 0
    header = [cell.strip() for cell in lines[at].split(",")]
    fields = [UNIT.sub("", cell) for cell in header]
    units = {name: found[1] for name, cell in zip(fields, header, strict=True) if (found := UNIT.search(cell))}
    rows = [
        _cells(line, fields, source, number)
        for number, line in enumerate(lines[at + 1 :], start=at + 1 + first)
        if line.strip() and [cell.strip() for cell in line.split(",")] != header
    ]
    if "pid" in fields:
        return (Told(source=source, vendor="nvidia", processes=tuple(_process(row, units) for row in rows)),)
    return tuple(Told(source=source, vendor="nvidia", cards=cards) for cards in _moments(rows, units))


def _bare(line: str) -> str | None:
    """The header that the line would stand under."""
    if BARE_CARD.match(line):
        return BARE
    return "gpu_uuid,pid,process_name,used_gpu_memory" if BARE_PROCESS.match(line) else None


def _cells(line: str, names: list[str], source: str, number: int) -> dict[str, str]:
    """The tool does not quote: commas that are too many belong to the one name in the line."""
    cells = [cell.strip() for cell in line.split(",")]
    spare = len(cells) - len(names)
    named = next((place for place, name in enumerate(names) if name in ("process_name", "name")), None)
    if spare > 0 and named is not None:
        cells[named : named + spare + 1] = [", ".join(cells[named : named + spare + 1])]
    if len(cells) != len(names):
        why = f"{len(cells)} cells under {len(names)} names" if len(cells) > 1 else f"is no row: {line.strip()[:80]!r}"
        raise Unreadable(source, line=number, why=why)
    return dict(zip(names, cells, strict=True))


def _process(row: Mapping[str, str], units: Mapping[str, str]) -> Listed:
    owner = text(row.get("gpu_uuid")) or pci(row.get("gpu_bus_id", row.get("pci.bus_id")))
    field = "used_gpu_memory" if "used_gpu_memory" in row else "used_memory"
    held = memory(row.get(field), unit=units.get(field, "MiB"))
    name = text(row.get("process_name", row.get("name"))) or ""
    return Listed(owner=owner, process=GpuProcess(pid=whole(row.get("pid")), name=name, bytes=held))


def _moments(rows: Iterable[Mapping[str, str]], units: Mapping[str, str]) -> list[tuple[CardSample, ...]]:
    """A card that is named again, or a new time where cards are not named, begins another moment."""
    moments: list[list[CardSample]] = [[]]
    stamp: str | None = None
    for row in rows:
        named = any(name in row for name in ("index", "uuid", "pci.bus_id"))
        now = None if named else row.get("timestamp")
        if now != stamp and moments[-1]:
            moments.append([])
        card = _card(row, units, position=len(moments[-1]))
        if any(card.key == other.key and card.index == other.index for other in moments[-1]):
            moments.append([])
            card = card if named else card.model_copy(update={"index": "0"})
        stamp = now
        moments[-1].append(card)
    return [tuple(moment) for moment in moments if moment]


def _card(row: Mapping[str, str], units: Mapping[str, str], *, position: int) -> CardSample:
    mig = text(row.get("mig.mode.current", row.get("mig.mode")))
    named = any(name in row for name in ("index", "uuid", "pci.bus_id"))
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=text(row.get("index")) if named else str(position),
        uuid=text(row.get("uuid", row.get("gpu_uuid"))),
        pci=pci(row.get("pci.bus_id", row.get("gpu_bus_id"))),
        name=text(row.get("name", row.get("gpu_name"))),
        utilization_pct=percent(row.get("utilization.gpu")),
        memory_activity_pct=percent(row.get("utilization.memory")),
        memory_used_bytes=memory(row.get("memory.used"), unit=units.get("memory.used", "MiB")),
        memory_total_bytes=memory(row.get("memory.total"), unit=units.get("memory.total", "MiB")),
        power_w=amount(row.get("power.draw", row.get("power.draw.instant"))),
        power_limit_w=amount(row.get("power.limit", row.get("enforced.power.limit"))),
        clock_mhz=next((amount(row[name]) for name in CLOCKS if name in row), None),
        mig=None if mig is None else mig.lower() == "enabled",
        compute_mode=text(row.get("compute_mode")),
    )
