"""What amd-smi prints: `metric`, `process`, `list`, `static` as JSON of ROCm 6 and 7, `monitor` as text. Pure."""

import re
from collections.abc import Iterator, Mapping

from ridgeline.sandbox.devices.quantity import amount, memory, pci, percent, text, whole
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Told, Unreadable

METRIC_QUERY = ("amd-smi", "metric", "--usage", "--mem-usage", "--power", "--json")
PROCESS_QUERY = ("amd-smi", "process", "--json")
LIST_QUERY = ("amd-smi", "list", "--json")
STATIC_QUERY = ("amd-smi", "static", "--json")
COLUMN = re.compile(r"N/A|[\d.]+(?:/[\d.]+)?\s*(?:W|°C|C|MHz|%|[KMG]B)?")
POWERS = ("socket_power", "current_socket_power", "average_socket_power")


def is_answer(document: object) -> bool:
    """Whether a JSON document has amd-smi's shape: cards by their number, bare or in `gpu_data`."""
    cards = list(_cards(document))
    return bool(cards) and all("gpu" in card for card in cards)


def read_document(document: object, source: str) -> Told:
    """Whatever the document tells of its cards. Raises Unreadable for a card without a number."""
    cards, listed, listing = [], [], False
    for told in _cards(document):
        index = whole(told.get("gpu"))
        if index is None:
            raise Unreadable(source, line=1, why=f"a card's number is {told.get('gpu')!r}")
        cards.append(_card(str(index), told))
        if "process_list" in told:
            listing = True
            listed += [Listed(owner=str(index), process=one) for one in _processes(told["process_list"])]
    processes = tuple(listed) if listing else None
    return Told(source=source, vendor="amd", cards=tuple(cards), processes=processes)


def is_monitor(said: str) -> bool:
    """Whether a line is the header of `amd-smi monitor`."""
    return _header(said) is not None


def read_monitor(said: str, source: str) -> tuple[Told, ...]:
    """One moment per card's reappearance. Raises Unreadable for a line that does not fit the header."""
    at = _header(said)
    assert at is not None
    lines = said.splitlines()
    names = lines[at].split()
    moments: list[list[CardSample]] = [[]]
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        if not line.strip() or line.split() == names:
            continue
        cells = COLUMN.findall(line)
        if len(cells) != len(names):
            raise Unreadable(source, line=number, why=f"{len(cells)} values under {len(names)} names")
        card = _monitored(dict(zip(names, cells, strict=True)))
        if any(card.index == other.index for other in moments[-1]):
            moments.append([])
        moments[-1].append(card)
    if not moments[0]:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return tuple(Told(source=source, vendor="amd", cards=tuple(cards)) for cards in moments)


def _header(said: str) -> int | None:
    lines = enumerate(said.splitlines())
    return next((at for at, line in lines if line.split()[:1] == ["GPU"] and {"POWER", "GFX%"} & {*line.split()}), None)


def _monitored(told: Mapping[str, str]) -> CardSample:
    used, _, total = told.get("VRAM_USAGE", "N/A").partition("/")
    unit = (re.findall(r"[KMG]B", total) or [""])[0]
    return CardSample(
        vendor="amd",
        tool="amd-smi",
        index=told["GPU"].strip(),
        utilization_pct=percent(told.get("GFX%", told.get("GFX_UTIL"))),
        memory_activity_pct=percent(told.get("MEM%", told.get("MEM_UTIL"))),
        memory_used_bytes=memory(told.get("VRAM_USED", used), unit=unit),
        memory_total_bytes=memory(told.get("VRAM_TOTAL", total)),
        power_w=amount(told.get("POWER", told.get("POWER_USAGE"))),
        clock_mhz=amount(told.get("GFX_CLK", told.get("GFX_CLOCK"))),
    )


def _cards(document: object) -> Iterator[dict[str, object]]:
    """ROCm 6 writes a list, ROCm 7 wraps it in `gpu_data` except for `list` and `process`."""
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    yield from (card for card in listed if isinstance(card, dict)) if isinstance(listed, list) else ()


def _group(told: object, name: str) -> dict[str, object]:
    """A whole group may be the string `N/A`."""
    found = told.get(name) if isinstance(told, dict) else None
    return found if isinstance(found, dict) else {}


def _card(index: str, told: dict[str, object]) -> CardSample:
    usage, used, power = _group(told, "usage"), _group(told, "mem_usage"), _group(told, "power")
    asic, clock = _group(told, "asic"), _group(_group(told, "clock"), "gfx_0")
    return CardSample(
        vendor="amd",
        tool="amd-smi",
        index=index,
        pci=pci(told.get("bdf")) or pci(_group(told, "bus").get("bdf")),
        uuid=text(told.get("hip_uuid")) or _unique(asic.get("asic_serial")),
        name=text(asic.get("market_name")),
        arch=text(asic.get("target_graphics_version")),
        utilization_pct=percent(usage.get("gfx_activity")),
        memory_activity_pct=percent(usage.get("umc_activity")),
        memory_used_bytes=memory(used.get("used_vram")),
        memory_total_bytes=memory(used.get("total_vram")),
        power_w=next((found for name in POWERS if (found := amount(power.get(name))) is not None), None),
        power_limit_w=_limit(told),
        clock_mhz=amount(clock.get("clk")),
        partition=text(_group(told, "partition").get("compute_partition")),
    )


def _unique(serial: object) -> str | None:
    """ROCr names a card by its serial number; amd-smi's own `uuid` is another thing."""
    found = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", text(serial) or "")
    return f"GPU-{found[1].lower().zfill(16)}" if found else None


def _limit(told: dict[str, object]) -> float | None:
    """`limit` holds the numbers themselves, and from 26.2.1 on one table per limit."""
    limit = _group(told, "limit")
    for group in (limit, _group(limit, "ppt0")):
        for name in ("max_power", "max_power_limit", "socket_power_limit", "socket_power"):
            if (found := amount(group.get(name))) is not None:
                return found
    return None


def _processes(listed: object) -> Iterator[GpuProcess]:
    """`No running processes detected` stands where a table would."""
    for entry in listed if isinstance(listed, list) else ():
        told = _group(entry, "process_info")
        if told:
            held = memory(_group(told, "memory_usage").get("vram_mem", told.get("mem_usage")))
            yield GpuProcess(pid=whole(told.get("pid")), name=text(told.get("name")) or "", bytes=held)
