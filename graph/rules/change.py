"""What a hypothesis may not be, decided before any edit: more than one change, or a cache of a forbidden bucket."""

import re

from ridgeline.graph.values import FORBIDDEN_BUCKETS, Hypothesis

_NEEDED_TOGETHER = (
    ("claim", "what is expected to improve, and why"),
    ("change", "the one change"),
    ("risks", "what could go wrong"),
    ("verification", "what would show that it worked"),
)


def explain_several_changes(hypothesis: Hypothesis) -> str | None:
    """The loop's rule: why a proposal is not one hypothesis with one change and its evidence; None when it is.

    Only what its text decides: missing answers, parts joined by `and`, `plus`, `+` or `then` that belong to different
    kinds of change, and several launch parameters that are set. Quoted code, what is said to stay as it is, and words
    that only say where (`inside the tile loop`) change nothing. A declared sweep counts as one change, and so does a
    tile with the warps and stages that the text says it needs.
    """
    for field, meaning in _NEEDED_TOGETHER:
        if not getattr(hypothesis, field).strip():
            return f"{field} is empty; say {meaning}"
    if not any(item.strip() for item in hypothesis.evidence):
        return "evidence is empty; cite a measurement: evidence -> inference -> action"
    if hypothesis.sweep or are_coupled(hypothesis.change):
        return None
    kinds = find_change_kinds(hypothesis.change)
    if len(kinds) > 1:
        return f"names {len(kinds)} changes ({', '.join(kinds)}); propose one of them"
    parameters = settings(hypothesis.change)
    if len(parameters) > 1:
        return f"changes {', '.join(parameters)} at once; change one or declare a sweep"
    return None


def explain_forbidden(hypothesis: Hypothesis) -> str | None:
    """The loop's rule: why Rule 11 drops this direction before it is tried; None when it may be tried."""
    if hypothesis.bucket in FORBIDDEN_BUCKETS:
        return f"bucket {hypothesis.bucket}: a cache that only a benchmark's repeated tensors can hit"
    if hypothesis.bucket == "W1" and not (hypothesis.real_gain_bound or 0.0) > 0:
        return "bucket W1 without a bound; give real_gain_bound = quantisation time / step time"
    return None


# Which kinds of change the text of one change names: what it does, as against where and why it does it.

