"""What amd-smi and rocm-smi write, of ROCm 5 to 7, read without guessing: pure."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping

from ridgeline.graph.evidence import Machine
from ridgeline.graph.values import Named
from ridgeline.sandbox.devices.quantity import amount, integer, memory, number, pci, percent, text
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Reading, Told, Unreadable, gpu_machine

METRIC = ("--clock", "--temperature", "--power", "--throttle", "--json")
"""`--throttle` is there for ROCm 6.4 and later; without it amd-smi is asked again."""
OLD_METRIC = ("--clock", "--temperature", "--power", "--json")
ROCM_QUERY = ("rocm-smi", "--showclocks", "--showtemp", "--showpower", "--showpids", "--json")
SLOWDOWNS = {
    "prochot": "processor hot",
    "ppt": "power cap",
    "socket_thermal": "socket too hot",
    "vr_thermal": "voltage regulator too hot",
    "hbm_thermal": "memory too hot",
}
"""Violations of amd-smi and our words. PPT, package power tracking, is the ordinary power limit."""
TEMPERATURES = ("hotspot", "edge")
ROCM_TEMPERATURES = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
ROCM_POWER = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")


def metric_query(index: str, options: tuple[str, ...] = METRIC) -> tuple[str, ...]:
    """The command that asks one card what it does."""
    return ("amd-smi", "metric", "-g", index, *options)


def process_query(index: str) -> tuple[str, ...]:
    """The command that lists the processes of one card."""
    return ("amd-smi", "process", "-g", index, "--json")


def parse_metric(text: str, *, at_us: float | None = None) -> Reading | None:
    """The first card of `amd-smi metric --json`; None when the text holds none."""
    card = next(_amd_smi_cards(_document(text)), None)
    if card is None:
        return None
    clock, throttle = _group(card, "clock"), _group(card, "throttle")
    temperature, power = _group(card, "temperature"), _group(card, "power")
    counted = ((name, number(throttle.get(f"{key}_accumulated"))) for key, name in SLOWDOWNS.items())
    return Reading(
        at_us=at_us,
        sm_mhz=number(_group(clock, "gfx_0").get("clk")),
        memory_mhz=number(_group(clock, "mem_0").get("clk")),
        celsius=next((found for key in TEMPERATURES if (found := number(temperature.get(key))) is not None), None),
        watts=number(power.get("socket_power")),
        slowdowns=_active(throttle),
        counts=tuple(Named(name=name, value=value) for name, value in counted if value is not None),
    )


def parse_processes(text: str) -> tuple[str, ...] | None:
    """Processes of `amd-smi process --json` that hold memory of the card, as `name (process id)`.

    A monitor is listed with none and does not count. None when the text is not such a list.
    """
    card = next(_amd_smi_cards(_document(text)), None)
    listed = card.get("process_list") if card else None
    if not isinstance(listed, list):
        return None
    found: list[str] = []
    for entry in listed:
        told = _group(entry, "process_info") if isinstance(entry, dict) else {}  # else `No running processes detected`
        if _memory(told):
            found.append(f"{told.get('name', 'N/A')} ({told.get('pid', 'N/A')})")
    return tuple(found)


def parse_rocm_smi(text: str, *, card: str, at_us: float | None = None) -> Reading | None:
    """One card of `rocm-smi --json`, whose values are all strings; None when it is not there."""
    found = _document(text)
    told = found.get(card) if isinstance(found, dict) else None
    if not isinstance(told, dict):
        return None
    return Reading(
        at_us=at_us,
        sm_mhz=number(told.get("sclk clock speed:")),
        memory_mhz=number(told.get("mclk clock speed:")),
        celsius=next((value for name in ROCM_TEMPERATURES if (value := number(told.get(name))) is not None), None),
        watts=next((value for name in ROCM_POWER if (value := number(told.get(name))) is not None), None),
    )


def parse_rocm_smi_processes(text: str) -> tuple[str, ...] | None:
    """Processes of `rocm-smi --showpids --json` that use a card; None with several cards, as it does not say which."""
    found = _document(text)
    if not isinstance(found, dict) or len([name for name in found if re.fullmatch(r"card\d+", name)]) > 1:
        return None
    system = _group(found, "system")
    named = {key.removeprefix("PID"): str(value) for key, value in system.items() if re.fullmatch(r"PID\d+", key)}
    using: list[str] = []
    for pid, told in named.items():  # name, cards, bytes, sdma, compute units
        words = [word.strip() for word in told.rsplit(",", 4)]
        if len(words) == 5 and (words[1] != "0" or words[2] != "0"):
            using.append(f"{words[0]} ({pid})")
    return tuple(using)


def _document(text: str) -> object:
    """The first object, or list of them; None without one. Warnings come before it, and it may be printed twice."""
    for match in re.finditer(r"[\[{]", text):
        try:
            found: object = json.JSONDecoder().raw_decode(text, match.start())[0]
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict) or (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
            return found
    return None


def _group(card: object, name: str) -> dict[str, object]:
    """A whole group may be the string `N/A`."""
    found = card.get(name) if isinstance(card, dict) else None
    return found if isinstance(found, dict) else {}


def _active(throttle: dict[str, object]) -> tuple[str, ...] | None:
    states = {key: throttle.get(f"{key}_violation_status") for key in SLOWDOWNS}
    if not any(state in ("ACTIVE", "NOT ACTIVE") for state in states.values()):
        return None
    return tuple(name for key, name in SLOWDOWNS.items() if states[key] == "ACTIVE")


def _memory(told: dict[str, object]) -> float:
    cell = _group(told, "memory_usage").get("vram_mem", told.get("mem_usage"))
    return number(cell) or 0.0


# What amd-smi prints: `metric`, `process`, `list`, `static` as JSON of ROCm 6 and 7, `monitor` as text. Pure.

METRIC_QUERY = ("amd-smi", "metric", "--usage", "--mem-usage", "--power", "--json")
PROCESS_QUERY = ("amd-smi", "process", "--json")
LIST_QUERY = ("amd-smi", "list", "--json")
STATIC_QUERY = ("amd-smi", "static", "--json")
COLUMN = re.compile(r"N/A|[\d.]+(?:/[\d.]+)?\s*(?:W|°C|C|MHz|%|[KMG]B)?")
POWERS = ("socket_power", "current_socket_power", "average_socket_power")


def is_amd_smi_answer(document: object) -> bool:
    """Whether a JSON document has amd-smi's shape: cards by their number, bare or in `gpu_data`."""
    cards = list(_amd_smi_cards(document))
    return bool(cards) and all("gpu" in card for card in cards)


