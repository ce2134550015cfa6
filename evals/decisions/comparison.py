"""Carries out `ridgeline eval --prompts A B`: finds or gets the answers, scores them, and tells what differs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.agent import console
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import MAILBOX
from ridgeline.agent.version import VERSION
from ridgeline.evals.decisions.contest import (
    KINDS,
    Answers,
    Contestant,
    ContestantScores,
    DecisionPoint,
    Point,
    RecordedAnswer,
    Situation,
    compare_scores,
    gather_points,
    prompt,
    repeat_points,
    score_contestant,
    taken_up,
    write_request,
)
from ridgeline.evals.decisions.scores import DECIDES, METRICS, ContestantComparison, Difference
from ridgeline.graph.errors import install_command
from ridgeline.graph.values import Value
from ridgeline.knowledge.library import Library
from ridgeline.prompts.render import render

EVALS = Path(__file__).parent.parent
KEPT = EVALS / "answers"
BY_HAND = "by hand"
WAITING = 3
"""Exit code, as of a campaign that waits for an answer."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is asked for."""

    recordings: tuple[Path, ...]
    prompts: tuple[str, ...]
    models: tuple[str, ...]
    """None named: every model that answered already."""
    answers: Path
    answerer: str
    kinds: tuple[str, ...]
    tried: bool
    repeat: int
    logs: Path | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of it."""

    points: int
    recordings: int
    scored: tuple[ContestantScores, ...]
    compared: tuple[ContestantComparison, ...]
    problems: tuple[str, ...]
    """Questions that got no answer, and why."""
    seconds: float
    """Of finding and scoring, without the models' time."""


def shipped_recordings() -> list[Path]:
    """Folders of the recordings that ship. Raises UserError where there are none, as in an installed wheel."""
    folders = sorted(path.parent for path in (EVALS / "campaigns").glob("*/request.json"))
    if not folders:
        raise UserError(
            "RECORDING: is missing, and no recordings ship with this installation; name folders of recordings"
        )
    return folders


def run(order: Order) -> Report:
    """Asks and compares models on recorded decision points. Raises UserError for what cannot be asked or compared."""
    if unknown := [kind for kind in order.kinds if kind not in KINDS]:
        raise UserError(f"--kind: {unknown[0]!r} is unknown; known: {', '.join(KINDS)}")
    if order.repeat < 1:
        raise UserError("--repeat: is less than 1; leave it out to score each point once")
    began = time.perf_counter()
    wordings = [prompt(word) for word in dict.fromkeys(order.prompts)]
    points = gather_points(order.recordings, wordings, order.kinds)
    if not points:
        raise UserError(f"no decision point of kind {', '.join(order.kinds)} in these recordings; see --list")
    names, answers = [wording.name for wording in wordings], Answers(order.answers)
    spent, problems = 0.0, []
    for model in order.models:
        waited = time.perf_counter()
        problems += _get_answers(order, points, names, model=model, answers=answers)
        spent += time.perf_counter() - waited
    models = _models(order, answers)
    points = repeat_points(points, order.repeat)
    line = Library(()).line
    contestants = [Contestant(prompt=name, model=model) for name in names for model in models]
    scored = [
        score_contestant(points, contestant, answers, line=line, try_here=order.tried) for contestant in contestants
    ]
    comparisons = [
        comparison for contender in scored[1:] for comparison in compare_scores(scored[0], contender, order.kinds)
    ]
    return Report(
        points=len(points),
        recordings=len({point.point.recording for point in points}),
        scored=tuple(scored),
        compared=tuple(comparisons),
        problems=tuple(problems),
        seconds=time.perf_counter() - began - spent,
    )


def _models(order: Order, answers: Answers) -> tuple[str, ...]:
    """Whose recorded answers are compared: those named, else all who answered. Raises UserError for nobody."""
    names = tuple(order.answerer or BY_HAND if model == MAILBOX else model for model in order.models)
    models = tuple(dict.fromkeys(names)) or answers.models
    if not models:
        raise UserError(f"{order.answers}: holds no answers; give --model to ask one, or --model mailbox for pages")
    return models


def _get_answers(
    order: Order, points: Sequence[DecisionPoint], prompts: Sequence[str], *, model: str, answers: Answers
) -> list[str]:
    """Get models' answers at decision points that are missing; why something is still missing."""
    problems: list[str] = []
    who = order.answerer or BY_HAND if model == MAILBOX else model
    for name in prompts:
        situations = [point.situation for point in points if name in point.situation.asks]
        if model == MAILBOX:
            answers.add(taken_up(answers, name, situations, model=who))
        missing = [situation for situation in situations if answers.find(name, who, situation.point) is None]
        if model == MAILBOX:
            problems += [f"waits for an answer: {write_request(answers, name, situation)}" for situation in missing]
            continue
        unanswered = {situation.point for situation in missing}
        for kind in order.kinds if missing else ():
            left = [point for point in points if point.point in unanswered and point.point.kind == kind]
            problems += _ask_missing(left, name, kind, order=order, model=model, answers=answers)
    return problems