_JOINTS = re.compile(
    r"\s\+\s|;|\s&\s|\band\b|\bplus\b|\bthen\b|\balso\b|\bas well as\b|\b(?:together|along|combined) with\b"
    r"|\bin addition\b|\balongside\b",
    re.IGNORECASE,
)
_TILE_SIZE = r"(?:tiles?|blocks?)"
_EXTENT = r"\d+(?:\s*(?:x|\*|by)\s*\d+)*"
_OBJECT = rf"(?:(?:the|it|by|over|for|both|all|each|every|inner|outer|rows|columns|loops|[ijkmnp])\b|{_EXTENT})"
_TILING = "|".join(
    (
        r"BLOCK_|(?<!non-)\b(?:tiling|blocking)\b",
        rf"^\W*(?:(?:cache|register|loop)[\s-])?(?:tile|block)\s+{_OBJECT}",
        rf"\b(?:to|we|it|which)\s+(?:tile|block)\s+{_OBJECT}",
        r"\b(?:tile|block)[\s_-](?:sizes?|shapes?|widths?|heights?|extents?)\b",
        rf"\b{_TILE_SIZE}\s*(?:(?:becomes?|goes|rises?|of|from|to|is|=|->|→)\s*)*{_EXTENT}",
        rf"\b{_EXTENT}\s+(?:(?:register|cache|output|input|row|column|shared)\s+)?{_TILE_SIZE}\b",
        rf"\b(?:larger|bigger|smaller|wider|taller|narrower|square|different|another)\s+(?:\w+\s+){{0,2}}{_TILE_SIZE}\b",
        rf"\binto\s+(?:\w+\s+){{0,2}}{_TILE_SIZE}\b",
        rf"\b(?:add|use|introduce|adopt|double|halve|enlarge|shrink|widen)s?\s+(?:an?|the)?\s*(?:\w+\s+)?{_TILE_SIZE}\b"
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


def find_change_kinds(change: str) -> tuple[str, ...]:
    """For the rule of one change a round: kinds of change that parts of a hypothesis name, in their order.

    A part names the first kind that it does. A word in a phrase of place (`inside the tile loop`), in a purpose
    (`so that the pipeline runs on`) or in what the change is said to need names none; an act does wherever it
    stands (`by tiling`).
    """
    names: list[str] = []
    for part in _JOINTS.split(moving(_NEEDED.sub(" ", _WHY.sub(" ", prose(change))))):
        kind = next((name for name, pattern in _KINDS if _is_done(pattern, part)), None)
        if kind is not None and kind not in names:
            names.append(kind)
    return tuple(names)


def _is_done(pattern: re.Pattern[str], part: str) -> bool:
    return any(not _has_place(part, match) for match in pattern.finditer(part))


def _has_place(part: str, match: re.Match[str]) -> bool:
    rest = _REST_OF_WORD.match(part, match.end())
    word = match.group() + (rest.group() if rest else "")
    return not word.endswith("ing") and _PLACE.search(part[: match.start()]) is not None


# What the text of a change says is changed, as against what it quotes, mentions or says will stay.

_QUOTED = re.compile(r"`([^`]*)`|\"([^\"]*)\"|(?<!\w)'([^']*)'(?!\w)")
_CALL = re.compile(r"[A-Za-z_][\w.]*(?:\[[^\]\n]*\])?\([^()]*\)")
"""Code that nobody put into quotes: `tl.range(0, n, BLOCK_SIZE, num_stages=3)`."""
_NAME = r"(?:BLOCK(?:_SIZE)?_[A-Z]+|num_warps|num_stages|waves_per_eu|GROUP_SIZE_M)"
_PLAIN = re.compile(rf"\s*{_NAME}(?:\s*(?:=|:|->|→|from|to|by)?\s*\d+)*\s*")
"""A quotation that is a parameter, with values or without: it is meant, not quoted."""
_LIST = re.compile(rf"\b{_NAME}\b(?:\s*(?:,\s*and|,|/|&|\band)\s*\b{_NAME}\b)+")
_PARAMETER = re.compile(rf"\b{_NAME}\b")
_CLAUSE = re.compile(
    r"[;:()\n]|,|\.(?:\s|$)|\b(?:while|but|with|where|instead of|rather than|at the(?= same))\b", re.IGNORECASE
)
_AND = " and "
_ALL_STAYS = re.compile(
    r"\b(?:unchanged|untouched|stays?|staying|remains?|remaining|unaffected|neither|without|as (?:now|before)"
    r"|as (?:it|they) (?:is|are))\b",
    re.IGNORECASE,
)
_STAYS = re.compile(
    r"\b(?:keep(?:s|ing)?|kept|same|leav(?:e|es|ing)|today's|existing|present|current(?:ly)?|already|not)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:chang|rais|lower|increas|decreas|reduc|doubl|halv|set|sett|mov|bump|tun|enlarg|shrink|grow|adjust|vary|swap)"
    r"(?:e|es|s|ed|ing)?\s+(?:(?!(?:of|for|per|in|over|by|from|to)\b)[\w'-]+\s+){0,2}$",
    re.IGNORECASE,
)
"""Ends right before what it governs, an article and an adjective between them."""
_VALUE = re.compile(r"\s*(?:=|:|->|→|from|to|of|at|by|becomes?|goes|up|down|is|\s)*\s*\d")
_MOVES = re.compile(r"\s*(?:becomes?|goes|rises?|falls?|doubles?|halves?|up|down|larger|smaller)\b", re.IGNORECASE)
_COUPLED = re.compile(
    r"\b(?:it|tile|size|launch|block)\s+(?:then\s+|itself\s+)?(?:needs?|requires?|asks for)\b", re.IGNORECASE
)
_TILE_WORD = re.compile(r"\btiles?\b|\bBLOCK_[A-Z]+", re.IGNORECASE)
_NOTHING_ELSE = re.compile(rf"(?:{_NAME}|[\s/.])+")
_BETWEEN = "/"


def prose(text: str) -> str:
    """For the rule of one change a round: a hypothesis's text without the code that it quotes; a name in quotes is no code."""

    def plain(match: re.Match[str]) -> str:
        inside = next((group for group in match.groups() if group is not None), "")
        return f" {inside} " if _PLAIN.fullmatch(inside) else " "

    return _CALL.sub(" ", _QUOTED.sub(plain, text))


def moving(text: str) -> str:
    """For the rule of one change a round: a hypothesis's text without what it says stays; lists of parameters joined by slashes."""
    joined = _LIST.sub(lambda match: _BETWEEN.join(_PARAMETER.findall(match.group())), text)
    out: list[str] = []
    start = 0
    for end in (*(match.span() for match in _CLAUSE.finditer(joined)), (len(joined), len(joined))):
        clause = joined[start : end[0]]
        out.append("" if _ALL_STAYS.search(clause) else _AND.join(_but_kept(clause)))
        out.append(joined[end[0] : end[1]])
        start = end[1]
    return "".join(out)


def _but_kept(clause: str) -> list[str]:
    """For the rule of one change a round: parts joined by `and`; one that stays is a gap: what follows may be another change."""
    return [";" if _STAYS.search(part) else part for part in clause.split(_AND)]


def are_coupled(text: str) -> bool:
    """For the rule of one change a round: whether the text declares one tile with what it needs: warps that follow are no second."""
    return _COUPLED.search(text) is not None and _TILE_WORD.search(text) is not None


def settings(change: str) -> tuple[str, ...]:
    """For the rule of one change a round: launch parameters that a hypothesis sets, moves by a verb, or names as all to change."""
    names: list[str] = []
    for clause in _CLAUSE.split(moving(prose(change))):
        for part in clause.split(_AND):
            names += _set_in(part) if part.strip() else []
    return tuple(dict.fromkeys(names))


def _set_in(clause: str) -> list[str]:
    """Names of tuning parameters that a clause of a hypothesis sets."""
    if _NOTHING_ELSE.fullmatch(clause):
        return _PARAMETER.findall(clause)
    names: list[str] = []
    for group in re.finditer(rf"\b{_NAME}\b(?:{_BETWEEN}{_NAME}\b)*", clause):
        before, after = clause[: group.start()], clause[group.end() :]
        if _VALUE.match(after) or _MOVES.match(after) or _VERB.search(before):
            names += _PARAMETER.findall(group.group())
    return names
