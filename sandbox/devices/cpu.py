"""The processor as the kernel describes it: pure parsing, and one reader of /proc and /sys."""

import platform
import re
from pathlib import Path

from ridgeline.graph.values import Value

VECTOR = re.compile(
    r"^(sse.*|ssse3|avx.*|fma4?|f16c|bmi[12]|popcnt|abm|vaes|vpclmulqdq|gfni|amx.*|neon|asimd.*|sve.*|fp16|fphp|i8mm|bf16)$"
)
"""Instruction sets a kernel can use. Other flags change with the operating system and say nothing about speed."""
UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Cpu(Value):
    """Sizes in bytes and per instance, None where the kernel does not say."""

    model: str
    features: tuple[str, ...]
    l1d_bytes: int | None
    l2_bytes: int | None
    l3_bytes: int | None


def read_cpu(proc: Path = Path("/proc/cpuinfo"), caches: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> Cpu:
    """This machine's processor; where files are missing, only what the interpreter knows of it."""
    text = proc.read_text(errors="replace") if proc.is_file() else ""
    found = _caches(caches)
    return Cpu(
        model=_model(text),
        features=features(text),
        l1d_bytes=found.get((1, "Data")),
        l2_bytes=found.get((2, "Unified")),
        l3_bytes=found.get((3, "Unified")),
    )


def features(cpuinfo: str) -> tuple[str, ...]:
    """Sorted instruction sets of the first processor: `flags` on x86, `Features` on Arm."""
    match = re.search(r"^(?:flags|Features)[ \t]*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    words = match[1].split() if match else []
    return tuple(sorted({word for word in words if VECTOR.match(word)}))


def size(text: str) -> int:
    """Bytes of a size as /sys writes it, such as `32K`. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a cache size")
    return int(match[1]) * UNITS[match[2]]


def _model(cpuinfo: str) -> str:
    match = re.search(r"^model name[ \t]*:[ \t]*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "unknown processor"


def _caches(folder: Path) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for index in sorted(folder.glob("index*")):
        parts = {name: index / name for name in ("level", "type", "size")}
        if all(part.is_file() for part in parts.values()):
            text = {name: part.read_text().strip() for name, part in parts.items()}
            found[int(text["level"]), text["type"]] = size(text["size"])
    return found
