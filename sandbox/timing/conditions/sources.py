"""What of the conditions can be read on this machine: one line per source, for `ridgeline doctor`."""

import shutil
import threading

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.kind import Kind
from ridgeline.sandbox.timing.conditions.processor import children, mhz, siblings, ticks
from ridgeline.sandbox.timing.conditions.smi import Look, Smi, smi_of
from ridgeline.sandbox.workspace.commands import pinned_core

TOOLS: dict[Kind, tuple[str, ...]] = {"nvidia": ("nvidia-smi",), "amd": ("amd-smi", "rocm-smi")}


class Source(Value):
    """One thing that may be told of the machine while something is timed."""

    name: str
    found: bool
    detail: str
    cost: str
    """What does without it; empty when it is there."""


def sources() -> tuple[Source, ...]:
    """Processor first, then the cards whose tool is here. Asks every tool once: up to a second each."""
    cards = (smi_of(kind, {}) for kind, tools in TOOLS.items() if any(shutil.which(tool) for tool in tools))
    return (_load(), _clock(), *(_card(smi) for smi in cards if smi))


def _load() -> Source:
    core = pinned_core()
    if ticks({core}) is None:
        cost = "no measurement is left out for the load of other processes, because it is not seen"
        return Source(name="load of the core", found=False, detail="/proc/stat tells nothing", cost=cost)
    fine = children(threading.get_native_id()) is not None
    parts = (
        f"core {core}: other processes and the hypervisor",
        "block by block" if fine else "process by process only (kernel without CONFIG_PROC_CHILDREN)",
        f"hardware threads beside it: {len(siblings(core)) or 'none'}",
    )
    return Source(name="load of the core", found=True, detail=", ".join(parts), cost="")


def _clock() -> Source:
    found = mhz(pinned_core())
    if found is None:
        cost = "the record of a measurement lacks the core's clock; no decision rests on it"
        return Source(name="clock of the core", found=False, detail="neither cpufreq nor /proc/cpuinfo", cost=cost)
    return Source(name="clock of the core", found=True, detail=f"{found:.0f} MHz now", cost="")


def _card(smi: Smi) -> Source:
    look = smi.look()
    told, missing = _told(look)
    cost = f"measurements disturbed by it are not told apart: {', '.join(missing)}" if missing else ""
    detail = "; ".join((f"{smi.tool}: {', '.join(told) or 'nothing'}", *look.notes))
    return Source(name="state of the card", found=look.reading is not None, detail=detail, cost=cost)


def _told(look: Look) -> tuple[list[str], list[str]]:
    reading = look.reading
    known = {
        "clock": reading is not None and reading.sm_mhz is not None,
        "temperature": reading is not None and reading.celsius is not None,
        "power": reading is not None and reading.watts is not None,
        "throttling": reading is not None and (reading.slowdowns is not None or bool(reading.counts)),
        "other users": look.foreign is not None,
    }
    return [name for name, there in known.items() if there], [name for name, there in known.items() if not there]
