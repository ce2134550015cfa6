"""The golden prompts of `tests/data/prompts`. Refresh after a wanted change, then read the diff:

python -m tests.prompt_golden
"""

from pathlib import Path

from ridgeline.agent.planner.model import DEEP_TOOLS, ModelPlanner
from ridgeline.agent.planner.tools import list_tools
from ridgeline.agent.providers.base import Ask, Message
from ridgeline.graph.briefing import Proposal, ShapeNow, Terms
from ridgeline.graph.deep import DeepRound
from ridgeline.graph.evidence import BuildResult, Exit
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.trial import Broken, Built
from ridgeline.graph.values import Cost, FileEdit
from ridgeline.graph.verdict import ShapeChange
from ridgeline.knowledge.search import Hit
from tests.builders import (
    make_applied,
    make_built,
    make_drafted,
    make_hypothesis,
    make_judged,
    make_limits,
    make_profiled,
    make_proposed,
    make_test,
    make_traced,
    make_verdict,
)
from tests.catalog_briefs import brief, naive
from tests.model_fakes import NoBooks, ScriptedModel, call, direction, directions
from tests.planner_briefs import after

FOLDER = Path(__file__).parent / "data" / "prompts"
ABOUT = make_hypothesis(sources=("kernel.c:8",))


SHAPES = (
    ShapeNow(
        label="wide",
        config_class="regime=small",
        original=2.0,
        best=8.0,
        original_us=1000.0,
        best_us=250.0,
        roof=ShapeRoof(label="wide", flops=2e6, bytes=4e4, intensity=50.0, bound="compute", floor_us=100.0),
    ),
    ShapeNow(label="thin", config_class="all", original=1.0, best=None, original_us=None, best_us=None),
)
TERMS = Terms(
    limits=make_limits(max_dollars=5.0),
    rounds_done=30,
    rounds_most=40,
    peak_asked=0.9,
    peak_now="40.0 % of the compute ceiling (compute peak 20 GFLOP/s, measured here: fma loop)",
    governed=True,
    spent=Cost(tokens=1234, dollars=1.5, wall_seconds=600.0),
)


class OneBook(NoBooks):
    """A knowledge base of one section, so that a golden prompt changes with the prompt alone."""

    def find(self, question, briefing, *, phase, limit, budget):
        text = "- Walk the contiguous dimension in the inner loop. [src: one]"
        return (Hit(id="a", path="knowledge/a.md", line=7, heading="Loops", excerpt=text, score=1.0),)


class Prompts:
    """What a planner asks, in order; its answers are beside the point."""

    def __init__(self, *answers, tools: bool = True) -> None:
        self.model = ScriptedModel(*answers, tools=tools)
        self.planner = ModelPlanner(self.model, limits=make_limits(), books=OneBook())


def _first() -> list[Ask]:
    asked = Prompts((call("read_file", path="kernel.c", first=7, last=9),), "no idea", directions(direction()))
    asked.planner.propose(brief(naive("matmul_c"), profile=make_profiled(), shapes=SHAPES, terms=TERMS))
    return asked.model.asks


def _later(*, tools: bool) -> list[Ask]:
    asked = Prompts(directions(direction()), tools=tools)
    later = {"escalation": "profile the best version afresh", "shapes": SHAPES, "terms": TERMS, "best_round": 28}
    told = after(30).model_copy(update=later)
    asked.planner.propose(told)
    return asked.model.asks


def _drafts() -> dict[str, list[Ask]]:
    told, whole = brief(naive("matmul_c"), profile=make_profiled()), "FILE kernel.c\n```\nint mended;\n```\n"
    drafted = make_drafted(edits=(FileEdit(path="kernel.c", text="int tiled;\n"),))
    applied = make_applied(drafted)
    output = Exit(argv=("cc", "-O2"), returncode=1, seconds=0.1, output="kernel.c:1:4: error: expected ';'\n")
    unbuilt = Built(applied=applied, build=BuildResult(ok=False, commit=applied.commit, exit=output))
    wrong = Broken(built=make_built(applied), test=make_test(passed=False, kind="incorrect", detail="max error 3"))
    classes = [("big", "wide", 0.2), ("thin", "narrow", -0.1)]
    shapes = tuple(ShapeChange(label=label, config_class=name, gain=gain) for label, name, gain in classes)
    diverging = make_judged(verdict=make_verdict("split", "class_regression", gain=0.05, shapes=shapes))
    asked = Prompts(*[whole] * 4)
    asked.planner.draft(told, Proposal(hypothesis=ABOUT))
    asked.planner.repair(told, unbuilt, 1)
    asked.planner.repair(told, wrong, 2)
    asked.planner.split(told, diverging)
    return dict(
        zip(("draft", "repair-build", "repair-test", "split"), ([ask] for ask in asked.model.asks), strict=True)
    )


def _looks_back() -> dict[str, list[Ask]]:
    told = after(6)
    asked = Prompts(*["{}"] * 6)
    traced = make_traced(profile=make_profiled(), hypothesis=ABOUT)
    asked.planner.review(told, "2 consecutive rollbacks")
    asked.planner.reflect(told, make_judged(trial=traced))
    asked.planner.reflect(told, make_judged("rolled_back", trial=traced))
    review, _, reflect, _, diagnose, _ = asked.model.asks
    return {"review": [review], "reflect": [reflect], "diagnose": [diagnose]}


def _deep() -> dict[str, str]:
    """A deep round as a model with tools is asked for it, and as whoever edits files is."""
    told = brief(naive("matmul_c"), profile=make_profiled())
    about = make_proposed(hypothesis=ABOUT, deep=DeepRound(origin="person", plan="pack the panels"))
    by_hand = {
        "tree": "`deep/round-4/tree`",
        "commands": ("ridgeline deep build CAMPAIGN", "ridgeline deep back N CAMPAIGN"),
    }
    planner = Prompts().planner
    ways = {"deep": planner.ask_deep(told, about, budget="30 minutes")}
    ways["deep-by-hand"] = planner.ask_deep(told, about, budget="30 minutes", **by_hand)
    return {
        f"{name}.golden": _text((Message(role="system", text=asked.system), Message(role="user", text=asked.text)))
        for name, (asked, _) in ways.items()
    }


def prompts() -> dict[str, str]:
    """Name of the golden file -> what is asked now."""
    asked = {
        "propose-first": _first(),
        "propose-later": _later(tools=True),
        "propose-without-tools": _later(tools=False),
        **_drafts(),
        **_looks_back(),
    }
    found = {f"{name}.golden": _text(asks[-1].messages) for name, asks in asked.items()}
    tools = [
        f"## {tool.name}\n{tool.description}\n{tool.parameters}\n" for tool in (*list_tools(), *list_tools(DEEP_TOOLS))
    ]
    return {**found, **_deep(), "tools.golden": "\n".join(tools)}


def _text(messages: tuple[Message, ...]) -> str:
    parts = []
    for message in messages:
        calls = "".join(f"[calls {call.name} {call.arguments}]\n" for call in message.calls)
        parts.append(f"<<< {message.role} >>>\n{message.text.rstrip()}\n{calls}")
    return "\n".join(parts)


def refresh() -> None:
    """Write what is asked now."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for stale in FOLDER.glob("*.golden"):
        stale.unlink()
    for name, text in prompts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh()
