"""Carries out `ridgeline eval --prompts A B`: finds or gets the answers, scores them, and tells what differs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.agent import console
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import MAILBOX
from ridgeline.evals.decisions.answers import Answers, taken_up, write_request
from ridgeline.evals.decisions.compare import Compared, Difference
from ridgeline.evals.decisions.contest import KINDS, Asked, Contestant, Scored, compared, gathered, repeated, scored
from ridgeline.evals.decisions.prompts import prompt
from ridgeline.knowledge.library import Library

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
    named: str
    kinds: tuple[str, ...]
    tried: bool
    repeat: int
    logs: Path | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of it."""

    points: int
    recordings: int
    scored: tuple[Scored, ...]
    compared: tuple[Compared, ...]
    problems: tuple[str, ...]
    """Questions that got no answer, and why."""
    seconds: float
    """Of finding and scoring, without the models' time."""


def shipped_recordings() -> list[Path]:
    """Folders of the recordings that ship. Raises UserError where there are none, as in an installed wheel."""
    found = sorted(path.parent for path in (EVALS / "campaigns").glob("*/request.json"))
    if not found:
        raise UserError(
            "RECORDING: is missing, and no recordings ship with this installation; name folders of recordings"
        )
    return found


def run(order: Order) -> Report:
    """Raises UserError for what cannot be asked or compared."""
    if unknown := [kind for kind in order.kinds if kind not in KINDS]:
        raise UserError(f"--kind: {unknown[0]!r} is unknown; known: {', '.join(KINDS)}")
    if order.repeat < 1:
        raise UserError("--repeat: is less than 1; leave it out to score each point once")
    began = time.perf_counter()
    wordings = [prompt(word) for word in dict.fromkeys(order.prompts)]
    asked = gathered(order.recordings, wordings, order.kinds)
    if not asked:
        raise UserError(f"no decision point of kind {', '.join(order.kinds)} in these recordings; see --list")
    names, answers = [one.name for one in wordings], Answers(order.answers)
    spent, problems = 0.0, []
    for model in order.models:
        waited = time.perf_counter()
        problems += _answered(order, asked, names, model=model, answers=answers)
        spent += time.perf_counter() - waited
    models = _models(order, answers)
    asked = repeated(asked, order.repeat)
    line = Library(()).line
    contestants = [Contestant(prompt=name, model=model) for name in names for model in models]
    found = [scored(asked, one, answers, line=line, try_here=order.tried) for one in contestants]
    told = [done for other in found[1:] for done in compared(found[0], other, order.kinds)]
    return Report(
        points=len(asked),
        recordings=len({one.point.recording for one in asked}),
        scored=tuple(found),
        compared=tuple(told),
        problems=tuple(problems),
        seconds=time.perf_counter() - began - spent,
    )


def _models(order: Order, answers: Answers) -> tuple[str, ...]:
    named = tuple(order.named or BY_HAND if model == MAILBOX else model for model in order.models)
    models = tuple(dict.fromkeys(named)) or answers.models
    if not models:
        raise UserError(f"{order.answers}: holds no answers; give --model to ask one, or --model mailbox for pages")
    return models


def _answered(
    order: Order, asked: Sequence[Asked], prompts: Sequence[str], *, model: str, answers: Answers
) -> list[str]:
    """Get what is missing; why something is still missing."""
    problems: list[str] = []
    who = order.named or BY_HAND if model == MAILBOX else model
    for name in prompts:
        situations = [one.situation for one in asked if name in one.situation.asks]
        if model == MAILBOX:
            answers.add(taken_up(answers, name, situations, model=who))
        missing = [one for one in situations if answers.find(name, who, one.point) is None]
        if model == MAILBOX:
            problems += [f"waits for an answer: {write_request(answers, name, one)}" for one in missing]
            continue
        wanted = {one.point for one in missing}
        for kind in order.kinds if missing else ():
            left = [one for one in asked if one.point in wanted and one.point.kind == kind]
            problems += _asked(left, name, kind, order=order, model=model, answers=answers)
    return problems


def _asked(
    left: Sequence[Asked], prompt: str, kind: str, *, order: Order, model: str, answers: Answers
) -> tuple[str, ...]:
    from ridgeline.evals.decisions.running import ask

    if not left:
        return ()
    console.note(f"asking {model} {len(left)} questions ({kind}, {prompt})")
    given, failed = ask(left, prompt, kind, model=model, logs=order.logs or order.answers / "logs")
    answers.add(given)
    return failed


def told(report: Report, *, html: Path | None, as_json: bool) -> None:
    """Print it. Ends with exit code 3 where pages wait to be answered, and with 5 where a model gave no answer."""
    import typer

    from ridgeline.evals.decisions.page import page

    if html:
        html.write_text(page(report), encoding="utf-8")
    if as_json:
        console.emit(plain(report))
    else:
        _said(report)
        if html:
            console.say(f"page: {html}")
    if report.problems:
        console.note("\n".join(report.problems[:20]))
        if len(report.problems) > 20:
            console.note(f"and {len(report.problems) - 20} more")
        waits = all(problem.startswith("waits") for problem in report.problems)
        raise typer.Exit(WAITING if waits else 5)


def plain(report: Report) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "points": report.points,
        "recordings": report.recordings,
        "seconds": round(report.seconds, 3),
        "contestants": [
            {
                "prompt": one.contestant.prompt,
                "model": one.contestant.model,
                "answers": len(one.scores),
                "unanswered": len(one.unanswered),
                "stale": one.stale,
                "kinds": {kind: found.model_dump(mode="json") for kind in KINDS if (found := one.of(kind))},
            }
            for one in report.scored
        ],
        "comparisons": [one.model_dump(mode="json") for one in report.compared],
        "problems": list(report.problems),
    }


def _said(report: Report) -> None:
    for one in report.scored:
        left = f", {len(one.unanswered)} points unanswered" if one.unanswered else ""
        stale = f", {one.stale} to a question that is put otherwise today" if one.stale else ""
        console.say(f"{one.contestant}: {len(one.scores)} answers{left}{stale}")
    for found in report.compared:
        where = f"{found.points} points of {found.campaigns} campaigns"
        console.say(f"\n{found.kind}, {where}: {found.second} against {found.first}: {found.verdict}")
        rows = [
            (one.metric, f"{one.first:.3g}", f"{one.second:.3g}", interval(one), p_value(one), one.verdict)
            for one in found.differences
        ]
        console.table(("score", "first", "second", "difference, 95 %", "p", ""), rows)
        for note in found.notes:
            console.note(note)
    if not report.compared:
        console.note("nothing to compare: no decision point was answered by two contestants")
    console.say(f"\n{report.points} points scored in {report.seconds:.1f} s")


def interval(one: Difference) -> str:
    """The difference with its interval."""
    if one.low is None or one.high is None:
        return f"{one.difference:+.3g}"
    return f"{one.difference:+.3g} ({one.low:+.3g} to {one.high:+.3g})"


def p_value(one: Difference) -> str:
    """As it is printed."""
    return "-" if one.p is None else f"{one.p:.3f}" if one.p >= 0.001 else "< 0.001"
