"""Candidates side by side, deep rounds and warm starts against plain rounds, at equal device seconds and tokens.

`python -m ridgeline.evals.research.candidates simulate [RECORDING...]` simulates them from recorded campaigns (default: those that ship).
`python -m ridgeline.evals.research.candidates compare CAMPAIGN...` reads campaigns of one kernel that were really run so.

Recorded: of each campaign its costs (seconds of build, test, benchmark, pair and the rest of a round; tokens of question, edits and
lesson), the scatter of its process pairs, what its kernel could still gain at the start, and which share of that each measured round took.
Simulated: a proposal takes a share that is drawn from all recorded rounds, of what its kernel has left; pairs scatter as recorded; what is
kept is decided by the rules of a round. Nothing recorded says how alike the candidates of one question are, nor what ranking them is worth,
so both are assumed: independent or half of them alike, in random order. Each is asked for its edits in a question of its own.
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
    """Seconds of a round's commands beside these: profile, the measurement after formatting."""
    round_s: float
    """Mean of its measured rounds."""
    propose_tokens: float
    draft_tokens: float
    lesson_tokens: float

    @property
    def round_tokens(self) -> float:
        """Tokens of a plain round of the studied problem."""
        return self.propose_tokens + self.draft_tokens + self.lesson_tokens


def read_problem(folder: Path) -> tuple[Problem | None, tuple[float, ...]]:
    """The recording's problem, and the share of the remaining headroom that each measured round took or lost.

    None where nothing was measured. What could not be timed because the machine was busy says nothing of a proposal.
    Raises UserError for a folder that is no recording.
    """
    history = fold_ledger(Folder(folder).lines())
    assert history is not None, "a ledger that was read has a line"
    gains = [
        (closed, log1p(closed.judged.verdict.gain))
        for closed in history.rounds
        if closed.judged.verdict.gain is not None
    ]
    calibrated = noise(history)
    if not gains or calibrated is None or history.baseline is None:
        return None, ()
    gain = sum(effect for closed, effect in gains if closed.accepted)
    at_start = compute_headroom(history.baseline.quick.rows, history.opened.contract, describe_device(history))
    headroom = gain - log(END_SHARE) if isinstance(at_start, str) else -log(at_start.share)
    shares, left = [], headroom
    for closed, effect in gains:
        shares.append(effect / left)
        left -= effect if closed.accepted else 0.0
    return _read_costs(folder.name, headroom, gain, calibrated, [closed for closed, _ in gains]), tuple(shares)


def _read_costs(name: str, headroom: float, gain: float, calibrated: Noise, rounds: Sequence[RoundClosed]) -> Problem:
    """Means over the measured rounds; of pairs the median, because the first one of a session may take longer."""
    seconds: dict[str, list[float]] = {"build": [], "test": [], "benchmark": [], "rest": []}
    pairs: list[float] = []
    tokens: dict[str, list[float]] = {"propose": [], "draft": [], "lesson": []}
    for closed in rounds:
        timed, verified = find(closed.judged, Timed), find(closed.judged, Verified)
        built, drafted = find(closed.judged, Built), find(closed.judged, Drafted)
        assert timed, "a round with a gain was timed"
        assert verified, "what is timed was tested"
        assert drafted, "what is tested was drafted"
        evidence = [run for run in timed.evidence if isinstance(run, Comparison)]
        pairs += [run.seconds / max(1, len(run.shapes[0].pairs)) for run in evidence]
        build_s = built.build.exit.seconds if built and built.build.exit else 0.0
        benchmark_s = sum(run.seconds for run in timed.evidence) - sum(run.seconds for run in evidence)
        seconds["build"].append(build_s)
        seconds["test"].append(verified.test.seconds)
        seconds["benchmark"].append(benchmark_s)
        used = build_s + verified.test.seconds + benchmark_s + sum(run.seconds for run in evidence)
        seconds["rest"].append(max(0.0, closed.cost.command_seconds - used))
        tokens["propose"].append(find_proposal(closed.judged).cost.tokens)
        tokens["draft"].append(drafted.cost.tokens)
        tokens["lesson"].append(closed.reflection.cost.tokens)
    return Problem(
        name=name,
        headroom=headroom,
        gain=gain,
        scatter=max(calibrated.scatter, 1e-4),
        build_s=statistics.fmean(seconds["build"]),
        test_s=statistics.fmean(seconds["test"]),
        benchmark_s=statistics.fmean(seconds["benchmark"]),
        pair_s=statistics.median(pairs),
        rest_s=statistics.fmean(seconds["rest"]),
        round_s=statistics.fmean(closed.cost.command_seconds for closed in rounds),
        propose_tokens=statistics.fmean(tokens["propose"]),
        draft_tokens=statistics.fmean(tokens["draft"]),
        lesson_tokens=statistics.fmean(tokens["lesson"]),
    )


