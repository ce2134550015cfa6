"""The profile of the best version as a model is told it: bottleneck, then counters with what they are of."""

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from math import exp, fsum, log

from ridgeline.agent.planner.conversation import clip_line
from ridgeline.graph.briefing import ArchivedVersion, Briefing, ShapeNow
from ridgeline.graph.contract import Contract, Scoring
from ridgeline.graph.evidence import Benchmark, Comparison, Profiled
from ridgeline.graph.record import PredictionCheck, RoundClosed, ShapeRoof
from ridgeline.graph.rules.lessons import GLOBAL, aimed_at, check_metric, check_prediction, check_round, class_speedup
from ridgeline.graph.rules.score import higher_wins
from ridgeline.graph.trial import Broken, Built, Drafted, Failed, Judged, Timed, Traced, find, find_proposal
from ridgeline.graph.values import Engine, FileEdit, Hypothesis

FIRST = ("spill", "register", "regs", "vgpr", "sgpr", "occupancy", "shared", "smem", "lds", "scratch", "local")
"""In the names of counters that are told first: they say what a patch may still take."""
TIMED = " (rests on timing alone: "
"""In the evidence of a bottleneck that no counter shows; what follows says why there is none."""
REASONLESS = "couldn't vectorize loop"
"""Ends a compiler's remark that the next one repeats with its reason."""


def profile_of(briefing: Briefing, *, predicts: bool = True) -> str:
    """The profile for the prompt: bottleneck with its grounds, one line for each group of shapes; then counters and notes.

    `predicts`: who reads it is asked for a prediction, so what that may be of is said.
    """
    why, hint, basis = briefing.bottleneck_evidence.partition(TIMED)
    head = f"bottleneck (a hint: it rests on times alone, {basis.rstrip(')')})" if hint else "bottleneck"
    why = why or "no counter says why"
    lines = [f"{head}: {briefing.bottleneck}", *(f"because: {chain}" for chain in split_chains(why))]
    lines += [clip_line(line, 600) for line in briefing.diagnosis]
    if briefing.profile is None:
        return "\n".join([*lines, f"no profile of the best version, so `prediction.counter` is {NO_COUNTER}"])
    command = briefing.contract.profile.command if briefing.contract.profile else ()
    of = f", of one command: {' '.join(command)}" if command else ""
    kernel = f", of the kernel {briefing.profile.kernel.display}" if briefing.profile.kernel else ""
    lines.append(f"instrument: {briefing.profile.rung}{kernel}{of}")
    lines += _list_counters(briefing.profile)
    lines += [f"`prediction.counter` takes one name of these, {NO_COUNTER}"] if predicts else []
    lines += [f"note: {clip_line(note, 300)}" for note in briefing.profile.notes if not note.endswith(REASONLESS)]
    return "\n".join(lines)


def split_chains(evidence: str) -> list[str]:
    """For the prompt, each chain `measured -> inferred -> action`, with the semicolons that are its own."""
    chains: list[str] = []
    for part in OUTSIDE_BRACKETS.split(evidence):
        if not chains or (chains[-1].count(ARROW) >= STEPS and ARROW in part):
            chains.append(part)
        else:
            chains[-1] += f"; {part}"
    return chains


OUTSIDE_BRACKETS = re.compile(r"; (?![^\[\]]*\])(?![^()]*\))")
ARROW, STEPS = " -> ", 2
"""Between the three parts of a chain, and how many there are."""
MEANINGS = {
    "mem_throughput": "the busiest part of the memory system, caches too",
    "dram_pct": "device memory alone",
    "explicit_vectors": "lines of source that are written in vectors: no report of the compiler counts them",
}
"""Said beside counters whose names are easily mixed up."""
ON_PROCESSOR = frozenset({"perf", "cachegrind", "compiler_report", "timing_only"})
FEW_CALLS = ", of a few first calls in a process of their own: no measurement, the shapes' times are"
"""Said beside the time of a processor's profile: on a busy machine it may be twice what is measured."""


