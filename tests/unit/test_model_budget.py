"""Budgets: what is said before a campaign starts, and how it ends when the next question does not fit."""

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.model import FrugalPlanner
from ridgeline.agent.providers.base import BudgetSpent
from ridgeline.agent.providers.budget import forecast
from ridgeline.agent.providers.choice import Choice, Price
from ridgeline.graph.briefing import OUT_OF_BUDGET, Draft, Proposal, Review
from ridgeline.graph.record import Reflection
from ridgeline.graph.rules.cost import device_minutes, is_budget_end, list_exceeded_budgets
from ridgeline.graph.rules.stop import evaluate_stop_checks
from ridgeline.graph.values import Cost
from tests.builders import make_history, make_judged
from tests.builders_campaign import make_limits
from tests.builders_evidence import make_machine


class Meter:
    """Cost of what was answered so far."""

    def __init__(self):
        self.cost = Cost()


class Paying:
    """A planner that pays for one answer and is then refused the next; or that answers."""

    def __init__(self, meter, *, refused=True):
        self._meter, self._refused = meter, refused

    def _ask(self, answer):
        self._meter.cost = self._meter.cost + Cost(tokens=10, dollars=0.25)
        if self._refused:
            raise BudgetSpent("round-2 propose 2: may cost too much")
        return answer

    def propose(self, briefing):
        return self._ask(Proposal(hypothesis=None, exhausted="no idea"))

    def draft(self, briefing, proposal):
        return self._ask(Draft(edits=()))

    def repair(self, briefing, broken, attempt):
        return self._ask(Draft(edits=()))

    def split(self, briefing, judged):
        return self._ask(Draft(edits=()))

    def review(self, briefing, trigger):
        return self._ask(Review(directions=()))

    def reflect(self, briefing, judged):
        return self._ask(Reflection(attribution="good"))


CALLS = [
    ("propose", (None,), "exhausted"),
    ("draft", (None, None), "refusal"),
    ("repair", (None, None, 1), "refusal"),
    ("split", (None, None), "refusal"),
    ("review", (None, "why"), "directions"),
    ("reflect", (None, make_judged()), "attribution"),
]


@pytest.mark.parametrize(("name", "arguments", "field"), CALLS)
def test_a_planner_that_may_ask_no_more_refuses_and_says_what_was_paid(name, arguments, field):
    meter = Meter()
    found = getattr(FrugalPlanner(Paying(meter), cost_so_far=lambda: meter.cost), name)(*arguments)
    assert f"{OUT_OF_BUDGET}round-2 propose 2" in str(getattr(found, field))
    assert found.cost == Cost(tokens=10, dollars=0.25)
    plain = FrugalPlanner(Paying(meter, refused=False), cost_so_far=lambda: meter.cost)
    assert OUT_OF_BUDGET not in str(getattr(plain, name)(*arguments))


def test_an_unknown_price_stays_unknown():
    meter = Meter()
    meter.cost = Cost(tokens=1, dollars=None)
    assert FrugalPlanner(Paying(meter), cost_so_far=lambda: meter.cost).propose(None).cost == Cost(
        tokens=10, dollars=None
    )


def test_the_planners_budget_is_t7_and_its_ideas_are_t8():
    def ids(exhausted):
        found = evaluate_stop_checks(make_history(), stop_requested=False, exhausted=exhausted, elapsed_minutes=0.0)
        return [check.id for check in found if check.satisfied]

    assert ids(f"{OUT_OF_BUDGET}too much") == ["T7"]
    assert ids("no idea") == ["T8"]
    assert ids("") == []
    assert not is_budget_end("no idea about the budget: none")


def test_gpu_minutes_count_where_there_is_a_gpu():
    cpu = make_history(limits=make_limits(max_gpu_minutes=0.001))
    assert list_exceeded_budgets(cpu, 0.0) == ()
    machine = make_machine(kind="nvidia")
    gpu = cpu.model_copy(update={"opened": cpu.opened.model_copy(update={"machine": machine})})
    assert device_minutes(gpu, Cost(command_seconds=90.0)) == 1.5
    assert device_minutes(cpu, Cost(command_seconds=90.0)) == 0.0
    assert device_minutes(cpu, Cost(gpu_seconds=60.0)) == 1.0


def test_a_mailbox_is_announced_and_has_no_price():
    assert "exit code 3" in forecast(Choice(name="mailbox"), make_limits())[0]
    with pytest.raises(UserError, match="--budget-usd"):
        forecast(Choice(name="mailbox"), make_limits(max_dollars=1.0))


@pytest.mark.slow
def test_the_estimate_before_the_start(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-not-used")
    priced = forecast(Choice(name="openai/gpt-4o", fallbacks=("ollama/llama3",)), make_limits(max_rounds=10))
    assert priced[0] == "model openai/gpt-4o: at most 2.5 dollars per million tokens in, 10 out"
    assert "at most 0 dollars" in priced[1]
    assert priced[2].startswith("estimate: 10 rounds about 300k to 900k tokens, 1.20 to 3.60 dollars; no budget is set")
    own = Choice(name="openai/mine", base_url="http://localhost:1/v1")
    assert forecast(own, make_limits(max_tokens=500)) == (
        "model openai/mine: its price is unknown; tokens are counted, dollars are not",
        "estimate: every round about 30k to 90k tokens; it stops before 500 tokens are exceeded",
    )
    with pytest.raises(UserError, match="RIDGELINE_MODEL_PRICE"):
        forecast(own, make_limits(max_dollars=1.0))
    said = forecast(own.model_copy(update={"price": Price(input=1, output=2)}), make_limits(max_dollars=1.0))
    assert "it stops before 1 dollars" in said[-1]
