"""A language model at work in a deep round: it calls tools until it has its story, within the round's budget."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.agent.deep.desk import DeepEnded, Desk, folder_of
from ridgeline.agent.planner.conversation import Wrong, clip_line, talk
from ridgeline.agent.planner.model import DEEP_TOOLS, ModelPlanner
from ridgeline.agent.planner.tools import BriefedReader, Reader, list_tools, read_arguments
from ridgeline.agent.providers.base import Ask, Call, Message, Model, NotAsked, Reply, StopAsked
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.deep import DeepWork
from ridgeline.graph.loop.context import read_history
from ridgeline.graph.ports import Ports
from ridgeline.graph.trial import Proposed
from ridgeline.graph.values import Artifact, Cost
from ridgeline.sandbox.isolation.stopping import StepEnded

LOOKS = 3
"""Calls for each step of the budget: looking at the tree is no step."""
ROOM = 2
"""Times `context_tokens` that a conversation may grow to; then what is oldest is left out."""
RECENT = 8
"""Messages at its end that are never left out."""
LEFT_OUT = "[left out: shown long ago; read it again where it is needed]"
STORY = 4000
"""Characters of a story that are kept."""


class ModelWorker:
    """`ridgeline.graph.ports.Worker` on a model that calls tools."""

    def __init__(self, planner: ModelPlanner, ports: Ports, campaign: Path | None = None) -> None:
        """`ports`: as every round uses them, with their tape. `campaign`: its folder, where the steps are shown."""
        self._planner = planner
        self._ports = ports
        self._campaign = campaign

    def work(self, briefing: Briefing, about: Proposed) -> DeepWork:
        """A model's deep round. The same answers give the same steps, so a round that was killed goes on where it was."""
        model = DeepModel(self._planner.model, room=ROOM * self._planner.limits.context_tokens)
        desk = Desk(
            self._ports,
            read_history(self._ports, before=f"round-{about.round}"),
            round=about.round,
            opened_at=about.opened_at,
            folder=folder_of(self._campaign, about.round) if self._campaign else None,
            tokens=lambda: model.cost.tokens,
        )
        model.before = desk.check_budget
        question, prompts = self._planner.ask_deep(briefing, about, budget=desk.describe_budget())
        reader = TreeNow(self._planner.reader or BriefedReader(briefing), desk)
        tools = DeepTools(desk, self._planner.make_toolbox(briefing, reader))
        question = replace(question, tools=tools.offered, calls=LOOKS * self._planner.limits.deep_steps, desk=tools)
        try:
            exchange = talk(model, question, lambda text: text.strip()[:STORY])
        except DeepEnded as end:
            return desk.hand_in("", ended=str(end), cost=model.cost, prompts=prompts)
        except StepEnded as end:
            return desk.stop(str(end), cost=model.cost, prompts=prompts)
        except NotAsked as end:
            why = f"{end.begins}{end}"
            if isinstance(end, StopAsked):
                return desk.stop(why, cost=model.cost, prompts=prompts)
            return desk.hand_in("", ended=why, cost=model.cost, prompts=prompts)
        if isinstance(exchange.value, Wrong):
            ended = f"no usable answer: {exchange.value.why}"
            return desk.hand_in("", ended=ended, cost=model.cost, prompts=prompts)
        return desk.hand_in(exchange.value, cost=model.cost, prompts=prompts)


class DeepModel:
    """The model of one deep round: its cost added up, its budget looked at, its conversation kept from growing."""

    def __init__(self, inner: Model, *, room: int) -> None:
        """A model in a deep round. `room`: tokens of a conversation, from which on old tool answers are left out."""
        self._inner = inner
        self._room = room
        self.name = inner.name
        self.tools = inner.tools
        self.cost = Cost()
        self.before: Callable[[], None] = lambda: None
        """Called before each question; raises DeepEnded."""

    def count(self, text: str) -> int:
        return self._inner.count(text)

    def ask(self, ask: Ask) -> Reply:
        """Ask the model in a deep round. Raises what the model raises, and DeepEnded where a budget is used up."""
        self.before()
        messages = shorten_conversation(ask.messages, room=self._room, count=self.count)
        fields: dict[str, Any] = {name: getattr(ask, name) for name in Ask.model_fields}
        reply = self._inner.ask(Ask.model_validate({**fields, "messages": messages}))
        self.cost = self.cost + reply.cost
        return reply


def shorten_conversation(messages: Sequence[Message], *, room: int, count: Callable[[str], int]) -> tuple[Message, ...]:
    """A deep round's conversation within `room` tokens: of the oldest tool calls and answers only that there were some.

    The rules, the question and the last messages always stay, so a conversation of those alone may be longer.
    """
    sizes = [count(message.text) + sum(count(call.arguments) for call in message.calls) for message in messages]
    total, shortened = sum(sizes), list(messages)
    for place in range(2, len(messages) - RECENT):
        if total <= room:
            break
        message = messages[place]
        calls = tuple(call.model_copy(update={"arguments": "{}"}) for call in message.calls)
        text = LEFT_OUT if message.role == "tool" else message.text
        shortened[place] = message.model_copy(update={"text": text, "calls": calls})
        total -= sizes[place] - count(text)
    return tuple(shortened)


class DeepTools:
    """What answers a model's calls: the tools of the tree, and those that only look."""

    def __init__(self, desk: Desk, toolbox: Any) -> None:
        """`toolbox`: of the read-only tools."""
        self._desk = desk
        self._toolbox = toolbox
        self._tools = list_tools(DEEP_TOOLS)
        self.offered = (*self._tools, *list_tools())

    def run(self, call: Call) -> str:
        """The answer to a model's call of a deep round's tool, with what is left of the budget. Raises DeepEnded, StepEnded."""
        if call.name not in {tool.name for tool in self.offered}:
            return f"no tool is called {clip_line(call.name, 60)!r}; there are: {', '.join(tool.name for tool in self.offered)}"
        if call.name not in {tool.name for tool in self._tools}:
            return str(self._toolbox.run(call))
        arguments = read_arguments(call, self._tools)
        if isinstance(arguments, str):
            return arguments
        self._desk.check_budget()
        return str(getattr(self._desk, call.name)(**arguments))


class TreeNow:
    """Files as they stand in the work tree: `Reader` at whatever commit is asked for."""

    def __init__(self, inner: Reader, desk: Desk) -> None:
        self._inner = inner
        self._desk = desk

    def paths(self, commit: str) -> tuple[str, ...]:
        """Files of the deep round's tree: the best version's, with what was added, without what was deleted."""
        edits = self._desk.edits
        before = self._inner.paths(commit)
        added = (path for path in sorted(edits) if path not in before and edits[path] is not None)
        return (*(path for path in before if edits.get(path, "") is not None), *added)

    def text(self, commit: str, path: str) -> str | None:
        edits = self._desk.edits
        return edits[path] if path in edits else self._inner.text(commit, path)

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        edits = self._desk.edits
        lines = (
            f"{path}:{number}: {line.strip()}"
            for path, new in sorted(edits.items())
            for number, line in enumerate((new or "").splitlines(), start=1)
            if text.lower() in line.lower()
        )
        return (*lines, *(hit for hit in self._inner.search(commit, text) if hit.partition(":")[0] not in edits))

    def read_artifact(self, artifact: Artifact) -> str | None:
        return self._inner.read_artifact(artifact)
