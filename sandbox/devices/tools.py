"""Asks the vendors' tools: one moment of all cards, as often as is wanted."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from ridgeline.sandbox.devices import amd_smi, nvidia_smi, rocm_smi
from ridgeline.sandbox.devices.reading import parse, series
from ridgeline.sandbox.devices.values import CardSample, Told, Unreadable, Vendor
from ridgeline.sandbox.timing.conditions.smi import ask, sees_all_processes

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
OLD_CARDS_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,name,utilization.gpu,memory.used,memory.total,power.draw",
    "--format=csv",
)
"""A driver refuses the whole question when it lacks one field."""
PROGRAMS: dict[Vendor, tuple[str, ...]] = {"nvidia": ("nvidia-smi",), "amd": ("amd-smi", "rocm-smi")}


class Tools(Protocol):
    """What one vendor's tools tell. The real ones are below."""

    vendor: Vendor

    def moment(self) -> tuple[Told, ...]:
        """All cards now; nothing when the tool failed or took too long."""
        ...


class NvidiaTools:
    """nvidia-smi."""

    vendor: Vendor = "nvidia"

    def __init__(self) -> None:
        self._queries = [nvidia_smi.CARDS_QUERY, OLD_CARDS_QUERY]

    def moment(self) -> tuple[Told, ...]:
        """Two short calls. An empty list of processes is told only where every process could be seen."""
        cards: tuple[Told, ...] = ()
        for query in list(self._queries):
            if cards := _asked(query):
                self._queries = [query]
                break
        listed = _asked(nvidia_smi.PROCESSES_QUERY) if cards else ()
        hidden = all(not one.processes for one in listed) and not sees_all_processes()
        return cards if hidden else (*cards, *listed)


class AmdTools:
    """amd-smi, else rocm-smi, which does not say which card a process is on."""

    vendor: Vendor = "amd"

    def __init__(self) -> None:
        self._standing: tuple[Told, ...] | None = None
        self._rocm = [rocm_smi.QUERY, rocm_smi.PLAIN_QUERY]

    def moment(self) -> tuple[Told, ...]:
        """Several calls of half a second each: they are Python programs."""
        if moving := _asked(amd_smi.METRIC_QUERY):
            if self._standing is None:
                self._standing = (*_asked(amd_smi.LIST_QUERY), *_asked(amd_smi.STATIC_QUERY))
            return (*self._standing, *moving, *_asked(amd_smi.PROCESS_QUERY))
        for query in list(self._rocm):
            if said := _asked(query):
                self._rocm = [query]
                asked = any(one.processes is not None for one in said)
                return said if asked else (*said, Told(source="rocm-smi", vendor="amd", processes=()))
        return ()


def tools_of(vendor: Vendor) -> Tools:
    """The real tools."""
    return NvidiaTools() if vendor == "nvidia" else AmdTools()


def installed(vendor: Vendor) -> bool:
    """Whether any tool of that vendor is on PATH."""
    return any(shutil.which(name) for name in PROGRAMS[vendor])


def watch(
    tools: Tools, *, samples: int, interval_s: float, sleep: Callable[[float], None] = time.sleep
) -> tuple[tuple[CardSample, ...], ...]:
    """`samples` moments, `interval_s` seconds apart; per card, what was told. A moment that failed is missing."""
    told: list[Told] = []
    for number in range(samples):
        if number:
            sleep(interval_s)
        told += tools.moment()
    return series(told)


def _asked(query: tuple[str, ...]) -> tuple[Told, ...]:
    """Nothing when the tool is missing, failed, was too slow, or said what cannot be read."""
    return tuple(_read(query))


def _read(query: tuple[str, ...]) -> Iterator[Told]:
    said = ask(query, timeout_s=TIMEOUT_S)
    if said is None:
        return
    try:
        yield from parse(said, query[0])
    except Unreadable as error:
        logger.debug("%s: %s", " ".join(query), error)
