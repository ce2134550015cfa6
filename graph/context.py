"""What every node of a round needs to know, folded from the ledger."""

from itertools import takewhile

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.evidence import Profiled
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy import stagnate
from ridgeline.graph.policy.counters import consecutive_rollbacks
from ridgeline.graph.policy.score import aggregate
from ridgeline.graph.policy.told import shapes_now, terms
from ridgeline.graph.ports import Ports
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.state import Analysis, State

_folded: dict[str, History] = {}
"""The last fold, by the hash of the ledger's last line, which fixes every line before it."""


def history(ports: Ports, *, before: str | None = None) -> History:
    """The campaign so far, or up to the event of that key: a node that is re-run after a crash sees what it saw first.

    Only called after the ledger was opened.
    """
    lines = ports.ledger.lines()
    if before is not None:
        lines = tuple(takewhile(lambda line: line.key != before, lines))
    assert lines
    head = lines[-1].sha256
    if head not in _folded:
        known = fold.fold(lines)
        assert known is not None
        _folded.clear()
        _folded[head] = known
    return _folded[head]


def standing(ports: Ports) -> Standing:
    return fold.standing(history(ports))


def analysis(state: State) -> Analysis:
    known = state["analysis"]
    assert known is not None
    return known


def counters_of_best(state: State, known: History) -> Profiled | None:
    """Those of the round that made it, else those taken when the open round began; None where nothing can be read."""
    seen = state["analysis"]
    return fold.best_profile(known) or (seen.profile if seen else None)


def briefing(state: State, ports: Ports, *, before: str | None = None) -> Briefing:
    """Everything a planner may use in the open round, or between two rounds, free of masked memory.

    Between rounds `before` is the key of the event that is about to be recorded: the analysis of the round that has
    just closed knows nothing of its verdict, so a fresh one is made from the ledger.
    """
    seen = None if before else state["analysis"]
    seen = seen or _without_profile(history(ports, before=before))
    until = before or f"round-{seen.round}"
    lines = tuple(takewhile(lambda line: line.key != until, ports.ledger.lines()))
    known = history(ports, before=until)
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
        directions=fold.directions(known),
        shapes=shapes_now(known),
        terms=terms(known),
        tips=known.opened.tips,
        head=lines[-1].sha256,
    )


def _without_profile(known: History) -> Analysis:
    """A campaign that goes on from its ledger alone has no open round yet."""
    baseline = known.baseline
    assert baseline is not None
    last = known.rounds[-1] if known.rounds else None
    return Analysis(
        round=fold.next_round(known),
        opened_at=last.closed_at if last else baseline.opened_at,
        profile=fold.best_profile(known),
        bottleneck=last.bottleneck if last else baseline.bottleneck,
        evidence=last.bottleneck_evidence if last else "",
    )