def read_amd_smi(document: object, source: str) -> Told:
    """Whatever the document tells of its cards. Raises Unreadable for a card without a number."""
    cards, listed, listing = [], [], False
    for told in _amd_smi_cards(document):
        index = integer(told.get("gpu"))
        if index is None:
            raise Unreadable(source, line=1, why=f"a card's number is {told.get('gpu')!r}")
        cards.append(_card(str(index), told))
        if "process_list" in told:
            listing = True
            listed += [Listed(owner=str(index), process=one) for one in _processes(told["process_list"])]
    processes = tuple(listed) if listing else None
    return Told(source=source, vendor="amd", cards=tuple(cards), processes=processes)


def is_amd_smi_monitor(said: str) -> bool:
    """Whether a line is the header of `amd-smi monitor`."""
    return _header(said) is not None


def read_amd_smi_monitor(said: str, source: str) -> tuple[Told, ...]:
    """One moment per card's reappearance. Raises Unreadable for a line that does not fit the header."""
    at = _header(said)
    assert at is not None
    lines = said.splitlines()
    names = lines[at].split()
    moments: list[list[CardSample]] = [[]]
    for place, line in enumerate(lines[at + 1 :], start=at + 2):
        if not line.strip() or line.split() == names:
            continue
        cells = COLUMN.findall(line)
        if len(cells) != len(names):
            raise Unreadable(source, line=place, why=f"{len(cells)} values under {len(names)} names")
        card = _read_monitor_row(dict(zip(names, cells, strict=True)))
        if any(card.index == other.index for other in moments[-1]):
            moments.append([])
        moments[-1].append(card)
    if not moments[0]:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return tuple(Told(source=source, vendor="amd", cards=tuple(cards)) for cards in moments)


