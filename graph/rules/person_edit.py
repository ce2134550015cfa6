"""A person's edit of a waiting change: a change of its own, and which of the measured ones is kept."""

from collections.abc import Sequence

from ridgeline.graph.approval import Decision, EditBegun
from ridgeline.graph.errors import CampaignError
from ridgeline.graph.rules.outcome import describe_measured
from ridgeline.graph.trial import Drafted, Judged, Proposed, find, find_proposal


def begin_edit(options: Sequence[Judged]) -> EditBegun:
    """At approval of a change: what a person's edit of the newest of these measured changes begins as."""
    newest, about = options[-1], find_proposal(options[0]).hypothesis
    drafted, number = find(newest, Drafted), find_proposal(newest).round
    last_number = max(find_proposal(option).round for option in options)
    assert drafted is not None
    evidence = (f"round {number} measured {describe_measured(newest.verdict)}", *about.evidence)
    hypothesis = about.model_copy(update={"id": f"{about.id}-edit-{len(options)}", "evidence": evidence})
    return EditBegun(
        round=last_number + 1,
        edits_round=number,
        hypothesis=hypothesis,
        edits=drafted.edits,
        parent=drafted.proposed.parent,
    )


def make_edit(begun: EditBegun, decision: Decision) -> Drafted:
    """At approval of a change: the person's edit: their files, and the waiting change's own where they gave none."""
    about, by, paths = begun.hypothesis, decision.by, {edit.path for edit in decision.edits}
    change = f"{by}'s edit of round {begun.edits_round}{f' ({decision.reason})' if decision.reason else ''}"
    words = {"claim": f"{change}; what it edits claims: {about.claim}", "change": change}
    start = Proposed(
        round=begun.round,
        hypothesis=about.model_copy(update=words),
        opened_at=decision.at,
        author=by,
        edits_round=begun.edits_round,
        parent=begun.parent,
    )
    unchanged = tuple(edit for edit in begun.edits if edit.path not in paths)
    return Drafted(proposed=start, edits=(*unchanged, *decision.edits), explanation=change)


def choose_approved(options: Sequence[Judged], decision: Decision) -> Judged:
    """The rule at approval: the measured change that is kept: the one a person named, else that with the greatest proven gain.

    Raises CampaignError where the named one may not be kept, or none.
    """
    acceptable = [option for option in options if option.verdict.accepted]
    option = [option for option in acceptable if decision.round in (None, find_proposal(option).round)]
    if not option:
        numbers = ", ".join(str(find_proposal(option).round) for option in acceptable) or "none"
        raise CampaignError(f"{decision.key}: approves round {decision.round}; that may be kept: {numbers}")
    return max(option, key=lambda judged: judged.verdict.proven_gain)


def mark_replaced(measured: Judged, replacement: Judged) -> Judged:
    """The rule at approval: a proven change that was not chosen keeps its measured result, and says what was kept instead."""
    before, by = measured.verdict, find_proposal(replacement)
    chosen = f"an edit of {by.author} (round {by.round})" if by.author else f"round {by.round}, which it edits"
    why = f"replaced by {chosen}"
    change = find_proposal(measured).hypothesis.change
    sentence = f"{before.sentence.split(':')[0]}: ROLLED BACK - {change} measured {describe_measured(before)}, {why}"
    update = {"decision": "rolled_back", "reason": "replaced", "notes": (*before.notes, why), "sentence": sentence}
    return measured.model_copy(update={"verdict": before.model_copy(update=update)})
