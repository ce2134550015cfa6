"""Remember text that never changes: an entry of an append-only log is rendered once, not once a round.

Keyed by the identity of the values it was made of. They are frozen and the memo holds on to them, so that an identity
cannot come to mean another value; the oldest entries go first.
"""

from collections.abc import Callable
from typing import TypeVarTuple

Vs = TypeVarTuple("Vs")

ENTRIES = 1024
"""More than three entries for each of the at most 119 rounds of a campaign; a few kilobytes each."""

_texts: dict[tuple[object, ...], tuple[tuple[object, ...], str]] = {}


def once(make: Callable[[*Vs], str], *values: *Vs) -> str:
    """`make(*values)`, from memory where these very values were seen before. `make` must be pure."""
    key = (make, *map(id, values))
    known = _texts.get(key)
    if known is not None:
        return known[1]
    text = make(*values)
    while len(_texts) >= ENTRIES:
        _texts.pop(next(iter(_texts)), None)
    _texts[key] = (values, text)
    return text
