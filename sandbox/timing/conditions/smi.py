"""Starts the vendors' tools: one look before a timed process, one after it, and on NVIDIA readings all along."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ridgeline.graph.errors import ProgramMissing
from ridgeline.sandbox.devices.kind import Kind
from ridgeline.sandbox.devices.values import CardSample
from ridgeline.sandbox.isolation.process import beside, capture
from ridgeline.sandbox.timing.conditions import amd, nvidia
from ridgeline.sandbox.timing.conditions.values import Card, Reading

TIMEOUT_S = 30.0
POLL_MS = 200
"""nvidia-smi took 30 ms a look on an H100; a fifth of a second keeps it below one look in six."""
HOST_PROCESSES = "pid:[4026531836]"
"""The kernel's first process namespace (PROC_PID_INIT_INO): whoever is in it sees every process."""
HIDDEN = "nvidia-smi lists no process, which inside a container says nothing: other users of the card are not known"


@dataclass(frozen=True, kw_only=True)
class Look:
    """A card at one moment."""

    reading: Reading | None = None
    foreign: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


class Smi(Protocol):
    """One vendor's tool and one card."""

    tool: str
    index: str

    def look(self) -> Look: ...

    def polled(self, into: list[Reading]) -> contextlib.AbstractContextManager[None]:
        """Readings taken during the block are in the list after it."""
        ...


class NvidiaSmi:
    """nvidia-smi for one card."""

    tool = "nvidia-smi"

    def __init__(self, index: str) -> None:
        self.index = index
        self._fields = list(nvidia.FIELDS)

    def look(self) -> Look:
        """Two short calls. Fields that the driver does not know are left out from then on."""
        listed = ask(nvidia.apps_query(self.index))
        apps = nvidia.apps(listed) if listed is not None else None
        notes = (HIDDEN,) if apps == () and not sees_all_processes() else ()
        foreign = None if notes else apps
        while self._fields:
            said = ask(nvidia.query(self._fields[0], index=self.index))
            if said is not None:
                found = nvidia.readings(said, self._fields[0], monotonic_s=_monotonic_s())
                return Look(reading=found[0] if found else None, foreign=foreign, notes=notes)
            del self._fields[0]
        told = f"nvidia-smi tells nothing of card {self.index}: clocks and slowdowns are not known"
        return Look(foreign=foreign, notes=(*notes, told))

    @contextlib.contextmanager
    def polled(self, into: list[Reading]) -> Iterator[None]:
        """`nvidia-smi -lms` beside the block."""
        fields = tuple(field for field in self._fields[0] if field not in nvidia.COUNTS) if self._fields else ()
        if not fields:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            said = Path(folder) / "readings.csv"
            argv = (*nvidia.query(fields, index=self.index), "-lms", str(POLL_MS))
            with beside(argv, cwd=Path("/"), said=said, env={"TZ": "UTC"}):
                yield
            text = said.read_text(errors="replace")
        into += nvidia.readings(text, fields, monotonic_s=_monotonic_s())


class AmdSmi:
    """amd-smi, else rocm-smi, for one card. Both are Python programs that cost half a second of a core, so no poll."""

    tool = "amd-smi"

    def __init__(self, index: str) -> None:
        self.index = index
        self._options: tuple[tuple[str, ...], ...] = (amd.METRIC, amd.OLD_METRIC)

    def look(self) -> Look:
        for options in self._options:
            said = ask(amd.metric_query(self.index, options))
            if said is not None and (found := amd.metric(said, at_us=1e6 * time.monotonic())):
                self._options = (options,)
                listed = ask(amd.process_query(self.index))
                return Look(reading=found, foreign=None if listed is None else amd.processes(listed))
        return self._rocm()

    def _rocm(self) -> Look:
        said = ask(amd.ROCM_QUERY)
        if said is None:
            return Look(notes=("neither amd-smi nor rocm-smi tells anything: the card's state is not known",))
        self.tool = "rocm-smi"
        found = amd.rocm(said, card=f"card{self.index}", at_us=1e6 * time.monotonic())
        foreign = amd.rocm_processes(said)
        notes = ["rocm-smi tells no slowdowns: whether the card was throttled is not known"]
        if foreign is None:
            notes.append("rocm-smi does not say which of several cards a process uses: other users are not known")
        return Look(reading=found, foreign=foreign, notes=tuple(notes))

    def polled(self, into: list[Reading]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class CardWatch:
    """`with watch.around():` around one process; then `watch.seen()`."""

    def __init__(self, smi: Smi) -> None:
        self._smi = smi
        self._looks: list[Look] = []
        self._during: list[Reading] = []

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        self._looks.append(self._smi.look())
        with self._smi.polled(self._during):
            yield
        self._looks.append(self._smi.look())

    def seen(self, began_us: float, ended_us: float) -> tuple[Card, tuple[str, ...]]:
        """The card while the process ran, and what could not be seen."""
        before, after = self._looks[0], self._looks[-1]
        told = [look.foreign for look in (before, after) if look.foreign is not None]
        card = Card(
            tool=self._smi.tool,
            index=self._smi.index,
            before=before.reading,
            during=tuple(one for one in self._during if one.at_us is not None and began_us <= one.at_us <= ended_us),
            after=after.reading,
            foreign=tuple(dict.fromkeys(name for names in told for name in names)) if told else None,
        )
        return card, tuple(dict.fromkeys((*before.notes, *after.notes)))


def smi_of(kind: Kind, environment: dict[str, str], *, card: CardSample | None = None) -> Smi | None:
    """The tool for `card`, else for the one that a command with this environment would use first.

    None for a processor.
    """
    if card is not None:
        return NvidiaSmi(card.uuid or card.index or "0") if card.vendor == "nvidia" else AmdSmi(card.index or "0")
    match kind:
        case "cpu":
            return None
        case "nvidia":
            return NvidiaSmi(_first(environment, "CUDA_VISIBLE_DEVICES"))
        case "amd":
            return AmdSmi(_first(environment, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))


def ask(argv: tuple[str, ...], *, timeout_s: float = TIMEOUT_S) -> str | None:
    """What the tool printed; None without the tool, or when it failed or took longer than `timeout_s` seconds."""
    try:
        said = capture(argv, cwd=Path("/"), timeout_s=timeout_s, env={"TZ": "UTC"})
    except ProgramMissing:
        return None
    return said.stdout.decode(errors="replace") if said.returncode == 0 else None


def _first(environment: dict[str, str], *names: str) -> str:
    """Without any of the variables a program uses card 0."""
    values = (environment.get(name, "").split(",")[0].strip() for name in names)
    return next((value for value in values if value), "0")


def sees_all_processes() -> bool:
    """Whether an empty list of processes means that there are none: not inside a container."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == HOST_PROCESSES
    except OSError:
        return False


def _monotonic_s() -> float:
    return time.monotonic() - time.time()
