"""What amd-smi and rocm-smi write, of ROCm 5 to 7, read without guessing: pure."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping

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
        celsius=next((celsius for key in TEMPERATURES if (celsius := number(temperature.get(key))) is not None), None),
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
    users: list[str] = []
    for entry in listed:
        process = (
            _group(entry, "process_info") if isinstance(entry, dict) else {}
        )  # else `No running processes detected`
        if _memory(process):
            users.append(f"{process.get('name', 'N/A')} ({process.get('pid', 'N/A')})")
    return tuple(users)


def parse_rocm_smi(text: str, *, card: str, at_us: float | None = None) -> Reading | None:
    """One card of `rocm-smi --json`, whose values are all strings; None when it is not there."""
    document = _document(text)
    values = document.get(card) if isinstance(document, dict) else None
    if not isinstance(values, dict):
        return None
    return Reading(
        at_us=at_us,
        sm_mhz=number(values.get("sclk clock speed:")),
        memory_mhz=number(values.get("mclk clock speed:")),
        celsius=next((value for name in ROCM_TEMPERATURES if (value := number(values.get(name))) is not None), None),
        watts=next((value for name in ROCM_POWER if (value := number(values.get(name))) is not None), None),
    )


def parse_rocm_smi_processes(text: str) -> tuple[str, ...] | None:
    """Processes of `rocm-smi --showpids --json` that use a card; None with several cards, as it does not say which."""
    document = _document(text)
    if not isinstance(document, dict) or len([name for name in document if re.fullmatch(r"card\d+", name)]) > 1:
        return None
    system = _group(document, "system")
    by_pid = {key.removeprefix("PID"): str(value) for key, value in system.items() if re.fullmatch(r"PID\d+", key)}
    using: list[str] = []
    for pid, fields in by_pid.items():  # name, cards, bytes, sdma, compute units
        words = [word.strip() for word in fields.rsplit(",", 4)]
        if len(words) == 5 and (words[1] != "0" or words[2] != "0"):
            using.append(f"{words[0]} ({pid})")
    return tuple(using)


def _document(text: str) -> object:
    """The first object, or list of them; None without one. Warnings come before it, and it may be printed twice."""
    for match in re.finditer(r"[\[{]", text):
        try:
            document: object = json.JSONDecoder().raw_decode(text, match.start())[0]
        except json.JSONDecodeError:
            continue
        if isinstance(document, dict) or (
            isinstance(document, list) and all(isinstance(item, dict) for item in document)
        ):
            return document
    return None


def _group(card: object, name: str) -> dict[str, object]:
    """A group of amd-smi's fields; a whole group may be the string `N/A`."""
    group = card.get(name) if isinstance(card, dict) else None
    return group if isinstance(group, dict) else {}


def _active(throttle: dict[str, object]) -> tuple[str, ...] | None:
    states = {key: throttle.get(f"{key}_violation_status") for key in SLOWDOWNS}
    if not any(state in ("ACTIVE", "NOT ACTIVE") for state in states.values()):
        return None
    return tuple(name for key, name in SLOWDOWNS.items() if states[key] == "ACTIVE")


def _memory(process: dict[str, object]) -> float:
    cell = _group(process, "memory_usage").get("vram_mem", process.get("mem_usage"))
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


def read_amd_smi(document: object, source: str) -> ToolAnswer:
    """Whatever the document tells of its cards. Raises Unreadable for a card without a number."""
    cards, listed, listing = [], [], False
    for values in _amd_smi_cards(document):
        index = integer(values.get("gpu"))
        if index is None:
            raise Unreadable(source, line=1, why=f"a card's number is {values.get('gpu')!r}")
        cards.append(_card(str(index), values))
        if "process_list" in values:
            listing = True
            listed += [
                ListedProcess(owner=str(index), process=process) for process in _processes(values["process_list"])
            ]
    processes = tuple(listed) if listing else None
    return ToolAnswer(source=source, vendor="amd", cards=tuple(cards), processes=processes)


def is_amd_smi_monitor(output: str) -> bool:
    """Whether a line is the header of `amd-smi monitor`."""
    return _header(output) is not None


