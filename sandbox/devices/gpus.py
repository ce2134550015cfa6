"""The first GPU of each vendor, as its own tool names it. Parsing is pure; clocks and load are not asked for."""

import hashlib
import json
import re
from pathlib import Path

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Machine
from ridgeline.sandbox.isolation.process import run

NVIDIA_QUERY = (
    "nvidia-smi",
    "--query-gpu=name,compute_cap,driver_version,memory.total",
    "--format=csv,noheader,nounits",
)
ROCM_QUERY = ("rocm-smi", "--showproductname", "--showdriverversion", "--json")
TIMEOUT_S = 30
NAME_KEYS = ("Card Series", "Card series", "Card Model", "Card model")
"""rocm-smi renamed its keys between ROCm 5 and 6."""


def nvidia_machine() -> Machine | None:
    """None without the tool or without a device that it can name."""
    output = _output(NVIDIA_QUERY)
    return parse_nvidia(output) if output is not None else None


def amd_machine() -> Machine | None:
    """None without the tool or without a device that it can name."""
    output = _output(ROCM_QUERY)
    return parse_rocm(output) if output is not None else None


def parse_nvidia(output: str) -> Machine | None:
    """First line of `NVIDIA_QUERY`'s answer: name, compute capability, driver, MiB of memory."""
    cells = [cell.strip() for cell in output.strip().split("\n")[0].split(",")]
    if len(cells) != 4 or not re.fullmatch(r"\d+\.\d+", cells[1]):
        return None
    name, capability, driver, memory = cells
    return _machine("nvidia", name=name, arch=f"sm_{capability.replace('.', '')}", rest=(driver, memory))


def parse_rocm(output: str) -> Machine | None:
    """First card of `rocm-smi --json`; all its values are strings. The architecture is empty where it is not told."""
    start = output.find("{")  # warnings come before the JSON
    try:
        cards = json.loads(output[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        return None
    card = next((cards[key] for key in sorted(cards) if re.fullmatch(r"card\d+", key)), None)
    if not isinstance(card, dict):
        return None
    name = next((str(card[key]) for key in NAME_KEYS if card.get(key)), "")
    driver = str(cards.get("system", {}).get("Driver version", ""))
    arch = str(card.get("GFX Version", ""))
    return _machine("amd", name=name, arch=arch, rest=(driver,)) if name or arch else None


def _machine(kind: str, *, name: str, arch: str, rest: tuple[str, ...]) -> Machine:
    digest = hashlib.sha256(json.dumps([kind, name, arch, *rest]).encode()).hexdigest()
    return Machine(kind="nvidia" if kind == "nvidia" else "amd", name=name, arch=arch, fingerprint=digest)


def _output(argv: tuple[str, ...]) -> str | None:
    try:
        asked = run(argv, cwd=Path("/"), timeout_s=TIMEOUT_S)
    except ProgramMissing:
        return None
    return asked.output if asked.ok else None
