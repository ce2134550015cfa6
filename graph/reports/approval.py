"""What a reviewer is shown: the target, a hypothesis, or a measured change with its evidence."""

from collections.abc import Sequence
from hashlib import sha256

from ridgeline.graph.approval import ApprovalRequest, Gate, Option, Section
from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import PRESETS, Limits
from ridgeline.graph.record import Spec
from ridgeline.graph.reports.readme import describe_constraints
from ridgeline.graph.reports.rounds import profile_table
from ridgeline.graph.reports.text import cell, interval, line, quantity, table, times
from ridgeline.graph.rules.cost import cost_so_far
from ridgeline.graph.rules.goal import round_limit
from ridgeline.graph.rules.history import total_cost
from ridgeline.graph.rules.lessons import check_metric, check_prediction
from ridgeline.graph.rules.person_edit import begin_edit
from ridgeline.graph.standing import History
from ridgeline.graph.target import Target
from ridgeline.graph.trial import Applied, Drafted, Judged, Proposed, Traced, Verified, find, find_proposal
from ridgeline.graph.values import Cost, Hypothesis, Value

HOW_TO_ADJUST = (
    "`ridgeline approve CAMPAIGN --yes --target NAME=VALUE --set LIMIT=VALUE` approves it with other values: a parameter"
    " of the first table as `ridgeline run --target` takes it, and any limit. Metric and constraints stand in the contract."
)
WITHOUT_SOURCE = (
    "Is it acceptable to go on without them? Approved, each stays UNKNOWN unless it can be measured here: it is noted as a"
    " pitfall, the target that needs it is off, and no guess takes its place. Rejected, the campaign does not begin:"
    " attach a document that states it (`ridgeline run --wiki DIR`)."
)
DIGITS = 12
"""Hexadecimal digits of the digest in a key."""


def ask_about_target(target: Target, limits: Limits, contract: Contract, specs: Sequence[Spec] = ()) -> ApprovalRequest:
    """An approval's page before a branch is made: what will be optimized, and how far the campaign may go; all may be changed.

    `specs`: what documents state of the product. Of a number that none gives the person is asked whether it may be
    done without.
    """
    goal = target.performance_target
    rows = [
        *((name, cell(str(getattr(target, name)))) for name in ("target_op", "target_backend", "target_lang")),
        ("target_gpu", f"{cell(target.platform)} ({target.target_gpu})"),
        ("dtype", target.dtype),
        ("target_shapes", cell(", ".join(target.target_shapes) or "all shapes of the benchmark")),
        ("primary_metric", f"{cell(target.primary_metric)} ({describe_directions(contract.scoring)})"),
        ("performance_target", cell(goal.text) if goal else "none"),
        ("execution_mode", target.execution_mode),
        *((name, cell(str(getattr(target, name)))) for name in ("git_commit", "git_branch", "project_skill")),
        ("max_iterations", str(round_limit(limits, target) or "no limit")),
        ("instruction", cell(target.instruction) or "none"),
    ]
    plain = PRESETS[limits.preset].model_dump()
    ends = {
        "max_rounds",
        "target_peak_fraction",
        "endless",
        "regression_stop",
        "max_minutes",
        "max_dollars",
        "max_tokens",
    }
    shown = [
        (name, cell(str(value)))
        for name, value in limits.model_dump().items()
        if name in ends or (name not in ("preset", "approve") and value != plain.get(name))
    ]
    title = f"optimize {target.target_op} ({target.target_backend}) on {target.platform}"
    sections = (
        Section(heading="Target", text=table(("Parameter", "Value"), rows)),
        Section(heading="Limits", text=table(("Limit", "Value"), [("preset", limits.preset), *shown])),
        Section(heading="Constraints", text="\n".join(f"- {item}" for item in describe_constraints(contract, limits))),
        *_ask_about_unknown(specs),
        Section(heading="Change it", text=HOW_TO_ADJUST),
    )
    return _request("target", 0, target.campaign, limits, title=title, content=target, sections=sections)


