"""Registered numbers: `<metric>: <value> <unit> <- <place>`, and whether the number stands at that place."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ridgeline.knowledge.documents import Problem
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.quantities import Quantity, quantities, quantity
from ridgeline.knowledge.specs import MISSING, Spec, specs

ARROW = "<-"
PRINTED = 1e-4
"""Two prints of the same measured number differ by less than this share."""
_LINE = re.compile(
    r"[-*\s]*(?P<metric>[^:|`]+): (?P<number>\d[\d.,]*(?:e[+-]?\d+)?)(?: (?P<unit>[^<|]+?))? <- (?P<place>.+?)`?\s*"
)
_PLACE = re.compile(r"(?P<path>[^:]+\.md):L?(?P<line>\d+)(?: \(unverified\))?(?: / (?P<dies>\d+) dies)?")
_HERE = re.compile(r"(?:measured here|reported by this machine's system): .+")
_UNKNOWN = re.compile(r"[-*\s]*(?P<metric>[^:|]+): UNKNOWN\b(?P<rest>.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredNumber:
    """A number that the campaign's ledger holds."""

    metric: str
    value: float
    unit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredLine:
    """One registered line."""

    path: str
    line: int
    metric: str
    number: float
    unit: str
    place: str
    quantity: Quantity | None


def list_registered(text: str, path: str) -> Iterator[RegisteredLine]:
    """In a document of the knowledge: every registered line of a file."""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        unit = (match["unit"] or "").strip()
        plain = match["number"].replace(",", "")
        yield RegisteredLine(
            path=path,
            line=number,
            metric=match["metric"].strip(),
            number=float(plain),
            unit=unit,
            place=match["place"].strip(),
            quantity=quantity(plain, unit),
        )


def is_registered(line: str) -> bool:
    """In a document of the knowledge: whether a line has the registered form."""
    return _LINE.fullmatch(line) is not None


def unknown(line: str) -> str | None:
    """The hardware metric that a line of knowledge says to be UNKNOWN, or None."""
    match = _UNKNOWN.fullmatch(line)
    return match["metric"].strip() if match else None


def find_misplacement(entry: RegisteredLine, library: Library, measured: Sequence[MeasuredNumber]) -> Problem | None:
    """Why a registered number cannot be believed, or None: it stands where it says."""
    if _HERE.fullmatch(entry.place):
        if any(_same(entry, measurement) for measurement in measured):
            return None
        return _problem(entry, f"{entry.metric} is called measured, and the ledger does not hold it", "remove the line")
    match = _PLACE.fullmatch(entry.place)
    if match is None:
        return _problem(entry, f"{entry.place!r} is no place", "write `<- knowledge/hardware/<file>.md:L<line>`")
    path, line = match["path"], int(match["line"])
    text = library.line(path, line)
    if text is None:
        return _problem(entry, f"{path} has no line {line}", _mend(entry.metric))
    spec = _spec_at(library, path, line)
    if spec is not None:
        return _against(replace(entry, number=entry.number * int(match["dies"] or 1)), spec)
    if entry.quantity is not None and any(entry.quantity.equals(quantity) for quantity in quantities(text)):
        return None
    return _problem(
        entry, f"line {line} of {path} does not say {entry.number:g} {entry.unit}".rstrip(), _mend(entry.metric)
    )


def _against(entry: RegisteredLine, spec: Spec) -> Problem | None:
    """Why a registered number contradicts its line: that must be about the same metric and give the same number in the same unit."""
    if not re.search(rf"(?<!\w){re.escape(spec.metric)}$", entry.metric):
        return _problem(entry, f"{entry.place} is about {spec.metric}, not {entry.metric}", _mend(entry.metric))
    if spec.value is None or spec.unit != entry.unit or not math.isclose(spec.value, entry.number, rel_tol=1e-9):
        says = f"{spec.written} {spec.unit}".strip() if spec.written else f"UNKNOWN ({MISSING})"
        return _problem(
            entry, f"{entry.place} says {says}, not {entry.number:g} {entry.unit}".rstrip(), _mend(entry.metric)
        )
    return None


def _spec_at(library: Library, path: str, line: int) -> Spec | None:
    document = next((entry for entry in library.documents if entry.path == path), None)
    if document is None:
        return None
    return next((spec for spec in specs(document) if spec.source_line == line), None)


def _same(entry: RegisteredLine, measurement: MeasuredNumber) -> bool:
    return (
        entry.metric == measurement.metric
        and entry.unit == measurement.unit
        and math.isclose(entry.number, measurement.value, rel_tol=PRINTED)
    )


def _problem(entry: RegisteredLine, what: str, mend: str) -> Problem:
    return Problem(path=entry.path, line=entry.line, what=what, mend=mend)


def _mend(metric: str) -> str:
    return f"register what `ridgeline knowledge spec PRODUCT {metric.split()[-1]}` prints"
