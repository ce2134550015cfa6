"""What amd-smi and rocm-smi write, of ROCm 5 to 7, read without guessing: pure."""

import json
import re
from collections.abc import Iterator

from ridgeline.graph.values import Named
from ridgeline.sandbox.timing.conditions.values import Reading

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


def metric(text: str, *, at_us: float | None = None) -> Reading | None:
    """The first card of `amd-smi metric --json`; None when the text holds none."""
    card = next(_cards(text), None)
    if card is None:
        return None
    clock, throttle = _group(card, "clock"), _group(card, "throttle")
    temperature, power = _group(card, "temperature"), _group(card, "power")
    counted = ((name, _number(throttle.get(f"{key}_accumulated"))) for key, name in SLOWDOWNS.items())
    return Reading(
        at_us=at_us,
        sm_mhz=_number(_group(clock, "gfx_0").get("clk")),
        memory_mhz=_number(_group(clock, "mem_0").get("clk")),
        celsius=next((found for key in TEMPERATURES if (found := _number(temperature.get(key))) is not None), None),
        watts=_number(power.get("socket_power")),
        slowdowns=_active(throttle),
        counts=tuple(Named(name=name, value=value) for name, value in counted if value is not None),
    )


def processes(text: str) -> tuple[str, ...] | None:
    """Processes of `amd-smi process --json` that hold memory of the card, as `name (process id)`.

    A monitor is listed with none and does not count. None when the text is not such a list.
    """
    card = next(_cards(text), None)
    listed = card.get("process_list") if card else None
    if not isinstance(listed, list):
        return None
    found: list[str] = []
    for entry in listed:
        told = _group(entry, "process_info") if isinstance(entry, dict) else {}  # else `No running processes detected`
        if _memory(told):
            found.append(f"{told.get('name', 'N/A')} ({told.get('pid', 'N/A')})")
    return tuple(found)


def rocm(text: str, *, card: str, at_us: float | None = None) -> Reading | None:
    """One card of `rocm-smi --json`, whose values are all strings; None when it is not there."""
    found = _document(text)
    told = found.get(card) if isinstance(found, dict) else None
    if not isinstance(told, dict):
        return None
    return Reading(
        at_us=at_us,
        sm_mhz=_string_number(told.get("sclk clock speed:")),
        memory_mhz=_string_number(told.get("mclk clock speed:")),
        celsius=_first(told, ROCM_TEMPERATURES),
        watts=_first(told, ROCM_POWER),
    )


def rocm_processes(text: str) -> tuple[str, ...] | None:
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


def _cards(text: str) -> Iterator[dict[str, object]]:
    """ROCm 6 writes a list, ROCm 7 wraps it in `gpu_data`, except for processes."""
    found = _document(text)
    listed = found.get("gpu_data") if isinstance(found, dict) else found
    yield from (card for card in listed if isinstance(card, dict)) if isinstance(listed, list) else ()


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


def _number(cell: object) -> float | None:
    told = cell.get("value") if isinstance(cell, dict) else cell
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return None
    return _string_number(str(told))


def _string_number(cell: object) -> float | None:
    match = re.fullmatch(r"\(?(-?\d+(?:\.\d+)?)\s*(?:Mhz|MHz|C|W)?\)?", cell.strip()) if isinstance(cell, str) else None
    return float(match[1]) if match else None


def _first(told: dict[str, object], names: tuple[str, ...]) -> float | None:
    return next((found for name in names if (found := _string_number(told.get(name))) is not None), None)


def _active(throttle: dict[str, object]) -> tuple[str, ...] | None:
    states = {key: throttle.get(f"{key}_violation_status") for key in SLOWDOWNS}
    if not any(state in ("ACTIVE", "NOT ACTIVE") for state in states.values()):
        return None
    return tuple(name for key, name in SLOWDOWNS.items() if states[key] == "ACTIVE")


def _memory(told: dict[str, object]) -> float:
    cell = _group(told, "memory_usage").get("vram_mem", told.get("mem_usage"))
    return _number(cell) or 0.0