# One question, timed by the rules of a round.


def compare_means(means: Sequence[float]) -> Comparison:
    """Process pairs of one shape with these mean log-ratios."""
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
    """The place of the candidate that is kept, of these true log-gains, and how many pairs were timed.

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
    """Of those that are proven faster the one with the greatest lower bound."""
    proven = [place for place, decision in enumerate(decisions) if decision == "faster"]
    return max(proven, key=lambda place: estimates[place].lower or 0.0, default=None)


# A campaign of such questions.


class Arm(Value):
    """One way to search."""

    name: str
    candidates: int = 1
    alike: float = 0.0
    """Probability that a candidate beside the first takes the share of the first one."""
    deep: bool = False
    warm: bool = False


class Campaign:
    """What one simulated campaign has spent and reached. The baseline and calibrations cost every arm alike and are left out."""

    def __init__(self, problem: Problem, shares: Sequence[float], arm: Arm, rng: random.Random) -> None:
        self.problem = problem
        self.shares = shares
        self.arm = arm
        self.rng = rng
        self.reached = 0.0
        """Log of the speedup of the best version."""
        self.seconds = 0.0
        self.tokens = 0.0
        self.runners_up: list[float] = []
        """Shares of candidates that were outpaced, for the next question."""

    def run(self, *, seconds: float | None = None, tokens: float | None = None) -> float:
        """Log of the speedup that is reached when the next question would exceed what is given."""
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
        """Log of the speedup that is left."""
        return self.problem.headroom - self.reached

    def _draw(self) -> list[float]:
        """Shares of the candidates of a question: those outpaced in the last one, then new ones."""
        shares = self.runners_up[: self.arm.candidates - 1]
        lead = self.rng.choice(self.shares)
        while len(shares) < self.arm.candidates:
            shares.append(lead if self.rng.random() < self.arm.alike else self.rng.choice(self.shares))
        return shares

    def _judge(self, effects: Sequence[float]) -> int | None:
        """The place of what was kept; costs of building, testing, timing and what follows are counted."""
        problem = self.problem
        kept, pairs = time_candidates(self.rng, effects, scatter=problem.scatter, sharing=len(effects))
        each_s = problem.build_s + problem.test_s + problem.benchmark_s
        self.seconds += len(effects) * each_s + pairs * problem.pair_s + problem.rest_s
        self.reached += effects[kept] if kept is not None else 0.0
        return kept

    def _try_candidates(self) -> None:
        """One question with its candidates, each asked for its edits."""
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
        """The recorded campaign's best version as the first candidate: no question, no edits, one lesson."""
        self._judge([self.problem.gain])
        self.tokens += self.problem.lesson_tokens


ARMS = (
    Arm(name="K = 1 (plain, cold)"),
    Arm(name="K = 3, candidates independent", candidates=3),
    Arm(name="K = 5, candidates independent", candidates=5),
    Arm(name="K = 3, half of them alike", candidates=3, alike=0.5),
    Arm(name="K = 5, half of them alike", candidates=5, alike=0.5),
    Arm(name=f"deep rounds of {DEEP_STEPS} steps", deep=True),
    Arm(name="K = 1, warm from the recorded champion", warm=True),
)
BUDGETS = (5, 15)
"""In mean recorded rounds of each problem: seconds of their commands, or their tokens."""


