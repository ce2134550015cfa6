"""Numbers as the tools write them. What is no number, or cannot be one of its kind, is None: never zero."""

import math
import re

MEMORY = {"": 1, "b": 1, "kb": 1024, "kib": 1024, "mb": 1 << 20, "mib": 1 << 20, "gb": 1 << 30, "gib": 1 << 30}
"""The tools mean powers of 1024 by both spellings."""
NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?)\s*([A-Za-z%°]*)\)?")


def number(cell: object) -> float | None:
    """`12`, `"45.0"`, `"592.74 W"`, `"(173Mhz)"`, `{"value": 0, "unit": "%"}`; None for `N/A`, `ERR!` and the like."""
    return _parts(cell)[0]


def percent(cell: object) -> float | None:
    """A card's meter, 0 to 100; drivers write 65535 for one that they lack."""
    value = number(cell)
    return value if value is not None and 0 <= value <= 100 else None


def amount(cell: object) -> float | None:
    """Watts or MHz of a card, as its tool writes them: not below zero."""
    value = number(cell)
    return value if value is not None and value >= 0 else None


def memory(cell: object, *, unit: str = "") -> int | None:
    """Bytes of a card's memory, as its tool writes them; `unit` where the cell has none of its own."""
    value, suffix = _parts(cell)
    factor = MEMORY.get((suffix or unit).lower())
    return None if value is None or value < 0 or factor is None else round(value * factor)


def integer(cell: object) -> int | None:
    """A process id or a count, as a card's tool writes it."""
    value = number(cell)
    return None if value is None or value < 0 or value != int(value) else int(value)


def text(cell: object) -> str | None:
    """A name that a card's tool writes; None for the many spellings of `not told`."""
    name = str(cell).strip() if isinstance(cell, str | int) and not isinstance(cell, bool) else ""
    return None if name.strip("[]").lower() in ("", "n/a", "unknown", "none", "not supported", "err!") else name


def pci(cell: object) -> str | None:
    """`00000000:1B:00.0` and `0000:1b:00.0` are one address."""
    match = re.fullmatch(
        r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2}\.[0-9a-fA-F])", (text(cell) or "").strip()
    )
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}".lower() if match else None


def _parts(cell: object) -> tuple[float | None, str]:
    unit = ""
    if isinstance(cell, dict):
        unit, cell = str(cell.get("unit", "")), cell.get("value")
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None, ""
    match = NUMBER.fullmatch(str(cell).strip())
    if match is None or not math.isfinite(float(match[1])):
        return None, ""
    return float(match[1]), unit or match[2]
