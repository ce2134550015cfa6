"""Which idle card, and how a program is bound to it. Pure."""

import re
from collections.abc import Mapping, Sequence

from ridgeline.sandbox.devices.values import CardSample, Judged, Vendor

VARIABLES: dict[Vendor, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
}
"""In the order in which they apply: each counts among what the one before has left."""
NO_CARDS = frozenset({"", "-1", "none", "void", "nodevfiles"})


def ranked(cards: Sequence[Judged]) -> tuple[Judged, ...]:
    """The idle ones, least used memory first, then least power, then the tool's order."""
    unknown = float("inf")

    def rank(judged: Judged) -> tuple[float, float]:
        card = judged.card
        used = card.memory_used_bytes if card.memory_used_bytes is not None else card.memory_share_pct
        return unknown if used is None else float(used), unknown if card.power_w is None else card.power_w

    return tuple(sorted((one for one in cards if one.state == "idle"), key=rank))


def visible(cards: Sequence[CardSample], environment: Mapping[str, str]) -> tuple[CardSample, ...]:
    """Those that the variables leave to programs, in their order; all of a vendor whose variables are not set."""
    found: list[CardSample] = []
    for vendor in dict.fromkeys(card.vendor for card in cards):
        left = [card for card in cards if card.vendor == vendor]
        names = VARIABLES[vendor]
        if vendor == "amd" and "HIP_VISIBLE_DEVICES" not in environment:
            names = ("ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")  # HIP reads this one too
        for name in names:
            if name in environment:
                left = _named(left, environment[name])
        found += left
    return tuple(found)


def _named(cards: Sequence[CardSample], value: str) -> list[CardSample]:
    """As the runtimes read a list: up to the first word that names no card."""
    found: list[CardSample] = []
    for word in value.split(","):
        name = word.strip()
        if name.lower() in NO_CARDS:
            break
        if name.isdigit():
            match = [cards[int(name)]] if int(name) < len(cards) else []
        else:
            match = [card for card in cards if card.uuid and card.uuid.lower().startswith(name.lower())]
        if not match:
            break
        found += match[:1]
    return found


def fitting(cards: Sequence[CardSample], wanted: str | None) -> tuple[CardSample, ...]:
    """Those of the product or architecture that the contract names; all where no card is known to be one."""
    word = re.sub(r"[^a-z0-9]", "", (wanted or "").lower())
    if not word:
        return tuple(cards)
    mine = tuple(card for card in cards if word in _plain(card.name) or word == _plain(card.arch))
    return mine or tuple(cards)


def _plain(said: str | None) -> str:
    return re.sub(r"[^a-z0-9]", "", (said or "").lower())


def unbound(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that say which cards are visible."""
    names = {"CUDA_DEVICE_ORDER", *(name for names in VARIABLES.values() for name in names)}
    return {name: value for name, value in environment.items() if name not in names}


def binding(card: CardSample) -> dict[str, str]:
    """The environment in which a program sees this card only, and sees it as its first.

    By UUID: the tools' order of cards is not the runtimes'. An AMD card without a unique id is bound by its number,
    an NVIDIA card by its number in the order of the buses, which is nvidia-smi's.
    """
    if card.vendor == "nvidia":
        return {"CUDA_VISIBLE_DEVICES": card.uuid or card.index or "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if card.uuid:
        return {"ROCR_VISIBLE_DEVICES": card.uuid, "HIP_VISIBLE_DEVICES": "0"}
    return {"HIP_VISIBLE_DEVICES": card.index or "0"}
