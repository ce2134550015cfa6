"""From rows to scores, and from two benchmarks to a gain. Numbers that do not belong together raise."""

import math
from collections.abc import Iterable, Sequence

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, MixedEvidence, Row
from ridgeline.graph.values import Named, Value
from ridgeline.graph.verdict import ShapeChange

EDGE = 1e-9
"""Slack of comparisons with a limit: a mean of logarithms misses a round number by some 1e-16, which no clock sees."""


class ScoreError(ValueError):
    """Rows that give no score: none at all, one label twice, a missing column, or a number that cannot be a time."""


class FailedRows(ScoreError):
    """At least one row says FAIL or ERROR: there is no aggregate, and nothing that could be taken for one."""


class Delta(Value):
    """Candidate against best in one pair of benchmarks. Gains are relative; positive is better."""

    gain: float
    """What decides: the gain of the one metric; of several, the lowest if any falls and else the highest."""
    metrics: tuple[Named, ...]
    """Gain of each primary metric."""
    shapes: tuple[ShapeChange, ...]
    """Gain of each shape; of several metrics the lowest."""


def combined_step(forward: float, backward: float) -> float:
    """Throughput of one training step, 6/(2/F + 4/B), in the unit of its inputs: the score of forward and backward."""
    return 6.0 / (2.0 / _require_positive(forward, "forward") + 4.0 / _require_positive(backward, "backward"))


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; ScoreError when there are none or one is not positive."""
    return weighted_geomean([(value, 1.0) for value in values])


def weighted_geomean(weighted: Sequence[tuple[float, float]]) -> float:
    """Geometric mean of positive numbers with their weights. Raises as `geomean`."""
    logs = [(weight * math.log(_require_positive(value, "value")), weight) for value, weight in weighted]
    if not logs:
        raise ScoreError("no values to average")
    return math.exp(math.fsum(log for log, _ in logs) / math.fsum(weight for _, weight in logs))


def gain(candidate: float, best: float, higher_is_better: bool) -> float:
    """Relative gain in score, candidate over best. A time is turned into a rate first, so that 5 per cent mean the same."""
    new, old = _require_positive(candidate, "candidate"), _require_positive(best, "best")
    return (new - old) / old if higher_is_better else (old - new) / new


def higher_wins(scoring: Scoring) -> bool:
    """Whether more is better; the combined step is a throughput whatever the contract says of other columns."""
    return scoring.combined or scoring.higher_is_better


def metric_names(scoring: Scoring) -> tuple[str, ...]:
    """The metrics that decide, one of them or several independent ones."""
    return scoring.primary_metric[:1] if scoring.combined else scoring.primary_metric


def row_score(row: Row, scoring: Scoring, *, metric: str | None = None) -> float:
    """Score of one row: the combined step, or the (first) primary metric.

    Forward-only operators leave the backward column empty; their step is the forward pass.
    """
    if scoring.forward is not None and scoring.backward is not None:
        forward = _column(row, scoring.forward)
        return combined_step(forward, row.metric(scoring.backward)) if has_backward(row, scoring) else forward
    return _column(row, metric or scoring.primary_metric[0])


def has_backward(row: Row, scoring: Scoring) -> bool:
    """For the score of a benchmark's row: whether it carries a backward number."""
    return any(item.name == scoring.backward for item in row.metrics)


def score_vector(rows: Sequence[Row], scoring: Scoring, *, metric: str | None = None) -> tuple[Named, ...]:
    """Score of every row by label. Raises FailedRows, or ScoreError for no rows and for labels used twice."""
    if failed := [row.label for row in rows if row.check != "PASS"]:
        raise FailedRows(f"no score: {', '.join(failed)} did not pass")
    if len({row.label for row in rows}) != len(rows):
        raise ScoreError("a label stands in more than one row")
    if len({has_backward(row, scoring) for row in rows}) > 1:
        raise ScoreError(f"some rows have {scoring.backward} and some do not")
    return tuple(Named(name=row.label, value=row_score(row, scoring, metric=metric)) for row in rows)


def aggregate(rows: Sequence[Row], scoring: Scoring) -> float:
    """Geometric mean of the row scores, by the contract's weights. Raises FailedRows or ScoreError instead of inventing a number."""
    return _average(score_vector(rows, scoring), scoring)


def aggregates(rows: Sequence[Row], scoring: Scoring) -> tuple[Named, ...]:
    """One geometric mean for each independent primary metric. Raises like `aggregate`."""
    return tuple(
        Named(name=metric, value=_average(score_vector(rows, scoring, metric=metric), scoring))
        for metric in metric_names(scoring)
    )


