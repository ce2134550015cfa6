"""What a suite has shown so far: shares of problems that became faster, mean speedups with bounds, two arms side by side.

Pure functions over rows. A problem that could not become a task is `refused` and in no share; one that an arm got wrong, or
had no answer to, counts as no faster: whoever asked keeps the original.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ridgeline.agent.bench.baselines import TORCH
from ridgeline.graph.reports.text import times_at_least
from ridgeline.graph.stats.intervals import student_quantile
from ridgeline.graph.values import Value, is_empty

Result = Literal["faster", "not_faster", "wrong", "missing", "refused", "failed", "waiting"]
"""`refused`: the problem cannot be judged. `failed`: the command ended without an answer. `waiting`: for a person, a model
behind a mailbox or a device; it is tried again."""
FINAL: frozenset[Result] = frozenset({"faster", "not_faster", "wrong", "missing", "refused"})
"""What is not tried again."""
CORRECT: frozenset[Result] = frozenset({"faster", "not_faster"})
THRESHOLDS = (1.0, 1.5, 2.0)
"""fast_p of KernelBench: the share of problems that are right and more than p times as fast."""
CONFIDENCE = 0.95


class Row(Value):
    """What one arm made of one problem."""

    problem: str
    arm: str
    result: Result
    speedup: float | None = None
    """Time of the original over that of what was kept; None where nothing faster was."""
    speedup_lower: float | None = None
    """Its lower confidence bound."""
    seconds: float = 0.0
    detail: str = ""
    """One line: why it was refused, wrong or failed, or waits; where the campaign is."""
    page: str = ""
    """The question that a waiting campaign wants answered, from the suite's folder."""
    asked: tuple[str, ...] = ()
    """Beside whom its champion was timed, `eager` ..., or could not be: that is not tried again."""
    over: Mapping[str, float] = {}
    """Their time over the champion's, of those that were timed."""
    over_lower: Mapping[str, float] = {}
    """Its lower bound at 99 %."""
    undecided: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Of those asked, who has no time since two clocks disagree on the champion's lead."""

    @property
    def log_speedup(self) -> float:
        """Log-speedup in a suite's row; 0 where nothing faster was kept."""
        return math.log(self.speedup) if self.result == "faster" and self.speedup else 0.0

    def find_least(self, names: Sequence[str]) -> float | None:
        """Of those names the least lower bound: over the best of them that was timed. None where nobody was, or one has no bound
        or was not told apart: that one may be the best."""
        timed = [name for name in names if name in self.over]
        unbounded = any(name not in self.over_lower for name in timed)
        if not timed or unbounded or any(name in self.undecided for name in names):
            return None
        return min(self.over_lower[name] for name in timed)

    @property
    def log_lower(self) -> float:
        """Log of the lower bound in a suite's row; 0 where nothing faster was kept, or nothing bounds it."""
        return math.log(self.speedup_lower) if self.result == "faster" and self.speedup_lower else 0.0


class FastShare(Value):
    """fast_p at one p."""

    p: float
    measured: float
    proven: float
    """The same of lower bounds."""


class ArmSummary(Value):
    """One line of the table."""

    arm: str
    problems: int
    """Tried to an end, without those that were refused."""
    correct: int
    faster: int
    wrong: int
    missing: int
    refused: int
    unfinished: int
    """Failed or waiting: in no share."""
    fast: tuple[FastShare, ...]
    """Of all `problems`; none where all of them are `missing`, or there is none: nothing was judged."""
    geometric_mean: float | None
    """Of the speedups over all `problems`, 1 where nothing faster was kept; None where nothing was judged."""
    geometric_mean_lower: float | None
    """Of the lower bounds: at least as sure as each of them, whatever their errors have in common, where those are normal."""
    minutes: float


class Contest(Value):
    """Two arms over the problems that both ended."""

    a: str
    b: str
    problems: int
    ratio: float
    """Geometric mean of b's speedup over a's: above 1, b is better."""
    lower: float | None
    upper: float | None
    """Ends of the 95 % interval over problems, by Student's t; None with fewer than two, or where all are alike: such
    problems say nothing of how far others are apart."""
    a_ahead: int
    b_ahead: int
    """Problems on which one's bound is above what the other measured."""