def _list_counters(profile: Profiled) -> list[str]:
    """Counters for the prompt, a line each, those first that limit a patch; one number under several names stands there once."""
    order = sorted(profile.counters, key=lambda counter: not any(word in counter.name.lower() for word in FIRST))
    sources = {origin.name: origin.source.rpartition(": ")[2] for origin in profile.origins}
    names: dict[tuple[float, str], list[str]] = {}
    for counter in order:
        plain = counter.name.lower().replace("_", "")
        told = next(
            (key for key in names if key[0] == counter.value and key[1] in (plain, sources.get(counter.name))), None
        )
        names.setdefault(told or (counter.value, sources.get(counter.name) or plain), []).append(counter.name)
    lines = []
    for (value, _), group in names.items():
        meaning = f", {MEANINGS[group[0]]}" if len(group) == 1 and group[0] in MEANINGS else ""
        meaning = FEW_CALLS if group[0] == "kernel_time_us" and profile.rung in ON_PROCESSOR else meaning
        lines.append(f"{' = '.join(group)} = {value:g}{_name_instrument(profile, group[0])}{meaning}")
    return lines


NO_COUNTER = "`score` or `time`"
"""What a prediction may be of where no counter was read."""


def _name_instrument(profile: Profiled, name: str) -> str:
    """For the prompt: which tool recorded a counter that is not of the profile's main instrument."""
    rung = profile.rung_of(name)
    return "" if rung == profile.rung else f" ({rung})"


# Times and rates of each shape as text for a model: original against best, and before against after.

ALMOST = 10.0
"""Gains above it, as a ratio, are told as a factor: +900 % and more says less than 10x."""


def by_shape(briefing: Briefing) -> str:
    """For the prompt: original and best version, one line for each shape; empty where nothing was measured."""
    if not briefing.shapes:
        return ""
    metric = briefing.target.primary_metric
    only = briefing.best_round == 1
    head = (
        "original = best version, round 1"
        if only
        else f"original (round 1) -> best version (round {briefing.best_round})"
    )
    is_rate = "flop" in metric.lower() or "gb/s" in metric.lower()
    governed = bool(briefing.terms and briefing.terms.governed)
    peaks = {spec.metric: spec.value for spec in briefing.specs if spec.value}
    newest = _beside(briefing)
    shapes = [_timed_anew(shape, newest.get(shape.label), briefing.contract.scoring) for shape in briefing.shapes]
    lines = [_now(shape, only=only, peaks=peaks if governed else None, rated=is_rate) for shape in shapes]
    how = f"; the best version as round {briefing.best_round} timed it side by side" if newest else ""
    return "\n".join([f"{metric}, and the time of one call by the quick command{how}: {head}", *lines])


def _beside(briefing: Briefing) -> dict[str, float]:
    """For the prompt: microseconds of the best version in the comparison that had it accepted; empty where there was none."""
    accepting_round = next(
        (closed for closed in briefing.rounds if closed.round == briefing.best_round and closed.accepted), None
    )
    return {label: new for label, (_, new) in times_by_label(accepting_round.judged).items()} if accepting_round else {}


def _timed_anew(shape: ShapeNow, us: float | None, scoring: Scoring) -> ShapeNow:
    """For the prompt: a shape with a later time, and with the score that goes with it: two runs at two times would only confuse."""
    if us is None or not shape.best_us or shape.best is None:
        return shape
    factor = shape.best_us / us if higher_wins(scoring) else us / shape.best_us
    return shape.model_copy(update={"best": shape.best * factor, "best_us": us})


def changes(judged: Judged, roofs: Mapping[str, ShapeRoof] | None = None) -> tuple[str, ...]:
    """For the prompt: each shape before and after, with its gain: times of calls that were interleaved, where there are any."""
    times = times_by_label(judged)
    return tuple(
        f"{shape.label}: {_pair(times.get(shape.label), (roofs or {}).get(shape.label))}{format_signed_gain(shape.gain)}"
        for shape in judged.verdict.shapes
    )