def _average(scores: Sequence[Named], scoring: Scoring) -> float:
    """Geometric mean over shapes, by the contract's weights."""
    return weighted_geomean([(item.value, scoring.weight(item.name)) for item in scores])


def mean_gain(shapes: Sequence[ShapeChange]) -> float:
    """Geometric mean of the shapes' gains."""
    return math.expm1(math.fsum(math.log1p(shape.gain) for shape in shapes) / len(shapes))


def relative_stddev(row: Row, scoring: Scoring) -> float | None:
    """Relative standard deviation of a row's score from its `*_stddev` columns; None without them."""
    if scoring.forward is None or scoring.backward is None or not has_backward(row, scoring):
        return _relative_spread(
            row, scoring.forward if scoring.combined and scoring.forward else scoring.primary_metric[0]
        )
    forward, backward = _relative_spread(row, scoring.forward), _relative_spread(row, scoring.backward)
    if forward is None or backward is None:
        return None
    times = 2.0 / _column(row, scoring.forward), 4.0 / _column(row, scoring.backward)
    return math.hypot(times[0] * forward, times[1] * backward) / sum(times)


def delta(candidate: Benchmark, best: Benchmark, scoring: Scoring, *, labels: Sequence[str] = ()) -> Delta:
    """Relative gain of candidate over best, from their rows, on `labels` (default: the candidate's rows).

    Raises MixedEvidence for different engines, commands or machines, FailedRows, and ScoreError for a missing shape.
    """
    same_origin(candidate, best)
    names = tuple(labels) or tuple(row.label for row in candidate.rows)
    new, old = _select_rows(candidate, names), _select_rows(best, names)
    if any(has_backward(a, scoring) != has_backward(b, scoring) for a, b in zip(new, old, strict=True)):
        raise ScoreError(f"only one of the two versions has {scoring.backward}")
    up = higher_wins(scoring)
    pairs = zip(aggregates(new, scoring), aggregates(old, scoring), strict=True)
    metrics = tuple(Named(name=a.name, value=gain(a.value, b.value, up)) for a, b in pairs)
    shapes = tuple(
        ShapeChange(label=a.label, config_class=a.config_class, gain=_row_gain(a, b, scoring))
        for a, b in zip(new, old, strict=True)
    )
    return Delta(gain=choose_decisive_gain([item.value for item in metrics]), metrics=metrics, shapes=shapes)


def choose_decisive_gain(gains: Sequence[float]) -> float:
    """One gain that stands for several independent metrics: none may fall and one must rise."""
    return min(gains) if exceeds(-min(gains), 0.0) else max(gains)


def at_least(value: float, limit: float) -> bool:
    """For rules on scores: value >= limit, where equality in decimals counts."""
    return value >= limit - EDGE


def exceeds(value: float, limit: float) -> bool:
    """For rules on scores: value > limit, where equality in decimals does not."""
    return value > limit + EDGE


def same_origin(candidate: Benchmark, best: Benchmark) -> None:
    """Raises MixedEvidence unless engine, command and machine of two scores agree."""
    for what in ("engine", "source", "machine"):
        ours, theirs = getattr(candidate, what), getattr(best, what)
        if ours != theirs:
            raise MixedEvidence(f"{what}: {ours} of the candidate and {theirs} of the best are never compared")


def _row_gain(candidate: Row, best: Row, scoring: Scoring) -> float:
    up = higher_wins(scoring)
    return min(
        gain(row_score(candidate, scoring, metric=name), row_score(best, scoring, metric=name), up)
        for name in metric_names(scoring)
    )


def _select_rows(benchmark: Benchmark, labels: Sequence[str]) -> list[Row]:
    by_label = {row.label: row for row in benchmark.rows}
    if missing := [label for label in labels if label not in by_label]:
        raise ScoreError(f"{benchmark.level} benchmark of {benchmark.commit[:12]} has no row for {', '.join(missing)}")
    return [by_label[label] for label in labels]


def _relative_spread(row: Row, column: str) -> float | None:
    stddev = next((item.value for item in row.metrics if item.name == f"{column}_stddev"), None)
    if stddev is None or not math.isfinite(stddev):
        return None
    return abs(stddev) / _require_positive(_column(row, column), column)


def _column(row: Row, name: str) -> float:
    """A row's number in a column to score. Raises ScoreError where it has none."""
    try:
        return row.metric(name)
    except KeyError:
        raise ScoreError(f"shape {row.label} has no number in column {name!r}") from None


def _require_positive(value: float, name: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ScoreError(f"{name} is {value}; a measured rate or time is positive and finite")
    return value
