"""Candidates side by side, deep rounds and warm starts against plain rounds, at equal device seconds and tokens.

`python -m ridgeline.evals.research.candidates simulate [RECORDING...]` simulates them from recorded campaigns (default: those that ship).
`python -m ridgeline.evals.research.candidates compare CAMPAIGN...` reads campaigns of one kernel that were really run so.

Recorded: of each campaign its costs (seconds of build, test, benchmark, pair and the rest of a question; tokens of question, edits and
lesson), the scatter of its process pairs, what its kernel could still gain at the start, and which share of what was left each measured
candidate took. Of questions with several candidates also how far these lie from the first of them.
Simulated: a question takes shares that are drawn from all recorded ones, of what its kernel has left; pairs scatter as recorded; what is
kept is decided by the rules of a round. Candidates beside the first are independent of it, or as far from it as in the recorded questions
with several. Each is asked for its edits in a question of its own.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from math import exp, log, log1p
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.evals.recordings.recording import CARD, Folder
from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports.text import times_at_least
from ridgeline.graph.rules.headroom import compute_headroom, describe_device
from ridgeline.graph.rules.history import fold_ledger, noise, total_cost
from ridgeline.graph.rules.race import OUT
from ridgeline.graph.rules.result import claim_speedup, compute_products, compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import Estimate, decide_from_pairs, estimate_gain, is_outpaced
from ridgeline.graph.trial import Built, Drafted, Timed, Verified, find, find_proposal
from ridgeline.graph.values import Artifact, Value

SHIPPED = Path(__file__).parents[1] / "campaigns"
LIMITS = Limits()
END_SHARE = 0.9
"""Share of the ceiling that the last version of a recording is taken to have reached where no ceiling is known: there a campaign ends."""
DEEP_STEPS = 10
CALIBRATION_PAIRS = 16
NOWHERE = Artifact(sha256="0" * 64, name="simulated", size=0)


# What was recorded.


class Problem(Value):
    """One recorded kernel: what it could gain, and what a round of it costs."""

    name: str
    headroom: float
    """Log of the speedup that is left at the start."""
    gain: float
    """Log of the speedup that the recorded campaign reached."""
    scatter: float
    """Standard deviation of a process pair's log ratio."""
    build_s: float
    test_s: float
    benchmark_s: float
    pair_s: float
    rest_s: float
    """Seconds of a question's commands beside these: profile, the measurement after formatting."""
    round_s: float
    """A plain round, by these means."""
    propose_tokens: float
    draft_tokens: float
    lesson_tokens: float

    @property
    def round_tokens(self) -> float:
        """Tokens of a plain round of the studied problem."""
        return self.propose_tokens + self.draft_tokens + self.lesson_tokens


class Recorded(Value):
    """What a recording says of one kernel."""

    problem: Problem
    questions: tuple[tuple[float, ...], ...]
    """Of each question, the share of the headroom left that each measured candidate took or lost, the first ranked first."""
    beside: tuple[str, ...]
    """Of each question with several candidates, in words: what the first and what the kept one reached, at which cost."""

    @property
    def distances(self) -> tuple[float, ...]:
        """A study of candidates: of candidates beside the first of their question, how much their share differs from its."""
        return tuple(share - shares[0] for shares in self.questions for share in shares[1:])


def read_problem(folder: Path) -> Recorded | None:
    """A study of candidates: what a recording says of its kernel; None where nothing was measured.

    What could not be timed because the machine was busy says nothing of a proposal. Raises UserError for a folder that
    is no recording.
    """
    history = fold_ledger(Folder(folder).lines())
    assert history is not None, "a ledger that was read has a line"
    measured: dict[int, list[RoundClosed]] = {}
    for closed in history.rounds:
        if closed.judged.verdict.gain is not None:
            measured.setdefault(closed.beside, []).append(closed)
    calibrated = noise(history)
    if not measured or calibrated is None or history.baseline is None:
        return None
    gain = sum(_log_gain(closed) for rounds in measured.values() for closed in rounds if closed.accepted)
    at_start = compute_headroom(history.baseline.quick.rows, history.opened.contract, describe_device(history))
    ceiling = 0.0 if isinstance(at_start, str) else -log(at_start.share)
    headroom = ceiling if ceiling > gain else gain - log(END_SHARE)
    questions, left = [], headroom
    for rounds in measured.values():
        questions.append(tuple(_log_gain(closed) / left for closed in rounds))
        left -= sum(_log_gain(closed) for closed in rounds if closed.accepted)
    return Recorded(
        problem=_read_costs(folder.name, headroom, gain, calibrated, list(measured.values())),
        questions=tuple(questions),
        beside=tuple(_describe_question(rounds) for rounds in measured.values() if len(rounds) > 1),
    )


