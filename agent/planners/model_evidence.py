"""What a build, a test or a measurement said of a candidate, as text for a model."""

from collections.abc import Mapping

from graph.briefing import Briefing
from graph.trial import Broken, Built, Drafted, Failed, Judged, Traced, find
from graph.values import FileEdit


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


def outcome(judged: Judged, briefing: Briefing) -> str:
    """The verdict with its numbers, counters before and after, and what ended a trial early."""
    verdict = judged.verdict
    lines = [verdict.sentence, f"decision: {verdict.decision}, reason: {verdict.reason}", *verdict.notes]
    lines += [f"{shape.label} ({shape.config_class}): {shape.gain:+.2%}" for shape in verdict.shapes]
    drafted, failed, traced = find(judged, Drafted), find(judged, Failed), find(judged, Traced)
    if drafted:
        lines.append(f"the change: {drafted.explanation}")
        lines += [f"repaired after: {repair.evidence[:600]}" for repair in drafted.repairs]
    if failed:
        lines.append(f"ended early, {failed.reason}:\n{failed.detail}")
    if traced and traced.profile:
        lines.append(f"counters before -> after ({traced.profile.rung}):")
        lines += _counters(briefing, traced)
    return "\n".join(lines)


def by_class(judged: Judged) -> str:
    """Gain of every shape under its configuration class, losers first."""
    order = sorted(judged.verdict.shapes, key=lambda shape: (shape.gain, shape.label))
    lines = [f"{shape.config_class}: {shape.label} {shape.gain:+.2%}" for shape in order]
    return "\n".join([judged.verdict.sentence, *lines])


def _counters(briefing: Briefing, traced: Traced) -> list[str]:
    assert traced.profile is not None
    before = briefing.profile
    lines = []
    for counter in traced.profile.counters:
        old = before.counter(counter.name) if before and before.rung == traced.profile.rung else None
        lines.append(f"{counter.name}: {'not measured' if old is None else f'{old:g}'} -> {counter.value:g}")
    return lines