class Lead(Value):
    """One arm's champions beside others' kernels."""

    arm: str
    over: str
    """`torch`: the best of eager, torch.compile and max-autotune that was timed; or `rival`."""
    names: tuple[str, ...]
    """Who was timed on every one of these problems."""
    problems: int
    geometric_mean_lower: float
    """Of the lower bounds, over the problems on which one was timed."""
    ahead: int
    """Problems whose lower bound is above 1."""


class Table(Value):
    """All of it."""

    arms: tuple[ArmSummary, ...]
    contests: tuple[Contest, ...]
    leads: tuple[Lead, ...] = ()
    rows: tuple[Row, ...]
    untried: int
    """Problems times arms that the budget did not reach."""


def summarize_rows(rows: Sequence[Row], arms: Sequence[str], *, attempts: int) -> Table:
    """The suite's table. `attempts`: problems times arms, tried or not."""
    latest = {(row.problem, row.arm): row for row in rows}
    seconds = dict.fromkeys(latest, 0.0)  # of every call that an attempt went on in
    for row in rows:
        seconds[row.problem, row.arm] += row.seconds
    kept = tuple(row.model_copy(update={"seconds": seconds[key]}) for key, row in latest.items())
    contests = [compare_arms(kept, a, b) for place, a in enumerate(arms) for b in arms[place + 1 :]]
    return Table(
        arms=tuple(summarize_arm([row for row in kept if row.arm == arm], arm) for arm in arms),
        contests=tuple(contest for contest in contests if contest is not None),
        leads=tuple(
            lead
            for arm in arms
            for over, names in (("torch", TORCH), ("rival", ("rival",)))
            if (lead := _summarize_lead([row for row in kept if row.arm == arm], arm, over, names)) is not None
        ),
        rows=kept,
        untried=attempts - len(kept),
    )


def summarize_arm(rows: Iterable[Row], arm: str) -> ArmSummary:
    """One arm's line of the suite's table."""
    rows = list(rows)
    counted = [row for row in rows if row.result in FINAL and row.result != "refused"]
    shared = counted if _has_answer(counted) else []

    def count(*results: Result) -> int:
        return sum(row.result in results for row in rows)

    return ArmSummary(
        arm=arm,
        problems=len(counted),
        correct=count(*CORRECT),
        faster=count("faster"),
        wrong=count("wrong"),
        missing=count("missing"),
        refused=count("refused"),
        unfinished=count("failed", "waiting"),
        fast=tuple(_share(counted, p) for p in THRESHOLDS) if shared else (),
        geometric_mean=math.exp(statistics.fmean(row.log_speedup for row in shared)) if shared else None,
        geometric_mean_lower=math.exp(statistics.fmean(row.log_lower for row in shared)) if shared else None,
        minutes=sum(row.seconds for row in rows) / 60,
    )


def _has_answer(rows: Iterable[Row]) -> bool:
    """Whether a suite's arm had an answer to any of these problems: else nothing of it was judged."""
    return any(row.result != "missing" for row in rows)


def _summarize_lead(rows: Iterable[Row], arm: str, over: str, names: Sequence[str]) -> Lead | None:
    """A suite's arm beside others by its rows; None where nobody was timed."""
    timed = [(row, least) for row in rows if (least := row.find_least(names)) is not None]
    if not timed:
        return None
    return Lead(
        arm=arm,
        over=over,
        names=tuple(name for name in names if all(name in row.over_lower for row, _ in timed)),
        problems=len(timed),
        geometric_mean_lower=math.exp(statistics.fmean(math.log(least) for _, least in timed)),
        ahead=sum(least > 1 for _, least in timed),
    )


def _share(counted: Sequence[Row], p: float) -> FastShare:
    """fast_p of a suite's arm: right, and faster than p times; measured, and by lower bounds."""
    fast = [row for row in counted if row.result == "faster"]
    return FastShare(
        p=p,
        measured=sum(row.speedup is not None and row.speedup > p for row in fast) / len(counted),
        proven=sum(row.speedup_lower is not None and row.speedup_lower > p for row in fast) / len(counted),
    )


