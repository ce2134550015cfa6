"""What a build, a test or a measurement said of a candidate, as text for a model."""

from collections.abc import Mapping
from difflib import unified_diff

from ridgeline.agent.planners.model_numbers import changes, how_timed, speeds
from ridgeline.agent.planners.model_score import class_speedup, is_metric
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.policy import predict
from ridgeline.graph.trial import Broken, Built, Drafted, Failed, Judged, Traced, find, proposed
from ridgeline.graph.values import FileEdit

FLAGGED = "suspicious: "
"""Begins a note that asks people to look again (rules 11.9)."""


def overlaid(briefing: Briefing, edits: tuple[FileEdit, ...]) -> dict[str, str]:
    """The best version's editable files with a candidate's edits on them."""
    texts = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
    for edit in edits:
        if edit.text is None:
            texts.pop(edit.path, None)
        else:
            texts[edit.path] = edit.text
    return texts


def against_best(briefing: Briefing, texts: Mapping[str, str]) -> tuple[FileEdit, ...]:
    """Edits that make these files out of the best version's: what a commit on top of it needs."""
    best = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
    changed = [FileEdit(path=path, text=text) for path, text in texts.items() if best.get(path) != text]
    gone = [FileEdit(path=path, text=None) for path in best if path not in texts]
    return tuple(changed + gone)


def complained(broken: Broken | Built) -> str:
    """What the compiler or the checker said, and what earlier repairs were about."""
    drafted = find(broken, Drafted)
    earlier = drafted.repairs if drafted else ()
    lines = [f"repair {number} was: {repair.explanation}" for number, repair in enumerate(earlier, start=1)]
    if isinstance(broken, Broken):
        return "\n".join([*lines, f"{broken.test.kind}:", broken.test.detail])
    ended = broken.build.exit
    if ended is None:
        return "\n".join([*lines, "the build failed and said nothing"])
    how = "ran out of time" if ended.timed_out else f"exit code {ended.returncode}"
    return "\n".join([*lines, f"{' '.join(ended.argv)}: {how}", ended.output])


def diff(judged: Judged, briefing: Briefing) -> str:
    """The change that was judged, against the version that was the best before it; empty where there is none."""
    drafted = find(judged, Drafted)
    if drafted is None:
        return ""
    old, new = overlaid(briefing, ()), overlaid(briefing, drafted.edits)
    lines: list[str] = []
    for path in sorted({*old, *new}):
        names = (f"round-{briefing.best_round}/{path}", f"round-{briefing.round}/{path}")
        lines += unified_diff(old.get(path, "").splitlines(), new.get(path, "").splitlines(), *names, lineterm="")
    return "\n".join(lines)


def outcome(judged: Judged, briefing: Briefing) -> str:
    """Verdict, each shape before and after, prediction against measurement, counters, and what ended a trial early."""
    verdict = judged.verdict
    roofs = {shape.label: shape.roof for shape in briefing.shapes if shape.roof is not None}
    lines = [f"verdict: {verdict.sentence} ({verdict.decision.replace('_', ' ')}: {verdict.reason.replace('_', ' ')})"]
    lines += [neutral(note) for note in verdict.notes]
    if verdict.shapes:
        lines += [f"each shape, before -> after ({how_timed(judged)}):", *changes(judged, roofs)]
    drafted, failed, traced = find(judged, Drafted), find(judged, Failed), find(judged, Traced)
    lines += _foreseen(judged, briefing)
    if drafted:
        lines.append(f"what was said of the change: {drafted.explanation}")
        lines += [f"repaired after: {repair.evidence[:600]}" for repair in drafted.repairs]
    if failed:
        lines.append(f"ended early, {failed.reason.replace('_', ' ')}:\n{failed.detail}")
    if traced and traced.profile:
        command = " ".join(briefing.contract.profile.command) if briefing.contract.profile else "one call"
        lines.append(f"counters before -> after ({traced.profile.rung}, of `{command}` alone):")
        lines += _counters(briefing, traced)
    return "\n".join(lines)


def neutral(note: str) -> str:
    """A note of a verdict as a fact: what it asks of the people who read the report is not asked of a model."""
    if not note.startswith(FLAGGED):
        return note
    return f"flagged for people to look at: {note.removeprefix(FLAGGED).partition(';')[0]}"


def profiled(judged: Judged) -> bool:
    """Whether the candidate has counters of its own."""
    traced = find(judged, Traced)
    return traced is not None and traced.profile is not None


def by_class(judged: Judged) -> str:
    """Gain of every shape under its configuration class, losers first."""
    order = sorted(judged.verdict.shapes, key=lambda shape: (shape.gain, shape.label))
    lines = [f"{shape.config_class}: {shape.label} {shape.gain:+.2%}" for shape in order]
    return "\n".join([judged.verdict.sentence, *lines])


def _foreseen(judged: Judged, briefing: Briefing) -> list[str]:
    said, traced = proposed(judged).hypothesis.prediction, find(judged, Traced)
    checked = predict.check(said, briefing.profile, traced.profile if traced else None)
    size = f" to {said.ratio:g} of it" if said.ratio else ""
    moved = "not measured"
    if is_metric(said.counter, briefing.contract.scoring):
        mine = class_speedup(judged)
        moved = "not measured" if mine is None else f"measured as the speedup {mine:.3g}x, below"
    elif checked.before is not None and checked.after is not None:
        share = f" ({checked.after / checked.before:.3g}x)" if checked.before else ""
        moved = f"measured {checked.before:g} -> {checked.after:g}{share}: {checked.outcome}"
    counter = f"counter {said.counter}: predicted {said.direction}{size}, {moved}"
    return [counter, *([speed] if (speed := speeds(judged)) else [])]


def _counters(briefing: Briefing, traced: Traced) -> list[str]:
    assert traced.profile is not None
    before = briefing.profile
    lines = []
    for counter in traced.profile.counters:
        old = before.counter(counter.name) if before and before.rung == traced.profile.rung else None
        lines.append(f"{counter.name}: {'not measured' if old is None else f'{old:g}'} -> {counter.value:g}")
    return lines
