"""What the nodes share: the history, a planner's briefing, writing the files, and waiting for a person."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from langgraph.types import interrupt

from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.briefing import Briefing, ShapeNow, Terms
from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Profiled, Row
from ridgeline.graph.ports import Ledger, Ports
from ridgeline.graph.record import Body, Calibrated, Line
from ridgeline.graph.reports.files import render_all, render_changed
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.archive import choose_parent
from ridgeline.graph.rules.cost import cost_so_far, minutes_between
from ridgeline.graph.rules.deep import find_deep_wish
from ridgeline.graph.rules.escalation import advise_escalation, diagnose
from ridgeline.graph.rules.goal import peak_fraction, round_limit
from ridgeline.graph.rules.headroom import Headroom, compute_best_headroom
from ridgeline.graph.rules.history import count_planned_rounds, noise, standing, total_cost
from ridgeline.graph.rules.score import aggregate, row_score
from ridgeline.graph.rules.stagnation import consecutive_rollbacks
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.state import Analysis, State
from ridgeline.graph.stats.sequential import smallest_visible_gain
from ridgeline.graph.trial import Stage

_folded: dict[str, History] = {}
"""The last fold, by the hash of the ledger's last line, which fixes every line before it."""


def read_history(ports: Ports, *, before: str | None = None) -> History:
    """For the loop's nodes: the campaign so far, or up to an event: a node that is re-run after a crash sees what it saw first.

    Only called after the ledger was opened.
    """
    lines = ports.ledger.lines()
    if before is not None:
        lines = tuple(takewhile(lambda line: line.key != before, lines))
    assert lines
    head = lines[-1].sha256
    if head not in _folded:
        history = fold.fold_ledger(lines)
        assert history is not None
        _folded.clear()
        _folded[head] = history
    return _folded[head]


def read_standing(ports: Ports) -> Standing:
    return fold.standing(read_history(ports))


def read_analysis(state: State) -> Analysis:
    analysis = state["analysis"]
    assert analysis is not None
    return analysis


def read_best_counters(state: State, history: History) -> Profiled | None:
    """For the nodes: counters of the round that made the best version, else those taken when the open round began; None without."""
    analysis = state["analysis"]
    return fold.best_profile(history) or (analysis.profile if analysis else None)


class OpenRoundLedger:
    """A ledger without its last line until something is appended: a round that begins again asks what it asked first."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._hidden = ledger, 1

    def append(self, *bodies: Body) -> None:
        """Append to the ledger for a node that runs again: what is already recorded is left out there, and seen from then on."""
        self._ledger.append(*bodies)
        self._hidden = 0

    def lines(self) -> tuple[Line, ...]:
        """The ledger's lines for a node that runs again, in order."""
        lines = self._ledger.lines()
        return lines[: len(lines) - self._hidden]


def reopen_round(ports: Ports) -> Ports:
    """For a campaign that was killed in a round whose candidate it had calibrated for: all before that line was asked first.

    That calibration is on the tape, so the round comes to the same line again.
    """
    lines = ports.ledger.lines()
    if not lines or not isinstance(lines[-1].body, Calibrated):
        return ports
    history = read_history(ports)
    is_own = history.limits.calibration_late and len(history.calibrations) == 1
    return replace(ports, ledger=OpenRoundLedger(ports.ledger)) if is_own else ports


def make_briefing(state: State, ports: Ports, *, before: str | None = None) -> Briefing:
    """For the loop's nodes: everything a planner may use in the open round, or between two rounds, free of masked memory.

    Between rounds `before` is the key of the event that is about to be recorded: the analysis of the round that has
    just closed knows nothing of its verdict, so a fresh one is made from the ledger.
    """
    analysis = None if before else state["analysis"]
    analysis = analysis or _without_profile(read_history(ports, before=before))
    until = before or f"round-{analysis.round}"
    lines = tuple(takewhile(lambda line: line.key != until, ports.ledger.lines()))
    history = read_history(ports, before=until)
    best = fold.standing(history)
    streak = consecutive_rollbacks(history.rounds)
    parent = None if before or find_deep_wish(history) else choose_parent(history)  # a deep round begins from the best
    return Briefing(
        round=analysis.round,
        target=history.opened.target,
        contract=history.contract,
        machine=history.opened.machine,
        specs=history.roofline.specs if history.roofline else (),
        sources=ports.workspace.sources(parent.commit if parent else best.commit),
        best_commit=best.commit,
        best_round=best.round,
        aggregate=aggregate(best.quick.rows, history.contract.scoring),
        bottleneck=analysis.bottleneck,
        bottleneck_evidence=analysis.evidence,
        profile=analysis.profile,
        rounds=fold.unmasked_rounds(history),
        masked_rounds=fold.masked_rounds(history),
        consecutive_rollbacks=streak,
        escalation=advise_escalation(streak),
        diagnosis=diagnose(history, best_known=analysis.best_known),
        directions=fold.directions(history),
        web=analysis.web,
        shapes=describe_shapes(history),
        terms=describe_terms(history, () if before else _list_open_trials(state)),
        candidates=count_candidates(history),
        tips=history.opened.tips,
        champions=tuple(champion for champion in history.opened.champions if champion.mismatch),
        head=lines[-1].sha256,
        parent=parent,
    )