def times_by_label(judged: Judged) -> dict[str, tuple[float, float]]:
    """For the prompt: label -> microseconds of one call of best and of candidate, geometric mean over all interleaved runs."""
    timed = find(judged, Timed)
    runs = [item for item in timed.evidence if isinstance(item, Comparison)] if timed else []
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        for shape in run.shapes:
            pairs.setdefault(shape.label, []).append((shape.best_us, shape.candidate_us))
    return {label: (_mean([old for old, _ in each]), _mean([new for _, new in each])) for label, each in pairs.items()}


def how_timed(judged: Judged) -> str:
    """For the prompt: where its numbers come from, since two runs at two times may differ for the machine's sake."""
    timed = find(judged, Timed)
    if timed is None:
        return "nothing was timed"
    if any(isinstance(item, Comparison) for item in timed.evidence):
        return (
            "before and after were timed side by side in this round, in fresh processes; numbers of other rounds were "
            "taken at another time and may differ where the machine was busier"
        )
    runs = sum(isinstance(item, Benchmark) for item in timed.evidence)
    return f"before and after come from separate runs of the benchmark ({runs} in this round)"


def speeds(judged: Judged) -> str:
    """For the prompt: predicted against measured speedup of the shapes that the change was for, then of the score; empty if unknown."""
    about, verdict = find_proposal(judged).hypothesis, judged.verdict
    predicted_speedup = about.prediction.speedup
    if verdict.gain is None:
        return f"speedup: predicted {predicted_speedup:.3g}x, not measured" if predicted_speedup else ""
    least = f", at least {1 + verdict.lower:.3g}x" if verdict.lower is not None else ""
    foretold = f"predicted {predicted_speedup:.3g}x" if predicted_speedup else "not predicted"
    mine = class_speedup(judged) if about.target_class != GLOBAL else None
    if mine is None:
        return f"speedup: {foretold}, measured {1 + verdict.gain:.3g}x{least}"
    score_text = f"of the whole score {1 + verdict.gain:.3g}x{least}"
    return f"speedup of {about.target_class}: {foretold}, measured {mine:.3g}x; {score_text}"


def foreseen(closed: RoundClosed, scoring: Scoring) -> str:
    """For the prompt: predicted against measured counter and speedup of a closed round, in one line."""
    checked = check_round(closed, scoring)
    counter = f"{checked.counter} {_describe_prediction(checked)}" if checked else ""
    return "; ".join(part for part in (counter, speeds(closed.judged)) if part) or "not measured"


def format_signed_gain(gain: float) -> str:
    """A gain as a prompt says it."""
    return f"{1 + gain:.3g}x" if gain >= ALMOST - 1 else f"{gain:+.1%}"


def _describe_prediction(checked: PredictionCheck) -> str:
    """For the prompt: a counter before and after, and whether it moved as predicted."""
    before, after = checked.before, checked.after
    if checked.speedup is not None:
        return f"measured as the speedup {checked.speedup:.3g}x: {checked.outcome}"
    if before is None or after is None:
        return "not measured"
    return f"{before:.4g} -> {after:.4g}{f' ({after / before:.3g}x)' if before else ''}: {checked.outcome}"


def _now(shape: ShapeNow, *, only: bool, peaks: Mapping[str, float] | None, rated: bool) -> str:
    """For the prompt: a shape's numbers now. `rated`: the metric is a rate already. `peaks`: None where none governs."""
    original, best = _value(shape.original, shape.original_us), _value(shape.best, shape.best_us)
    place = "" if shape.config_class == "all" else f" ({shape.config_class})"
    parts = (
        f"{shape.label}{place}: {best if only else f'{original} -> {best}'}",
        "" if rated else _rate(shape.roof, shape.best_us),
        "" if peaks is None else _share(shape.roof, shape.best_us, peaks),
        f"noise {100 * shape.noise:.2g} %" if shape.noise is not None else "",
    )
    return ", ".join(part for part in parts if part)


