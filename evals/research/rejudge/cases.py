"""The decisions of a recording, each with all that was measured for it, and identical versions to be fooled by."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal

from ridgeline.evals.recordings.recording import Folder
from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.evidence import Benchmark, Comparison, Profiled, ShapePairs
from ridgeline.graph.record import Line, RoundClosed
from ridgeline.graph.rules import history as fold
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.paired import FLOOR_SD, compute_pair_means, merge_comparisons
from ridgeline.graph.trial import Applied, Timed, Traced, Verified, find
from ridgeline.graph.values import Value
from ridgeline.sandbox.store.campaign_folder import ArtifactStore

# The raw times behind a comparison: per process, shape and side, as the harness wrote them.

Side = Literal["best", "candidate"]


class Times(Value):
    """One shape in one process pair: microseconds of a call, in the order they were taken."""

    label: str
    best: tuple[float, ...]
    candidate: tuple[float, ...]

    def of(self, side: Side) -> tuple[float, ...]:
        """Recorded times of one version to rejudge."""
        return self.best if side == "best" else self.candidate


class Process(Value):
    """One process pair: everything that was timed in it."""

    shapes: tuple[Times, ...]

    def level(self, side: Side) -> float:
        """For rejudging: mean natural logarithm over shapes of the mean time: what one ordinary run of a benchmark would report."""
        return statistics.fmean([math.log(statistics.fmean(shape.of(side))) for shape in self.shapes])

    def mean(self, side: Side, label: str) -> float:
        """For rejudging: mean microseconds of one shape; KeyError where it was not timed."""
        for shape in self.shapes:
            if shape.label == label:
                return statistics.fmean(shape.of(side))
        raise KeyError(label)

    def swap(self) -> "Process":
        """A process to rejudge with the two versions' names exchanged."""
        shapes = (Times(label=s.label, best=s.candidate, candidate=s.best) for s in self.shapes)
        return Process(shapes=tuple(shapes))


def processes(comparisons: Sequence[Comparison], store: ArtifactStore) -> tuple[Process, ...]:
    """Processes to rejudge, of all batches in order; none where the raw times of one were left out of the recording."""
    samples: list[Process] = []
    for comparison in comparisons:
        try:
            data = json.loads(store.get(comparison.raw))
        except (ArtifactLost, ValueError):
            return ()
        samples += [_process(entry["pair"]["slots"]) for entry in data]
    return tuple(samples)


def _process(slots: Sequence[dict[str, object]]) -> Process:
    """For rejudging: blocks that lack a time on any slot count on neither side, as in the comparison."""
    spoiled = {(slot["label"], slot["block"]) for slot in slots if slot["time_us"] is None}
    valid = [slot for slot in slots if (slot["label"], slot["block"]) not in spoiled]
    labels = list(dict.fromkeys(str(slot["label"]) for slot in valid))

    def times(label: str, side: Side) -> tuple[float, ...]:
        return tuple(float(str(s["time_us"])) for s in valid if s["label"] == label and s["side"] == side)

    shapes = (Times(label=label, best=times(label, "best"), candidate=times(label, "candidate")) for label in labels)
    return Process(shapes=tuple(shapes))


# What each candidate was truly worth: all its pairs together, and all kept ones together as the final test says.


class Worth(Value):
    """Log-ratio ln(t_best / t_candidate) over all shapes, and how well it is known."""

    theta: float
    variance: float


def pool(comparisons: Sequence[Comparison], noise_sd: float) -> Worth:
    """For rejudging: from every pair that was taken. `noise_sd`: of one pair of identical versions, for too few pairs to tell."""
    means = compute_pair_means(merge_comparisons(comparisons).shapes)
    variance = statistics.variance(means) if len(means) > 2 else 0.0
    return Worth(theta=statistics.fmean(means), variance=max(variance, noise_sd**2, FLOOR_SD**2) / len(means))


def reconcile(worths: Mapping[int, Worth], accepted: Sequence[int], final: Worth | None) -> dict[int, Worth]:
    """For rejudging, by round: true gains with the kept ones adding up to the final test, which nobody looked at before deciding.

    What the sum is off by is shared out by how badly each is known: the least-squares estimate under both.
    """
    numbers = [number for number in accepted if number in worths]
    if final is None or not numbers:
        return dict(worths)
    total = sum(worths[number].variance for number in numbers)
    share = total / (total + final.variance)
    off = (final.theta - sum(worths[number].theta for number in numbers)) * share
    corrected = dict(worths)
    for number in numbers:
        worth = worths[number]
        part = worth.variance / total
        corrected[number] = Worth(theta=worth.theta + off * part, variance=worth.variance * (1 - share * part))
    return corrected


class Case(Value):
    """One candidate that was measured against the best version of its time."""

    recording: str
    round: int
    identical: bool
    """Both are the original, so the truth is exactly 0."""
    standing: Standing
    verified: Verified
    profile: Profiled | None
    best_profile: Profiled | None
    bench: Benchmark | None
    """The candidate's one ordinary run; None for identical versions, which have none."""
    comparisons: tuple[Comparison, ...]
    """One process pair each, in order."""
    processes: tuple[Process, ...]
    """Raw times of the same pairs; none where the recording does not have them."""
    truth: Worth
    recorded: bool
    """Whether the campaign kept it."""