def _list_open_trials(state: State) -> tuple[Stage, ...]:
    """For a briefing: every candidate of the open round, as far as each got."""
    trial = state.get("trial")
    return (*((trial,) if trial else ()), *state.get("rivals", ()), *state.get("alternatives", ()))


def count_candidates(history: History) -> int:
    """Directions that the loop may try side by side in the round to come: at most as many as there are rounds left."""
    most = round_limit(history.limits, history.opened.target)
    left = history.limits.candidates if most is None else most - count_planned_rounds(history)
    return max(1, min(history.limits.candidates, left))


def _without_profile(history: History) -> Analysis:
    """For the loop's nodes: a campaign that goes on from its ledger alone has no open round yet."""
    baseline = history.baseline
    assert baseline is not None
    last_round = history.rounds[-1] if history.rounds else None
    return Analysis(
        round=fold.next_round(history),
        opened_at=last_round.closed_at if last_round else baseline.opened_at,
        profile=fold.best_profile(history),
        bottleneck=last_round.bottleneck if last_round else baseline.bottleneck,
        evidence=last_round.bottleneck_evidence if last_round else "",
    )


# What a planner is told of numbers and ends: each shape as it was measured, and when the campaign is over.


def describe_shapes(history: History) -> tuple[ShapeNow, ...]:
    """For a planner's briefing: the shapes of the baseline's quick run, with the best version's last number; None before it."""
    baseline = history.baseline
    if baseline is None:
        return ()
    best, scoring = standing(history), history.contract.scoring
    runs = (*best.quick.rows, *(best.full.rows if best.full else ()))
    roofs = {roof.label: roof for roof in baseline.shapes}
    calibration = noise(history)
    scatter = {shape.label: shape.sd for shape in (calibration.shapes if calibration else ()) if shape.degrees}
    return tuple(
        ShapeNow(
            label=row.label,
            config_class=row.config_class,
            original=_score(row, scoring),
            best=_score(best_row, scoring) if best_row else None,
            original_us=_time_us(row, scoring),
            best_us=_time_us(best_row, scoring) if best_row else None,
            roof=roofs.get(row.label),
            noise=scatter.get(row.label),
        )
        for row in baseline.quick.rows
        for best_row in (_row(row.label, runs),)
    )


def describe_terms(history: History, open_trials: Sequence[Stage] = ()) -> Terms:
    """For a planner's briefing: when the campaign ends, what is kept and what has been spent, by the stop check's numbers.

    `open_trials`: of the round that is not closed, whose cost counts as well.
    """
    headroom, calibration = compute_best_headroom(history), noise(history)
    return Terms(
        limits=history.limits,
        rounds_done=count_planned_rounds(history),
        rounds_most=round_limit(history.limits, history.opened.target),
        peak_asked=peak_fraction(history.limits, history.opened.target.performance_target),
        peak_now=headroom.text if isinstance(headroom, Headroom) else f"unknown: {headroom}",
        governed=isinstance(headroom, Headroom),
        spent=sum(map(cost_so_far, open_trials), total_cost(history)),
        visible_gain=smallest_visible_gain(calibration, history.limits) if calibration else None,
    )


def _row(label: str, rows: Sequence[Row]) -> Row | None:
    """The row of a shape for a briefing, by its label; None where there is none."""
    return next((row for row in rows if row.label == label), None)


def _score(row: Row, scoring: Scoring) -> float | None:
    """A row's score by the contract's scoring, for a briefing; None unless its check says PASS."""
    return row_score(row, scoring) if row.check == "PASS" else None


def _time_us(row: Row, scoring: Scoring) -> float | None:
    return next((1e3 * item.value for item in row.metrics if item.name == scoring.time_ms), None)


# Render every file that the last ledger line touches.

TREE = "trees/a"
"""Where a person's quick script looks, relative to the campaign's folder, unless told otherwise."""


def publish(ports: Ports, *, lines: int = 1) -> None:
    """For the loop's nodes: renders a closed round's files; a round is closed only when they exist, and they are never read back.

    `lines`: how many the ledger has gained.
    """
    keys = [line.key for line in ports.ledger.lines()]
    for later in range(lines - 1, -1, -1):
        history = read_history(ports, before=keys[-later]) if later else read_history(ports)
        ports.files.write(render_changed(history, worktree=TREE))


def restore_files(ports: Ports) -> None:
    """For the loop's nodes: render everything once: a crash between a ledger line and its files may have left a gap."""
    if ports.ledger.lines():
        ports.files.write(render_all(read_history(ports), worktree=TREE))


def wait_for_decision(ports: Ports, request: ApprovalRequest) -> Decision:
    """For the loop's nodes: a person's decision; without one the campaign stops here, in order, and asks again later."""
    pending = request.model_copy(update={"asked_at": ports.clock.now(f"{request.key} asked")})
    while (decision := ports.approvals.decision(pending)) is None:
        interrupt({"key": pending.key, "gate": pending.gate, "round": pending.round, "title": pending.title})
    waited = 60 * minutes_between(pending.asked_at, ports.clock.now(f"{pending.key} answered"))
    return decision.model_copy(update={"waited_s": max(0.0, waited)})
