"""What nvidia-smi writes, read without guessing: pure."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from xml.etree import ElementTree

from ridgeline.graph.evidence import Machine
from ridgeline.graph.values import Named
from ridgeline.sandbox.devices.quantity import amount, integer, memory, number, pci, percent, text
from ridgeline.sandbox.devices.values import (
    CardSample,
    GpuProcess,
    ListedProcess,
    Reading,
    ToolAnswer,
    Unreadable,
    gpu_machine,
)

SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons); settings that a person made are left out."""
IDLE = 0x1
PLAIN = ("timestamp", "clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
ACTIVE, OLD_ACTIVE = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
COUNTS = {
    "clocks_event_reasons_counters.sw_thermal_slowdown": "software thermal slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "hardware thermal slowdown",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "hardware power brake",
}
"""Microseconds; newer drivers only."""
FIELDS = ((*PLAIN, ACTIVE, *COUNTS), (*PLAIN, ACTIVE), (*PLAIN, OLD_ACTIVE), PLAIN)
"""What to ask for, best first: a driver that lacks one field refuses the whole question."""
APPS = ("pid", "process_name", "used_gpu_memory")


def query(fields: tuple[str, ...], *, index: str) -> tuple[str, ...]:
    """The command that asks one card for these fields; its times are UTC when TZ says so."""
    return ("nvidia-smi", "-i", index, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def processes_query(index: str) -> tuple[str, ...]:
    """The command that lists the processes computing on one card."""
    return ("nvidia-smi", "-i", index, f"--query-compute-apps={','.join(APPS)}", "--format=csv,noheader,nounits")


def parse_readings(text: str, fields: tuple[str, ...], *, monotonic_s: float) -> tuple[Reading, ...]:
    """One per whole line. `monotonic_s`: what to add to seconds since the epoch to get the monotonic clock.

    A last line that was cut when the tool was ended, and lines of another shape, are left out.
    """
    rows = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]), skipinitialspace=True)
    records = (dict(zip(fields, cells, strict=True)) for cells in rows if len(cells) == len(fields))
    return tuple(_reading(cells, monotonic_s) for cells in records)


def parse_processes(text: str) -> tuple[str, ...]:
    """The processes, as `name (process id)`. They compute, so even one whose memory is not told counts."""
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    return tuple(f"{cells[1].strip()} ({cells[0].strip()})" for cells in rows if len(cells) == len(APPS))


def _reading(cells: dict[str, str], monotonic_s: float) -> Reading:
    mask = _mask(cells.get(ACTIVE, cells.get(OLD_ACTIVE, "")))
    counts = ((name, number(cells[field])) for field, name in COUNTS.items() if field in cells)
    return Reading(
        at_us=_moment(cells["timestamp"], monotonic_s),
        sm_mhz=number(cells["clocks.sm"]),
        memory_mhz=number(cells["clocks.mem"]),
        celsius=number(cells["temperature.gpu"]),
        watts=number(cells["power.draw"]),
        slowdowns=None if mask is None else tuple(name for bit, name in SLOWDOWNS.items() if mask & bit),
        idle=None if mask is None else bool(mask & IDLE),
        counts=tuple(Named(name=name, value=value) for name, value in counts if value is not None),
    )


def _mask(cell: str) -> int | None:
    try:
        return int(cell, 16)
    except ValueError:
        return None


