"""What every node of a round needs to know, folded from the ledger."""

from graph.briefing import Briefing
from graph.policy import history as fold
from graph.policy import stagnate
from graph.policy.counters import consecutive_rollbacks
from graph.policy.score import aggregate
from graph.ports import Ports
from graph.standing import History, Standing
from graph.state import Analysis, State


def history(ports: Ports) -> History:
    """The campaign so far. Only called after the ledger was opened."""
    known = fold.fold(ports.ledger.lines())
    assert known is not None
    return known


def standing(ports: Ports) -> Standing:
    return fold.standing(history(ports))


def analysis(state: State) -> Analysis:
    known = state["analysis"]
    assert known is not None
    return known


def briefing(state: State, ports: Ports) -> Briefing:
    """Everything a planner may use, free of masked memory."""
    known, seen = history(ports), analysis(state)
    best = fold.standing(known)
    streak = consecutive_rollbacks(known.rounds)
    return Briefing(
        round=seen.round,
        target=known.opened.target,
        contract=known.contract,
        machine=known.opened.machine,
        specs=known.roofline.specs if known.roofline else (),
        sources=ports.workspace.sources(best.commit),
        best_commit=best.commit,
        best_round=best.round,
        aggregate=aggregate(best.quick.rows, known.contract.scoring),
        bottleneck=seen.bottleneck,
        bottleneck_evidence=seen.evidence,
        profile=seen.profile,
        rounds=fold.unmasked_rounds(known),
        consecutive_rollbacks=streak,
        escalation=stagnate.escalation(streak),
        directions=known.reviews[-1].directions if known.reviews else (),
        tips=known.opened.tips,
        head=ports.ledger.lines()[-1].sha256,
    )