def _ask_about_unknown(specs: Sequence[Spec]) -> tuple[Section, ...]:
    """An approval's question whether the campaign may go on without these numbers; nothing where every number has its source."""
    unknown = [spec for spec in specs if spec.value is None]
    if not unknown:
        return ()
    text = "\n".join((*(f"- {line(spec.text)}" for spec in unknown), "", WITHOUT_SOURCE))
    return (Section(heading="Numbers without a source", text=text),)


def describe_directions(scoring: Scoring) -> str:
    """On an approval's page, what decides: forward and backward together, forward alone, or columns of the project's own."""
    if scoring.combined:
        return "forward and backward"
    return "forward only" if scoring.forward else "the contract's own columns"


def ask_about_hypothesis(trial: Proposed, history: History) -> ApprovalRequest:
    """An approval's page before anything is written: the claim, what it rests on, what it predicts."""
    hypothesis = trial.hypothesis
    sections = (_hypothesis(hypothesis), _cost(trial.cost, history))
    campaign = history.opened.target.campaign
    return _request(
        "hypothesis",
        trial.round,
        campaign,
        history.limits,
        title=line(hypothesis.change),
        content=hypothesis,
        sections=sections,
    )


def ask_about_change(options: Sequence[Judged], history: History, *, before: Profiled | None) -> ApprovalRequest:
    """An approval's page after a change was measured: everything that speaks for the newest of these changes and against it.

    Several are candidates of one round, or a change and a person's edits of it, and stand side by side.
    """
    trial, several = options[-1], len(options) > 1
    applied, start = _find_applied(trial), find_proposal(trial)
    sections = (
        *([_side_by_side(options)] if several else []),
        _measured_section(trial),
        _hypothesis(start.hypothesis),
        _checks_section(trial),
        Section(heading="Counters", text=_counters(trial, history.contract.scoring, before)),
        *([_audit(applied)] if applied else []),
        _cost(sum(map(cost_so_far, options), Cost()), history),
    )
    content: Value = start
    if applied:
        content = applied.model_copy(update={"drafted": Drafted(proposed=start, edits=())})
    request = _request(
        "change",
        min(find_proposal(option).round for option in options),
        history.opened.target.campaign,
        history.limits,
        title=" | ".join(line(option.verdict.sentence) for option in options),
        content=content,
        sections=sections,
    )
    newest = next(applied for option in reversed(options) if (applied := _find_applied(option)) is not None)
    contents = {"diff": newest.diff, "snapshot": newest.snapshot, "edit": begin_edit(options)}
    return request.model_copy(update={**contents, "options": tuple(map(_option, options)) if several else ()})


def _find_applied(trial: Judged) -> Applied | None:
    """For an approval's page, the change as it would be committed; None where the edits could not be applied."""
    return trial.formatted.applied if trial.formatted else find(trial, Applied)


def _option(trial: Judged) -> Option:
    """A measured change as a person chooses it on an approval's page: its round, verdict and diff."""
    applied, start = _find_applied(trial), find_proposal(trial)
    return Option(
        round=start.round,
        author=start.author,
        title=line(trial.verdict.sentence),
        acceptable=trial.verdict.accepted,
        diff=applied.diff if applied else None,
    )


def _side_by_side(options: Sequence[Judged]) -> Section:
    """Rows of an approval's page: several measured changes, each against the same best version."""
    labels = list(dict.fromkeys(shape.label for option in options for shape in option.verdict.shapes))
    shapes = [{shape.label: shape for shape in option.verdict.shapes} for option in options]
    rows = [
        ("whose", *(cell(find_proposal(option).author or "the planner's own") for option in options)),
        ("may be kept", *("yes" if option.verdict.accepted else f"no: {option.verdict.reason}" for option in options)),
        ("correct", *(option.verdict.correct for option in options)),
        ("gain", *(interval(option.verdict.gain, option.verdict.lower, option.verdict.upper) for option in options)),
        *(
            (
                cell(label),
                *(interval(of[label].gain, of[label].lower, of[label].upper) if label in of else "-" for of in shapes),
            )
            for label in labels
        ),
    ]
    head = ("Against the best version", *(f"round {find_proposal(option).round}" for option in options))
    return Section(heading="Side by side", text=table(head, rows))


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