def read_amd_smi_monitor(output: str, source: str) -> tuple[ToolAnswer, ...]:
    """One moment per card's reappearance. Raises Unreadable for a line that does not fit the header."""
    at = _header(output)
    assert at is not None
    lines = output.splitlines()
    names = lines[at].split()
    moments: list[list[CardSample]] = [[]]
    for place, line in enumerate(lines[at + 1 :], start=at + 2):
        if not line.strip() or line.split() == names:
            continue
        cells = COLUMN.findall(line)
        if len(cells) != len(names):
            raise Unreadable(source, line=place, why=f"{len(cells)} values under {len(names)} names")
        card = _read_monitor_row(dict(zip(names, cells, strict=True)))
        if any(card.index == earlier.index for earlier in moments[-1]):
            moments.append([])
        moments[-1].append(card)
    if not moments[0]:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return tuple(ToolAnswer(source=source, vendor="amd", cards=tuple(cards)) for cards in moments)


def _header(output: str) -> int | None:
    lines = enumerate(output.splitlines())
    return next((at for at, line in lines if line.split()[:1] == ["GPU"] and {"POWER", "GFX%"} & {*line.split()}), None)


def _read_monitor_row(row: Mapping[str, str]) -> CardSample:
    used, _, total = row.get("VRAM_USAGE", "N/A").partition("/")
    unit = (re.findall(r"[KMG]B", total) or [""])[0]
    return CardSample(
        vendor="amd",
        tool="amd-smi",
        index=row["GPU"].strip(),
        utilization_pct=percent(row.get("GFX%", row.get("GFX_UTIL"))),
        memory_activity_pct=percent(row.get("MEM%", row.get("MEM_UTIL"))),
        memory_used_bytes=memory(row.get("VRAM_USED", used), unit=unit),
        memory_total_bytes=memory(row.get("VRAM_TOTAL", total)),
        power_w=amount(row.get("POWER", row.get("POWER_USAGE"))),
        clock_mhz=amount(row.get("GFX_CLK", row.get("GFX_CLOCK"))),
    )


def _amd_smi_cards(document: object) -> Iterator[dict[str, object]]:
    """ROCm 6 writes a list, ROCm 7 wraps it in `gpu_data` except for `list` and `process`."""
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    yield from (card for card in listed if isinstance(card, dict)) if isinstance(listed, list) else ()


def _card(index: str, values: dict[str, object]) -> CardSample:
    usage, used, power = _group(values, "usage"), _group(values, "mem_usage"), _group(values, "power")
    asic, clock = _group(values, "asic"), _group(_group(values, "clock"), "gfx_0")
    return CardSample(
        vendor="amd",
        tool="amd-smi",
        index=index,
        pci=pci(values.get("bdf")) or pci(_group(values, "bus").get("bdf")),
        uuid=text(values.get("hip_uuid")) or _unique(asic.get("asic_serial")),
        name=text(asic.get("market_name")),
        arch=text(asic.get("target_graphics_version")),
        utilization_pct=percent(usage.get("gfx_activity")),
        memory_activity_pct=percent(usage.get("umc_activity")),
        memory_used_bytes=memory(used.get("used_vram")),
        memory_total_bytes=memory(used.get("total_vram")),
        power_w=next((watts for name in POWERS if (watts := amount(power.get(name))) is not None), None),
        power_limit_w=_limit(values),
        clock_mhz=amount(clock.get("clk")),
        partition=text(_group(values, "partition").get("compute_partition")),
    )


def _unique(serial: object) -> str | None:
    """ROCr names a card by its serial number; amd-smi's own `uuid` is another thing."""
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", text(serial) or "")
    return f"GPU-{match[1].lower().zfill(16)}" if match else None


def _limit(values: dict[str, object]) -> float | None:
    """`limit` holds the numbers themselves, and from 26.2.1 on one table per limit."""
    limit = _group(values, "limit")
    for group in (limit, _group(limit, "ppt0")):
        for name in ("max_power", "max_power_limit", "socket_power_limit", "socket_power"):
            if (watts := amount(group.get(name))) is not None:
                return watts
    return None


def _processes(listed: object) -> Iterator[GpuProcess]:
    """`No running processes detected` stands where a table would."""
    for entry in listed if isinstance(listed, list) else ():
        values = _group(entry, "process_info")
        if values:
            used_bytes = memory(_group(values, "memory_usage").get("vram_mem", values.get("mem_usage")))
            yield GpuProcess(pid=integer(values.get("pid")), name=text(values.get("name")) or "", bytes=used_bytes)


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


