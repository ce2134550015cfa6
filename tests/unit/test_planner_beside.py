"""Several directions in one answer, tried side by side: what a model is asked, and what is made of its answers."""

import json
import math

import pytest

from ridgeline.agent.planner.checks import Checks
from ridgeline.agent.planner.directions import assess_answer
from ridgeline.agent.planner.history import find_leads
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.providers.recorded import ABOUT, HYPOTHESIS
from ridgeline.graph.briefing import ArchivedVersion, Parent
from ridgeline.graph.evidence import ShapePairs
from ridgeline.graph.trial import Traced
from ridgeline.graph.values import Cost
from tests.builders import (
    make_applied,
    make_built,
    make_comparison,
    make_drafted,
    make_hypothesis,
    make_judged,
    make_limits,
    make_profiled,
    make_proposed,
    make_round,
    make_timed,
    make_verified,
)
from tests.catalog_briefs import brief, naive
from tests.model_fakes import NoBooks, ScriptedModel, direction, directions

BRIEF = brief(naive("matmul_c"), profile=make_profiled()).model_copy(update={"candidates": 3})
FOUR = directions(
    direction(),
    direction(id="pad", change="pad each row by one line", category="tile"),
    direction(id="hoist", change="hoist the address of the first operand", category="algorithm"),
    direction(id="stream", change="store the result without reading its line", category="pipelining"),
)
BLOCK = "EDIT kernel.c\n<<<<<<< SEARCH\n            float sum = 0.0f;\n=======\n            {}\n>>>>>>> REPLACE\n"


class MailboxModel(ScriptedModel):
    """Answers a question that was put before as it was answered then, as a mailbox does."""

    name = "mailbox"

    def __init__(self, *answers) -> None:
        super().__init__(*answers, tools=False)
        self._known = {}

    def ask(self, ask):
        if ask.digest not in self._known:
            self._known[ask.digest] = super().ask(ask)
        return self._known[ask.digest]


def make_planner(model) -> ModelPlanner:
    return ModelPlanner(model, limits=make_limits(), books=NoBooks())


def shown(ask) -> str:
    return "\n".join(message.text for message in ask.messages)


@pytest.mark.feature("F093")
def test_one_question_gives_as_many_directions_as_are_tried_and_ranks_the_rest():
    model = ScriptedModel(FOUR)
    found = make_planner(model).propose(BRIEF)
    assert [found.hypothesis.id, *(other.hypothesis.id for other in found.others)] == ["swap-loops", "pad", "hoist"]
    assert [one.id for one in found.others[1].beside] == ["swap-loops", "pad", "hoist"]
    assert found.ranked == ("stream: store the result without reading its line (2.00x expected)",)
    assert found.cost == Cost(tokens=100, dollars=0.01)
    assert "The first 3 that pass every check are tried side by side" in shown(model.asks[0])
    alone = ScriptedModel(FOUR)
    linear = make_planner(alone).propose(BRIEF.model_copy(update={"candidates": 1}))
    assert (linear.others, linear.beside, len(linear.ranked)) == ((), (), 3)
    assert "is carried out alone" in shown(alone.asks[0])


def test_a_mailbox_is_asked_once_for_all_edits_and_each_candidate_takes_its_own():
    answer = "CANDIDATE 1\nReads in order.\n" + BLOCK.format("float sum = 0;")
    answer += "\n## CANDIDATE 3: hoist\nOne address.\n" + BLOCK.format("float sum = 0.f;")
    model = MailboxModel(FOUR, answer)
    plan = make_planner(model)
    first = plan.propose(BRIEF)
    drafts = [
        plan.draft(BRIEF.model_copy(update={"round": 2 + place}), proposal)
        for place, proposal in enumerate((first, *first.others))
    ]
    assert [ask.purpose for ask in model.asks] == ["round-2 propose 1", "round-2 drafts 1"]
    assert ["sum = 0;" in drafts[0].edits[0].text, "sum = 0.f;" in drafts[2].edits[0].text] == [True, True]
    assert [draft.explanation for draft in drafts] == ["Reads in order.", "", "One address."]
    assert drafts[1].refusal == "the answer has no edits for it"
    assert [draft.cost.tokens for draft in drafts] == [100, 0, 0], "one answer is paid once"
    page = shown(model.asks[1])
    assert all(f"CANDIDATE {number}\n" in page for number in (1, 2, 3))
    assert drafts[0].prompts[1].startswith("drafts.v2.md@")