def _hypothesis(hypothesis: Hypothesis) -> Section:
    """Section of an approval's page that says what is to be changed, why, and what it predicts."""
    rows = [
        ("claim", cell(hypothesis.claim, 600)),
        ("change", cell(hypothesis.change, 600)),
        ("kind", f"{hypothesis.category}, bucket {hypothesis.bucket}"),
        ("predicts", f"{cell(hypothesis.prediction.counter)} {hypothesis.prediction.direction}"),
        ("risks", cell(hypothesis.risks, 600)),
        ("would show", cell(hypothesis.verification, 600)),
        *(("evidence", cell(item, 600)) for item in hypothesis.evidence),
        *(("source", cell(item)) for item in hypothesis.sources),
    ]
    return Section(heading="Hypothesis", text=table(("", ""), rows))


def _measured_section(trial: Judged) -> Section:
    verdict = trial.verdict
    rows = [
        (cell(shape.label), cell(shape.config_class), interval(shape.gain, shape.lower, shape.upper))
        for shape in verdict.shapes
    ]
    notes = "".join(f"\n- {line(note, 300)}" for note in verdict.notes)
    gain = interval(verdict.gain, verdict.lower, verdict.upper)
    text = (
        f"Gain {gain}: {verdict.reason}.\n\n"
        + table(("Shape", "Class", "Gain"), rows)
        + (f"\n{notes}" if notes else "")
    )
    return Section(heading="Measured", text=text)


def _checks_section(trial: Judged) -> Section:
    verified = find(trial, Verified)
    drafted = find(trial, Drafted)
    repairs = len(drafted.repairs) if drafted else 0
    test = f"{verified.test.kind} in {verified.test.seconds:.1f} s" if verified else "not reached"
    text = f"Test: {test}; repairs: {repairs}; own work: {trial.verdict.own_work}."
    return Section(heading="Correctness", text=text)


def _audit(applied: Applied) -> Section:
    """Section of an approval's page with the findings of the audit, as a table."""
    rows = [
        (finding.severity, finding.rule, f"{cell(finding.path)}:{finding.line}", cell(finding.meaning))
        for finding in applied.audit
    ]
    text = table(("Severity", "Rule", "Place", "Meaning"), rows) if rows else "Reading the change found nothing."
    return Section(heading="Audit", text=text)


def _cost(now: Cost, history: History) -> Section:
    """Cells of an approval page: cost of the open round and of everything before it."""
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


def _counters(trial: Judged, scoring: Scoring, before: Profiled | None) -> str:
    """Section of an approval page: counters that the hypothesis predicted, what was observed, and every other counter."""
    forecast, after = find_proposal(trial).hypothesis.prediction, _profile(trial)
    check = check_metric(trial, scoring) or check_prediction(forecast, before, after)
    counters = f"{quantity(check.before)} -> {quantity(check.after)}"
    move = f"a speedup of {times(check.speedup)}" if check.speedup is not None else counters
    text = f"Predicted: {cell(forecast.counter)} {forecast.direction}; seen: {move}: {check.outcome}."
    return f"{text}\n\n{profile_table(before, after)}"


def _profile(trial: Judged) -> Profiled | None:
    """The candidate's profile for an approval's page; None where it was not traced."""
    traced = find(trial, Traced)
    return traced.profile if traced else None


def render_request(request: ApprovalRequest, diffs: Sequence[tuple[str, str]]) -> str:
    """A whole approval as a Markdown page, the diffs last, each with its heading."""
    parts = [
        f"# {request.campaign}: approve {request.gate}?",
        request.title,
        f"Asked {request.asked_at}, key `{request.key}`.",
    ]
    parts += [f"## {section.heading}\n\n{section.text}" for section in request.sections]
    for heading, diff in diffs:
        longest = max((len(run) for run in diff.split("\n") if set(run) == {"`"}), default=2)
        marks = "`" * max(3, longest + 1)
        parts.append(f"## {heading}\n\n{marks}diff\n{diff.rstrip()}\n{marks}")
    return "\n\n".join(parts) + "\n"
