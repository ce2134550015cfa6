"""Prompts after many rounds: their size, how long they take to build, how often a model that heeds them repeats."""

import re
import time
from collections.abc import Iterator
from typing import Any

from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.providers.base import Ask, Reply
from ridgeline.graph.record import RoundClosed
from tests.builders import make_limits, make_profiled
from tests.catalog_briefs import brief, naive
from tests.model_fakes import ScriptedModel, direction, directions
from tests.planner_briefs import after, idea, past_round

ROUNDS = 100
LONGER = 1.10
"""Round 100's prompt over round 10's."""
BUILD_MS = 100


def run() -> Iterator[dict[str, Any]]:
    sizes = {rounds: _size(rounds) for rounds in (10, ROUNDS)}
    for rounds, size in sizes.items():
        yield {"what": f"prompt of round {rounds}", "value": size, "unit": "tokens"}
    ratio = sizes[ROUNDS] / sizes[10]
    yield {
        "what": f"round {ROUNDS} over round 10",
        "value": ratio,
        "unit": "x",
        "bound": LONGER,
        "ok": ratio <= LONGER,
    }
    took = _build_ms(ROUNDS)
    what = f"building the prompt of round {ROUNDS} (median of 5)"
    yield {"what": what, "value": took, "unit": "ms", "bound": BUILD_MS, "ok": took <= BUILD_MS}
    first, tried = _repeats()
    bound = 0.0
    yield {
        "what": f"directions tried twice in {ROUNDS} rounds",
        "value": tried,
        "unit": "share",
        "bound": bound,
        "ok": tried <= bound,
    }
    yield {"what": "answers that begin with a direction that failed before", "value": first, "unit": "share"}


def _asked(planner: ModelPlanner, model: ScriptedModel, rounds: int) -> str:
    planner.propose(after(rounds - 1))
    return "\n".join(message.text for message in model.asks[-1].messages)


def _size(rounds: int) -> int:
    model = ScriptedModel(directions(direction()))
    return model.count(_asked(ModelPlanner(model, limits=make_limits()), model, rounds))


def _build_ms(rounds: int) -> float:
    """Without the first one, which opens the knowledge base."""
    model = ScriptedModel(*[directions(direction())] * 6)
    planner, told, took = ModelPlanner(model, limits=make_limits()), after(rounds - 1), []
    for _ in range(6):
        began = time.perf_counter()
        planner.propose(told)
        took.append((time.perf_counter() - began) * 1e3)
    return sorted(took[1:])[2]


class Forgetful(ScriptedModel):
    """Has a fixed list of ideas and remembers nothing: it proposes the first three that the prompt does not name."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def ask(self, ask: Ask) -> Reply:
        named = set(re.findall(r"[a-z][a-z0-9-]+-\d+", "\n".join(message.text for message in ask.messages)))
        fresh = [number for number in range(400) if idea(number)[0] not in named][:3]
        self.said.append(idea(fresh[0])[0])
        found = [
            direction(id=name, lever=name, change=change, category=category)
            for name, change, category in map(idea, fresh)
        ]
        return Reply(text=directions(*found), model=self.name)


def _repeats() -> tuple[float, float]:
    """Share of rounds whose first idea was a repeat that code had to drop, and of rounds that tried one again."""
    model = Forgetful()
    planner = ModelPlanner(model, limits=make_limits())
    rounds: list[RoundClosed] = []
    tried: list[str] = []
    repeats = 0
    for number in range(2, ROUNDS + 2):
        found = planner.propose(brief(naive("matmul_c"), *rounds, profile=make_profiled()))
        assert found.hypothesis is not None
        asked = len(model.said)
        repeats += model.said[asked - 1] in tried
        tried.append(found.hypothesis.id)
        place = next((n for n in range(400) if idea(n)[0] == found.hypothesis.id), 399)
        rounds.append(past_round(number, accepted=False, number=place))
    again = len(tried) - len(set(tried))
    return repeats / ROUNDS, again / ROUNDS