def test_long_directions_are_each_cut_so_that_every_candidate_keeps_its_name_and_its_change():
    four = json.loads(FOUR)["directions"]
    answer = directions(*(one | {"risks": "what may go wrong, at length; " * 40} for one in four[:2]), four[2])
    model = MailboxModel(answer, "CANDIDATE 1\n" + BLOCK.format("float sum = 0;"))
    plan = ModelPlanner(model, limits=make_limits(context_tokens=4000), books=NoBooks())
    plan.draft(BRIEF, plan.propose(BRIEF))
    page = shown(model.asks[1])
    about = ABOUT.search(page)[0]
    assert "characters left out]" in about
    assert HYPOTHESIS.findall(about) == ["swap-loops", "pad", "hoist"], "recorded answers go by these names"
    assert [f"change: {one['change']}" in about for one in four[:3]] == [True] * 3


def test_an_answer_with_edits_for_several_is_checked_before_it_is_stored():
    model = MailboxModel(FOUR, "CANDIDATE 1\n" + BLOCK.format("float sum = 0;"))
    plan = make_planner(model)
    plan.draft(BRIEF, plan.propose(BRIEF))
    checks = Checks.model_validate_json(model.asks[1].checks)

    def refused(text: str) -> str:
        return assess_answer(text, checks, lambda path, number: None).why

    assert refused(BLOCK.format("float sum = 0;")) == "", "without such lines it is about the first"
    assert refused('{"exhausted": "nothing is left"}') == ""
    assert "candidates are 1 to 3" in refused("CANDIDATE 4\n" + BLOCK.format("float sum = 0;"))
    twice = "CANDIDATE 2\n" + BLOCK.format("float sum = 0;")
    assert "stands there twice" in refused(twice + twice)
    wrong = "CANDIDATE 2\nEDIT kernel.c\n<<<<<<< SEARCH\nnowhere\n=======\n1\n>>>>>>> REPLACE\n"
    assert refused(wrong).startswith("candidate 2: block 1, kernel.c:")


def test_other_models_are_asked_for_each_draft_alone():
    model = ScriptedModel(FOUR, BLOCK.format("float sum = 0;"))
    plan = make_planner(model)
    found = plan.propose(BRIEF)
    plan.draft(BRIEF.model_copy(update={"round": 3}), found.others[0])
    assert model.asks[1].purpose == "round-3 draft 1"
    assert "pad each row by one line" in shown(model.asks[1])
    assert "hoist" not in shown(model.asks[1])


def test_what_was_outpaced_is_told_apart_from_what_failed_and_may_be_proposed_again():
    """Its winner may well have the smaller number: what counts is that both began from the same version."""
    pad = make_hypothesis(id="pad", lever="pad", change="pad each row by one line", category="tile")
    kept = make_hypothesis(id="kept", lever="kept", change="unroll", category="layout")
    past = (
        make_round(2, "accepted", hypothesis=kept),
        make_round(3, "rolled_back", reason="outpaced", gain=0.05, hypothesis=pad),
    )
    model = ScriptedModel(FOUR)
    briefing = brief(naive("matmul_c"), *past, profile=make_profiled()).model_copy(update={"candidates": 3})
    found = make_planner(model).propose(briefing)
    page = shown(model.asks[0])
    section = page[page.index("## Directions that were outpaced") :]
    assert "pad (round 3): pad each row by one line, +5.0%" in section
    failed = page[page.index("## Directions that failed") : page.index("## Directions that were outpaced")]
    assert "pad each row" not in failed
    assert "pad" in [other.hypothesis.id for other in found.others]