def _log_gain(closed: RoundClosed) -> float:
    """A study of candidates: of a measured round, against the best version of its question."""
    return log1p(closed.judged.verdict.gain or 0.0)


def _describe_question(rounds: Sequence[RoundClosed]) -> str:
    """A study of candidates: what several candidates of one question brought beside the first of them, as it was measured."""
    first, kept = rounds[0], next((closed for closed in rounds if closed.accepted), None)
    outcome = f"kept {exp(_log_gain(kept)):.3f}x" if kept else "none kept"
    return (
        f"round {first.round}: the first alone {exp(_log_gain(first)):.3f}x in {first.cost.command_seconds:.0f} s, of"
        f" {len(rounds)} {outcome} in {sum(closed.cost.command_seconds for closed in rounds):.0f} s"
    )


def _read_costs(
    name: str, headroom: float, gain: float, calibrated: Noise, questions: Sequence[Sequence[RoundClosed]]
) -> Problem:
    """Means over candidates, and over questions of what is spent once in each; the first pair of a session may take
    longer, so of pairs the median."""
    rounds = [closed for question in questions for closed in question]
    build_s, test_s, benchmark_s, rest_s = 0.0, 0.0, 0.0, 0.0
    draft_tokens, pairs = 0, []
    for closed in rounds:
        timed, verified = find(closed.judged, Timed), find(closed.judged, Verified)
        built, drafted = find(closed.judged, Built), find(closed.judged, Drafted)
        assert timed, "a round with a gain was timed"
        assert verified, "what is timed was tested"
        assert drafted, "what is tested was drafted"
        evidence = [run for run in timed.evidence if isinstance(run, Comparison)]
        pairs += [run.seconds / max(1, len(run.shapes[0].pairs)) for run in evidence]
        own_build_s = built.build.exit.seconds if built and built.build.exit else 0.0
        run_s = verified.test.seconds + sum(run.seconds for run in timed.evidence)
        build_s += own_build_s
        test_s += verified.test.seconds
        benchmark_s += sum(run.seconds for run in timed.evidence) - sum(run.seconds for run in evidence)
        rest_s += max(0.0, closed.cost.command_seconds - own_build_s - run_s)
        draft_tokens += drafted.cost.tokens
    count, asked = len(rounds), len(questions)
    pair_s = statistics.median(pairs)
    each_s = (build_s + test_s + benchmark_s) / count
    return Problem(
        name=name,
        headroom=headroom,
        gain=gain,
        scatter=max(calibrated.scatter, 1e-4),
        build_s=build_s / count,
        test_s=test_s / count,
        benchmark_s=benchmark_s / count,
        pair_s=pair_s,
        rest_s=rest_s / asked,
        round_s=each_s + len(pairs) / count * pair_s + rest_s / asked,
        propose_tokens=sum(find_proposal(closed.judged).cost.tokens for closed in rounds) / asked,
        draft_tokens=draft_tokens / count,
        lesson_tokens=sum(closed.reflection.cost.tokens for closed in rounds) / asked,
    )


# One question, timed by the rules of a round.


def compare_means(means: Sequence[float]) -> Comparison:
    """A study of candidates: process pairs of one shape with these mean log-ratios."""
    shape = ShapePairs(label="shape", pairs=tuple((mean, mean) for mean in means), best_us=1.0, candidate_us=1.0)
    return Comparison(
        best="a" * 40,
        candidate="b" * 40,
        machine="simulated",
        engine="wall",
        shapes=(shape,),
        taken_blocks=2 * len(means),
        raw=NOWHERE,
        seconds=1.0,
    )


def time_candidates(
    rng: random.Random, effects: Sequence[float], *, scatter: float, sharing: int
) -> tuple[int | None, int]:
    """A study of candidates: the place of the candidate that is kept, of these true log-gains, and how many pairs were timed.

    All share one calibration; each is timed once, then by elimination, at `alpha / sharing`.
    """
    calibrated = estimate_noise([compare_means([rng.gauss(0, scatter) for _ in range(CALIBRATION_PAIRS)])])
    means = [[rng.gauss(effect, scatter)] for effect in effects]
    while True:
        estimates = [estimate_gain([compare_means(row)], calibrated, LIMITS, sharing=sharing) for row in means]
        decisions = [decide_from_pairs(estimate, LIMITS) for estimate in estimates]
        running = [place for place, decision in enumerate(decisions) if decision not in OUT]
        leader = max(running, key=lambda place: estimates[place].theta, default=0)
        open_places = [
            place
            for place in running
            if decisions[place] == "undecided"
            and len(means[place]) < LIMITS.looks[-1]
            and not is_outpaced(estimates[place], estimates[leader], LIMITS)
        ]
        if not open_places:
            return _choose_proven(estimates, decisions), sum(map(len, means))
        fastest = max(open_places, key=lambda place: estimates[place].theta)
        means[fastest].append(rng.gauss(effects[fastest], scatter))


