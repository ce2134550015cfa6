"""What a reviewer is shown: the target, a hypothesis, or a measured change with its evidence."""

from hashlib import sha256

from ridgeline.graph.approval import ApprovalRequest, Gate, Section
from ridgeline.graph.documents.rounds import profile_table
from ridgeline.graph.documents.text import cell, interval, line, quantity, table
from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.history import total_cost
from ridgeline.graph.policy.predict import check
from ridgeline.graph.policy.spent import so_far
from ridgeline.graph.standing import History
from ridgeline.graph.target import Target
from ridgeline.graph.trial import Applied, Drafted, Judged, Proposed, Traced, Verified, find, proposed
from ridgeline.graph.values import Cost, Hypothesis, Value

DIGITS = 12
"""Hexadecimal digits of the digest in a key."""


def of_target(target: Target, limits: Limits) -> ApprovalRequest:
    """Before a branch is made: what will be optimized, and how far the campaign may go."""
    asked = ("target_op", "target_backend", "target_gpu", "dtype", "primary_metric", "git_branch", "project_skill")
    rows = [(name, cell(str(getattr(target, name)))) for name in asked]
    rows.append(("preset", limits.preset))
    title = f"optimize {target.target_op} ({target.target_backend}) on {target.platform}"
    sections = (Section(heading="Target", text=table(("Parameter", "Value"), rows)),)
    return _request("target", 0, target.campaign, limits, title=title, content=target, sections=sections)


def of_hypothesis(trial: Proposed, history: History) -> ApprovalRequest:
    """Before anything is written: the claim, what it rests on, what it predicts."""
    told = trial.hypothesis
    sections = (_hypothesis(told), _cost(trial.cost, history))
    campaign = history.opened.target.campaign
    return _request(
        "hypothesis", trial.round, campaign, history.limits, title=line(told.change), content=told, sections=sections
    )


def of_change(trial: Judged, history: History, *, before: Profiled | None) -> ApprovalRequest:
    """After it was measured and would be kept: everything that speaks for it and against it."""
    assert trial.formatted is not None
    applied, start = trial.formatted.applied, proposed(trial)
    sections = (
        _measured(trial),
        _hypothesis(start.hypothesis),
        _checked(trial),
        Section(heading="Counters", text=_counters(start.hypothesis, before, _profile(trial))),
        _audit(applied),
        _cost(so_far(trial), history),
    )
    request = _request(
        "change",
        start.round,
        history.opened.target.campaign,
        history.limits,
        title=line(trial.verdict.sentence),
        content=applied.model_copy(update={"drafted": Drafted(proposed=start, edits=())}),
        sections=sections,
    )
    return request.model_copy(update={"diff": applied.diff, "snapshot": applied.snapshot})


def _request(
    gate: Gate, round: int, campaign: str, limits: Limits, *, title: str, content: Value, sections: tuple[Section, ...]
) -> ApprovalRequest:
    digest = sha256(content.model_dump_json().encode()).hexdigest()[:DIGITS]
    return ApprovalRequest(
        key=f"{gate}-{digest}" if gate == "target" else f"round-{round}-{gate}-{digest}",
        gate=gate,
        round=round,
        campaign=campaign,
        title=title,
        asked_at="",
        hours=limits.approval_hours,
        late=limits.approval_late,
        sections=sections,
    )


def _hypothesis(told: Hypothesis) -> Section:
    rows = [
        ("claim", cell(told.claim, 600)),
        ("change", cell(told.change, 600)),
        ("kind", f"{told.category}, bucket {told.bucket}"),
        ("predicts", f"{cell(told.prediction.counter)} {told.prediction.direction}"),
        ("risks", cell(told.risks, 600)),
        ("would show", cell(told.verification, 600)),
        *(("evidence", cell(item, 600)) for item in told.evidence),
        *(("source", cell(item)) for item in told.sources),
    ]
    return Section(heading="Hypothesis", text=table(("", ""), rows))


def _measured(trial: Judged) -> Section:
    verdict = trial.verdict
    rows = [
        (cell(one.label), cell(one.config_class), interval(one.gain, one.lower, one.upper)) for one in verdict.shapes
    ]
    notes = "".join(f"\n- {line(note, 300)}" for note in verdict.notes)
    gain = interval(verdict.gain, verdict.lower, verdict.upper)
    text = (
        f"Gain {gain}: {verdict.reason}.\n\n"
        + table(("Shape", "Class", "Gain"), rows)
        + (f"\n{notes}" if notes else "")
    )
    return Section(heading="Measured", text=text)


def _checked(trial: Judged) -> Section:
    verified = find(trial, Verified)
    drafted = find(trial, Drafted)
    repairs = len(drafted.repairs) if drafted else 0
    test = f"{verified.test.kind} in {verified.test.seconds:.1f} s" if verified else "not reached"
    text = f"Test: {test}; repairs: {repairs}; own work: {trial.verdict.own_work}."
    return Section(heading="Correctness", text=text)


def _audit(applied: Applied) -> Section:
    rows = [(one.severity, one.rule, f"{cell(one.path)}:{one.line}", cell(one.meaning)) for one in applied.audit]
    text = table(("Severity", "Rule", "Place", "Meaning"), rows) if rows else "Reading the change found nothing."
    return Section(heading="Audit", text=text)


def _cost(now: Cost, history: History) -> Section:
    """Of the open round and of everything before it."""
    before = total_cost(history) if history.baseline else Cost()
    rows = [
        (
            name,
            f"{cost.tokens}",
            "UNKNOWN" if cost.dollars is None else f"{cost.dollars:.2f}",
            f"{cost.command_seconds:.0f}",
        )
        for name, cost in (("this round", now), ("campaign so far", before + now))
    ]
    return Section(heading="Cost", text=table(("", "Tokens", "USD", "Commands s"), rows))


def _counters(told: Hypothesis, before: Profiled | None, after: Profiled | None) -> str:
    """What the hypothesis said would be seen, what was, and every other counter."""
    seen = check(told.prediction, before, after)
    moved = f"{quantity(seen.before)} -> {quantity(seen.after)}"
    said = f"Predicted: {cell(told.prediction.counter)} {told.prediction.direction}; seen: {moved}: {seen.outcome}."
    return f"{said}\n\n{profile_table(before, after)}"


def _profile(trial: Judged) -> Profiled | None:
    traced = find(trial, Traced)
    return traced.profile if traced else None


def told(request: ApprovalRequest, diff: str) -> str:
    """The whole request as Markdown, the diff last."""
    parts = [
        f"# {request.campaign}: approve {request.gate}?",
        request.title,
        f"Asked {request.asked_at}, key `{request.key}`.",
    ]
    parts += [f"## {section.heading}\n\n{section.text}" for section in request.sections]
    if diff:
        longest = max((len(run) for run in diff.split("\n") if set(run) == {"`"}), default=2)
        marks = "`" * max(3, longest + 1)
        parts.append(f"## Change\n\n{marks}diff\n{diff.rstrip()}\n{marks}")
    return "\n\n".join(parts) + "\n"
