"""A candidate that the machine gave no numbers for is neither good nor bad: it is not held against its direction."""

from pathlib import Path

import pytest

from ridgeline.agent.planner.checks import find_repetition, summarize_round
from ridgeline.agent.planner.directions import nothing_seen
from ridgeline.agent.planner.history import describe_unmeasured, hypothesis_of, ineffective, was_disturbed
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.sandbox.store.ledger import JsonlLedger

CAMPAIGNS = Path(__file__).parents[2] / "evals" / "campaigns"


def rounds(name: str) -> tuple[RoundClosed, ...]:
    known = fold_ledger(JsonlLedger(CAMPAIGNS / name / "ledger.jsonl").lines())
    assert known is not None
    return known.rounds


@pytest.fixture(scope="module")
def busy() -> tuple[RoundClosed, ...]:
    """Of a campaign on a machine that others used: one kept, four that were right and could not be timed."""
    return rounds("attention_c_mailbox")


def test_what_could_not_be_timed_is_listed_apart(busy):
    lost = [closed for closed in busy if was_disturbed(closed.judged)]
    assert [closed.accepted for closed in lost] == [False] * 4
    told = describe_unmeasured(busy, tokens=1000, count=estimate_tokens)
    failed = ineffective(busy, tokens=1000, count=estimate_tokens)
    for closed in lost:
        assert f"{hypothesis_of(closed).id} (round {closed.round})" in told
        assert hypothesis_of(closed).id not in failed


def test_it_may_be_proposed_once_more(busy):
    lost = next(closed for closed in busy if was_disturbed(closed.judged))
    assert find_repetition(hypothesis_of(lost), [summarize_round(closed) for closed in busy]) == ""
    again = [*map(summarize_round, busy), summarize_round(lost)]
    assert "had 2 rounds" in find_repetition(hypothesis_of(lost), again)


def test_nobody_is_asked_why_it_did_not_help(busy):
    assert [nothing_seen(closed.judged) for closed in busy] == [was_disturbed(closed.judged) for closed in busy]


def test_a_measured_failure_is_none_of_these():
    measured = rounds("gemm_gelu_h100")
    assert not any(was_disturbed(closed.judged) for closed in measured)
    assert describe_unmeasured(measured, tokens=1000, count=estimate_tokens) == ""
    assert ineffective(measured, tokens=1000, count=estimate_tokens)