def _ask_missing(
    left: Sequence[DecisionPoint], prompt: str, kind: str, *, order: Order, model: str, answers: Answers
) -> tuple[str, ...]:
    """Ask the model at these points, note its answers, and return why some are missing."""
    if not left:
        return ()
    console.note(f"asking {model} {len(left)} questions ({kind}, {prompt})")
    fresh, failed = ask(left, prompt, kind, model=model, logs=order.logs or order.answers / "logs")
    answers.add(fresh)
    return failed


def print_report(report: Report, *, html: Path | None, as_json: bool) -> None:
    """Print the comparison of models. Ends with exit code 3 where pages wait to be answered, and with 5 without an answer."""
    import typer

    if html:
        html.write_text(page(report), encoding="utf-8")
    if as_json:
        console.emit(plain(report))
    else:
        _print_table(report)
        if html:
            console.say(f"page: {html}")
    if report.problems:
        console.note("\n".join(report.problems[:20]))
        if len(report.problems) > 20:
            console.note(f"and {len(report.problems) - 20} more")
        waits = all(problem.startswith("waits") for problem in report.problems)
        raise typer.Exit(WAITING if waits else 5)


def plain(report: Report) -> dict[str, Any]:
    """The comparison of models as JSON."""
    return {
        "points": report.points,
        "recordings": report.recordings,
        "seconds": round(report.seconds, 3),
        "contestants": [
            {
                "prompt": scored.contestant.prompt,
                "model": scored.contestant.model,
                "answers": len(scored.scores),
                "unanswered": len(scored.unanswered),
                "stale": scored.stale,
                "kinds": {kind: summary.model_dump(mode="json") for kind in KINDS if (summary := scored.of(kind))},
            }
            for scored in report.scored
        ],
        "comparisons": [comparison.model_dump(mode="json") for comparison in report.compared],
        "problems": list(report.problems),
    }


def _print_table(report: Report) -> None:
    """Print answers of each contestant, then each comparison as a table."""
    for scored in report.scored:
        left = f", {len(scored.unanswered)} points unanswered" if scored.unanswered else ""
        stale = f", {scored.stale} to a question that is put otherwise today" if scored.stale else ""
        console.say(f"{scored.contestant}: {len(scored.scores)} answers{left}{stale}")
    for comparison in report.compared:
        where = f"{comparison.points} points of {comparison.campaigns} campaigns"
        console.say(
            f"\n{comparison.kind}, {where}: {comparison.second} against {comparison.first}: {comparison.verdict}"
        )
        rows = [
            (row.metric, f"{row.first:.3g}", f"{row.second:.3g}", interval(row), p_value(row), row.verdict)
            for row in comparison.differences
        ]
        console.table(("score", "first", "second", "difference, 95 %", "p", ""), rows)
        for note in comparison.notes:
            console.note(note)
    if not report.compared:
        console.note("nothing to compare: no decision point was answered by two contestants")
    console.say(f"\n{report.points} points scored in {report.seconds:.1f} s")


def interval(difference: Difference) -> str:
    """The difference of two contestants' scores with its interval."""
    if difference.low is None or difference.high is None:
        return f"{difference.difference:+.3g}"
    return f"{difference.difference:+.3g} ({difference.low:+.3g} to {difference.high:+.3g})"


def p_value(difference: Difference) -> str:
    """The p-value of two contestants' difference as it is printed."""
    return "-" if difference.p is None else f"{difference.p:.3f}" if difference.p >= 0.001 else "< 0.001"


# A comparison as one self-contained page. Names and notes are text; the template escapes them.

if TYPE_CHECKING:
    pass

COLUMNS = (
    "answers",
    "usable",
    "cites",
    "repeats",
    "hit_at_1",
    "hit_at_3",
    "applies",
    "compiles",
    "correct",
    "log_error",
    "tokens",
)


class Bar(Value):
    """An interval in a picture of 200 units whose middle is no difference; the second is better to the right."""

    low: float
    at: float
    high: float


def page(report: "Report") -> str:
    """The comparison of models as HTML."""
    names = [str(scored.contestant) for scored in report.scored]
    points = sorted({point.name: point for scored in report.scored for point in scored.scores}.items())
    return render(
        "eval.v1.html",
        title=f"{names[1] if len(names) > 1 else names[0]} against {names[0]}" if len(names) > 1 else names[0],
        style=render("page.v1.css"),
        headline=_headline(report.compared),
        facts=(
            ("Decision points", report.points),
            ("Campaigns", report.recordings),
            ("Answers", sum(len(scored.scores) for scored in report.scored)),
            ("Unanswered", sum(len(scored.unanswered) for scored in report.scored)),
        ),
        comparisons=[_comparison(comparison) for comparison in report.compared],
        columns=[name.replace("_", " ") for name in COLUMNS],
        alone=[
            (str(scored.contestant), kind, _alone(scored, kind))
            for scored in report.scored
            for kind in KINDS
            if scored.of(kind)
        ],
        contestants=names,
        points=[(name, [_usable(scored, point) for scored in report.scored]) for name, point in points],
        version=VERSION,
    )