def _choose_proven(estimates: Sequence[Estimate], decisions: Sequence[str]) -> int | None:
    """A study of candidates: of those that are proven faster the one with the greatest lower bound."""
    proven = [place for place, decision in enumerate(decisions) if decision == "faster"]
    return max(proven, key=lambda place: estimates[place].lower or 0.0, default=None)


# A campaign of such questions.


class Arm(Value):
    """One way to search."""

    name: str
    candidates: int = 1
    as_recorded: bool = False
    """Candidates beside the first are as far from it as recorded ones, and not independent of it."""
    deep: bool = False
    warm: bool = False


class Campaign:
    """What one simulated campaign has spent and reached. The baseline and calibrations cost every arm alike and are left out."""

    def __init__(
        self,
        problem: Problem,
        shares: Sequence[float],
        arm: Arm,
        rng: random.Random,
        distances: Sequence[float] = (0.0,),
    ) -> None:
        self.problem = problem
        self.shares = shares
        self.distances = distances
        self.arm = arm
        self.rng = rng
        self.reached = 0.0
        """Log of the speedup of the best version."""
        self.seconds = 0.0
        self.tokens = 0.0
        self.runners_up: list[float] = []
        """Shares of candidates that were outpaced, for the next question."""

    def run(self, *, seconds: float | None = None, tokens: float | None = None) -> float:
        """A study of candidates: log of the speedup that is reached when the next question would exceed what is given."""
        if self.arm.warm:
            self._judge_champion()
        while True:
            before = self.reached
            if self.arm.deep:
                self._work_deep()
            else:
                self._try_candidates()
            if (seconds is not None and self.seconds > seconds) or (tokens is not None and self.tokens > tokens):
                return before

    def _left(self) -> float:
        """A study of candidates: log of the speedup that is left."""
        return self.problem.headroom - self.reached

    def _draw(self) -> list[float]:
        """A study of candidates: shares of the candidates of a question: those outpaced in the last one, then new ones."""
        returning = self.runners_up[: self.arm.candidates - 1]
        shares = [self.rng.choice(self.shares)]
        while len(returning) + len(shares) < self.arm.candidates:
            near = shares[0] + self.rng.choice(self.distances)
            shares.append(near if self.arm.as_recorded else self.rng.choice(self.shares))
        return returning + shares

    def _judge(self, effects: Sequence[float]) -> int | None:
        """A study of candidates: the place of what was kept; costs of building, testing, timing and what follows are counted."""
        problem = self.problem
        kept, pairs = time_candidates(self.rng, effects, scatter=problem.scatter, sharing=len(effects))
        each_s = problem.build_s + problem.test_s + problem.benchmark_s
        self.seconds += len(effects) * each_s + pairs * problem.pair_s + problem.rest_s
        self.reached += effects[kept] if kept is not None else 0.0
        return kept

    def _try_candidates(self) -> None:
        """A study of candidates: one question with its candidates, each asked for its edits."""
        problem, shares = self.problem, self._draw()
        kept = self._judge([share * self._left() for share in shares])
        self.tokens += problem.propose_tokens + len(shares) * problem.draft_tokens + problem.lesson_tokens
        self.runners_up = [share for place, share in enumerate(shares) if place != kept and share > 0]

    def _work_deep(self) -> None:
        """Steps that are each built, tested and timed by one pair, and stay where that hints at a gain; one judgement."""
        problem, left, effect = self.problem, self._left(), 0.0
        for _ in range(DEEP_STEPS):
            step = self.rng.choice(self.shares) * (left - effect)
            self.seconds += problem.build_s + problem.test_s + problem.pair_s
            if self.rng.gauss(step, problem.scatter) > 0:
                effect += step
        self._judge([effect])

    def _judge_champion(self) -> None:
        """A study of candidates: the recorded campaign's best version as the first candidate: no question, no edits, one lesson."""
        self._judge([self.problem.gain])
        self.tokens += self.problem.lesson_tokens


