"""The judge: a trial, the best version and the limits give one verdict. The only place where a change is kept."""

from typing import assert_never

from ridgeline.graph.evidence import Profiled, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy import autonomous, campaign, interleaved
from ridgeline.graph.policy.audit import notes
from ridgeline.graph.policy.gates import before_numbers, suspicion, unread
from ridgeline.graph.policy.objections import objections, unexplained_note, weigh
from ridgeline.graph.policy.outcome import Outcome, settle
from ridgeline.graph.policy.readings import Readings, readings
from ridgeline.graph.policy.sentence import cause, sentence
from ridgeline.graph.standing import Standing
from ridgeline.graph.trial import Applied, Broken, Failed, Traced, Verified, find
from ridgeline.graph.values import Answer
from ridgeline.graph.verdict import Reason, Verdict


def judge(trial: Traced | Failed, standing: Standing, limits: Limits, *, best_profile: Profiled | None) -> Verdict:
    """Hard gates in their order, the preset's own rule between them, and the notes.

    `best_profile` holds the counters of the best version, None where it has none. Raises MixedEvidence for numbers
    that may not be compared.
    """
    if isinstance(trial, Failed):
        return _read(_failed(trial), trial, standing)
    found = readings(trial, standing, limits)
    blocked = before_numbers(trial, found, standing)
    weighed = blocked or _weighed(trial, found, standing, limits, best_profile=best_profile)
    return _read(settle(trial, weighed), trial, standing)


def _read(verdict: Verdict, trial: Traced | Failed, standing: Standing) -> Verdict:
    """The verdict with what the audit of the candidate's source sends to a closer check."""
    applied = find(trial, Applied)
    told = notes(applied.audit, standing.contract) if applied else ()
    return verdict.model_copy(update={"notes": (*verdict.notes, *told)}) if told else verdict


def _weighed(
    trial: Traced, found: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Outcome:
    own = _preset(trial, found, standing, limits, best_profile=best_profile)
    final = weigh(own, objections(own, trial, found, standing, limits, before=best_profile), limits)
    notes = (
        *final.notes,
        *unexplained_note(final, found, standing),
        *unread(final, best_profile, trial.profile),
        *suspicion(final, limits),
    )
    return final.model_copy(update={"notes": notes})


def _preset(
    trial: Traced, found: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Outcome:
    match limits.preset:
        case "evidence":
            return interleaved.outcome(trial, found, standing, limits)
        case "campaign":
            return campaign.outcome(trial, found, standing, limits)
        case "router":
            return campaign.any_gain(trial, found, standing, limits)
        case "autonomous":
            return autonomous.outcome(trial, found, standing, limits, before=best_profile)
        case _:  # pragma: no cover - mypy proves that no preset is left
            assert_never(limits.preset)


def _failed(trial: Failed) -> Verdict:
    tested = find(trial, Verified) or find(trial, Broken)
    test = tested.test if tested is not None else None
    own: Answer = (test.own_work if test is not None else None) or "unverified"
    return Verdict(
        decision="rolled_back",
        reason=trial.reason,
        correct=_correct(trial.reason, test),
        faster="unverified",
        own_work="no" if trial.reason in ("tampered", "overfit", "convicted") else own,
        notes=(trial.detail,) if trial.detail else (),
        sentence=sentence(trial, "rolled_back", why=cause(trial)),
    )


def _correct(reason: Reason, test: TestResult | None) -> Answer:
    """The judge looks at whose work it is only where the results are right."""
    if reason == "incorrect":
        return "yes" if test is not None and test.own_work == "no" else "no"
    return "yes" if test is not None and test.passed and reason != "tampered" else "unverified"