def _value(score: float | None, us: float | None) -> str:
    """A shape's score and the time of one call in microseconds, for the prompt."""
    text = "not measured" if score is None else f"{score:.4g}"
    return text if us is None else f"{text}, {us:.4g} us"


def _pair(us: tuple[float, float] | None, roof: ShapeRoof | None) -> str:
    """Times of best and candidate in microseconds for the prompt, with their rates where both are known."""
    if us is None:
        return ""
    rates = [rate for rate in (_rate(roof, time_us) for time_us in us) if rate]
    more = f" ({rates[0]} -> {rates[1]})" if len(rates) == len(us) else ""
    return f"{us[0]:.4g} -> {us[1]:.4g} us{more}, "


def _rate(roof: ShapeRoof | None, us: float | None) -> str:
    """For the prompt: work by time, in the unit of what bounds the shape."""
    if roof is None or not us:
        return ""
    amount, unit = (roof.bytes, "GB/s") if roof.bound == "memory" else (roof.flops, "GFLOP/s")
    return f"{amount / us / 1e3:.4g} {unit}" if amount else ""


def _share(roof: ShapeRoof | None, us: float | None, peaks: Mapping[str, float]) -> str:
    """For the prompt: share of the peak that bounds the shape, then of the other one, where that is known."""
    if roof is None or not us or roof.floor_us is None:
        return ""
    name, work, peak = (
        ("compute", roof.flops, peaks.get("compute peak"))
        if roof.bound == "memory"
        else ("memory", roof.bytes, peaks.get("copy bandwidth"))
    )
    other_share = f" ({100 * work / us / 1e3 / peak:.2g} % of {name})" if work and peak else ""
    return f"{100 * roof.floor_us / us:.3g} % of its {roof.bound} peak{other_share}"


def _mean(values: list[float]) -> float:
    """For the prompt: geometric mean of positive values."""
    return exp(fsum(map(log, values)) / len(values))


# What a score is made of, and what a gain of some shapes makes of it: computed here, so that nobody has to guess.

ENGINE_PHRASES: dict[Engine, str] = {
    "graph": "replays of a CUDA or HIP graph: what the host does for a launch is not in it",
    "event": "events on the device around the calls: it counts where the host is too slow to launch",
    "wall": "the clock of the host: launches are in it",
    "cpu": "processor time of the host: what the device does is not in it",
    "profiler": "the profiler's times of the kernels: launches are not in it",
}
"""What an engine counts, for a device that something has to be launched on."""


def describe_score(briefing: Briefing) -> str:
    """For the prompt: how the rows become the score, which way is better, and what the best version had."""
    scoring = briefing.contract.scoring
    shapes = f"the {len(briefing.shapes)} shapes" if briefing.shapes else "the shapes"
    better = "higher" if higher_wins(scoring) else "lower"
    now = (
        "nothing is measured yet"
        if briefing.aggregate is None
        else f"the best version had {briefing.aggregate:.4g} by the quick command in round {briefing.best_round}"
    )
    return f"geometric mean over {shapes}{_describe_weights(scoring)} of {_metric(scoring)}, {better} is better; {now}"


def _describe_weights(scoring: Scoring) -> str:
    """For the prompt: shapes that count for more or less in the score, and those that may lose nothing; empty where all are alike."""
    weights = ", ".join(f"{label} {weight:g}" for label, weight in scoring.shape_weights.items() if weight != 1)
    weighed = f", weighted ({weights}; every other 1)" if weights else ""
    protected = ", ".join(scoring.protected_shapes)
    return f"{weighed}, of which {protected} may lose nothing," if protected else weighed


def counted_work(contract: Contract) -> str:
    """For the prompt: what shares of a peak count as work of one call: the least that it must do, whatever a kernel really does."""
    formulas = {"operations": contract.work.flops, "bytes": contract.work.bytes}
    text = ", ".join(f"{name} {formula}" for name, formula in formulas.items() if formula)
    return f"{text}: the least of a call; a kernel that moves or computes more shows a lower share" if text else ""