def read_rocm_smi(document: object, source: str) -> ToolAnswer:
    """Raises Unreadable where a card is not a table of names and values."""
    assert isinstance(document, dict)
    cards = []
    for key, values in document.items():
        if (match := CARD.fullmatch(key)) is None:
            continue
        if not isinstance(values, dict):
            raise Unreadable(source, line=1, why=f"{key} holds no values")
        cards.append(_rocm_smi_card(match[1], values))
    system = document.get("system")
    listed = [_process(key, value) for key, value in system.items()] if isinstance(system, dict) else []
    processes = tuple(entry for entry in listed if entry is not None)
    return ToolAnswer(source=source, vendor="amd", cards=tuple(cards), processes=processes or None)


def read_rocm_smi_csv(output: str, source: str) -> tuple[ToolAnswer, ...]:
    """`--csv`: a line per card, with names as in the JSON."""
    lines = output.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("device,"))
    cards = []
    for place, row in enumerate(csv.reader(io.StringIO("\n".join(lines[at:])))):
        if place == 0:
            names = row
        elif row and (match := CARD.fullmatch(row[0].strip())):
            if len(row) != len(names):
                raise Unreadable(source, line=at + place + 1, why=f"{len(row)} cells under {len(names)} names")
            cards.append(_rocm_smi_card(match[1], dict(zip(names, row, strict=True))))
    if not cards:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return (ToolAnswer(source=source, vendor="amd", cards=tuple(cards)),)


def is_rocm_smi_text(output: str) -> bool:
    """The table that rocm-smi prints without options, or its answers to single questions."""
    return "ROCm System Management Interface" in output or LINE.search(output) is not None


def read_rocm_smi_text(output: str, source: str) -> tuple[ToolAnswer, ...]:
    """Raises Unreadable where no card stands in it."""
    values_by_index: dict[str, dict[str, str]] = {}
    for index, key, value in LINE.findall(output):
        values_by_index.setdefault(index, {})[key] = value
    cards = [_rocm_smi_card(index, values) for index, values in values_by_index.items()]
    for row in ROW.finditer(output):
        line = output[row.start() : output.find("\n", row.end()) if "\n" in output[row.end() :] else len(output)]
        cards.append(_row(row[1], line.strip()))
    if not cards:
        raise Unreadable(source, line=1, why="no card in rocm-smi's text")
    return (ToolAnswer(source=source, vendor="amd", cards=tuple(cards)),)


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


def _rocm_smi_card(index: str, values: Mapping[str, object]) -> CardSample:
    unique = text(values.get("Unique ID"))
    return CardSample(
        vendor="amd",
        tool="rocm-smi",
        index=index,
        uuid=f"GPU-{unique.lower().removeprefix('0x')}" if unique else None,
        pci=pci(values.get("PCI Bus")),
        name=next((label for name in NAMES if (label := text(values.get(name))) and not label.startswith("0x")), None),
        arch=text(values.get("GFX Version")),
        utilization_pct=percent(values.get("GPU use (%)")),
        memory_activity_pct=percent(values.get("GPU Memory Read/Write Activity (%)")),
        memory_used_bytes=memory(values.get("VRAM Total Used Memory (B)")),
        memory_total_bytes=memory(values.get("VRAM Total Memory (B)")),
        memory_share_pct=next((value for key in SHARES if (value := percent(values.get(key))) is not None), None),
        power_w=next((watts for key in ROCM_POWERS if (watts := amount(values.get(key))) is not None), None),
        power_limit_w=amount(values.get("Max Graphics Package Power (W)")),
        clock_mhz=amount(values.get("sclk clock speed:")),
        partition=text(values.get("Compute Partition")),
    )


def _process(key: str, value: object) -> ListedProcess | None:
    """`PID<n>`: name, number of cards, bytes of their memory, bytes copied, occupied compute units."""
    pid = PROCESS.fullmatch(key)
    if pid is None:
        return None
    words = [word.strip() for word in str(value).rsplit(",", 4)]
    if len(words) != 5:
        return ListedProcess(owner=None, process=GpuProcess(pid=int(pid[1]), name=str(value)[:80], bytes=None))
    process = GpuProcess(pid=int(pid[1]), name=words[0], bytes=memory(words[2]), cards=integer(words[1]))
    return ListedProcess(owner=None, process=process)


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
    return gpu_machine("amd", name=name, arch=arch, driver=driver) if name or arch else None