def cases(path: Path) -> tuple[Case, ...]:
    """Cases to rejudge: every measured round of a recording, then its identical versions. Raises UserError for no recording."""
    folder = Folder(path)
    lines, store = folder.lines(), ArtifactStore(folder.path)
    history = fold.fold_ledger(lines)
    assert history is not None
    raced = find_raced(history)
    rounds = [
        case_of_round
        for closed in history.rounds
        if closed.round not in raced and (case_of_round := _round(folder.name, lines, closed, store)) is not None
    ]
    judged = {case.round for case in rounds}
    whole = all(
        closed.round in judged for closed in history.rounds if closed.accepted
    )  # else it tells of more than these
    final = history.concluded.final if history.concluded and whole else None
    spread = fold.noise(history)
    worths = reconcile(
        {case.round: case.truth for case in rounds},
        [case.round for case in rounds if case.recorded],
        pool((final,), spread.sd if spread else 0.0) if final else None,
    )
    corrected_cases = [case.model_copy(update={"truth": worths[case.round]}) for case in rounds]
    return (*corrected_cases, *(_identical(history, corrected_cases[0], store) if corrected_cases else ()))


def list_raced(path: Path) -> list[int]:
    """Rounds of a recording that cannot be rejudged, since several candidates raced in them."""
    history = fold.fold_ledger(Folder(path).lines())
    assert history is not None
    return sorted(find_raced(history))


def find_raced(history: History) -> frozenset[int]:
    """For rejudging: rounds of candidates that were tried side by side and share one error rate: no rule for one candidate decides them."""
    sizes = Counter(closed.beside for closed in history.rounds)
    return frozenset(closed.round for closed in history.rounds if sizes[closed.beside] > 1)


def _round(name: str, lines: Sequence[Line], closed: RoundClosed, store: ArtifactStore) -> Case | None:
    """A recorded round to rejudge; None for one that ended before its candidate was compared: no rule would have kept that."""
    timed, traced, verified = (find(closed.judged, kind) for kind in (Timed, Traced, Verified))
    if not isinstance(timed, Timed) or not isinstance(verified, Verified):
        return None
    comparisons = tuple(item for item in timed.evidence if isinstance(item, Comparison))
    if not comparisons:
        return None
    before = fold.fold_ledger(tuple(takewhile(lambda line: line.key != f"round-{closed.round}", lines)))
    assert before is not None
    standing = fold.standing(before)
    runs = [item for item in timed.evidence if isinstance(item, Benchmark) and item.commit != standing.commit]
    return Case(
        recording=name,
        round=closed.round,
        identical=False,
        standing=standing,
        verified=verified,
        profile=traced.profile if isinstance(traced, Traced) else None,
        best_profile=fold.best_profile(before),
        bench=next((run for run in runs if run.level == "full"), None),
        comparisons=tuple(pair for item in comparisons for pair in single(item)),
        processes=processes(comparisons, store),
        truth=pool(comparisons, standing.noise.sd if standing.noise else 0.0),
        recorded=closed.accepted,
    )


def single(comparison: Comparison) -> Iterator[Comparison]:
    """For rejudging: a comparison of one process pair for each of its pairs."""
    for number in range(len(comparison.shapes[0].pairs)):
        shapes = tuple(shape.model_copy(update={"pairs": (shape.pairs[number],)}) for shape in comparison.shapes)
        yield comparison.model_copy(update={"shapes": shapes})


def _identical(history: History, like: Case, store: ArtifactStore) -> Iterator[Case]:
    """For rejudging: every stretch of half the calibration's pairs, both ways round, judged by the noise that the other half shows."""
    fresh = [item.comparison for item in history.calibrations if item.fresh and item.comparison is not None]
    if not fresh:
        return
    pairs, raw = tuple(single(fresh[0])), processes(fresh[:1], store)
    count = len(pairs)
    for start in range(count):
        chosen = [(start + step) % count for step in range(max(1, count // 2))]
        other_half = [pairs[place] for place in range(count) if place not in chosen]
        noise = estimate_noise(other_half) if len(other_half) > 1 else None
        for swapped in (False, True):
            swapped_pairs = tuple(_turn(pairs[place], swapped) for place in chosen)
            times = tuple(raw[place].swap() if swapped else raw[place] for place in chosen) if raw else ()
            yield _twin(like, swapped_pairs, times, noise)


def _turn(pair: Comparison, swapped: bool) -> Comparison:
    if not swapped:
        return pair
    return pair.model_copy(update={"shapes": tuple(_mirror(shape) for shape in pair.shapes)})


def _mirror(shape: ShapePairs) -> ShapePairs:
    pairs = tuple(tuple(-block for block in blocks) for blocks in shape.pairs)
    return shape.model_copy(update={"pairs": pairs, "best_us": shape.candidate_us, "candidate_us": shape.best_us})


def _twin(like: Case, pairs: tuple[Comparison, ...], times: tuple[Process, ...], noise: Noise | None) -> Case:
    """For rejudging: the first round's candidate, had it been a copy of the original."""
    applied = find(like.verified, Applied)
    assert applied is not None
    commits = {"best": like.standing.commit, "candidate": applied.commit}
    return like.model_copy(
        update={
            "identical": True,
            "standing": like.standing.model_copy(update={"noise": noise}),
            "bench": None,
            "profile": None,
            "best_profile": None,
            "comparisons": tuple(pair.model_copy(update=commits) for pair in pairs),
            "processes": times,
            "truth": Worth(theta=0.0, variance=0.0),
            "recorded": False,
        }
    )
