"""Hardware numbers in a campaign's files: each must be registered, stand where it says, and not be hedged."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.knowledge.documents import Problem
from ridgeline.knowledge.facts import hedge
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.quantities import CLOSE, Quantity, quantities, quantity
from ridgeline.knowledge.registered import (
    ARROW,
    MeasuredNumber,
    RegisteredLine,
    find_misplacement,
    is_registered,
    list_registered,
    unknown,
)
from ridgeline.knowledge.specs import MISSING, unit_of

TARGET = 0.90
"""Share of a peak that a target is set at where the file names no other."""
FIRM = r"peaks?|ceilings?|theoretical|capacity|roof|TDP|boost clock|datasheet|data sheet|specs?"
SOFT = r"bandwidth|HBM\w*|L[123]|LLC|MALL|infinity cache|LDS|shared memory|SMEM|register file"
NOUN = re.compile(rf"(?<![\w-])(?:(?P<firm>{FIRM})|(?P<soft>{SOFT}))(?![\w-])", re.IGNORECASE)
OWN = re.compile(
    r"\b(?:achiev|reach|measur|sustain|observ|effective|mov(?:es|ed)|reads?|writes?|written|copi|uses?\b|using|alloc"
    r"|needs?\b|footprint|utili[sz]|working set|per (?:call|block|tile|work|program|wave|warp|iteration|stage|row)"
    r"|saves?\b|saved|traffic|loads?\b|stores?\b|stages?\b|buffers?\b|drops?|rises?|fell|rose|got\b|gets\b|instead of)",
    re.IGNORECASE,
)
"""Words of a kernel's own use or of a result: then a bandwidth or a size is no claim about the machine."""
SHARE = re.compile(
    r"\d[\d.]* ?%(?: of)?(?: the| its)?(?: [\w-]+){0,3}? (?:peak|ceiling|bandwidth|roof|capacity)\w*", re.I
)
CLAUSE = re.compile(r"[;|()]|(?<=\D)[.,] |\. ")
BEFORE, AFTER = 70, 30
"""Characters between a number and the noun that makes it a claim."""
_METRIC = re.compile(r"[-*\s`]*([a-z]\w*): ")
_RIDGE = re.compile(r"\bridge\b[^\d]{0,30}(?P<number>\d[\d.]*)", re.IGNORECASE)
_KEY = re.compile(r'\s*"(?P<key>\w+)": (?P<number>-?\d[\d.]*(?:e[+-]?\d+)?),?\s*', re.IGNORECASE)
_KEY_UNIT = {
    "tflops": "TFLOPS",
    "gflops": "GFLOPS",
    "tbps": "TB/s",
    "gbps": "GB/s",
    "gb": "GB",
    "mib": "MiB",
    "kib": "KiB",
}
_SIMILAR = re.compile(r"\bsimilar products?\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimsChecked:
    """What was found in a campaign's files."""

    files: int
    registered: int
    unknown: int
    """Metrics that the files say to be UNKNOWN: allowed, and no target may rest on them."""
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        """Of the knowledge's checked claims: whether every number can be believed."""
        return not self.problems


def check_files(files: Mapping[str, str], library: Library, measured: Sequence[MeasuredNumber] = ()) -> ClaimsChecked:
    """Check texts by path. `measured` is what the campaign's ledger holds. Only what stands in its files counts."""
    entries = [entry for path, text in files.items() for entry in list_registered(text, path)]
    problems = [problem for entry in entries if (problem := find_misplacement(entry, library, measured))]
    believed = [entry for entry in entries if all(p.line != entry.line or p.path != entry.path for p in problems)]
    unknowns = 0
    for path, text in files.items():
        shares = _fractions(text)
        for number, line in enumerate(text.splitlines(), start=1):
            unknowns += unknown(line) is not None
            problems += [
                Problem(path=path, line=number, what=what, mend=mend)
                for what, mend in _line(line, believed, shares, json=path.endswith(".json"))
            ]
    ordered = sorted(set(problems), key=lambda problem: (problem.path, problem.line, problem.what))
    return ClaimsChecked(files=len(files), registered=len(entries), unknown=unknowns, problems=tuple(ordered))


def _line(
    line: str, believed: Sequence[RegisteredLine], shares: Sequence[float], *, json: bool
) -> Iterator[tuple[str, str]]:
    """What is wrong with the hardware numbers of one line, each with its mend."""
    registered_quantities = [entry.quantity for entry in believed if entry.quantity is not None]
    if is_registered(line):
        if hedge(line.partition(ARROW)[0]):
            yield _hedge(line)
        return
    for claim, clause in _claims(line, json=json):
        if hedge(clause):
            yield f"{claim.written} is hedged", f"register the number, or write `UNKNOWN ({MISSING})`"
        if any(claim.equals(registered_quantity) for registered_quantity in registered_quantities):
            continue
        if re.search(r"\btargets?\b|>=", line) and any(
            _part(claim, registered_quantity, shares) for registered_quantity in registered_quantities
        ):
            continue
        mend = f"register it as `<metric>: <value> <unit> {ARROW} <file>:L<line>` in README.md, or remove it"
        yield f"{claim.written} has no source", mend
    if _SIMILAR.search(line):
        yield _hedge(line)
    ridge = _RIDGE.search(line)
    if ridge and not _is_ridge(float(ridge["number"].rstrip(".")), registered_quantities):
        yield f"ridge {ridge['number']} is no registered peak over a registered bandwidth", "register both, recompute"


def _claims(line: str, *, json: bool) -> Iterator[tuple[Quantity, str]]:
    """Numbers of a line that say something about the machine, each with its clause."""
    if json and (field := _KEY.fullmatch(line)):
        claim = _field(field["key"].lower(), field["number"])
        if claim is not None:
            yield claim, line
        return
    cleaned = SHARE.sub(lambda match: " " * len(match[0]), line)
    for clause in _clauses(cleaned):
        claims = [*quantities(clause)]
        for at, claim in enumerate(claims):
            left = claims[at - 1].end if at else 0
            right = claims[at + 1].start if at + 1 < len(claims) else len(clause)
            if _about_machine(clause, claim, left, right):
                yield claim, clause


def _about_machine(clause: str, claim: Quantity, left: int, right: int) -> bool:
    """Whether a noun of hardware stands beside the number, with no other number between."""
    if claim.dimension in ("CUs", "SMs", "XCDs"):
        return not OWN.search(clause)
    if claim.dimension == "W":
        return re.search(r"\bTDP\b", clause) is not None
    if (metric := _METRIC.match(clause)) and (unit_of(metric[1]) or ARROW in clause):
        return True
    before = clause[max(left, claim.start - BEFORE) : claim.start]
    after = clause[claim.end : min(right, claim.end + AFTER)]
    nouns = [*NOUN.finditer(before), *NOUN.finditer(after)]
    if any(noun["firm"] for noun in nouns):
        return True
    return bool(nouns) and not OWN.search(clause)


def _field(key: str, number: str) -> Quantity | None:
    """A hardware number under a key such as `peak_tflops`; shares and a kernel's own results are none."""
    unit = _KEY_UNIT.get(key.rpartition("_")[2])
    if unit is None or not re.search(r"peak|ceiling|capacity|hbm", key) or re.search(r"pct|share|ratio|util", key):
        return None
    return quantity(number, unit)


def _clauses(line: str) -> Iterator[str]:
    at = 0
    for match in CLAUSE.finditer(line):
        yield line[at : match.start()]
        at = match.end()
    yield line[at:]


def _fractions(text: str) -> tuple[float, ...]:
    """Shares of the hardware's ceiling that a file sets as its target."""
    percentages = re.findall(r"(\d[\d.]*) ?% of the (?:bounding ceiling|peak)", text)
    return tuple({TARGET, *(float(share) / 100 for share in percentages)})


def _part(claim: Quantity, total: Quantity, shares: Sequence[float]) -> bool:
    if claim.dimension != total.dimension:
        return False
    return any(math.isclose(claim.over(total), share, rel_tol=CLOSE) for share in shares)


def _is_ridge(value: float, registered_quantities: Sequence[Quantity]) -> bool:
    peaks = [
        registered_quantity
        for registered_quantity in registered_quantities
        if registered_quantity.dimension in ("FLOPS", "OPS")
    ]
    rates = [
        registered_quantity for registered_quantity in registered_quantities if registered_quantity.dimension == "B/s"
    ]
    return any(math.isclose(value, peak.over(rate), rel_tol=CLOSE) for peak in peaks for rate in rates)


def _hedge(line: str) -> tuple[str, str]:
    match = hedge(line)
    word = match[0].strip() if match else "similar product"
    return f"{word!r} hedges a hardware number", f"register the number, or write `UNKNOWN ({MISSING})`"
