"""Warm start: best versions of earlier campaigns as candidates of the first question, and what came of them.

The number that a champion bears is one of another campaign. Here it is a candidate like any other: read, built, tested
and timed from nothing against the original.
"""

from collections.abc import Callable, Sequence
from math import exp, log1p

from ridgeline.graph.briefing import Briefing, Draft, Proposal
from ridgeline.graph.record import Champion, RoundClosed
from ridgeline.graph.rules.history import lineage
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Proposed, find_proposal
from ridgeline.graph.values import add_up


def list_champions(history: History, candidates: int) -> tuple[Proposal, ...]:
    """The rule which earlier campaigns' champions the loop's first question tries, best first, deep rounds aside; none later.

    Of several candidates one stays the planner's.
    """
    if any(find_proposal(closed.judged).deep is None for closed in history.rounds):
        return ()
    usable = [champion for champion in history.opened.champions if not champion.mismatch]
    room = max(1, candidates - 1)
    return tuple(Proposal(hypothesis=item.hypothesis, champion=item.campaign) for item in usable[:room])


def propose_beside(
    champions: Sequence[Proposal], briefing: Briefing, propose: Callable[[Briefing], Proposal]
) -> Proposal:
    """The rule of a round's question: the planner's directions and after them the champions; these alone without more room."""
    if not champions:
        return propose(briefing)
    room = briefing.candidates - len(champions)
    planned = propose(briefing.model_copy(update={"candidates": room})) if room > 0 else Proposal(hypothesis=None)
    if planned.hypothesis is None:
        best, *others = champions
        return best.model_copy(update={"others": tuple(others), "prompts": planned.prompts, "cost": planned.cost})
    return planned.model_copy(update={"others": (*planned.others[: room - 1], *champions)})


def write_champion(start: Proposed, history: History) -> Draft:
    """The draft of a round that tries an earlier campaign's champion: its files as they are."""
    champion = _find_champion(start, history)
    why = (
        f"The best version of campaign {champion.campaign} ({champion.commit[:12]}), which measured"
        f" {champion.speedup:.2f}x there. {champion.hypothesis.claim}"
    )
    return Draft(edits=champion.files, explanation=why)


def _find_champion(start: Proposed, history: History) -> Champion:
    """From the ledger: the record of the champion that a round tries."""
    identity = start.hypothesis.id
    return next(champion for champion in history.opened.champions if champion.hypothesis.id == identity)


def find_tried(champion: Champion, history: History) -> RoundClosed | None:
    """From the ledger: the round that tried an earlier campaign's champion; None where none has."""
    identity = champion.hypothesis.id
    starts = ((closed, find_proposal(closed.judged)) for closed in history.rounds)
    return next((closed for closed, start in starts if start.champion and start.hypothesis.id == identity), None)


def multiply_gains(history: History, *, remembered: bool) -> float | None:
    """From the ledger: speedup of the kept rounds that came from memory, or of the new ones; None where none was kept."""
    gains = [
        closed.judged.verdict.gain or 0.0
        for closed in lineage(history)
        if bool(find_proposal(closed.judged).champion) == remembered
    ]
    return exp(add_up(map(log1p, gains))) if gains else None
