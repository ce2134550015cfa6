"""Numbers with hardware units, brought to one scale so that 3.35 TB/s and 3350 GB/s are the same claim."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
CLOSE = 0.005
"""Two numbers that differ by less than this share are the same number, rounded differently."""
_UNIT = (
    r"(?P<prefix>[KMGTP])(?P<binary>i?)(?P<base>FLOPS|FLOP/s|OPS|B/s|B|Hz|bps)"
    r"|(?P<count>CUs|SMs|XCDs|compute units|streaming multiprocessors|MHz|W)"
)
QUANTITY = re.compile(rf"(?<![\w.#/-])(?P<number>\d+(?:[ ,]\d{{3}})*(?:\.\d+)?(?:e[+-]?\d+)?)[ -]?(?:{_UNIT})(?![\w/])")
COUNTS = {"compute units": "CUs", "streaming multiprocessors": "SMs"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """One number with its unit, as it stands in a text."""

    start: int
    end: int
    written: str
    dimension: str
    """`FLOPS`, `OPS`, `B/s`, `B`, `Hz`, or the word that is counted."""
    values: tuple[float, ...]
    """In units without prefix; two where MB may have been meant as MiB."""

    def equals(self, quantity: "Quantity") -> bool:
        """Whether two hardware quantities can be the same number."""
        return self.dimension == quantity.dimension and any(
            math.isclose(a, b, rel_tol=CLOSE) for a in self.values for b in quantity.values
        )

    def over(self, divisor: "Quantity") -> float:
        """Ratio of two hardware quantities as they are written."""
        return self.values[0] / divisor.values[0] if divisor.values[0] else math.inf


def quantities(text: str) -> Iterator[Quantity]:
    """Every number with a hardware unit, from left to right."""
    for match in QUANTITY.finditer(text):
        yield _quantity(match)


def quantity(number: str, unit: str) -> Quantity | None:
    """A number and a unit that were parsed apart; None for a unit that is none of hardware."""
    match = QUANTITY.fullmatch(f"{number} {unit}")
    return _quantity(match) if match else None


def _quantity(match: re.Match[str]) -> Quantity:
    number = float(re.sub(r"[ ,]", "", match["number"]))
    count = match["count"]
    values: tuple[float, ...] = (number,)
    if count == "MHz":
        dimension, values = "Hz", (number * 1e6,)
    elif count is not None:
        dimension = COUNTS.get(count, count)
    else:
        base = match["base"]
        dimension = {"FLOP/s": "FLOPS", "bps": "B/s"}.get(base, base)
        values = _scale(number, match["prefix"], binary=bool(match["binary"]), size=dimension == "B")
    return Quantity(start=match.start(), end=match.end(), written=match[0].strip(), dimension=dimension, values=values)


def _scale(number: float, prefix: str, *, binary: bool, size: bool) -> tuple[float, ...]:
    decimal = number * PREFIXES[prefix]
    power = number * 1024.0 ** (1 + list(PREFIXES).index(prefix))
    if binary:
        return (power,)
    return (decimal, power) if size else (decimal,)