def _usable(scored: ContestantScores, point: Point) -> str:
    """A contestant's usable share at a point as a cell; empty where it has no answer."""
    return _cell(scored.scores[point].usable) if point in scored.scores else ""


def _headline(comparisons: tuple[ContestantComparison, ...]) -> str:
    """Each comparison's verdict in one sentence."""
    if not comparisons:
        return "Nothing to compare: no decision point was answered by two contestants."
    return (
        "; ".join(
            f"{comparison.kind}: {comparison.second} is {_words(comparison.verdict)}" for comparison in comparisons
        )
        + "."
    )


def _words(verdict: str) -> str:
    return {"better": "better", "worse": "worse"}.get(verdict, "not shown to differ")


def _comparison(comparison: ContestantComparison) -> dict[str, Any]:
    """A comparison of contestants as its template takes it."""
    rows = [_row(difference) for difference in comparison.differences]
    return {**comparison.model_dump(), "rows": rows, "decides": DECIDES}


def _row(difference: Difference) -> dict[str, Any]:
    pass

    return {
        "metric": difference.metric,
        "first": _cell(difference.first),
        "second": _cell(difference.second),
        "interval": interval(difference),
        "p": p_value(difference),
        "verdict": difference.verdict,
        "bar": _bar(difference),
    }


def _bar(difference: Difference) -> Bar | None:
    """A bar of contestants' shares alone, which lie between 0 and 1."""
    better = METRICS[difference.metric][1]
    if not better or difference.low is None or difference.high is None:
        return None
    low, at, high = (
        100 + 100 * max(-1.0, min(1.0, value * better))
        for value in (difference.low, difference.difference, difference.high)
    )
    return Bar(low=round(min(low, high), 1), at=round(at, 1), high=round(max(low, high), 1))


def _alone(scored: ContestantScores, kind: str) -> list[str]:
    """A contestant's scores of one kind as cells."""
    summary = scored.of(kind)
    scores = summary.model_dump() if summary else {}
    return [_cell(scores.get(name)) for name in COLUMNS]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# Asks a model at decision points through Inspect AI, and gives its answers in the form that is kept.

EXTRA = f"asking a model needs Inspect AI: {install_command('inspect_ai', 'litellm')}; recorded answers need neither"


def ask(
    points: Sequence[DecisionPoint], prompt: str, kind: str, *, model: str, logs: Path, client: Any = None
) -> tuple[tuple[RecordedAnswer, ...], tuple[str, ...]]:
    """Answers to these decision points, and why others have none. Inspect's log goes to `logs`.

    `client` answers instead of what the model's name reaches. Raises UserError where Inspect AI is not installed or
    the model cannot be asked at all.
    """
    try:
        from inspect_ai import eval as run
        from inspect_ai.model import get_model

        from ridgeline.evals.decisions import inspect_task
    except ImportError as error:
        raise UserError(f"{EXTRA} ({error})") from error
    model_args = {"client": client} if client else {}
    reached = get_model(f"ridgeline/{model}", memoize=False, **model_args)
    questions = inspect_task.of(points, prompt, kind)
    (log,) = run(questions, model=reached, log_dir=str(logs), display="none", log_level="error", ctl_server=False)
    if log.samples is None:
        raise UserError(f"--model: {model}: {log.error.message if log.error else 'nothing was answered'}")
    situations = {point.point.name: point.situation for point in points}
    failed = tuple(f"{sample.id}: {_why(sample.error.message)}" for sample in log.samples if sample.error)
    answers = tuple(_read_sample(sample, situations, prompt, model) for sample in log.samples if not sample.error)
    return answers, failed


def _read_sample(sample: Any, situations: Mapping[str, Situation], prompt: str, model: str) -> RecordedAnswer:
    """The answer in a sample of Inspect's log."""
    situation, output = situations[str(sample.id)], sample.output
    metadata = output.metadata or {}
    return RecordedAnswer(
        point=situation.point,
        prompt=prompt,
        model=model,
        question=situation.asks[prompt].digest,
        text=output.completion,
        tokens=int(metadata.get("tokens") or 0),
        dollars=metadata.get("dollars"),
        seconds=sample.working_time,
    )


def _why(message: str) -> str:
    return message.splitlines()[0][:300] if message else "no answer"
