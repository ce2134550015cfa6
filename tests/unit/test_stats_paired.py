"""Paired statistics: the interval is that of a t test over process pairs, and it fails closed."""

import math
import statistics

import pytest
from scipy import stats

from ridgeline.graph.evidence import MixedEvidence
from ridgeline.graph.stats.paired import (
    FLOOR_SD,
    PairedError,
    check_samples,
    compute_block_scatter,
    merge_comparisons,
    run_fixed_test,
)
from tests.builders import make_comparison

PAIRS = ((0.04, 0.06), (0.02, 0.04), (0.05, 0.07), (0.03, 0.03))
MEANS = [0.05, 0.03, 0.06, 0.03]


def test_bounds_are_those_of_a_one_sided_t_test():
    found = run_fixed_test(make_comparison({"a": PAIRS}), alpha=0.01)
    error = statistics.stdev(MEANS) / 2
    assert found.theta == pytest.approx(0.0425)
    assert found.lower == pytest.approx(0.0425 - stats.t.ppf(0.99, 3) * error)
    assert found.upper == pytest.approx(0.0425 + stats.t.ppf(0.99, 3) * error)
    assert found.pairs == 4


def test_the_aggregate_is_the_mean_over_shapes():
    found = run_fixed_test(make_comparison({"a": PAIRS, "b": tuple((-x, -x) for x in MEANS)}), alpha=0.01)
    assert found.theta == pytest.approx(0.0, abs=1e-12)


def test_blocks_of_a_pair_are_trimmed_and_never_counted_as_replication():
    few = run_fixed_test(make_comparison({"a": ((0.01, 0.01, 0.01, 0.41), (0.01,) * 4)}), alpha=0.05)
    many = run_fixed_test(make_comparison({"a": ((0.01, 0.01, 0.01, 0.01, 0.41), (0.01,) * 5)}), alpha=0.05)
    assert few.theta == pytest.approx(0.06)
    assert many.theta == pytest.approx(0.01)
    assert few.pairs == many.pairs == 2


def test_one_pair_proves_nothing():
    found = run_fixed_test(make_comparison({"a": ((0.5, 0.5),)}), alpha=0.01)
    assert (found.lower, found.upper) == (-math.inf, math.inf)


def test_identical_samples_keep_a_floor():
    found = run_fixed_test(make_comparison({"a": ((0.012,), (0.012,), (0.012,))}), alpha=0.01)
    assert found.theta - found.lower == pytest.approx(stats.t.ppf(0.99, 2) * FLOOR_SD / math.sqrt(3))
    assert math.expm1(found.lower) < 0.01


def test_scatter_is_how_far_blocks_lie_from_their_pairs_median():
    shapes = make_comparison({"a": ((0.0, 0.01, 0.02), (0.5, 0.5, 0.5)), "b": ((0.0,), (0.0,))}).shapes
    assert compute_block_scatter(shapes[:1]) == pytest.approx(0.02 / 6)
    assert compute_block_scatter(shapes) == pytest.approx(0.02 / 6 / math.sqrt(2))


def test_merging_pools_pairs_and_weights_times():
    more = make_comparison({"a": ((0.0, 0.0),)}, dropped_blocks=2, seconds=3.0)
    more = more.model_copy(update={"shapes": (more.shapes[0].model_copy(update={"best_us": 200.0}),)})
    merged = merge_comparisons((make_comparison({"a": PAIRS[:3]}), more))
    assert [len(shape.pairs) for shape in merged.shapes] == [4]
    assert merged.shapes[0].best_us == pytest.approx(125.0)
    assert (merged.dropped_blocks, merged.seconds) == (2, 4.0)
    assert merge_comparisons((more,)) is more


@pytest.mark.feature("F019")
@pytest.mark.parametrize(
    "other",
    [{"best": "x"}, {"candidate": "x"}, {"machine": "x"}, {"engine": "event"}, {"pairs": {"other": ((0.0,),)}}],
)
def test_pairs_of_other_versions_or_machines_are_never_pooled(other):
    with pytest.raises(MixedEvidence):
        merge_comparisons((make_comparison({"a": PAIRS}), make_comparison(**{"pairs": {"a": PAIRS}, **other})))


@pytest.mark.parametrize(
    ("comparisons", "match"),
    [
        ((), "no comparison"),
        ((make_comparison({"a": ()}),), "without a single block"),
        ((make_comparison({"a": ((0.1,), ())}),), "without a single block"),
        ((make_comparison({"a": ((math.nan,), (0.1,))}),), "not finite"),
        ((make_comparison({"a": ((0.1,), (0.1,)), "b": ((0.1,),)}),), "same number"),
    ],
)
def test_samples_without_an_estimate_raise(comparisons, match):
    with pytest.raises(PairedError, match=match):
        check_samples(merge_comparisons(comparisons))


def test_pooling_batches_without_pairs_fails_closed():
    empty = make_comparison({"a": ()})
    with pytest.raises(PairedError):
        check_samples(merge_comparisons((empty, empty)))
