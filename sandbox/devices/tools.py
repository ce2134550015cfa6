"""Asks the vendors' tools: one moment of all cards, as often as is wanted."""

import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from ridgeline.graph.errors import ProgramMissing
from ridgeline.sandbox.devices import amd, nvidia
from ridgeline.sandbox.devices import amd as amd_smi
from ridgeline.sandbox.devices import amd as rocm_smi
from ridgeline.sandbox.devices import nvidia as nvidia_pages
from ridgeline.sandbox.devices import nvidia as nvidia_smi
from ridgeline.sandbox.devices.values import (
    Card,
    CardSample,
    GpuProcess,
    Kind,
    ListedProcess,
    Reading,
    ToolAnswer,
    Unreadable,
    Vendor,
)
from ridgeline.sandbox.isolation.process import capture, run_beside

logger = logging.getLogger(__name__)

MOMENT_TIMEOUT_S = 10.0
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

    def moment(self) -> tuple[ToolAnswer, ...]:
        """All cards now; nothing when the tool failed or took too long."""
        ...


class NvidiaTools:
    """nvidia-smi."""

    vendor: Vendor = "nvidia"

    def __init__(self) -> None:
        self._queries = [nvidia_smi.CARDS_QUERY, OLD_CARDS_QUERY]

    def moment(self) -> tuple[ToolAnswer, ...]:
        """Two short calls. An empty list of processes is told only where every process could be seen."""
        cards: tuple[ToolAnswer, ...] = ()
        for query in list(self._queries):
            if cards := _ask_tool(query):
                self._queries = [query]
                break
        listed = _ask_tool(nvidia_smi.PROCESSES_QUERY) if cards else ()
        hidden = all(not answer.processes for answer in listed) and not sees_all_processes()
        return cards if hidden else (*cards, *listed)


class AmdTools:
    """amd-smi, else rocm-smi, which does not say which card a process is on."""

    vendor: Vendor = "amd"

    def __init__(self) -> None:
        self._standing: tuple[ToolAnswer, ...] | None = None
        self._rocm = [rocm_smi.ROCM_CARDS_QUERY, rocm_smi.ROCM_PLAIN_QUERY]

    def moment(self) -> tuple[ToolAnswer, ...]:
        """Several calls of half a second each: they are Python programs."""
        if moving := _ask_tool(amd_smi.METRIC_QUERY):
            if self._standing is None:
                self._standing = (*_ask_tool(amd_smi.LIST_QUERY), *_ask_tool(amd_smi.STATIC_QUERY))
            return (*self._standing, *moving, *_ask_tool(amd_smi.PROCESS_QUERY))
        for query in list(self._rocm):
            if answers := _ask_tool(query):
                self._rocm = [query]
                lists_processes = any(answer.processes is not None for answer in answers)
                return (
                    answers
                    if lists_processes
                    else (*answers, ToolAnswer(source="rocm-smi", vendor="amd", processes=()))
                )
        return ()


def tools_of(vendor: Vendor) -> Tools:
    """The vendor's real tools that read cards (nvidia-smi, amd-smi, rocm-smi)."""
    return NvidiaTools() if vendor == "nvidia" else AmdTools()


def is_installed(vendor: Vendor) -> bool:
    """Whether any tool of that card vendor is on PATH."""
    return any(shutil.which(name) for name in PROGRAMS[vendor])


def watch(
    tools: Tools, *, samples: int, interval_s: float, sleep: Callable[[float], None] = time.sleep
) -> tuple[tuple[CardSample, ...], ...]:
    """`samples` moments, `interval_s` seconds apart; per card, what was told. A moment that failed is missing."""
    answers: list[ToolAnswer] = []
    for number in range(samples):
        if number:
            sleep(interval_s)
        answers += tools.moment()
    return series(answers)


def _ask_tool(query: tuple[str, ...]) -> tuple[ToolAnswer, ...]:
    """What a card's tool says; nothing when it is missing, failed, was too slow, or said what cannot be read."""
    return tuple(_query_tool(query))


def _query_tool(query: tuple[str, ...]) -> Iterator[ToolAnswer]:
    output = ask(query, timeout_s=MOMENT_TIMEOUT_S)
    if output is None:
        return
    try:
        yield from parse(output, query[0])
    except Unreadable as error:
        logger.debug("%s: %s", " ".join(query), error)


# Starts the vendors' tools: one look before a timed process, one after it, and on NVIDIA readings all along.

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

    def poll(self, into: list[Reading]) -> contextlib.AbstractContextManager[None]:
        """A card's readings taken during the block are in the list after it."""
        ...


def own_processes() -> frozenset[int]:
    """This process and all that it started, those included that the processes it started have started."""
    import psutil

    return frozenset({os.getpid(), *(process.pid for process in psutil.Process().children(recursive=True))})


