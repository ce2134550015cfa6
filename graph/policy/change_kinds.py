"""Which kinds of change the text of one change names: what it does, as against where and why it does it."""

import re

from ridgeline.graph.policy.change_words import moving, prose

_JOINTS = re.compile(
    r"\s\+\s|;|\s&\s|\band\b|\bplus\b|\bthen\b|\balso\b|\bas well as\b|\b(?:together|along|combined) with\b"
    r"|\bin addition\b|\balongside\b",
    re.IGNORECASE,
)
_TILE = r"(?:tiles?|blocks?)"
_EXTENT = r"\d+(?:\s*(?:x|\*|by)\s*\d+)*"
_OBJECT = rf"(?:(?:the|it|by|over|for|both|all|each|every|inner|outer|rows|columns|loops|[ijkmnp])\b|{_EXTENT})"
_TILING = "|".join(
    (
        r"BLOCK_|(?<!non-)\b(?:tiling|blocking)\b",
        rf"^\W*(?:(?:cache|register|loop)[\s-])?(?:tile|block)\s+{_OBJECT}",
        rf"\b(?:to|we|it|which)\s+(?:tile|block)\s+{_OBJECT}",
        r"\b(?:tile|block)[\s_-](?:sizes?|shapes?|widths?|heights?|extents?)\b",
        rf"\b{_TILE}\s*(?:(?:becomes?|goes|rises?|of|from|to|is|=|->|→)\s*)*{_EXTENT}",
        rf"\b{_EXTENT}\s+(?:(?:register|cache|output|input|row|column|shared)\s+)?{_TILE}\b",
        rf"\b(?:larger|bigger|smaller|wider|taller|narrower|square|different|another)\s+(?:\w+\s+){{0,2}}{_TILE}\b",
        rf"\binto\s+(?:\w+\s+){{0,2}}{_TILE}\b",
        rf"\b(?:add|use|introduce|adopt|double|halve|enlarge|shrink|widen)s?\s+(?:an?|the)?\s*(?:\w+\s+)?{_TILE}\b"
        r"(?!\s+loops?\b)",
    )
)
"""A tile is changed where it is the verb, has a size, or is what a verb is done to; elsewhere it is only a place."""
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("matrix instruction", r"\b(?:mfma|wmma|wgmma|mma)\b|matrix instruction"),
        ("buffering", r"double.buffer|prefetch|pipelin|num_stages|multi.?buffer"),
        ("data layout", r"swizzl|\bpadd?ing\b|\btranspos|loop (?:order|interchange)|interchang|data layout"),
        ("tile size", _TILING),
        ("scheduling", r"\bpersistent\b|\bstream.?k\b|\bsplit.?k\b|work distribution"),
        ("hoisting", r"\bhoist"),
        ("compiler flags", r"(?<!\w)-(?:O[0-3s]|[mf][a-z][a-z-]+)|compiler flag|pragma"),
        ("occupancy", r"occupanc|num_warps|waves_per_eu|launch.bounds|maxrregcount"),
        ("threads", r"\bopenmp\b|\bmulti.?thread"),
    )
)
_WHY = re.compile(r"\b(?:so that|because|in order to)\b.*?(?=;|\.\s|,\s*(?:and|then)\b|$)", re.IGNORECASE | re.DOTALL)
_NEEDED = re.compile(
    r"\bwith\s+(?:the|a|an)\s+(?:[\w-]+\s+){1,4}that\s+(?:this|it|the|a)\b(?:\s+[\w-]+){0,2}\s+(?:needs?|requires?)\b",
    re.IGNORECASE,
)
"""One change with what follows from it, in so many words."""
_PLACE = re.compile(
    r"(?:\b(?:in|inside|within|over|across|per|each|every|around|between|through|throughout|along|outside|before|after"
    r"|on|for|from|during)|(?<!use)(?<!change)(?<!addition)(?<!combination)(?<!introduction)(?<!size)(?<!sizes)"
    r"(?<!shape)(?<!number)(?<!order)(?<!width)(?<!into)\s+of)\s+(?:[\w-]+\s+){0,3}$",
    re.IGNORECASE,
)
"""Ends right before what it places: `inside the tile loop`, `of the next row block`."""
_REST_OF_WORD = re.compile(r"[\w-]*")


def kinds(change: str) -> tuple[str, ...]:
    """Kinds of change that different parts of the text name, in their order.

    A part names the first kind that it does. A word in a phrase of place (`inside the tile loop`), in a purpose
    (`so that the pipeline runs on`) or in what the change is said to need names none; an act does wherever it
    stands (`by tiling`).
    """
    found: list[str] = []
    for part in _JOINTS.split(moving(_NEEDED.sub(" ", _WHY.sub(" ", prose(change))))):
        kind = next((name for name, pattern in _KINDS if _done(pattern, part)), None)
        if kind is not None and kind not in found:
            found.append(kind)
    return tuple(found)


def _done(pattern: re.Pattern[str], part: str) -> bool:
    return any(not _placed(part, match) for match in pattern.finditer(part))


def _placed(part: str, match: re.Match[str]) -> bool:
    rest = _REST_OF_WORD.match(part, match.end())
    word = match.group() + (rest.group() if rest else "")
    return not word.endswith("ing") and _PLACE.search(part[: match.start()]) is not None