def simulate_arms(
    problems: Sequence[tuple[Problem, Sequence[float]]], *, runs: int, misses: float = 0.0, seed: int = 5
) -> dict[tuple[str, str, int], list[float]]:
    """For each arm, unit (`device seconds`, `tokens`) and budget: the log of the speedup that it reaches, `runs` times.

    Each time problems and shares are drawn anew with replacement (a bootstrap over both); a value is the mean over the problems. `misses`:
    part of the proposals that give nothing, beyond those recorded.
    """
    rng = random.Random(seed)
    logs: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(runs):
        drawn = rng.choices(problems, k=len(problems))
        pool = [share for _, shares in drawn for share in shares]
        pool = rng.choices(pool, k=len(pool))
        pool += [0.0] * round(len(pool) * misses / (1 - misses))
        for unit in ("device seconds", "tokens"):
            for rounds in BUDGETS:
                reached = {arm.name: _run_problems(drawn, pool, arm, unit, rounds, rng) for arm in ARMS}
                for name, mean in reached.items():
                    logs.setdefault((name, unit, rounds), []).append(mean)
    return logs


def _run_problems(
    problems: Sequence[tuple[Problem, Sequence[float]]],
    pool: Sequence[float],
    arm: Arm,
    unit: str,
    rounds: int,
    rng: random.Random,
) -> float:
    """Mean over the problems of the log-speedup that the arm reaches; NaN where nothing recorded says what it costs."""
    if arm.deep and unit == "tokens":
        return float("nan")
    reached = []
    for problem, _ in problems:
        campaign = Campaign(problem, pool, arm, rng)
        if unit == "tokens":
            reached.append(campaign.run(tokens=rounds * problem.round_tokens))
        else:
            reached.append(campaign.run(seconds=rounds * problem.round_s))
    return statistics.fmean(reached)


def write_table(logs: dict[tuple[str, str, int], list[float]]) -> Iterator[str]:
    """Markdown: the speedup of each arm, and its ratio to the first arm with a 95 % interval."""
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
    """Of a campaign's folder or a recording. Raises UserError for another folder, or one without a baseline."""
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
    """The headline of a concluded campaign."""
    claim = claim_speedup(compute_result(history))
    if claim is None or not claim.from_final:
        return ""
    return f"{claim.speedup:.2f}x" + (f", at least {claim.lower:.2f}x" if claim.lower else "")


def compare_courses(courses: Sequence[Course]) -> Iterator[str]:
    """Markdown: what each had reached at the command seconds, and at the tokens, that all of them had spent."""
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
    """The speedup of the last one, with its bound."""
    if not points:
        return "nothing yet"
    _, _, speedup, lower = points[-1]
    return f"{speedup:.2f}x" + (f" (at least {lower:.2f}x)" if lower else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table that was asked for. Returns the exit code."""
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
    """What was read of the recordings, then the table."""
    folders = recordings or [path.parent for path in sorted(SHIPPED.glob(f"*/{CARD}"))]
    problems: list[tuple[Problem, tuple[float, ...]]] = []
    for folder in folders:
        problem, shares = read_problem(folder)
        if problem is None:
            yield f"{folder.name}: nothing was measured, left out"
            continue
        problems.append((problem, shares))
        yield (
            f"{problem.name}: at most {exp(problem.headroom):.2f}x is left at the start, a pair scatters by"
            f" {problem.scatter:.2%}, a round takes {problem.round_s:.1f} s and {problem.round_tokens:.0f} tokens;"
            f" shares {', '.join(f'{share:+.2f}' for share in shares)}"
        )
    if not problems:
        raise UserError("no recording with a measured round; name folders of recorded campaigns")
    recorded = exp(statistics.fmean(problem.gain for problem, _ in problems))
    yield f"as recorded they reached {recorded:.2f}x, the geometric mean, in {sum(len(shares) for _, shares in problems)} measured rounds"
    yield ""
    yield from write_table(simulate_arms(problems, runs=runs, misses=misses))


if __name__ == "__main__":
    sys.exit(main())
