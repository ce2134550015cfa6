"""An answer is checked before it is given, by what travelled with its question, exactly as the planner checks it."""

import json

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.checks import LOOKED_UP, Checks, of_edits, of_planning
from ridgeline.agent.planner.directions import assess_answer, read_end
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.providers.base import Ask, Message
from ridgeline.agent.providers.mailbox import MailboxRequest, check_answer
from ridgeline.graph.briefing import Proposal
from tests.builders import make_contract, make_hypothesis, make_judged, make_limits, make_profiled, make_traced
from tests.catalog_briefs import brief, naive
from tests.model_fakes import NoBooks, ScriptedModel, direction, directions

BRIEF = brief(naive("matmul_c"), profile=make_profiled())
LEARNT = json.dumps({"attribution": "it is faster"})
WHOLE = "Why.\n\nFILE kernel.c\n```\nint x;\n```\n"


class Mailed(ScriptedModel):
    """A model whose questions are written into a mailbox."""

    name = "mailbox"


def questions(*answers, model=Mailed) -> tuple[ModelPlanner, ScriptedModel]:
    heard = model(*answers, tools=False)
    return ModelPlanner(heard, limits=make_limits(), books=NoBooks()), heard


def line(path: str, number: int) -> str | None:
    return "a line" if path == "knowledge/a.md" and number <= 3 else None


def asked(ask: Ask) -> Checks:
    return Checks.model_validate_json(ask.checks)


@pytest.mark.feature("F063")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"citations": ["knowledge/a.md:3"]}, ""),
        ({"citations": ["knowledge/a.md:4"]}, "no such line"),
        ({"citations": ["kernel.c:99"]}, "kernel.c has 13 lines"),
        ({"change": "tile by 64 and prefetch the next row"}, "names 2 changes"),
        ({"bucket": "W2"}, "bucket W2"),
        ({"evidence": [{"measured": "x", "evidence": "e", "inference": "i", "action": "a"}]}, "must name one of"),
    ],
)
def test_directions_are_refused_for_what_the_planner_would_drop_them_for(fields, why):
    planner, model = questions(directions(direction()))
    planner.propose(BRIEF)
    found = assess_answer(directions(direction(**fields)), asked(model.asks[0]), line)
    assert why in found.why
    assert bool(found.why) == bool(why)


def test_what_would_be_dropped_beside_a_usable_direction_is_told():
    found = assess_answer(
        directions(direction(), direction(id="cache", bucket="W3")),
        of_planning(BRIEF, ("kernel.c",), {"kernel.c": 13}.get),
        line,
    )
    assert found.why == ""
    assert [text.partition(":")[0] for text in found.dropped] == ["cache"]


def test_what_only_the_campaign_can_look_up_is_left_to_it():
    many = tuple(f"file{number}.c" for number in range(LOOKED_UP + 1))
    checks = of_planning(BRIEF, many, lambda path: 5)
    assert assess_answer(directions(direction(citations=[f"{many[-1]}:3"])), checks, line).why == ""
    assert "has 5 lines" in assess_answer(directions(direction(citations=["file0.c:6"])), checks, line).why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (WHOLE, ""),
        ("no edit at all", "no edit was found"),
        (WHOLE.replace("kernel.c", "bench.c"), "refused"),
        ("EDIT kernel.c\n<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n", "does not stand in the file"),
    ],
)
def test_edits_are_tried_before_they_are_given(answer, why):
    planner, model = questions(WHOLE)
    planner.draft(BRIEF, Proposal(hypothesis=make_hypothesis()))
    found = assess_answer(answer, asked(model.asks[0]), line)
    assert why in found.why
    assert bool(found.why) == bool(why)


def test_reflections_and_reviews_are_checked_too():
    judged = make_judged(trial=make_traced(profile=make_profiled()))
    planner, model = questions(LEARNT, "{}", "{}")
    planner.reflect(BRIEF, judged)
    planner.review(BRIEF, "stagnation")
    learnt, review = (asked(ask) for ask in model.asks[:2])
    assert assess_answer(LEARNT, learnt, line).why == ""
    assert "attribution: Field required" in assess_answer("{}", learnt, line).why
    one = json.dumps({"directions": [{"category": "tile", "direction": "x"}]})
    assert "only 1 different categories" in assess_answer(one, review, line).why


def test_other_models_are_asked_without():
    planner, model = questions(directions(direction()), model=ScriptedModel)
    planner.propose(BRIEF)
    assert model.asks[0].checks == ""


def test_checks_of_a_long_campaign_stay_small():
    checks = of_edits({"kernel.c": "int x;"}, make_contract())
    assert Checks.model_validate_json(checks.model_dump_json()) == checks
    assert len(checks.model_dump_json()) < 5000


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"exhausted": "bytes are at the roof"}', "bytes are at the roof"),
        ('```json\n{"exhausted": "done"}\n```', "done"),
        ('{"exhausted": "done", "directions": []}', ""),
        ('{"exhausted": 3}', ""),
        ('kernel.c\n<<<<<<< SEARCH\n{"exhausted": "x"}\n=======\n', ""),
        ("", ""),
    ],
)
def test_an_answer_to_any_question_may_say_that_nothing_is_left(answer, why):
    assert read_end(answer) == why


def test_the_mailbox_takes_the_end_as_an_answer_whatever_form_was_asked_for():
    schema = '{"type": "object", "required": ["attribution"], "properties": {"attribution": {"type": "string"}}}'
    ask = Ask(
        purpose="round-2 reflect 1", messages=(Message(role="user", text="what was learnt?"),), answer_schema=schema
    )
    asked = MailboxRequest(number=1, digest="0" * 64, ask=ask)
    assert "roof" in check_answer(b'{"exhausted": "at the roof"}', asked, source="answer.json")
    with pytest.raises(UserError):
        check_answer(b'{"nothing": "at the roof"}', asked, source="answer.json")
