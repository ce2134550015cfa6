"""The model tape: kept before anybody acts on it, read after a crash, replayed without a model; and the budget."""

import json

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import Ask, BudgetSpent, Call, Message, Reply, Tool
from ridgeline.agent.providers.budget import BudgetedModel
from ridgeline.agent.providers.tape import FILE, ModelTape, TapedModel, estimate_tokens
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Cost

TOOL = Tool(name="read", description="Reads.", parameters="{}")


def ask(text="what?", purpose="round-2 propose 1", **changes):
    return Ask(
        purpose=purpose, messages=(Message(role="system", text="rules"), Message(role="user", text=text)), **changes
    )


class Scripted:
    """Answers anything, and notes what it was asked."""

    name = "scripted"
    tools = True

    def __init__(self, cost=None, most=None):
        self.asked, self.cost = [], cost or Cost(tokens=10, dollars=0.5)
        self._most = most or Cost(tokens=100, dollars=1.0)

    def count(self, text):
        return estimate_tokens(text)

    def most(self, ask):
        return self._most

    def ask(self, ask):
        self.asked.append(ask)
        return Reply(
            text=f"to {ask.messages[-1].text}",
            calls=(Call(id="1", name="x", arguments="{"),),
            model="m",
            cost=self.cost,
        )


def taped(folder, inner):
    return TapedModel(inner, ModelTape(folder / FILE))


def test_a_question_is_asked_once_whoever_asks_again(tmp_path):
    first = Scripted()
    said = taped(tmp_path, first).ask(ask())
    again = Scripted()
    second = taped(tmp_path, again)
    assert second.ask(ask()) == said
    assert again.asked == []
    assert second.answers_cost == said.cost, "an answer that was paid before a crash is part of its round's cost"
    assert ModelTape(tmp_path / FILE).spent == Cost(tokens=10, dollars=0.5)
    second.ask(ask("other"))
    assert len(again.asked) == 1
    assert ModelTape(tmp_path / FILE).asks == (ask(), ask("other"))


def test_long_parts_are_written_once(tmp_path):
    model, long = taped(tmp_path, Scripted()), "word " * 2000
    for number in range(5):
        messages = (Message(role="system", text=long), *(Message(role="user", text=str(n)) for n in range(number)))
        asked = Ask(purpose=f"p{number}", messages=messages, tools=(TOOL,), answer_schema='{"type": "object"}')
        assert model.ask(asked)
        assert ModelTape(tmp_path / FILE).asks[-1].digest == asked.digest
    assert (tmp_path / FILE).stat().st_size < 30_000


def test_half_a_line_is_asked_again_and_a_damaged_one_is_told(tmp_path):
    taped(tmp_path, Scripted()).ask(ask())
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert ModelTape(path, repaired=False).find_answer(ask()) is None
    assert path.read_bytes() == whole[:-20], "a recording is only read"
    again = Scripted()
    taped(tmp_path, again).ask(ask())
    assert len(again.asked) == 1
    assert path.read_bytes() == whole
    for bad in (b"nonsense\n", b'{"schema": 7, "part": "x", "text": ""}\n', b'{"schema": 1}\n', b"[]\n"):
        path.write_bytes(bad)
        with pytest.raises(UserError, match="line 1"):
            ModelTape(path)


def test_answers_are_no_longer_than_the_limit(tmp_path):
    inner = Scripted()
    model = TapedModel(inner, ModelTape(tmp_path / FILE), longest=500)
    long = ask(max_output_tokens=90_000)
    assert long.digest
    model.ask(long)
    model.ask(ask(max_output_tokens=400))
    assert [asked.max_output_tokens for asked in inner.asked] == [500, 400]
    assert ModelTape(tmp_path / FILE).asks == tuple(inner.asked)


BUDGETS = [
    ({"max_tokens": 110}, Cost(tokens=10, dollars=0.0), ""),
    ({"max_tokens": 109}, Cost(tokens=10, dollars=0.0), "10 of 109"),
    ({"max_dollars": 1.5}, Cost(tokens=0, dollars=0.5), ""),
    ({"max_dollars": 1.49}, Cost(tokens=0, dollars=0.5), "1.49"),
    ({"max_dollars": 100.0}, Cost(tokens=0, dollars=None), "price is unknown"),
    ({}, Cost(tokens=10**9, dollars=None), ""),
]


@pytest.mark.parametrize(("limits", "spent", "words"), BUDGETS)
def test_what_may_not_fit_is_not_asked(limits, spent, words):
    inner = Scripted()
    model = BudgetedModel(inner, limits=Limits(**limits), spent=lambda: spent)
    if not words:
        assert model.ask(ask()).text
        return
    with pytest.raises(BudgetSpent, match=words):
        model.ask(ask())
    assert inner.asked == []


def test_the_tape_says_where_the_budget_stopped(tmp_path):
    tape = ModelTape(tmp_path / FILE)
    model = TapedModel(BudgetedModel(Scripted(), limits=Limits(max_dollars=1.2), spent=lambda: tape.spent), tape)
    model.ask(ask())
    with pytest.raises(BudgetSpent) as refused:
        model.ask(ask("more"))
    recorded = ModelTape(tmp_path / FILE, repaired=False)
    assert recorded.find_answer(ask()).text == "to what?"
    assert recorded.find_refusal(ask("more")) == str(refused.value)
    assert "may cost" in str(refused.value)
    assert all(json.loads(line)["schema"] == 1 for line in (tmp_path / FILE).read_text().splitlines())
