"""Asks a model at decision points through Inspect AI, and gives its answers in the form that is kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError
from ridgeline.evals.decisions.answers import Given
from ridgeline.evals.decisions.asking import Situation
from ridgeline.evals.decisions.contest import Asked

EXTRA = "asking a model needs Inspect AI: pip install 'ridgeline[evals,model]'; recorded answers need neither"


def ask(
    asked: Sequence[Asked], prompt: str, kind: str, *, model: str, logs: Path, client: Any = None
) -> tuple[tuple[Given, ...], tuple[str, ...]]:
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
    questions = inspect_task.of(asked, prompt, kind)
    (log,) = run(questions, model=reached, log_dir=str(logs), display="none", log_level="error", ctl_server=False)
    if log.samples is None:
        raise UserError(f"--model: {model}: {log.error.message if log.error else 'nothing was answered'}")
    known = {one.point.name: one.situation for one in asked}
    failed = tuple(f"{sample.id}: {_why(sample.error.message)}" for sample in log.samples if sample.error)
    given = tuple(_given(sample, known, prompt, model) for sample in log.samples if not sample.error)
    return given, failed


def _given(sample: Any, known: Mapping[str, Situation], prompt: str, model: str) -> Given:
    situation, output = known[str(sample.id)], sample.output
    told = output.metadata or {}
    return Given(
        point=situation.point,
        prompt=prompt,
        model=model,
        question=situation.asks[prompt].digest,
        text=output.completion,
        tokens=int(told.get("tokens") or 0),
        dollars=told.get("dollars"),
        seconds=sample.working_time,
    )


def _why(message: str) -> str:
    return message.splitlines()[0][:300] if message else "no answer"
