"""What was asked of a model is paid for and cited, also where nothing came of it."""

from dataclasses import replace

from ridgeline.graph.briefing import Draft, Proposal
from ridgeline.graph.rules.history import total_cost
from ridgeline.graph.trial import Drafted, find
from ridgeline.graph.values import Cost
from tests.builders import make_limits
from tests.campaigns import make_campaign
from tests.world import DividedTimer, ScriptedPlanner

ASKED = Cost(tokens=70, dollars=0.5)
CITED = ("review.v2.md@0123456789ab",)


class Dear(ScriptedPlanner):
    """Every question that comes to nothing costs something, and reviews and reflections cite their prompts."""

    def propose(self, briefing):
        found = super().propose(briefing)
        return found if found.hypothesis else found.model_copy(update={"cost": ASKED})

    def split(self, briefing, judged):
        return Draft(edits=(), refusal="cannot split", prompts=("split.v2.md@0123456789ab",), cost=ASKED)

    def review(self, briefing, trigger):
        return super().review(briefing, trigger).model_copy(update={"prompts": CITED})

    def reflect(self, briefing, judged):
        return super().reflect(briefing, judged).model_copy(update={"prompts": ("diagnose.v2.md@0123456789ab",)})


def test_a_refused_split_is_paid_for_and_cited(tmp_path):
    limits = make_limits(target_peak_fraction=None, max_restarts=0)
    campaign = make_campaign(tmp_path, planner=Dear("speed 100 divides"), limits=limits)
    campaign.ports = replace(campaign.ports, timer=DividedTimer(campaign.ports.timer._read))
    campaign.drive()
    (closed,) = campaign.history().rounds
    drafted = find(closed.judged, Drafted)
    assert (closed.accepted, drafted.cost, drafted.split) == (False, ASKED, False)
    assert drafted.prompts == ("split.v2.md@0123456789ab",)
    assert (closed.cost.tokens, closed.cost.dollars) == (70, 0.5)


def test_the_question_that_found_nothing_left_is_paid_for_on_both_ways_out(tmp_path):
    campaign = make_campaign(tmp_path, planner=Dear("speed 120", "speed 80", "speed 81", "speed 82"))
    campaign.drive()
    known = campaign.history()
    (restart,) = known.restarts
    assert restart.cost == ASKED
    assert known.concluded.cost.tokens == ASKED.tokens
    assert total_cost(known).tokens == 2 * ASKED.tokens
    assert known.reviews[0].prompts == CITED
    assert {closed.reflection.prompts for closed in known.rounds} == {("diagnose.v2.md@0123456789ab",)}


def test_a_free_planner_writes_the_lines_it_always_wrote(tmp_path):
    campaign = make_campaign(tmp_path, "speed 120", "speed 80", "speed 81", "speed 82")
    campaign.drive()
    lines = {line.key: line.body.model_dump(mode="json") for line in campaign.ports.ledger.lines()}
    assert "prompts" not in lines["round-2"]["reflection"]
    assert all("prompts" not in body for key, body in lines.items() if key.startswith("review"))
    assert all("cost" not in body for key, body in lines.items() if key.startswith("restart"))
    assert Proposal(hypothesis=None).cost == Cost()