def _moment(cell: str, monotonic_s: float) -> float | None:
    try:
        moment = datetime.strptime(cell, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return 1e6 * (moment.timestamp() + monotonic_s)


# What nvidia-smi prints as CSV: cards, and the processes on them; the header says which is which. Pure.

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


def read_csv(text_: str, source: str) -> tuple[ToolAnswer, ...]:
    """One `ToolAnswer` per moment. Raises Unreadable for a line with too few cells, and where no names are known."""
    lines, first_line = text_.splitlines(), 1
    at = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if at is None:
        header_line = next((names for line in lines if (names := _bare(line)) is not None), None)
        if header_line is None:
            raise Unreadable(source, line=1, why="no header of nvidia-smi's CSV")
        lines, at, first_line = [header_line, *lines], 0, 0
    header = [cell.strip() for cell in lines[at].split(",")]
    fields = [UNIT.sub("", cell) for cell in header]
    units = {name: match[1] for name, cell in zip(fields, header, strict=True) if (match := UNIT.search(cell))}
    rows = [
        _cells(line, fields, source, number)
        for number, line in enumerate(lines[at + 1 :], start=at + 1 + first_line)
        if line.strip() and [cell.strip() for cell in line.split(",")] != header
    ]
    if "pid" in fields:
        return (ToolAnswer(source=source, vendor="nvidia", processes=tuple(_process(row, units) for row in rows)),)
    return tuple(ToolAnswer(source=source, vendor="nvidia", cards=cards) for cards in _moments(rows, units))


def _bare(line: str) -> str | None:
    """The header that the line would stand under."""
    if BARE_CARD.match(line):
        return BARE
    return "gpu_uuid,pid,process_name,used_gpu_memory" if BARE_PROCESS.match(line) else None


def _cells(line: str, names: list[str], source: str, number: int) -> dict[str, str]:
    """The tool does not quote: commas that are too many belong to the one name in the line."""
    cells = [cell.strip() for cell in line.split(",")]
    spare = len(cells) - len(names)
    name_column = next((place for place, name in enumerate(names) if name in ("process_name", "name")), None)
    if spare > 0 and name_column is not None:
        cells[name_column : name_column + spare + 1] = [", ".join(cells[name_column : name_column + spare + 1])]
    if len(cells) != len(names):
        why = f"{len(cells)} cells under {len(names)} names" if len(cells) > 1 else f"is no row: {line.strip()[:80]!r}"
        raise Unreadable(source, line=number, why=why)
    return dict(zip(names, cells, strict=True))


def _process(row: Mapping[str, str], units: Mapping[str, str]) -> ListedProcess:
    owner = text(row.get("gpu_uuid")) or pci(row.get("gpu_bus_id", row.get("pci.bus_id")))
    field = "used_gpu_memory" if "used_gpu_memory" in row else "used_memory"
    used_bytes = memory(row.get(field), unit=units.get(field, "MiB"))
    name = text(row.get("process_name", row.get("name"))) or ""
    return ListedProcess(owner=owner, process=GpuProcess(pid=integer(row.get("pid")), name=name, bytes=used_bytes))


def _moments(rows: Iterable[Mapping[str, str]], units: Mapping[str, str]) -> list[tuple[CardSample, ...]]:
    """A card that is named again, or a new time where cards are not named, begins another moment."""
    moments: list[list[CardSample]] = [[]]
    stamp: str | None = None
    for row in rows:
        has_identity = any(name in row for name in ("index", "uuid", "pci.bus_id"))
        now = None if has_identity else row.get("timestamp")
        if now != stamp and moments[-1]:
            moments.append([])
        card = _card(row, units, position=len(moments[-1]))
        if any(card.key == earlier.key and card.index == earlier.index for earlier in moments[-1]):
            moments.append([])
            card = card if has_identity else card.model_copy(update={"index": "0"})
        stamp = now
        moments[-1].append(card)
    return [tuple(moment) for moment in moments if moment]


def _card(row: Mapping[str, str], units: Mapping[str, str], *, position: int) -> CardSample:
    mig = text(row.get("mig.mode.current", row.get("mig.mode")))
    has_identity = any(name in row for name in ("index", "uuid", "pci.bus_id"))
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=text(row.get("index")) if has_identity else str(position),
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


# The other things people record of nvidia-smi: its plain table, and `-q -x`. Pure.

FIRST = re.compile(r"^\|\s*(\d+)\s+(.+?)\s+(?:On|Off|N/A)?\s*\|\s*([0-9A-Fa-f:.]+)\s")
SECOND = re.compile(r"(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(\S+)")
PROCESS = re.compile(r"^\|\s+(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+([CGM+]+)\s+(.+?)\s+(\S+)\s*\|\s*$")
"""GPU, GI and CI of MIG (not in old versions), process id, kind, name, memory."""
NONE = "No running processes found"


def read_table(output: str, source: str) -> tuple[ToolAnswer, ...]:
    """The table that plain `nvidia-smi` prints. Raises Unreadable where a card's second line is missing."""
    lines = output.splitlines()
    cards, listed = [], []
    listing = any("Processes:" in line for line in lines)
    for place, line in enumerate(lines):
        if (card_line := FIRST.match(line)) and ":" in card_line[3]:
            cards.append(_row(card_line, lines[place + 1 : place + 3], source, place + 1))
        elif (match := PROCESS.match(line)) and "C" in match[3]:
            process = GpuProcess(pid=int(match[2]), name=match[4], bytes=memory(match[5]))
            listed.append(ListedProcess(owner=match[1], process=process))
    if not cards:
        raise Unreadable(source, line=1, why="no card in nvidia-smi's table")
    processes = tuple(listed) if listing and (listed or NONE in output) else None
    return (ToolAnswer(source=source, vendor="nvidia", cards=tuple(cards), processes=processes),)


def _row(card_line: re.Match[str], below: list[str], source: str, number: int) -> CardSample:
    second = SECOND.search(below[0]) if below else None
    if second is None:
        raise Unreadable(source, line=number + 1, why="the table is cut off within a card")
    mig = next((word for line in below[1:] for word in ("Enabled", "Disabled") if word in line), None)
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=card_line[1],
        pci=pci(card_line[3]),
        name=card_line[2],
        power_w=amount(second[1]),
        power_limit_w=amount(second[2]),
        memory_used_bytes=memory(second[3]),
        memory_total_bytes=memory(second[4]),
        utilization_pct=percent(second[5]),
        compute_mode=second[6],
        mig=None if mig is None else mig == "Enabled",
    )


