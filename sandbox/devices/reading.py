"""Recognizes what a text is by its content, and puts several answers together into samples of cards. Pure.

Answers that tell different things of a card belong to one moment; the second answer that tells a thing belongs to the
second moment, and so on. Names, addresses and totals do not move, so they count for every moment.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from ridgeline.sandbox.devices import amd_smi, nvidia_pages, nvidia_smi, rocm_smi
from ridgeline.sandbox.devices.documents import documents, has_documents
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Told, Unreadable, Vendor

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


def parse(text: str, source: str) -> tuple[Told, ...]:
    """What the text tells, one `Told` per moment in it. Raises Unreadable, which names `source` and the line."""
    if not text.strip():
        raise Unreadable(source, line=1, why="is empty")
    if len(text) > LARGEST:
        raise Unreadable(source, line=1, why="is too long for the output of such a tool")
    if text.lstrip().startswith(("<?xml", "<!DOCTYPE nvidia", "<nvidia_smi_log")):
        return nvidia_pages.read_xml(text.lstrip(), source)
    if has_documents(text):
        return tuple(_document(one, source) for one in documents(text, source))
    return _lines(text, source)


def _lines(text: str, source: str) -> tuple[Told, ...]:
    lines = text.splitlines()
    if any(line.startswith("device,") for line in lines):
        return rocm_smi.read_csv(text, source)
    if "| NVIDIA-SMI" in text:
        return nvidia_pages.read_table(text, source)
    if amd_smi.is_monitor(text):
        return amd_smi.read_monitor(text, source)
    if rocm_smi.is_text(text):
        return rocm_smi.read_text(text, source)
    if any(nvidia_smi.is_csv(line) for line in lines):
        return nvidia_smi.read(text, source)
    raise Unreadable(source, line=1, why=f"is not {KNOWN}")


def _document(one: object, source: str) -> Told:
    if rocm_smi.is_answer(one):
        return rocm_smi.read_document(one, source)
    if amd_smi.is_answer(one):
        return amd_smi.read_document(one, source)
    raise Unreadable(source, line=1, why=f"the JSON is not {KNOWN}")


def series(told: Sequence[Told]) -> tuple[tuple[CardSample, ...], ...]:
    """The samples of each card, in the order of time; cards in the order of the tool."""
    merged: list[tuple[CardSample, ...]] = []
    for vendor in dict.fromkeys(one.vendor for one in told):
        mine = [one for one in told if one.vendor == vendor]
        known = _known(mine)
        merged += [_merged(moment, known) for moment in _moments(mine)]
    found: dict[tuple[str, str], list[CardSample]] = {}
    for card in chain.from_iterable(merged):
        found.setdefault((card.vendor, card.index or card.key), []).append(card)
    return tuple(_standing(samples) for samples in found.values())


def _known(told: Iterable[Told]) -> tuple[CardSample, ...]:
    """Every card that any answer names, with nothing that moves."""
    cards: list[CardSample] = []
    for card in chain.from_iterable(one.cards for one in told):
        _put(cards, card.model_copy(update=dict.fromkeys((*MOVING, "processes"))))
    return tuple(cards)


def _moments(told: Iterable[Told]) -> list[list[Told]]:
    """Answers that only tell what does not move have no moment of their own."""
    moments: list[list[Told]] = [[]]
    times: dict[tuple[str, str], int] = {}
    for one in told:
        facts = _facts(one)
        number = max((times.get(fact, 0) for fact in facts), default=0)
        times |= dict.fromkeys(facts, number + 1)
        moments += [[] for _ in range(number + 1 - len(moments))]
        moments[number].append(one)
    return moments


def _facts(told: Told) -> set[tuple[str, str]]:
    moving = {
        (card.index or card.key, name) for card in told.cards for name in MOVING if getattr(card, name) is not None
    }
    return moving | ({("", "processes")} if told.processes is not None else set())


def _merged(moment: Iterable[Told], known: Sequence[CardSample]) -> tuple[CardSample, ...]:
    """One sample per card of the moment, with the processes that are on it or may be."""
    cards: list[CardSample] = [*known]
    listed: list[Listed] | None = None
    for told in moment:
        for card in told.cards:
            _put(cards, card)
        if told.processes is not None:
            listed = [*(listed or ()), *told.processes]
            vendor = told.vendor
    if listed and not cards:  # a list alone: on which cards is not known
        owners = dict.fromkeys(one.owner for one in listed)
        cards = [_owner(vendor, owner) for owner in owners]
    return tuple(cards) if listed is None else tuple(_using(card, cards, listed) for card in cards)


def _put(cards: list[CardSample], card: CardSample) -> None:
    """Add the card, or what it tells to the one that it is."""
    place = next((at for at, other in enumerate(cards) if _same(card, other)), None)
    if place is None:
        cards.append(card)
    else:
        cards[place] = _over(cards[place], card)


def _owner(vendor: Vendor, owner: str | None) -> CardSample:
    uuid = owner if owner and not owner.isdigit() and ":" not in owner else None
    pci = owner if owner and ":" in owner else None
    return CardSample(vendor=vendor, index=owner if uuid is None and pci is None else None, uuid=uuid, pci=pci)


def _same(one: CardSample, other: CardSample) -> bool:
    """By number, since cards that were cloned or divided share addresses; else by UUID or address."""
    if one.index is not None and other.index is not None:
        return one.index == other.index
    pairs = ((one.uuid, other.uuid), (one.pci, other.pci))
    return any(mine is not None and mine == theirs for mine, theirs in pairs)


def _over(first: CardSample, second: CardSample) -> CardSample:
    told = {
        name: value
        for name in CardSample.model_fields
        if name not in SURROUNDING and (value := getattr(second, name)) is not None
    }
    return first.model_copy(update=told)


def _using(card: CardSample, cards: Sequence[CardSample], listed: Iterable[Listed]) -> CardSample:
    mine: list[GpuProcess] = []
    for one in listed:
        if one.owner is None or not any(one.owner in _names(other) for other in cards):
            mine.append(one.process.model_copy(update={"certain": len(cards) == 1}))
        elif one.owner in _names(card):
            mine.append(one.process)
    return card.model_copy(update={"processes": tuple(mine)})


def _names(card: CardSample) -> tuple[str | None, ...]:
    return card.index, card.uuid, card.pci


def _standing(samples: Sequence[CardSample]) -> tuple[CardSample, ...]:
    """What one sample tells of a card's identity holds for all; moments that tell nothing are left out."""
    whole = samples[0]
    for sample in samples[1:]:
        whole = _over(whole, sample)
    still = {name: getattr(whole, name) for name in CardSample.model_fields if name not in (*MOVING, *SURROUNDING)}
    filled = tuple(sample.model_copy(update=still) for sample in samples)
    telling = tuple(
        one for one in filled if one.processes is not None or any(getattr(one, name) is not None for name in MOVING)
    )
    return telling or filled[:1]
