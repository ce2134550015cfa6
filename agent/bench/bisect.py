"""`ridgeline bisect`: the commit of a range that made a kernel slower, by the contract's own quick benchmark."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from ridgeline.agent.bench.request import Request
from ridgeline.agent.bench.run import compare_versions
from ridgeline.agent.campaign.wiring import Place, connect
from ridgeline.agent.contract_file import LoadedContract, load
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import BenchmarkFailed
from ridgeline.graph.ports import Ports
from ridgeline.graph.rules.score import ScoreError, aggregate, higher_wins
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.workspace.git import git
from ridgeline.sandbox.workspace.repository import GatheringRepository, Version, find_repository, revision
from ridgeline.sandbox.workspace.worktree import GitWorkspace

Say = Callable[[str], None]

# The rules: thresholds, when to measure again, and which commit comes next.

GAP_SHARE = 0.30
"""A commit is bad when it lies past the good one by more than this share of the gap."""
CLOSE_SHARE = 0.10
"""Of the threshold: a median so near to it is measured more often."""
SMALL_REGRESSION = 0.05
"""A gap below this share of the good number may be noise."""
RUNS, RUNS_WHEN_CLOSE = 3, 5
"""After one that is not counted."""
CONFIRM_MINUTES = 10.0
"""At most, for the comparison of the first bad commit with the last good one."""
FAILURES_IN_A_ROW = 3
"""So many commits that do not build or run are a question for a person."""

Answer = Literal["good", "bad", "unknown"]


class Bounds(Value):
    """The two ends of a bisection in the metric's own unit, whichever way is worse."""

    good: float
    bad: float

    @property
    def threshold(self) -> float:
        """The benchmark time or rate that separates good commits from bad ones."""
        return self.good + GAP_SHARE * (self.bad - self.good)

    @property
    def regression(self) -> float:
        """The gap between good and bad commit as a share of the good number."""
        return abs(self.bad - self.good) / abs(self.good)

    def is_close(self, value: float) -> bool:
        """Whether a commit's median is so near to the threshold that more runs decide."""
        return abs(value - self.threshold) <= CLOSE_SHARE * abs(self.threshold)

    def judge(self, values: Sequence[float]) -> Answer:
        """A commit is good or bad by the median of its runs; unknown where there is no number."""
        if not values:
            return "unknown"
        past = statistics.median(values) - self.threshold
        return "bad" if past * (self.bad - self.good) > 0 else "good"


class Verdicts(Value):
    """What is known of the commits after the good one, oldest first; the last one is the bad one."""

    answers: tuple[Answer | None, ...]

    @property
    def first_bad(self) -> int:
        """The oldest commit that is known to be bad."""
        return self.answers.index("bad")

    @property
    def last_good(self) -> int:
        """The newest commit before it that is known to be good; -1 for the good one that was given."""
        return max((at for at, answer in enumerate(self.answers[: self.first_bad]) if answer == "good"), default=-1)

    def choose_next(self) -> int | None:
        """The commit to measure: the middle of what is open, else the nearest to it; None when nothing is left."""
        low, high = self.last_good, self.first_bad
        middle = (low + high) // 2
        untested = [at for at in range(low + 1, high) if self.answers[at] is None]
        return min(untested, key=lambda at: (abs(at - middle), at), default=None)

    def suspects(self) -> tuple[int, ...]:
        """Commits that may be the one: the first bad one, and before it those that could not be measured."""
        return tuple(range(self.last_good + 1, self.first_bad + 1))


# Measuring the commits of a range by them.


class CommitMeasurement(Value):
    """One commit that was tried."""

    commit: str
    subject: str
    answer: Answer
    values: tuple[float, ...]
    """Aggregate of each run that counts; none where it did not build or run."""
    problem: str = ""


class BisectionResult(Value):
    """What the bisection says."""

    first_bad: str
    subject: str
    suspects: tuple[str, ...]
    """More than one where commits before the first bad one could not be measured."""
    good: float
    bad: float
    threshold: float
    metric: str
    warning: str
    tried: tuple[CommitMeasurement, ...]
    shown: bool = False
    """Whether the first bad commit is slower for sure than the last good one, timed side by side."""
    sentence: str = ""
    """What timing the two side by side says."""


def find_regression(contract: Path, good: str, bad: str, say: Say) -> BisectionResult:
    """`bisect`: the first bad commit on the first-parent line from `good` to `bad`. Nothing of the user's repository changes.

    Raises UserError where the ends are no such line, cannot be measured or do not differ, and where three commits in a
    row do not build or run.
    """
    loaded = load(contract)
    root, scoring = find_repository(loaded.root), loaded.contract.scoring
    commits = _list_commits(root, good, bad)
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-bisect-"))
    try:
        gathering = GatheringRepository(folder / "versions")
        base = gathering.commit(good, loaded.root)
        gathering.check_out(base)
        place = Place(repository=gathering.root, contract_dir=base.folder, campaign_dir=folder / "campaign")
        ports = connect(place, loaded.contract, "catalog")
        ports.workspace.open("none")

        def measure(commit: str, bounds: Bounds | None) -> CommitMeasurement:
            version = gathering.commit(commit, loaded.root)
            assert isinstance(ports.workspace, GitWorkspace)
            gathering.lend(version, ports.workspace.repository())
            return _measure(ports, version, _read_subject(root, commit), bounds, scoring)

        found = _bisect(commits, measure, scoring.primary_metric[0], higher_wins(scoring), say)
    finally:
        discard_tree(folder)
    return _confirm(found, commits, loaded, say)


