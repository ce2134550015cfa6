"""Decision points as an Inspect AI task: its runner asks models side by side, caches, and writes logs for its viewer.

Imports inspect_ai (extra `evals`), so this module is imported only where a model is asked; found by
`inspect eval ridgeline/decisions` through the entry-point group `inspect_ai`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.scorer import Score as InspectScore
from inspect_ai.scorer import Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate
from inspect_ai.tool import ToolChoice, ToolInfo

from ridgeline.agent.providers.base import Ask, Client, Message
from ridgeline.agent.providers.choice import Choice
from ridgeline.agent.providers.client import LitellmModel
from ridgeline.evals.decisions.contest import SHIPPED, DecisionPoint, gather_points, prompt
from ridgeline.evals.decisions.scores import Score, score
from ridgeline.knowledge.library import Library

CACHED = CachePolicy(expiry=None, per_epoch=True)
"""The same question to the same model is paid for once."""
ANSWER_TOKENS = 8192


@modelapi(name="ridgeline")
class RidgelineAPI(ModelAPI):
    """`ridgeline/PROVIDER/MODEL`: whatever a campaign's `--model` reaches, with its patience, prices and errors."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 -- Inspect's own signature
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        client: Client | None = model_args.get("client")
        self._client = client or LitellmModel(Choice(name=model_name, base_url=base_url or ""))

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Raises what the client raises: a provider's failure is an error of the sample, never an answer."""
        answer = await anyio.to_thread.run_sync(self._client.ask, _ask(input, config.max_tokens or ANSWER_TOKENS))
        output = ModelOutput.from_content(
            model=answer.model, content=answer.text, stop_reason="max_tokens" if answer.truncated else "stop"
        )
        output.usage = ModelUsage(total_tokens=answer.cost.tokens)
        output.metadata = {"dollars": answer.cost.dollars, "tokens": answer.cost.tokens}
        return output

    def max_connections(self) -> int:
        """Questions at once to Inspect's model."""
        return 8


@task
def decisions(recordings: str = "", prompts: str = SHIPPED, kind: str = "propose") -> Task:
    """`inspect eval ridgeline/decisions -T recordings=DIR,DIR -T prompts=shipped --model ridgeline/openai/gpt-5`."""
    shipped = Path(__file__).parents[1] / "campaigns"
    paths = [Path(name) for name in recordings.split(",") if name] or sorted(
        p.parent for p in shipped.glob("*/request.json")
    )
    return of(gather_points(paths, (prompt(prompts),), (kind,)), prompt(prompts).name, kind)


def of(points: Sequence[DecisionPoint], prompt: str, kind: str) -> Task:
    """One wording at these decision points for Inspect, which are all of that kind."""
    by_name = {case.point.name: case for case in points if case.point.kind == kind and prompt in case.situation.asks}
    samples = [
        Sample(
            id=name,
            input=_messages(case.situation.asks[prompt]),
            metadata={"question": case.situation.asks[prompt].digest},
        )
        for name, case in by_name.items()
    ]
    return Task(
        name=f"{kind}-{prompt}",
        dataset=MemoryDataset(samples, name="decision points"),
        solver=generate(cache=CACHED),
        scorer=_scorer(by_name),
        fail_on_error=False,
        metadata={"prompt": prompt, "kind": kind},
    )


@scorer(metrics={"*": [mean(), stderr()]}, name="ridgeline")
def _scorer(by_name: Mapping[str, DecisionPoint]) -> Scorer:
    """Inspect's scorer, which scores an answer against the decision that its sample is named by."""
    line = Library(()).line

    async def judge(state: TaskState, target: Target) -> InspectScore:
        case = by_name[str(state.sample_id)]
        run = partial(score, tokens=_tokens(state.output), line=line, checks=case.situation.checks)
        result = await anyio.to_thread.run_sync(lambda: run(case.decision, state.output.completion))
        return InspectScore(
            value=_numbers(result), answer=state.output.completion, metadata=result.model_dump(mode="json")
        )

    return judge


def _numbers(result: Score) -> dict[str, Any]:
    """What Inspect keeps of every scored answer; the rest stands in the score's metadata."""
    hit = result.hit_at or 0
    numbers = {"usable": result.usable or 0.0, "parses": float(result.parses)}
    if result.applies is not None:
        return {**numbers, "applies": float(result.applies)}
    return {**numbers, "cites": result.cites or 0.0, "hit_at_1": float(hit == 1), "hit_at_3": float(0 < hit <= 3)}


def _messages(ask: Ask) -> list[ChatMessage]:
    kinds: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser}
    return [kinds[message.role](content=message.text) for message in ask.messages]


def _ask(messages: Sequence[ChatMessage], most: int) -> Ask:
    texts = tuple(Message(role=_role(message), text=message.text) for message in messages)
    return Ask(purpose="a decision point", messages=texts, max_output_tokens=most)


def _role(message: ChatMessage) -> Any:
    return message.role


def _tokens(output: ModelOutput) -> int:
    return int(output.usage.total_tokens) if output.usage else 0