def compare_arms(rows: Iterable[Row], a: str, b: str) -> Contest | None:
    """Two arms of a suite, b against a, problem by problem; None where no problem was ended by both, or one had no answer at all."""
    ended = {(row.problem, row.arm): row for row in rows if row.result in FINAL and row.result != "refused"}
    shared = [problem for problem, arm in ended if arm == a and (problem, b) in ended]
    both = [(ended[problem, a], ended[problem, b]) for problem in shared]
    if not all(_has_answer(pair[side] for pair in both) for side in (0, 1)):
        return None
    ratios = [second.log_speedup - initial.log_speedup for initial, second in both]
    center, half = statistics.fmean(ratios), None
    if len(set(ratios)) > 1:
        half = student_quantile((1 - CONFIDENCE) / 2, len(ratios) - 1) * statistics.stdev(ratios) / len(ratios) ** 0.5
    return Contest(
        a=a,
        b=b,
        problems=len(both),
        ratio=math.exp(center),
        lower=None if half is None else math.exp(center - half),
        upper=None if half is None else math.exp(center + half),
        a_ahead=sum(initial.log_lower > second.log_speedup for initial, second in both),
        b_ahead=sum(second.log_lower > initial.log_speedup for initial, second in both),
    )


HEADER = (
    "ARM",
    "PROBLEMS",
    "CORRECT",
    "REFUSED",
    "OPEN",
    *(f"fast_{p:g}" for p in THRESHOLDS),
    "MEAN",
    "AT LEAST",
    "MINUTES",
)


def render_table(table: Table) -> list[tuple[str, ...]]:
    """Lines of a suite's table below `HEADER`: shares as measured and, in brackets, as proven."""
    return [
        (
            arm.arm,
            str(arm.problems),
            str(arm.correct),
            str(arm.refused),
            str(arm.unfinished),
            *(f"{share.measured:.2f} ({share.proven:.2f})" for share in arm.fast or ()),
            *(("-",) * (len(THRESHOLDS) - len(arm.fast))),
            "-" if arm.geometric_mean is None else f"{arm.geometric_mean:.3f}x",
            "-" if arm.geometric_mean_lower is None else times_at_least(arm.geometric_mean_lower),
            f"{arm.minutes:.1f}",
        )
        for arm in table.arms
    ]


def render_contests(table: Table) -> list[str]:
    """A sentence for each two arms of a suite."""
    lines = []
    for contest in table.contests:
        bounds = "" if contest.lower is None else f", between {contest.lower:.3f}x and {contest.upper:.3f}x (95 %)"
        lines.append(
            f"{contest.b} against {contest.a}: {contest.ratio:.3f}x in the mean of {contest.problems} problems{bounds}; "
            f"surely ahead on {contest.b_ahead} and {contest.a_ahead}"
        )
    return lines


def render_leads(table: Table) -> list[str]:
    """A sentence for each arm of a suite beside PyTorch, and beside others' kernels."""
    words = {"torch": "the best of PyTorch that was timed", "rival": "others' kernels"}
    return [
        f"{lead.arm} against {words[lead.over]}"
        + (f" ({', '.join(lead.names) or 'not the same everywhere'})" if lead.over == "torch" else "")
        + f": at least {times_at_least(lead.geometric_mean_lower)} in the mean of {lead.problems}"
        f" problem{'s' if lead.problems > 1 else ''}, ahead on {lead.ahead}"
        for lead in table.leads
    ]


def _tell_absence(row: Row, name: str) -> str:
    """Why a suite's row has no bound over somebody that was asked for."""
    if name in row.undecided:
        return "not told apart"
    return "without a bound" if name in row.over else "not timed"


def render_sides(row: Row) -> str:
    """Beside whom a row's champion was timed, in one line: `at least 2.1x eager; compile not timed`."""
    told = [
        f"at least {times_at_least(row.over_lower[name])} {name}"
        if name in row.over_lower
        else f"{name} {_tell_absence(row, name)}"
        for name in row.asked
    ]
    return "; ".join(told)