def _confirm(found: BisectionResult, commits: tuple[str, ...], loaded: LoadedContract, say: Say) -> BisectionResult:
    """The bisection's result, held against pairs of the last good and the first bad commit: runs at different times are no evidence."""
    before = commits[commits.index(found.suspects[0]) - 1]
    say(f"timing {found.first_bad[:12]} beside {before[:12]}")
    a, b = f"commit:{before[:12]}", f"commit:{found.first_bad[:12]}"
    asked = Request(a=a, b=b, contract=loaded.path.name, fail_on="slower", max_minutes=CONFIRM_MINUTES, quiet=True)
    answer = compare_versions(asked, loaded.root)
    return found.model_copy(update={"shown": answer.relation == "slower", "sentence": answer.sentence})


def _bisect(
    commits: tuple[str, ...],
    measure: Callable[[str, Bounds | None], CommitMeasurement],
    metric: str,
    higher: bool,
    say: Say,
) -> BisectionResult:
    """Time commits between a good and a bad one until the first bad one is found. `commits`: the good one, then all up to the bad."""
    ends = [measure(commit, None) for commit in (commits[0], commits[-1])]
    for name, end in zip(("GOOD", "BAD"), ends, strict=True):
        if not end.values:
            raise UserError(f"{name}: {end.commit[:12]} cannot be measured: {end.problem}")
        say(f"{name.lower()}: {end.commit[:12]} {statistics.median(end.values):.6g} {metric}")
    bounds = Bounds(good=statistics.median(ends[0].values), bad=statistics.median(ends[1].values))
    if (bounds.bad >= bounds.good) if higher else (bounds.bad <= bounds.good):
        raise UserError(
            f"BAD: {bounds.bad:.6g} {metric} is no worse than GOOD's {bounds.good:.6g} in {RUNS} runs each; where the machine is"
            f" busy, `ridgeline bench commit:{commits[0][:12]} commit:{commits[-1][:12]} --fail-on slower` times both side by side"
        )
    inner = commits[1:]
    verdicts = Verdicts(answers=(*(None for _ in inner[:-1]), "bad"))
    tried, failures = list(ends), 0
    while (at := verdicts.choose_next()) is not None:
        result = measure(inner[at], bounds)
        tried.append(result)
        say(f"{result.answer}: {result.commit[:12]} {result.subject}")
        failures = failures + 1 if result.answer == "unknown" else 0
        if failures == FAILURES_IN_A_ROW:
            last = ", ".join(item.commit[:12] for item in tried[-failures:])
            raise UserError(f"{last}: do not build or run, the last: {result.problem}; give a narrower GOOD and BAD")
        answers = list(verdicts.answers)
        answers[at] = result.answer
        verdicts = Verdicts(answers=tuple(answers))
    first = inner[verdicts.first_bad]
    small = f"the regression is {bounds.regression:.1%}, below {SMALL_REGRESSION:.0%}: it may be noise"
    return BisectionResult(
        first_bad=first,
        subject=next(item.subject for item in tried if item.commit == first),
        suspects=tuple(inner[at] for at in verdicts.suspects()),
        good=bounds.good,
        bad=bounds.bad,
        threshold=bounds.threshold,
        metric=metric,
        warning=small if bounds.regression < SMALL_REGRESSION else "",
        tried=tuple(tried),
    )


def _measure(
    ports: Ports, version: Version, subject: str, bounds: Bounds | None, scoring: Scoring
) -> CommitMeasurement:
    """Time one commit of a bisection: build, one run that does not count, three that do, five close to the threshold."""
    values: list[float] = []

    def fail(why: str) -> CommitMeasurement:
        line = " | ".join(part.strip() for part in why.splitlines() if part.strip())
        return CommitMeasurement(
            commit=version.commit, subject=subject, answer="unknown", values=(), problem=line[-400:]
        )

    built = ports.builder.build(version.commit)
    if not built.ok:
        return fail(built.exit.output if built.exit else "the build failed without saying why")
    wanted, number = RUNS, 0
    while len(values) < wanted:
        run = ports.timer.benchmark(
            version.commit, level="quick", source="quick", shapes=(), repeat=number, purpose="bisect"
        )
        if isinstance(run, BenchmarkFailed):
            return fail(f"{run.reason}: {run.detail}")
        try:
            score = aggregate(run.rows, scoring)
        except ScoreError as error:
            return fail(str(error))
        if number:
            values.append(score)
        number += 1
        if len(values) == RUNS and bounds is not None and bounds.is_close(statistics.median(values)):
            wanted = RUNS_WHEN_CLOSE
    answer: Answer = bounds.judge(values) if bounds else "good"
    return CommitMeasurement(commit=version.commit, subject=subject, answer=answer, values=tuple(values))


def _list_commits(root: Path, good: str, bad: str) -> tuple[str, ...]:
    """The good commit and those after it on the first-parent line, oldest first."""
    first, last = (revision(word, root) for word in (good, bad))
    for name, word, commit in (("GOOD", good, first), ("BAD", bad, last)):
        if commit is None:
            raise UserError(f"{name}: {word!r}: git knows no such commit in {root}; give a commit, branch or tag")
    assert first is not None
    assert last is not None
    if git("merge-base", "--is-ancestor", first, last, cwd=root).returncode != 0 or first == last:
        raise UserError(f"GOOD: {good!r} does not lie before {bad!r}; give an older commit of the same line")
    output = git("rev-list", "--first-parent", "--reverse", f"{first}..{last}", cwd=root).stdout.decode()
    return (first, *output.split())


def _read_subject(root: Path, commit: str) -> str:
    return git("log", "-1", "--format=%s", commit, cwd=root).stdout.decode(errors="replace").strip()
