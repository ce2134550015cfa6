"""What rocm-smi of ROCm 5 to 7 prints: JSON whose values are all strings, CSV, and two kinds of text. Pure."""

import csv
import io
import re
from collections.abc import Mapping

from ridgeline.sandbox.devices.quantity import amount, memory, pci, percent, text, whole
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Told, Unreadable

QUERY = (
    "rocm-smi",
    *("--showuse", "--showmeminfo", "vram", "--showpower", "--showmaxpower", "--showpids", "--showbus"),
    *("--showproductname", "--showuniqueid", "--showclocks", "--showcomputepartition", "--json"),
)
PLAIN_QUERY = tuple(word for word in QUERY if word not in ("--showcomputepartition", "--showmaxpower"))
"""For versions that refuse an option which they do not know."""
CARD = re.compile(r"card(\d+)")
PROCESS = re.compile(r"PID(\d+)")
LINE = re.compile(r"^GPU\[(\d+)\]\s*:\s*(.+?):\s+(\S.*?)\s*$", re.MULTILINE)
"""`GPU[0]  : GPU use (%): 0`, what single questions print without --json."""
ROW = re.compile(r"^\s*(\d+)\s+(?=.*%\s*$)", re.MULTILINE)
NAMES = ("Card Series", "Card series", "Device Name", "Card Model", "Card model")
POWERS = (
    "Current Socket Graphics Package Power (W)",
    "Average Graphics Package Power (W)",
    "Current Socket Power (W)",
    "Average Socket Power (W)",
)
SHARES = ("GPU Memory Allocated (VRAM%)", "GPU memory use (%)")


def is_answer(document: object) -> bool:
    """Whether a JSON document has rocm-smi's shape."""
    return isinstance(document, dict) and any(CARD.fullmatch(key) or key == "system" for key in document)


def read_document(document: object, source: str) -> Told:
    """Raises Unreadable where a card is not a table of names and values."""
    assert isinstance(document, dict)
    cards = []
    for key, told in document.items():
        if (named := CARD.fullmatch(key)) is None:
            continue
        if not isinstance(told, dict):
            raise Unreadable(source, line=1, why=f"{key} holds no values")
        cards.append(_card(named[1], told))
    system = document.get("system")
    listed = [_process(key, value) for key, value in system.items()] if isinstance(system, dict) else []
    found = tuple(one for one in listed if one is not None)
    return Told(source=source, vendor="amd", cards=tuple(cards), processes=found or None)


def read_csv(said: str, source: str) -> tuple[Told, ...]:
    """`--csv`: a line per card, with names as in the JSON."""
    lines = said.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("device,"))
    cards = []
    for number, row in enumerate(csv.reader(io.StringIO("\n".join(lines[at:])))):
        if number == 0:
            names = row
        elif row and (named := CARD.fullmatch(row[0].strip())):
            if len(row) != len(names):
                raise Unreadable(source, line=at + number + 1, why=f"{len(row)} cells under {len(names)} names")
            cards.append(_card(named[1], dict(zip(names, row, strict=True))))
    if not cards:
        raise Unreadable(source, line=at + 1, why="no card below the header")
    return (Told(source=source, vendor="amd", cards=tuple(cards)),)


def is_text(said: str) -> bool:
    """The table that rocm-smi prints without options, or its answers to single questions."""
    return "ROCm System Management Interface" in said or LINE.search(said) is not None


def read_text(said: str, source: str) -> tuple[Told, ...]:
    """Raises Unreadable where no card stands in it."""
    told: dict[str, dict[str, str]] = {}
    for index, key, value in LINE.findall(said):
        told.setdefault(index, {})[key] = value
    cards = [_card(index, values) for index, values in told.items()]
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


def _card(index: str, told: Mapping[str, object]) -> CardSample:
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
        power_w=next((watts for key in POWERS if (watts := amount(told.get(key))) is not None), None),
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
    held = GpuProcess(pid=int(pid[1]), name=words[0], bytes=memory(words[2]), cards=whole(words[1]))
    return Listed(owner=None, process=held)