def timed_by(briefing: Briefing) -> str:
    """For the prompt: what the timing includes; empty on a processor, where nothing is launched."""
    return "" if briefing.machine.kind == "cpu" else ENGINE_PHRASES[briefing.contract.scoring.engine]


def of_score(hypothesis: Hypothesis, shapes: Sequence[ShapeNow], scoring: Scoring) -> str:
    """For the prompt: what the predicted speedup makes of the score; empty without one, or where its shapes are not known."""
    speedup = hypothesis.prediction.speedup
    if not speedup or not shapes:
        return ""
    if hypothesis.target_class == GLOBAL:
        return f"of every shape, so of the score: {_times(speedup)}"
    mine = [shape.label for shape in shapes if aimed_at(hypothesis.target_class, shape.label, shape.config_class)]
    if not mine:
        return ""
    share = sum(map(scoring.weight, mine)) / sum(scoring.weight(shape.label) for shape in shapes)
    counted = f"{len(mine)} of {len(shapes)} shapes{', by their weights' if scoring.shape_weights else ''}"
    return f"of {', '.join(mine)}; so the score {_times(speedup**share)} (computed: {counted})"


def _metric(scoring: Scoring) -> str:
    """For the prompt: the benchmark's columns that make a row's score, in words."""
    if scoring.combined:
        return f"6 / (2 / {scoring.forward} + 4 / {scoring.backward})"
    several = "; none of them may fall" if len(scoring.primary_metric) > 1 else ""
    return f"{' and '.join(scoring.primary_metric)}{several}"


def _times(factor: float) -> str:
    """A factor in the prompt, such as 1.2x."""
    return f"{factor:.3g}x"


# What a build, a test or a measurement said of a candidate, as text for a model.

FLAGGED = "suspicious: "
"""Begins a note that asks people to look again."""


def overlaid(briefing: Briefing, edits: tuple[FileEdit, ...]) -> dict[str, str]:
    """For a model's prompt: the best version's editable files with its edits on them."""
    texts = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
    for edit in edits:
        if edit.text is None:
            texts.pop(edit.path, None)
        else:
            texts[edit.path] = edit.text
    return texts


def against_best(briefing: Briefing, texts: Mapping[str, str]) -> tuple[FileEdit, ...]:
    """From a model's answer: edits that make its files out of the best version's: what a commit on top of it needs."""
    best = {edit.path: edit.text for edit in briefing.sources if edit.text is not None}
    changed = [FileEdit(path=path, text=text) for path, text in texts.items() if best.get(path) != text]
    gone = [FileEdit(path=path, text=None) for path in best if path not in texts]
    return tuple(changed + gone)


def describe_failure(broken: Broken | Built) -> str:
    """For the prompt: what the compiler or the checker said, and what earlier repairs were about."""
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


def describe_parent(briefing: Briefing) -> str:
    """For the prompt in search mode `evolve`: the version that is changed, and what other cells hold; empty in mode `linear`."""
    parent = briefing.parent
    if parent is None:
        return ""
    version, is_best = parent.version, briefing.base_round == briefing.best_round
    lines = [
        f"The search keeps an archive of measured versions: cells by complexity, diversity and score (bins from 0) on"
        f" islands. Generation {parent.generation} works on island {version.island + 1} and changes"
        f" {_say_version(version)}: {'the best version' if is_best else 'its sources are the ones below'}."
    ]
    if not is_best:
        lines.append(
            f"The best version is of round {briefing.best_round} (score {parent.best_score:.3f}: kept gains multiplied, not"
            " tested yet). Each change is measured against it, and kept only where it is proven faster: times, profile and"
            " counters on this page are of the best version."
        )
    if parent.elites:
        lines.append(
            "Elites of other cells, best first; their scores are estimates, and an idea of one may be carried over:"
        )
        lines += [f"- {_say_version(elite)}: {clip_line(elite.change, 200)}" for elite in parent.elites]
    return "\n".join(lines)


