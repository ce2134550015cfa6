"""A scripted language model for tests: answers in order, and what it was asked."""

import json
from collections.abc import Callable

from ridgeline.agent.providers.base import Ask, Call, Reply
from ridgeline.graph.values import Cost

Answer = str | tuple[Call, ...] | Reply | Callable[[Ask], str]


class ScriptedModel:
    """`ridgeline.agent.providers.base.Model` with its answers written down; fails when they run out."""

    name = "scripted"

    def __init__(self, *answers: Answer, tools: bool = True) -> None:
        self._answers = list(answers)
        self.tools = tools
        self.asks: list[Ask] = []

    def ask(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        assert self._answers, f"nobody scripted an answer to {ask.purpose}"
        answer = self._answers.pop(0)
        if isinstance(answer, Reply):
            return answer
        cost = Cost(tokens=100, dollars=0.01)
        if isinstance(answer, tuple):
            return Reply(calls=answer, model=self.name, cost=cost)
        return Reply(text=answer(ask) if callable(answer) else answer, model=self.name, cost=cost)

    def count(self, text: str) -> int:
        return -(-len(text) // 4)

    @property
    def left(self) -> int:
        return len(self._answers)


def direction(**fields) -> dict:
    """A direction that passes every check against the matmul sources of the C task."""
    default = {
        "id": "swap-loops",
        "lever": "loop-interchange",
        "bottleneck": "memory: the inner loop strides through the second operand",
        "claim": "I expect GFLOPS to improve because the inner loop then reads in order.",
        "change": "swap the two inner loops",
        "benefit": "about 2x",
        "risks": "none for the result: the sums are the same",
        "verification": "d1_misses fall",
        "bucket": "K1",
        "real_gain": "as in the benchmark",
        "category": "layout",
        "evidence": [
            {"measured": "bottleneck", "evidence": "memory", "inference": "strided reads", "action": "swap the loops"}
        ],
        "citations": ["kernel.c:1"],
        "prediction": {"counter": "d1_misses", "direction": "down", "ratio": 0.5, "speedup": 2.0},
        "diagnosis": "the last change did not reach the hot loop",
    }
    return {**default, **fields}


def directions(*found: dict) -> str:
    """The whole answer."""
    return json.dumps({"directions": list(found)})


def call(name: str, **arguments) -> Call:
    return Call(id=f"call-{name}", name=name, arguments=json.dumps(arguments))


class NoBooks:
    """An empty knowledge base."""

    def find(self, question, briefing, *, phase, limit, budget):
        return ()

    def uncovered_words(self, question, briefing):
        return ()

    def levers(self, briefing, scope=None):
        return ()

    def line(self, path, number):
        return None