ARMS = (
    Arm(name="K = 1 (plain, cold)"),
    Arm(name="K = 3, independent", candidates=3),
    Arm(name="K = 5, independent", candidates=5),
    Arm(name="K = 3, as alike as recorded", candidates=3, as_recorded=True),
    Arm(name="K = 5, as alike as recorded", candidates=5, as_recorded=True),
    Arm(name=f"deep rounds of {DEEP_STEPS} steps", deep=True),
    Arm(name="K = 1, warm from the recorded champion", warm=True),
)
BUDGETS = (5, 15)
"""In mean recorded rounds of each problem: seconds of their commands, or their tokens."""


def simulate_arms(
    recordings: Sequence[Recorded], *, runs: int, misses: float = 0.0, seed: int = 5
) -> dict[tuple[str, str, int], list[float]]:
    """For each arm, unit (`device seconds`, `tokens`) and budget: the log of the speedup that it reaches, `runs` times.

    Each time kernels and shares are drawn anew with replacement (a bootstrap over both); a value is the mean over the
    kernels. A share is that of a question's first candidate. `misses`: part of the proposals that give nothing, beyond
    those recorded.
    """
    rng = random.Random(seed)
    distances = tuple(distance for recording in recordings for distance in recording.distances) or (0.0,)
    logs: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(runs):
        drawn = rng.choices(recordings, k=len(recordings))
        pool = [shares[0] for recording in drawn for shares in recording.questions]
        pool = rng.choices(pool, k=len(pool))
        pool += [0.0] * round(len(pool) * misses / (1 - misses))
        for unit in ("device seconds", "tokens"):
            for rounds in BUDGETS:
                for arm in ARMS:
                    reached = [
                        _run_problem(Campaign(recording.problem, pool, arm, rng, distances), unit, rounds)
                        for recording in drawn
                    ]
                    logs.setdefault((arm.name, unit, rounds), []).append(statistics.fmean(reached))
    return logs


def _run_problem(campaign: Campaign, unit: str, rounds: int) -> float:
    """Log of the speedup that a simulated campaign reaches; NaN where nothing recorded says what its arm costs."""
    if unit == "device seconds":
        return campaign.run(seconds=rounds * campaign.problem.round_s)
    return float("nan") if campaign.arm.deep else campaign.run(tokens=rounds * campaign.problem.round_tokens)


def write_table(logs: dict[tuple[str, str, int], list[float]]) -> Iterator[str]:
    """A study of candidates: markdown: the speedup of each arm, and its ratio to the first arm with a 95 % interval."""
    plain = ARMS[0].name
    yield "| arm | equal | " + " | ".join(f"of {rounds} rounds" for rounds in BUDGETS) + " |"
    yield "|---|---|" + "--:|" * len(BUDGETS)
    for unit in ("device seconds", "tokens"):
        for arm in ARMS:
            cells = []
            for rounds in BUDGETS:
                own, first = logs[arm.name, unit, rounds], logs[plain, unit, rounds]
                if own[0] != own[0]:
                    cells.append("not recorded")
                    continue
                speedup = f"{exp(statistics.fmean(own)):.2f}x"
                ratios = sorted(mine - other for mine, other in zip(own, first, strict=True))
                low, high = (exp(ratios[round(part * (len(ratios) - 1))]) for part in (0.025, 0.975))
                ratio = f": {exp(statistics.fmean(ratios)):.2f} [{low:.2f}, {high:.2f}]" if arm.name != plain else ""
                cells.append(speedup + ratio)
            yield f"| {arm.name} | {unit} | {' | '.join(cells)} |"


# Campaigns that were really run.


class Course(Value):
    """What a campaign had cost and reached after each of its questions."""

    name: str
    candidates: int
    deep_rounds: int
    warm_rounds: int
    points: tuple[tuple[float, int, float, float | None], ...]
    """Command seconds, tokens, speedup and its lower bound, before the final test."""
    final: str
    """The final test's speedup in words; empty where there was none."""


def read_course(folder: Path) -> Course:
    """A study of candidates: of a campaign's folder or a recording. Raises UserError for another folder, or one without a baseline."""
    lines = Folder(folder).lines()
    history, points = fold_ledger(lines), []
    if history is None or history.baseline is None:
        raise UserError(f"{folder}: has no baseline yet; let the campaign run on, or leave it out")
    for end, line in enumerate(lines, 1):
        part = fold_ledger(lines[:end])
        if part is not None and part.baseline is not None and line.body.kind in ("baseline", "calibration", "round"):
            cost, product = total_cost(part), compute_products(part)[-1]
            points.append((cost.command_seconds, cost.tokens, product.speedup, product.lower))
    proposals = [find_proposal(closed.judged) for closed in history.rounds]
    return Course(
        name=folder.resolve().parents[2].name if (folder / "sessions.json").exists() else folder.name,
        candidates=history.limits.candidates,
        deep_rounds=sum(proposal.deep is not None for proposal in proposals),
        warm_rounds=sum(bool(proposal.champion) for proposal in proposals),
        points=tuple(points),
        final=_describe_final(history),
    )