def _say_version(version: ArchivedVersion) -> str:
    name = "the original" if version.round == 1 else f"round {version.round}"
    cell = "-".join(map(str, version.cell))
    return f"{name} (score {version.score:.3f}, island {version.island + 1}, cell {cell})"


def diff(judged: Judged, briefing: Briefing) -> str:
    """For the prompt: the change that was judged, against the version that was the best before it; empty where there is none."""
    drafted = find(judged, Drafted)
    if drafted is None:
        return ""
    old, new = overlaid(briefing, ()), overlaid(briefing, drafted.edits)
    lines: list[str] = []
    for path in sorted({*old, *new}):
        names = (f"round-{briefing.base_round}/{path}", f"round-{briefing.round}/{path}")
        lines += unified_diff(old.get(path, "").splitlines(), new.get(path, "").splitlines(), *names, lineterm="")
    return "\n".join(lines)


def outcome(judged: Judged, briefing: Briefing) -> str:
    """For the prompt: verdict, each shape before and after, prediction against measurement, counters, and what ended a trial early."""
    verdict = judged.verdict
    roofs = {shape.label: shape.roof for shape in briefing.shapes if shape.roof is not None}
    lines = [f"verdict: {verdict.sentence} ({verdict.decision.replace('_', ' ')}: {verdict.reason.replace('_', ' ')})"]
    lines += [neutral(note) for note in verdict.notes]
    if briefing.base_round != briefing.best_round:
        lines.append(f"made from round {briefing.base_round}'s version; measured against the best version all the same")
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
    """A note of a verdict as a fact for the prompt: what it asks of the people who read the report is not asked of a model."""
    if not note.startswith(FLAGGED):
        return note
    return f"flagged for people to look at: {note.removeprefix(FLAGGED).partition(';')[0]}"


def has_counters(judged: Judged) -> bool:
    """Whether the prompt can show counters of the candidate's own profile."""
    traced = find(judged, Traced)
    return traced is not None and traced.profile is not None


def by_class(judged: Judged) -> str:
    """For the prompt: gain of every shape under its configuration class, losers first."""
    order = sorted(judged.verdict.shapes, key=lambda shape: (shape.gain, shape.label))
    lines = [f"{shape.config_class}: {shape.label} {shape.gain:+.2%}" for shape in order]
    return "\n".join([judged.verdict.sentence, *lines])


def _foreseen(judged: Judged, briefing: Briefing) -> list[str]:
    """For the prompt: predicted against measured: the counter, then the speedups."""
    forecast, traced = find_proposal(judged).hypothesis.prediction, find(judged, Traced)
    checked = check_metric(judged, briefing.contract.scoring) or check_prediction(
        forecast, briefing.profile, traced.profile if traced else None
    )
    size = f" to {forecast.ratio:g} of it" if forecast.ratio else ""
    result = _describe_prediction(checked)
    if checked.speedup is not None:
        result += ", below"
    elif checked.before is not None and checked.after is not None:
        share = f" ({checked.after / checked.before:.3g}x)" if checked.before else ""
        result = f"measured {checked.before:g} -> {checked.after:g}{share}: {checked.outcome}"
    counter = f"counter {forecast.counter}: predicted {forecast.direction}{size}, {result}"
    return [counter, *([speed] if (speed := speeds(judged)) else [])]


def _counters(briefing: Briefing, traced: Traced) -> list[str]:
    """For the prompt: a line for each counter of the candidate, beside the best version's by the same instrument."""
    assert traced.profile is not None
    before = briefing.profile
    lines = []
    for counter in traced.profile.counters:
        old = before.counter(counter.name) if before and before.rung == traced.profile.rung else None
        lines.append(f"{counter.name}: {'not measured' if old is None else f'{old:g}'} -> {counter.value:g}")
    return lines
