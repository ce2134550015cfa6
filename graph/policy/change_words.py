"""What the text of a change says is changed, as against what it quotes, mentions or says will stay."""

import re

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
_TILE = re.compile(r"\btiles?\b|\bBLOCK_[A-Z]+", re.IGNORECASE)
_NOTHING_ELSE = re.compile(rf"(?:{_NAME}|[\s/.])+")
_BETWEEN = "/"


def prose(text: str) -> str:
    """The text without the code that it quotes; a parameter's name in quotes is a name, not code."""

    def plain(match: re.Match[str]) -> str:
        inside = next((group for group in match.groups() if group is not None), "")
        return f" {inside} " if _PLAIN.fullmatch(inside) else " "

    return _CALL.sub(" ", _QUOTED.sub(plain, text))


def moving(text: str) -> str:
    """The text without what it says stays as it is; lists of parameters are joined by slashes."""
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
    """Parts joined by `and`; one that is kept is a gap, for what follows it may be a change of its own."""
    return [";" if _STAYS.search(part) else part for part in clause.split(_AND)]


def coupled(text: str) -> bool:
    """Whether the text declares one tile with what it needs: warps and stages that follow are no second idea."""
    return _COUPLED.search(text) is not None and _TILE.search(text) is not None


def settings(change: str) -> tuple[str, ...]:
    """Launch parameters that the text gives a value, moves by a verb, or names as all that there is to change."""
    found: list[str] = []
    for clause in _CLAUSE.split(moving(prose(change))):
        for part in clause.split(_AND):
            found += _set_in(part) if part.strip() else []
    return tuple(dict.fromkeys(found))


def _set_in(clause: str) -> list[str]:
    if _NOTHING_ELSE.fullmatch(clause):
        return _PARAMETER.findall(clause)
    found: list[str] = []
    for group in re.finditer(rf"\b{_NAME}\b(?:{_BETWEEN}{_NAME}\b)*", clause):
        before, after = clause[: group.start()], clause[group.end() :]
        if _VALUE.match(after) or _MOVES.match(after) or _VERB.search(before):
            found += _PARAMETER.findall(group.group())
    return found
