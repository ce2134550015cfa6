"""What the rules say of all cases together: counts, claimed and true gain, as values, text and Markdown."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.evals.research.rejudge.cases import Case
from ridgeline.evals.research.rejudge.rules import Rule, Ruling
from ridgeline.graph.values import Value

SURE = 2.33
"""Standard deviations of a one-sided bound at 1 %."""


class CaseDecision(Value):
    """One case under one rule."""

    recording: str
    round: int
    recorded: str
    """What the campaign did with it: kept or dropped."""
    answer: str
    claimed: float
    """Speedup that the rule would report; 1.0 unless kept."""
    true: float
    """Speedup by all that was measured."""
    why: str


class Tally(Value):
    """One rule over all recordings."""

    rule: str
    told: str
    candidates: int
    kept: int
    unrecorded: int
    """The rule wants more than was measured; neither kept nor dropped."""
    unproven: int
    """Kept although all that was measured together does not show that it is faster."""
    missed: int
    """Dropped although surely faster."""
    claimed: float
    """Of a campaign, geometric mean: the product of the speedups that it would report of what it keeps."""
    true: float
    """Likewise, the true speedups of the same candidates."""
    twins: int
    """Stretches of identical versions that were shown to it."""
    twins_kept: int
    twins_claimed: float
    """Largest speedup that it would have reported of identical versions; 1.0 when it kept none."""
    decisions: tuple[CaseDecision, ...]

    @property
    def inflation(self) -> float:
        """Of a rejudging rule: claimed over true gain: 1.0 is honest."""
        return self.claimed / self.true


def tally(rule: Rule, cases: Sequence[Case]) -> Tally:
    """Count every rejudged case once."""
    ruled = [(case, rule.decide(case)) for case in cases if not case.identical]
    twins = [rule.decide(case) for case in cases if case.identical]
    campaigns = max(len({case.recording for case in cases}), 1)
    accepted = [(case, ruling) for case, ruling in ruled if ruling.answer == "kept"]
    fooled = [ruling.claimed for ruling in twins if ruling.answer == "kept"]
    return Tally(
        rule=rule.name,
        told=rule.description,
        candidates=len(ruled),
        kept=len(accepted),
        unrecorded=sum(ruling.answer == "unrecorded" for _, ruling in ruled),
        unproven=sum(not _surely(case) for case, _ in accepted),
        missed=sum(ruling.answer == "dropped" and _surely(case) for case, ruling in ruled),
        claimed=math.exp(math.fsum(ruling.claimed for _, ruling in accepted) / campaigns),
        true=math.exp(math.fsum(case.truth.theta for case, _ in accepted) / campaigns),
        twins=len(twins),
        twins_kept=len(fooled),
        twins_claimed=math.exp(max(fooled, default=0.0)),
        decisions=tuple(_decide(case, ruling) for case, ruling in ruled),
    )


def _surely(case: Case) -> bool:
    return case.truth.theta > SURE * math.sqrt(case.truth.variance)


def _decide(case: Case, ruling: Ruling) -> CaseDecision:
    return CaseDecision(
        recording=case.recording,
        round=case.round,
        recorded="kept" if case.recorded else "dropped",
        answer=ruling.answer,
        claimed=math.exp(ruling.claimed),
        true=math.exp(case.truth.theta),
        why=ruling.why,
    )


HEAD = (
    "rule",
    "kept",
    "not recorded",
    "kept, not shown faster",
    "gains missed",
    "claimed",
    "true",
    "claimed / true",
    "identical versions kept",
)


def rows(tallies: Sequence[Tally]) -> list[tuple[str, ...]]:
    """A row of words for each rule that rejudged, under `HEAD`."""
    return [
        (
            row.rule,
            f"{row.kept} of {row.candidates}",
            str(row.unrecorded),
            str(row.unproven),
            str(row.missed),
            f"{row.claimed:.2f}x",
            f"{row.true:.2f}x",
            f"{row.inflation - 1:+.2%}",
            f"{row.twins_kept} of {row.twins}" + (f", up to {row.twins_claimed - 1:+.2%}" if row.twins_kept else ""),
        )
        for row in tallies
    ]


def markdown(tallies: Sequence[Tally]) -> str:
    """The table of rejudging rules for a page."""
    lines = [" | ".join(HEAD), "|".join(["---", *["--:"] * (len(HEAD) - 1)]), *(" | ".join(r) for r in rows(tallies))]
    return "\n".join([f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:])])


# A picture of the table: what each rule claims, what of it is true, and how often identical versions fool it.

TRUE, CLAIMED, FOOLED = "#1a7f37", "#b0b0b0", "#b35900"
FORMATS = (".png", ".svg")


def draw(path: Path, tallies: Sequence[Tally]) -> None:
    """Write the picture of rejudging rules, `.png` or `.svg` by the name. Raises UserError where matplotlib or the format is missing."""
    if path.suffix not in FORMATS:
        raise UserError(f"--plot: {path}: the name must end in {' or '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UserError("--plot: matplotlib is not installed here; pip install matplotlib", exit_code=5)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.5 * len(tallies) + 2), dpi=144, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = list(range(len(tallies)))
    left.barh([p - 0.2 for p in places], [t.claimed for t in tallies], height=0.38, color=CLAIMED, label="claimed")
    left.barh([p + 0.2 for p in places], [t.true for t in tallies], height=0.38, color=TRUE, label="true")
    left.set_xlabel("speedup of what is kept, geometric mean of campaigns")
    left.set_yticks(places, [tally.rule for tally in tallies])
    left.invert_yaxis()
    left.legend(loc="upper left", bbox_to_anchor=(0, 1.08), ncols=2, frameon=False)
    shares = [100 * tally.twins_kept / tally.twins if tally.twins else 0.0 for tally in tallies]
    right.barh(places, shares, height=0.6, color=FOOLED)
    right.set_xlabel(f"identical versions that were kept, % of {tallies[0].twins}")
    right.set_xlim(0, 100)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format=path.suffix[1:])