def _header(said: str) -> int | None:
    lines = enumerate(said.splitlines())
    return next((at for at, line in lines if line.split()[:1] == ["GPU"] and {"POWER", "GFX%"} & {*line.split()}), None)


def _read_monitor_row(told: Mapping[str, str]) -> CardSample:
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


def _amd_smi_cards(document: object) -> Iterator[dict[str, object]]:
    """ROCm 6 writes a list, ROCm 7 wraps it in `gpu_data` except for `list` and `process`."""
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    yield from (card for card in listed if isinstance(card, dict)) if isinstance(listed, list) else ()


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
            yield GpuProcess(pid=integer(told.get("pid")), name=text(told.get("name")) or "", bytes=held)


# What rocm-smi of ROCm 5 to 7 prints: JSON whose values are all strings, CSV, and two kinds of text. Pure.

ROCM_CARDS_QUERY = (
    "rocm-smi",
    *("--showuse", "--showmeminfo", "vram", "--showpower", "--showmaxpower", "--showpids", "--showbus"),
    *("--showproductname", "--showuniqueid", "--showclocks", "--showcomputepartition", "--json"),
)
ROCM_PLAIN_QUERY = tuple(word for word in ROCM_CARDS_QUERY if word not in ("--showcomputepartition", "--showmaxpower"))
"""For versions that refuse an option which they do not know."""
CARD = re.compile(r"card(\d+)")
PROCESS = re.compile(r"PID(\d+)")
LINE = re.compile(r"^GPU\[(\d+)\]\s*:\s*(.+?):\s+(\S.*?)\s*$", re.MULTILINE)
"""`GPU[0]  : GPU use (%): 0`, what single questions print without --json."""
ROW = re.compile(r"^\s*(\d+)\s+(?=.*%\s*$)", re.MULTILINE)
NAMES = ("Card Series", "Card series", "Device Name", "Card Model", "Card model")
ROCM_POWERS = (
    "Current Socket Graphics Package Power (W)",
    "Average Graphics Package Power (W)",
    "Current Socket Power (W)",
    "Average Socket Power (W)",
)
SHARES = ("GPU Memory Allocated (VRAM%)", "GPU memory use (%)")


def is_rocm_smi_answer(document: object) -> bool:
    """Whether a JSON document has rocm-smi's shape."""
    return isinstance(document, dict) and any(CARD.fullmatch(key) or key == "system" for key in document)


def read_rocm_smi(document: object, source: str) -> Told:
    """Raises Unreadable where a card is not a table of names and values."""
    assert isinstance(document, dict)
    cards = []
    for key, told in document.items():
        if (named := CARD.fullmatch(key)) is None:
            continue
        if not isinstance(told, dict):
            raise Unreadable(source, line=1, why=f"{key} holds no values")
        cards.append(_rocm_smi_card(named[1], told))
    system = document.get("system")
    listed = [_process(key, value) for key, value in system.items()] if isinstance(system, dict) else []
    found = tuple(one for one in listed if one is not None)
    return Told(source=source, vendor="amd", cards=tuple(cards), processes=found or None)


def read_rocm_smi_csv(said: str, source: str) -> tuple[Told, ...]:
    """`--csv`: a line per card, with names as in the JSON."""
    lines = said.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("device,"))
    cards = []
    for place, row in enumerate(csv.reader(io.StringIO("\n".join(lines[at:])))):
        if place == 0:
            names = row
        elif row and (named := CARD.fullmatch(row[0].strip())):
            if len(row) != len(names):
                raise Unreadable(source, line=at + place + 1, why=f"{len(row)} cells under {len(names)} names")
            cards.append(_rocm_smi_card(named[1], dict(zip(names, row, strict=True))))
    if not cards:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return (Told(source=source, vendor="amd", cards=tuple(cards)),)


def is_rocm_smi_text(said: str) -> bool:
    """The table that rocm-smi prints without options, or its answers to single questions."""
    return "ROCm System Management Interface" in said or LINE.search(said) is not None