def list_others(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Of processes as `name (process id)` those that are not ours: the judge's own may hold the card a second longer."""
    if not names:
        return names
    own = {f"({pid})" for pid in own_processes()}
    return tuple(name for name in names if name.rpartition(" ")[2] not in own)


class NvidiaSmi:
    """nvidia-smi for one card."""

    tool = "nvidia-smi"

    def __init__(self, index: str) -> None:
        self.index = index
        self._fields = list(nvidia.FIELDS)

    def look(self) -> Look:
        """Two short calls. Fields that the driver does not know are left out from then on."""
        listed = ask(nvidia.processes_query(self.index))
        apps = nvidia.parse_processes(listed) if listed is not None else None
        notes = (HIDDEN,) if apps == () and not sees_all_processes() else ()
        foreign = None if notes else list_others(apps)
        while self._fields:
            output = ask(nvidia.query(self._fields[0], index=self.index))
            if output is not None:
                readings = nvidia.parse_readings(output, self._fields[0], monotonic_s=_monotonic_s())
                return Look(reading=readings[0] if readings else None, foreign=foreign, notes=notes)
            del self._fields[0]
        note = f"nvidia-smi tells nothing of card {self.index}: clocks and slowdowns are not known"
        return Look(foreign=foreign, notes=(*notes, note))

    @contextlib.contextmanager
    def poll(self, into: list[Reading]) -> Iterator[None]:
        """A card's readings: `nvidia-smi -lms` beside the block."""
        fields = tuple(field for field in self._fields[0] if field not in nvidia.COUNTS) if self._fields else ()
        if not fields:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            output_file = Path(folder) / "readings.csv"
            argv = (*nvidia.query(fields, index=self.index), "-lms", str(POLL_MS))
            with run_beside(argv, cwd=Path("/"), output_file=output_file, env={"TZ": "UTC"}):
                yield
            text = output_file.read_text(errors="replace")
        into += nvidia.parse_readings(text, fields, monotonic_s=_monotonic_s())


class AmdSmi:
    """amd-smi, else rocm-smi, for one card. Both are Python programs that cost half a second of a core, so no poll."""

    tool = "amd-smi"

    def __init__(self, index: str) -> None:
        self.index = index
        self._options: tuple[tuple[str, ...], ...] = (amd.METRIC, amd.OLD_METRIC)

    def look(self) -> Look:
        for options in self._options:
            output = ask(amd.metric_query(self.index, options))
            if output is not None and (reading := amd.parse_metric(output, at_us=1e6 * time.monotonic())):
                self._options = (options,)
                listed = ask(amd.process_query(self.index))
                return Look(
                    reading=reading, foreign=None if listed is None else list_others(amd.parse_processes(listed))
                )
        return self._rocm()

    def _rocm(self) -> Look:
        output = ask(amd.ROCM_QUERY)
        if output is None:
            return Look(notes=("neither amd-smi nor rocm-smi tells anything: the card's state is not known",))
        self.tool = "rocm-smi"
        reading = amd.parse_rocm_smi(output, card=f"card{self.index}", at_us=1e6 * time.monotonic())
        foreign = list_others(amd.parse_rocm_smi_processes(output))
        notes = ["rocm-smi tells no slowdowns: whether the card was throttled is not known"]
        if foreign is None:
            notes.append("rocm-smi does not say which of several cards a process uses: other users are not known")
        return Look(reading=reading, foreign=foreign, notes=tuple(notes))

    def poll(self, into: list[Reading]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class CardWatch:
    """`with watch.around():` around one process; then `watch.conditions()`."""

    def __init__(self, smi: Smi) -> None:
        self._smi = smi
        self._looks: list[Look] = []
        self._during: list[Reading] = []

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        self._looks.append(self._smi.look())
        with self._smi.poll(self._during):
            yield
        self._looks.append(self._smi.look())

    def conditions(self, began_us: float, ended_us: float) -> tuple[Card, tuple[str, ...]]:
        """The card while the process ran, and what could not be seen."""
        before, after = self._looks[0], self._looks[-1]
        lists = [look.foreign for look in (before, after) if look.foreign is not None]
        card = Card(
            tool=self._smi.tool,
            index=self._smi.index,
            before=before.reading,
            during=tuple(
                reading
                for reading in self._during
                if reading.at_us is not None and began_us <= reading.at_us <= ended_us
            ),
            after=after.reading,
            foreign=tuple(dict.fromkeys(name for names in lists for name in names)) if lists else None,
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
            return NvidiaSmi(_first_visible(environment, "CUDA_VISIBLE_DEVICES"))
        case "amd":
            return AmdSmi(
                _first_visible(environment, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
            )


def ask(argv: tuple[str, ...], *, timeout_s: float = TIMEOUT_S) -> str | None:
    """What a card's tool printed; None without the tool, or when it failed or took longer than `timeout_s` seconds."""
    try:
        answer = capture(argv, cwd=Path("/"), timeout_s=timeout_s, env={"TZ": "UTC"})
    except ProgramMissing:
        return None
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else None


def _first_visible(environment: dict[str, str], *names: str) -> str:
    """The card that a program uses first: without any of the variables, card 0."""
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


# Recognizes what a text is by its content, and puts several answers together into samples of cards. Pure.
#
# Answers that tell different things of a card belong to one moment; the second answer that tells a thing belongs to the
# second moment, and so on. Names, addresses and totals do not move, so they count for every moment.

MOVING = (
    "utilization_pct",
    "memory_activity_pct",
    "memory_used_bytes",
    "memory_share_pct",
    "power_w",
    "clock_mhz",
)
SURROUNDING = ("tool", "vendor", "processes")
KNOWN = "the output of nvidia-smi, rocm-smi or amd-smi (JSON, CSV, table or nvidia-smi's XML)"
LARGEST = 64 * 1024 * 1024
"""Characters; a recording of a day of samples is smaller."""


def parse(text: str, source: str) -> tuple[ToolAnswer, ...]:
    """What a card's tool tells, one `ToolAnswer` per moment in it. Raises Unreadable, which names `source` and the line."""
    if not text.strip():
        raise Unreadable(source, line=1, why="is empty")
    if len(text) > LARGEST:
        raise Unreadable(source, line=1, why="is too long for the output of such a tool")
    if text.lstrip().startswith(("<?xml", "<!DOCTYPE nvidia", "<nvidia_smi_log")):
        return nvidia_pages.read_xml(text.lstrip(), source)
    if has_documents(text):
        return tuple(_document(document, source) for document in documents(text, source))
    return _lines(text, source)


def _lines(text: str, source: str) -> tuple[ToolAnswer, ...]:
    lines = text.splitlines()
    if any(line.startswith("device,") for line in lines):
        return rocm_smi.read_rocm_smi_csv(text, source)
    if "| NVIDIA-SMI" in text:
        return nvidia_pages.read_table(text, source)
    if amd_smi.is_amd_smi_monitor(text):
        return amd_smi.read_amd_smi_monitor(text, source)
    if rocm_smi.is_rocm_smi_text(text):
        return rocm_smi.read_rocm_smi_text(text, source)
    if any(nvidia_smi.is_csv(line) for line in lines):
        return nvidia_smi.read_csv(text, source)
    raise Unreadable(source, line=1, why=f"is not {KNOWN}")


def _document(document: object, source: str) -> ToolAnswer:
    if rocm_smi.is_rocm_smi_answer(document):
        return rocm_smi.read_rocm_smi(document, source)
    if amd_smi.is_amd_smi_answer(document):
        return amd_smi.read_amd_smi(document, source)
    raise Unreadable(source, line=1, why=f"the JSON is not {KNOWN}")


def series(answers: Sequence[ToolAnswer]) -> tuple[tuple[CardSample, ...], ...]:
    """The samples of each card, in the order of time; cards in the order of the tool."""
    merged: list[tuple[CardSample, ...]] = []
    for vendor in dict.fromkeys(answer.vendor for answer in answers):
        mine = [answer for answer in answers if answer.vendor == vendor]
        facts = _standing_facts(mine)
        merged += [_merge(moment, facts) for moment in _moments(mine)]
    by_card: dict[tuple[str, str], list[CardSample]] = {}
    for card in chain.from_iterable(merged):
        by_card.setdefault((card.vendor, card.index or card.key), []).append(card)
    return tuple(_standing(samples) for samples in by_card.values())


def _standing_facts(answers: Iterable[ToolAnswer]) -> tuple[CardSample, ...]:
    """Every card that any answer names, with nothing that moves."""
    cards: list[CardSample] = []
    for card in chain.from_iterable(answer.cards for answer in answers):
        _put(cards, card.model_copy(update=dict.fromkeys((*MOVING, "processes"))))
    return tuple(cards)


def _moments(answers: Iterable[ToolAnswer]) -> list[list[ToolAnswer]]:
    """Moments in the answers of a card's tools; those that only tell what does not move have none of their own."""
    moments: list[list[ToolAnswer]] = [[]]
    times: dict[tuple[str, str], int] = {}
    for answer in answers:
        facts = _facts(answer)
        number = max((times.get(fact, 0) for fact in facts), default=0)
        times |= dict.fromkeys(facts, number + 1)
        moments += [[] for _ in range(number + 1 - len(moments))]
        moments[number].append(answer)
    return moments


def _facts(answer: ToolAnswer) -> set[tuple[str, str]]:
    moving = {
        (card.index or card.key, name) for card in answer.cards for name in MOVING if getattr(card, name) is not None
    }
    return moving | ({("", "processes")} if answer.processes is not None else set())


def _merge(moment: Iterable[ToolAnswer], facts: Sequence[CardSample]) -> tuple[CardSample, ...]:
    """One sample per card of the moment, with the processes that are on it or may be."""
    cards: list[CardSample] = [*facts]
    listed: list[ListedProcess] | None = None
    for answer in moment:
        for card in answer.cards:
            _put(cards, card)
        if answer.processes is not None:
            listed = [*(listed or ()), *answer.processes]
            vendor = answer.vendor
    if listed and not cards:  # a list alone: on which cards is not known
        owners = dict.fromkeys(entry.owner for entry in listed)
        cards = [_owner(vendor, owner) for owner in owners]
    return tuple(cards) if listed is None else tuple(_using(card, cards, listed) for card in cards)


def _put(cards: list[CardSample], card: CardSample) -> None:
    """Add a card to the moment's, or what it tells to the one that it is."""
    place = next((at for at, known_card in enumerate(cards) if _same(card, known_card)), None)
    if place is None:
        cards.append(card)
    else:
        cards[place] = _over(cards[place], card)


def _owner(vendor: Vendor, owner: str | None) -> CardSample:
    uuid = owner if owner and not owner.isdigit() and ":" not in owner else None
    pci = owner if owner and ":" in owner else None
    return CardSample(vendor=vendor, index=owner if uuid is None and pci is None else None, uuid=uuid, pci=pci)


def _same(left: CardSample, right: CardSample) -> bool:
    """Whether two samples are of one card: by number, since cloned or divided cards share addresses; else by UUID or address."""
    if left.index is not None and right.index is not None:
        return left.index == right.index
    pairs = ((left.uuid, right.uuid), (left.pci, right.pci))
    return any(mine is not None and mine == theirs for mine, theirs in pairs)


def _over(base: CardSample, second: CardSample) -> CardSample:
    facts = {
        name: value
        for name in CardSample.model_fields
        if name not in SURROUNDING and (value := getattr(second, name)) is not None
    }
    return base.model_copy(update=facts)


def _using(card: CardSample, cards: Sequence[CardSample], listed: Iterable[ListedProcess]) -> CardSample:
    mine: list[GpuProcess] = []
    for entry in listed:
        if entry.owner is None or not any(entry.owner in _names(candidate) for candidate in cards):
            mine.append(entry.process.model_copy(update={"certain": len(cards) == 1}))
        elif entry.owner in _names(card):
            mine.append(entry.process)
    return card.model_copy(update={"processes": tuple(mine)})


def _names(card: CardSample) -> tuple[str | None, ...]:
    return card.index, card.uuid, card.pci


def _standing(samples: Sequence[CardSample]) -> tuple[CardSample, ...]:
    """What one sample tells of a card's identity holds for all; moments that tell nothing are left out."""
    identity = samples[0]
    for sample in samples[1:]:
        identity = _over(identity, sample)
    still = {name: getattr(identity, name) for name in CardSample.model_fields if name not in (*MOVING, *SURROUNDING)}
    filled = tuple(sample.model_copy(update=still) for sample in samples)
    telling = tuple(
        sample
        for sample in filled
        if sample.processes is not None or any(getattr(sample, name) is not None for name in MOVING)
    )
    return telling or filled[:1]


# The JSON documents in what a tool printed: warnings may stand before them, and one may be printed twice.

START = re.compile(r'^[ \t]*(?=\{\s*["}]|\[\s*[\{\]])', re.MULTILINE)
"""Where a document begins: `[WARN] low power` is none."""


def has_documents(text: str) -> bool:
    """Whether any JSON begins in what a card's tool printed."""
    return START.search(text) is not None


def documents(text: str, source: str) -> tuple[object, ...]:
    """Every whole JSON document of a card's tool, repeated ones left out. Raises Unreadable where one is broken."""
    parsed: list[object] = []
    at = 0
    while (begin := START.search(text, at)) is not None:
        try:
            document, at = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, begin.end())
        except (ValueError, RecursionError) as error:
            position = error.pos if isinstance(error, json.JSONDecodeError) else begin.end()
            position = min(position, len(text.rstrip()))
            cut = position == len(text.rstrip()) or "Unterminated string" in str(error)
            why = "the JSON is cut off" if cut else f"the JSON is broken ({_words(error)})"
            raise Unreadable(source, line=text.count("\n", 0, position) + 1, why=why) from None
        if not parsed or document != parsed[-1]:
            parsed.append(document)
    return tuple(parsed)


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