def make_raced(number: int, decision: str, narrow_us: float, wide_us: float, **fields):
    """A round of the race that began with round 2: one call took 200 us at either shape before."""
    about = make_hypothesis(id=f"way-{number}", lever=f"way-{number}", change=f"way {number}", category="tile")
    proposed = make_proposed(number, about, beside=2)
    times = {"narrow": narrow_us, "wide": wide_us}
    shapes = tuple(
        ShapePairs(label=label, pairs=((math.log(200 / time_us),),), best_us=200, candidate_us=time_us)
        for label, time_us in times.items()
    )
    verified = make_verified(make_built(make_applied(make_drafted(proposed), commit=f"{number:x}" * 40)))
    timed = make_timed(make_comparison(shapes=shapes), verified=verified)
    reason = "faster" if decision == "accepted" else "outpaced"
    judged = make_judged(decision, reason, trial=Traced(timed=timed, profile=None))
    return make_round(number, decision, judged=judged, **fields)


class DiffReader:
    """A repository of which the diffs of candidates alone are there."""

    def read_artifact(self, artifact):
        return "+narrow_kernel[(1,)](x)" if artifact.name.endswith(".diff") else None

    def text(self, commit, path):
        return None

    def paths(self, commit):
        return ()

    def search(self, commit, text):
        return ()


def test_of_what_was_outpaced_the_shapes_are_told_where_it_is_ahead_and_its_diff_to_who_writes_edits():
    past = (
        make_raced(2, "rolled_back", 80, 190),
        make_raced(3, "accepted", 100, 100),
        make_raced(4, "rolled_back", 120, 90),
    )
    briefing = brief(naive("matmul_c"), *past, profile=make_profiled()).model_copy(
        update={"candidates": 3, "best_round": 3, "round": 5}
    )
    model = MailboxModel(FOUR, "CANDIDATE 1\n" + BLOCK.format("float sum = 0;"))
    plan = ModelPlanner(model, limits=make_limits(), books=NoBooks(), reader=DiffReader())
    plan.draft(briefing, plan.propose(briefing))
    page, edits = (shown(ask) for ask in model.asks)
    section = page[page.index("## Directions that were outpaced") : page.index("## Last rounds")]
    assert "; ahead of the best version at narrow (80 against 100 us)\n" in section
    assert "; ahead of the best version at wide (90 against 100 us)\n" in section
    assert "with each shape as fast as in the fastest of these: 1.18x the best version" in section
    leads = edits[edits.index("## Versions that are faster at some shapes") : edits.index("## Your answer")]
    assert leads.index("==> round 2, ahead of the best version at narrow") < leads.index("==> round 4, ahead")
    assert leads.count("+narrow_kernel[(1,)](x)") == 2


def test_of_what_another_version_outpaced_no_shape_is_told_once_that_is_not_the_best_any_more():
    past = (make_raced(2, "rolled_back", 80, 190), make_raced(3, "accepted", 100, 100))
    assert [lead.closed.round for lead in find_leads(past, 3)] == [2]
    assert find_leads(past, 7) == ()
    assert find_leads((make_raced(2, "rolled_back", 99, 190), past[1]), 3) == (), "within what two runs differ by"


@pytest.mark.feature("F094")
def test_a_question_that_begins_from_an_archived_version_says_so_and_shows_elites_of_other_cells():
    versions = [
        ArchivedVersion(round=number, score=score, island=island, cell=(island, 2, 3), change=f"change {number}")
        for number, score, island in ((4, 1.25, 1), (6, 1.5, 0))
    ]
    parent = Parent(version=versions[0], commit="c" * 40, generation=5, best_score=1.5, elites=(versions[1],))
    model = ScriptedModel(FOUR)
    make_planner(model).propose(BRIEF.model_copy(update={"parent": parent, "best_round": 6}))
    page = shown(model.asks[0])
    assert "Generation 5 works on island 2 and changes round 4 (score 1.250, island 2, cell 1-2-3)" in page
    assert (
        "The best version is of round 6 (score 1.500: kept gains multiplied, not tested yet). Each change is measured against it"
        in page
    )
    assert "- round 6 (score 1.500, island 1, cell 0-2-3): change 6" in page
    assert "## Editable sources of the version of round 4" in page
    assert "on top of the version of round 4, and at most one of them is kept" in page
    model = ScriptedModel(FOUR)
    make_planner(model).propose(BRIEF)
    assert "archive" not in shown(model.asks[0]), "nothing of it in search mode linear"