def _describe_final(history: History) -> str:
    """A study of candidates: the headline of a concluded campaign."""
    claim = claim_speedup(compute_result(history))
    if claim is None or not claim.from_final:
        return ""
    return f"{claim.speedup:.2f}x" + (f", at least {times_at_least(claim.lower, 2)}" if claim.lower else "")


def compare_courses(courses: Sequence[Course]) -> Iterator[str]:
    """A study of candidates: markdown: what each had reached at the command seconds, and at the tokens, that all of them had spent."""
    seconds = min(course.points[-1][0] for course in courses)
    tokens = min(course.points[-1][1] for course in courses)
    yield (
        f"| campaign | candidates | deep | warm | after {seconds:.0f} s of commands | after {tokens} tokens"
        " | at its end: seconds, tokens, reached | final test |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for course in courses:
        at_seconds = [point for point in course.points if point[0] <= seconds][-1:]
        at_tokens = [point for point in course.points if point[1] <= tokens][-1:]
        end = course.points[-1]
        yield (
            f"| {course.name} | {course.candidates} | {course.deep_rounds} | {course.warm_rounds} | {_describe_point(at_seconds)}"
            f" | {_describe_point(at_tokens)} | {end[0]:.0f} s, {end[1]}, {_describe_point([end])} | {course.final or 'none'} |"
        )


def _describe_point(points: Sequence[tuple[float, int, float, float | None]]) -> str:
    """A study of candidates: the speedup of the last one, with its bound."""
    if not points:
        return "nothing yet"
    _, _, speedup, lower = points[-1]
    return f"{speedup:.2f}x" + (f" (at least {times_at_least(lower, 2)})" if lower else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """A study of candidates: print the table that was asked for. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ridgeline.evals.research.candidates", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    simulate = commands.add_parser("simulate", help="from recorded rounds")
    simulate.add_argument(
        "recordings", nargs="*", type=Path, help="folders of recorded campaigns; default: those that ship"
    )
    simulate.add_argument("--runs", type=int, default=200, help="bootstrap samples (default 200)")
    simulate.add_argument(
        "--misses",
        type=float,
        default=0.0,
        help="part of the proposals that give nothing, beyond those recorded (default 0)",
    )
    compare = commands.add_parser("compare", help="campaigns of one kernel that were run")
    compare.add_argument("campaigns", nargs="+", type=Path, help="folders of campaigns or recordings")
    options = parser.parse_args(arguments)
    if options.command == "simulate" and not (options.runs > 0 and 0 <= options.misses < 1):
        parser.error("--runs is at least 1, --misses is from 0 to below 1")
    try:
        if options.command == "compare":
            table = list(compare_courses([read_course(folder) for folder in options.campaigns]))
        else:
            table = list(_describe_simulation(options.recordings, runs=options.runs, misses=options.misses))
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("\n".join(table) + "\n")
    return 0


def _describe_simulation(recordings: Sequence[Path], *, runs: int, misses: float) -> Iterator[str]:
    """A study of candidates: what was read of the recordings, then the table."""
    folders = recordings or [path.parent for path in sorted(SHIPPED.glob(f"*/{CARD}"))]
    recorded: list[Recorded] = []
    for folder in folders:
        recording = read_problem(folder)
        if recording is None:
            yield f"{folder.name}: nothing was measured, left out"
            continue
        recorded.append(recording)
        problem = recording.problem
        shares = "; ".join(", ".join(f"{share:+.2f}" for share in question) for question in recording.questions)
        yield (
            f"{problem.name}: at most {exp(problem.headroom):.2f}x is left at the start, a pair scatters by"
            f" {problem.scatter:.2%}, a round takes {problem.round_s:.1f} s and {problem.round_tokens:.0f} tokens;"
            f" shares by question {shares}"
        )
        yield from (f"{problem.name}: {text}" for text in recording.beside)
    if not recorded:
        raise UserError("no recording with a measured round; name folders of recorded campaigns")
    reached = exp(statistics.fmean(recording.problem.gain for recording in recorded))
    questions = sum(len(recording.questions) for recording in recorded)
    yield f"as recorded these {len(recorded)} reached {reached:.2f}x, the geometric mean, in {questions} questions"
    yield ""
    yield from write_table(simulate_arms(recorded, runs=runs, misses=misses))


if __name__ == "__main__":
    sys.exit(main())