def read_xml(output: str, source: str) -> tuple[ToolAnswer, ...]:
    """`nvidia-smi -q -x`. Raises Unreadable for XML that is broken or tells of no card."""
    try:
        root = ElementTree.fromstring(output)
    except ElementTree.ParseError as error:
        raise Unreadable(source, line=error.position[0], why="the XML is cut off or broken") from None
    cards = [_page(gpu, str(place)) for place, gpu in enumerate(root.iter("gpu"))]
    if not cards:
        raise Unreadable(source, line=1, why="no card in nvidia-smi's XML")
    listed = [process for place, gpu in enumerate(root.iter("gpu")) for process in _processes(gpu, str(place))]
    has_list = any(gpu.find("processes") is not None for gpu in root.iter("gpu"))
    return (
        ToolAnswer(source=source, vendor="nvidia", cards=tuple(cards), processes=tuple(listed) if has_list else None),
    )


def _page(gpu: ElementTree.Element, index: str) -> CardSample:
    mig = text(gpu.findtext("mig_mode/current_mig"))
    draws = ("instant_power_draw", "power_draw", "average_power_draw")
    limits = ("current_power_limit", "power_limit", "enforced_power_limit")
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=index,
        uuid=text(gpu.findtext("uuid")),
        pci=pci(gpu.get("id")),
        name=text(gpu.findtext("product_name")),
        utilization_pct=percent(gpu.findtext("utilization/gpu_util")),
        memory_activity_pct=percent(gpu.findtext("utilization/memory_util")),
        memory_used_bytes=memory(gpu.findtext("fb_memory_usage/used")),
        memory_total_bytes=memory(gpu.findtext("fb_memory_usage/total")),
        power_w=_power(gpu, draws),
        power_limit_w=_power(gpu, limits),
        clock_mhz=amount(gpu.findtext("clocks/sm_clock")),
        mig=None if mig is None else mig == "Enabled",
        compute_mode=text(gpu.findtext("compute_mode")),
    )


def _power(gpu: ElementTree.Element, names: tuple[str, ...]) -> float | None:
    """Power in nvidia-smi's XML; the group was renamed with driver 535."""
    groups = [group for name in ("gpu_power_readings", "power_readings") if (group := gpu.find(name)) is not None]
    values = (amount(group.findtext(name)) for group in groups for name in names)
    return next((value for value in values if value is not None), None)


def _processes(gpu: ElementTree.Element, index: str) -> list[ListedProcess]:
    processes = []
    for entry in gpu.iterfind("processes/process_info"):
        if "C" in (entry.findtext("type") or "C"):
            name, used_bytes = text(entry.findtext("process_name")) or "", memory(entry.findtext("used_memory"))
            processes.append(
                ListedProcess(
                    owner=index, process=GpuProcess(pid=integer(entry.findtext("pid")), name=name, bytes=used_bytes)
                )
            )
    return processes


# The first card as a machine's name: what does not change from day to day.

MACHINE_QUERY = (
    "nvidia-smi",
    "--query-gpu=name,compute_cap,driver_version,memory.total",
    "--format=csv,noheader,nounits",
)


def parse_machine(output: str) -> Machine | None:
    """First line of `MACHINE_QUERY`'s answer: name, compute capability, driver, MiB of memory."""
    cells = [cell.strip() for cell in output.strip().split("\n")[0].split(",")]
    if len(cells) != 4 or not re.fullmatch(r"\d+\.\d+", cells[1]):
        return None
    name, capability, driver, mebibytes = cells
    return gpu_machine("nvidia", name=name, arch=f"sm_{capability.replace('.', '')}", driver=driver, rest=(mebibytes,))