def read_rocm_smi_text(said: str, source: str) -> tuple[Told, ...]:
    """Raises Unreadable where no card stands in it."""
    told: dict[str, dict[str, str]] = {}
    for index, key, value in LINE.findall(said):
        told.setdefault(index, {})[key] = value
    cards = [_rocm_smi_card(index, values) for index, values in told.items()]
    for found in ROW.finditer(said):
        line = said[found.start() : said.find("\n", found.end()) if "\n" in said[found.end() :] else len(said)]
        cards.append(_row(found[1], line.strip()))
    if not cards:
        raise Unreadable(source, line=1, why="no card in rocm-smi's text")
    return (Told(source=source, vendor="amd", cards=tuple(cards)),)


def _row(index: str, line: str) -> CardSample:
    words = line.split()
    watts = re.findall(r"(?<=\s)(\d+(?:\.\d+)?)W", line)
    partition = re.search(r"NPS\d,\s*([A-Z]+)", line)
    clock = re.search(r"(\d+)Mhz", line)
    return CardSample(
        vendor="amd",
        tool="rocm-smi",
        index=index,
        utilization_pct=percent(words[-1]),
        memory_share_pct=percent(words[-2]),
        power_w=amount(watts[0]) if watts else None,
        power_limit_w=amount(watts[1]) if len(watts) > 1 else None,
        clock_mhz=amount(clock[1]) if clock else None,
        partition=partition[1] if partition else None,
    )


def _rocm_smi_card(index: str, told: Mapping[str, object]) -> CardSample:
    unique = text(told.get("Unique ID"))
    return CardSample(
        vendor="amd",
        tool="rocm-smi",
        index=index,
        uuid=f"GPU-{unique.lower().removeprefix('0x')}" if unique else None,
        pci=pci(told.get("PCI Bus")),
        name=next((said for name in NAMES if (said := text(told.get(name))) and not said.startswith("0x")), None),
        arch=text(told.get("GFX Version")),
        utilization_pct=percent(told.get("GPU use (%)")),
        memory_activity_pct=percent(told.get("GPU Memory Read/Write Activity (%)")),
        memory_used_bytes=memory(told.get("VRAM Total Used Memory (B)")),
        memory_total_bytes=memory(told.get("VRAM Total Memory (B)")),
        memory_share_pct=next((value for key in SHARES if (value := percent(told.get(key))) is not None), None),
        power_w=next((watts for key in ROCM_POWERS if (watts := amount(told.get(key))) is not None), None),
        power_limit_w=amount(told.get("Max Graphics Package Power (W)")),
        clock_mhz=amount(told.get("sclk clock speed:")),
        partition=text(told.get("Compute Partition")),
    )


def _process(key: str, value: object) -> Listed | None:
    """`PID<n>`: name, number of cards, bytes of their memory, bytes copied, occupied compute units."""
    pid = PROCESS.fullmatch(key)
    if pid is None:
        return None
    words = [word.strip() for word in str(value).rsplit(",", 4)]
    if len(words) != 5:
        return Listed(owner=None, process=GpuProcess(pid=int(pid[1]), name=str(value)[:80], bytes=None))
    held = GpuProcess(pid=int(pid[1]), name=words[0], bytes=memory(words[2]), cards=integer(words[1]))
    return Listed(owner=None, process=held)


# The first card as a machine's name: what does not change from day to day.

MACHINE_QUERY = ("rocm-smi", "--showproductname", "--showdriverversion", "--json")
MACHINE_NAMES = ("Card Series", "Card series", "Card Model", "Card model")
"""rocm-smi renamed its keys between ROCm 5 and 6."""


def parse_machine(output: str) -> Machine | None:
    """First card of `rocm-smi --json`; all its values are strings. The architecture is empty where it is not told."""
    start = output.find("{")  # warnings come before the JSON
    try:
        cards = json.loads(output[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        return None
    card = next((cards[key] for key in sorted(cards) if re.fullmatch(r"card\d+", key)), None)
    if not isinstance(card, dict):
        return None
    name = next((str(card[key]) for key in MACHINE_NAMES if card.get(key)), "")
    driver = str(cards.get("system", {}).get("Driver version", ""))
    arch = str(card.get("GFX Version", ""))
    return gpu_machine("amd", name=name, arch=arch, rest=(driver,)) if name or arch else None
