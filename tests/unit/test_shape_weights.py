"""Shapes that count for more in every mean, and shapes that may lose nothing."""

from pathlib import Path

import pytest

from ridgeline.agent.contract_file import load
from ridgeline.graph.limits import Limits
from ridgeline.graph.reports.figures import compute_figures, time_us
from ridgeline.graph.reports.result import shapes_table
from ridgeline.graph.rules.readings import find_lost_shapes
from ridgeline.graph.rules.result import FinalTest, ShapeGain
from ridgeline.graph.rules.score import aggregate, delta
from ridgeline.graph.rules.shapes import ShapeMissing, choose_representative
from ridgeline.graph.stats.paired import run_fixed_test
from ridgeline.graph.stats.sequential import decide_from_pairs, estimate_gain
from ridgeline.graph.verdict import ShapeChange
from tests.builders import METRIC, make_benchmark, make_comparison, make_contract, make_row, make_standing

SHAPES = {"often": ((0.01, 0.01), (0.012, 0.012)), "seldom": ((0.09, 0.09), (0.088, 0.088))}


def weighted(comparison, weights=(), protected=()):
    weights = dict(weights)
    shapes = tuple(
        shape.model_copy(update={"weight": weights.get(shape.label, 1.0), "protected": shape.label in protected})
        for shape in comparison.shapes
    )
    return comparison.model_copy(update={"shapes": shapes})


def test_a_shape_of_three_times_the_weight_counts_three_times():
    plain, often = make_comparison(SHAPES), weighted(make_comparison(SHAPES), {"often": 3.0})
    assert run_fixed_test(plain, alpha=0.01).theta == pytest.approx(0.05)
    assert run_fixed_test(often, alpha=0.01).theta == pytest.approx((3 * 0.011 + 0.089) / 4)


def scored(**fields):
    return make_contract(scoring={"primary_metric": METRIC, **fields})


def test_the_score_takes_the_same_weights():
    rows = [make_row("often", 1.0), make_row("seldom", 8.0)]
    scoring = scored(shape_weights={"often": 2.0}).scoring
    assert aggregate(rows, scoring) == pytest.approx(8 ** (1 / 3))
    faster = make_benchmark(rows=[make_row("often", 2.0), make_row("seldom", 8.0)])
    assert delta(faster, make_benchmark(rows=rows), scoring).gain == pytest.approx(2 ** (2 / 3) - 1)


def test_the_documents_average_as_the_score_does():
    """Seen: a table named `Aggregate (geomean)` that took every shape alike beside gains that did not."""
    contract = scored(shape_weights={"often": 2.0}, time_ms="Time (ms)")
    rows = [
        make_row(label, metrics={METRIC: value, "Time (ms)": 1 / value})
        for label, value in (("often", 1.0), ("seldom", 8.0))
    ]
    told = compute_figures(rows, contract.scoring)
    assert (told.step, told.forward) == (pytest.approx(aggregate(rows, contract.scoring)), pytest.approx(8 ** (1 / 3)))
    assert time_us(rows, contract.scoring) == pytest.approx(1000 / 8 ** (1 / 3))


LOSS = {"a": ((0.08, 0.08),) * 6, "b": ((-0.012, -0.012), (-0.0125, -0.0125), (-0.0115, -0.0115)) * 2}


def test_a_protected_shape_may_lose_nothing():
    """1.2 % is within the guard of 2 % that every other shape has."""
    limits = Limits()
    assert decide_from_pairs(estimate_gain([make_comparison(LOSS)], None, limits), limits) == "faster"
    guarded = weighted(make_comparison(LOSS), protected=("b",))
    assert decide_from_pairs(estimate_gain([guarded], None, limits), limits) == "lost"


def test_a_protected_shape_is_lost_beyond_noise_under_the_other_presets():
    changes = [
        ShapeChange(label="a", config_class="all", gain=0.1),
        ShapeChange(label="b", config_class="all", gain=-0.03),
    ]
    plain, guarded = (scored(protected_shapes=names) for names in ((), ("b",)))
    lost = [
        find_lost_shapes(changes, make_standing(contract=contract), "full", Limits()) for contract in (plain, guarded)
    ]
    assert [[shape.label for shape in shapes] for shapes in lost] == [[], ["b"]]


def test_a_name_that_the_benchmark_lacks_is_told_and_protected_shapes_are_always_measured():
    rows = [make_row(label, 1.0) for label in "abcdefg"]
    guarded = scored(protected_shapes=("b",))
    assert "b" in choose_representative(rows, guarded)
    with pytest.raises(ShapeMissing, match=r"scoring\.shape_weights: the benchmark has no shape 'z'"):
        choose_representative(rows, scored(shape_weights={"z": 2.0}))
    with pytest.raises(ValueError, match="0 is no weight; give a number above 0"):
        scored(shape_weights={"a": 0})


def test_a_task_s_contract_takes_weights_from_its_task(tmp_path: Path, cli):
    assert cli("init", tmp_path / "s", "--task", "softmax_c").code == 0
    file = tmp_path / "s" / "task.yaml"
    text = file.read_text()
    first = next(line for line in text.splitlines() if "label:" in line)
    changed = first.replace("label:", "weight: 3, protected: true, label:") if "{" in first else None
    assert changed is not None, first
    file.write_text(text.replace(first, changed, 1))
    scoring = load(tmp_path / "s").contract.scoring
    assert list(scoring.shape_weights.values()) == [3.0]
    assert scoring.protected_shapes == tuple(scoring.shape_weights)


def test_a_weighted_mean_says_so():
    shape = ShapeGain(label="often", weight=3, original_us=2, best_us=1, speedup=2, lower=1.9, upper=2.1)
    test = FinalTest(speedup=2, lower=1.9, level=0.99, pairs=5, engine="wall", shapes=(shape,))
    assert "often (weight 3)" in shapes_table(test)
    assert "geometric mean, weighted" in shapes_table(test)
