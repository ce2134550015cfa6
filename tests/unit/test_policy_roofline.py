"""Step 0: ridge, floors, efficiency, registered specifications."""

import math
import re

import pytest

from ridgeline.graph.contract import Scoring, Work
from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.formula import FormulaError
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules.roofline import (
    bound_of,
    compute_efficiency,
    compute_shape_roofs,
    compute_shares,
    list_specs,
    ridge,
    stop_conditions,
)
from tests.builders import make_machine, make_row

H100 = Ceilings(copy_gbps=3350.0, flops_gflops=989400.0, method="datasheet of the test", machine="h100")
GEMM = Work(flops="2*M*N*K", bytes="2*(M*K+N*K+M*N)")
SCORING = Scoring(primary_metric="GFLOPS", time_ms="Time (ms)")


def row(label="a", *, size=4096, time_ms=1.0, **more):
    return make_row(label, metrics={"M": size, "N": size, "K": size, "Time (ms)": time_ms, **more})


def roof(bound, floor_us=1.0, label="a"):
    return ShapeRoof(label=label, flops=None, bytes=None, intensity=None, bound=bound, floor_us=floor_us)


def only(work, ceilings=H100, **fields):
    (found,) = compute_shape_roofs((row(**fields),), work, ceilings)
    return found


@pytest.mark.feature("F071")
@pytest.mark.parametrize(
    ("tflops", "tbps", "expected"),
    [(989.4, 3.35, 295.3), (989.4, 4.8, 206.1), (1307.4, 5.3, 246.7), (2500, 8, 312.5), (5033.2, 8, 629)],
)
def test_ridge(tflops, tbps, expected):
    assert ridge(tflops * 1e3, tbps * 1e3) == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize(("peak", "gbps"), [(0, 1), (1, 0), (-1, 1)])
def test_a_ceiling_of_zero_has_no_ridge(peak, gbps):
    with pytest.raises(ValueError, match="zero or negative"):
        ridge(peak, gbps)


@pytest.mark.feature("F071")
def test_gemm_4096_on_h100():
    found = only(GEMM)
    assert found.flops == 2 * 4096**3
    assert found.intensity == pytest.approx(1365.3, abs=0.1)
    assert found.bound == "compute"
    assert found.floor_us == pytest.approx(2 * 4096**3 / 989.4e12 * 1e6)
    assert stop_conditions(H100, 0.9) == ("compute-bound target >= 890.5 TFLOPS", "memory-bound target >= 3.015 TB/s")


def test_small_shapes_are_memory_bound():
    found = only(GEMM, size=64)
    assert found.bound == "memory"
    assert found.floor_us == pytest.approx(2 * 3 * 64**2 / 3350e9 * 1e6)


def test_at_the_ridge_it_is_compute():
    even = Ceilings(copy_gbps=100.0, flops_gflops=200.0, method="m", machine="m")
    (found,) = compute_shape_roofs((row(),), Work(flops="2*M", bytes="M"), even)
    assert (found.intensity, found.bound) == (2.0, "compute")


@pytest.mark.parametrize(
    ("work", "ceilings", "bound", "floor"),
    [
        (Work(), H100, "unknown", None),
        (Work(flops="2*M"), H100, "unknown", 2 * 4096 / 989.4e12 * 1e6),
        (Work(bytes="M"), H100, "unknown", 4096 / 3350e9 * 1e6),
        (GEMM, None, "unknown", None),
        (GEMM, H100.model_copy(update={"copy_gbps": None}), "unknown", 2 * 4096**3 / 989.4e12 * 1e6),
        (GEMM, H100.model_copy(update={"flops_gflops": None}), "unknown", 2 * 3 * 4096**2 / 3350e9 * 1e6),
        (Work(flops="M", bytes="0"), H100, "unknown", 4096 / 989.4e12 * 1e6),
    ],
)
def test_what_is_not_known_stays_unknown(work, ceilings, bound, floor):
    found = only(work, ceilings)
    assert found.bound == bound
    assert found.floor_us == (None if floor is None else pytest.approx(floor))


def test_a_formula_over_a_missing_column_raises():
    with pytest.raises(FormulaError, match="unknown variable 'B'"):
        only(Work(flops="B*M"))


@pytest.mark.parametrize(
    ("roofs", "bound"),
    [
        ((), "unknown"),
        ((roof("memory"), roof("unknown")), "unknown"),
        ((roof("memory", 3.0), roof("compute", 1.0)), "memory"),
        ((roof("memory", 1.0), roof("compute", 1.0)), "compute"),
    ],
)
def test_bound_of_a_set(roofs, bound):
    assert bound_of(roofs) == bound


@pytest.mark.feature("F068", "F069")
def test_specifications_are_registered_with_their_source_or_unknown():
    machine = make_machine(l3_bytes=None)
    texts = {spec.metric: spec.text for spec in list_specs(H100, machine)}
    assert texts["copy bandwidth"] == "copy bandwidth: 3350 GB/s <- measured here: datasheet of the test"
    assert texts["L1d cache capacity"].startswith("L1d cache capacity: 32 KiB <- reported by this machine's system")
    assert texts["L3 cache capacity"] == "L3 cache capacity: UNKNOWN (gpu-wiki not found)"
    assert all(re.fullmatch(r".+: (?:UNKNOWN \(.+\)|[0-9.e+]+ \S+ <- .+)", text) for text in texts.values())
    assert list_specs(None, machine)[0].text == "copy bandwidth: UNKNOWN (gpu-wiki not found)"
    assert list_specs(None, machine)[1].value is None


@pytest.mark.feature("F069")
def test_stop_conditions_without_specifications_are_unknown():
    unknown = tuple(f"{kind}-bound target: UNKNOWN (gpu-wiki not found)" for kind in ("compute", "memory"))
    assert stop_conditions(None, 0.9) == unknown


def test_efficiency_is_the_geometric_mean_of_the_shares():
    rows = (row("a", time_ms=0.5), row("b", time_ms=0.25))
    roofs = (roof("memory", 100.0, "a"), roof("memory", 200.0, "b"))
    assert compute_shares(rows, roofs, SCORING) == pytest.approx({"a": 0.2, "b": 0.8})
    assert compute_efficiency(rows, roofs, SCORING, H100) == pytest.approx(math.sqrt(0.2 * 0.8))


@pytest.mark.parametrize(
    ("rows", "roofs", "scoring", "ceilings"),
    [
        ((row(),), (roof("memory"),), SCORING, None),
        ((), (), SCORING, H100),
        ((row(),), (roof("memory"),), Scoring(primary_metric="GFLOPS"), H100),
        ((row(),), (roof("memory", None),), SCORING, H100),
        ((row(),), (roof("memory", label="b"),), SCORING, H100),
        ((row(time_ms=0.0),), (roof("memory"),), SCORING, H100),
        ((make_row("a", metrics={"M": 1.0}),), (roof("memory"),), SCORING, H100),
        # 1.06 of the roof: the data never left the cache
        ((row(time_ms=1.0),), (roof("memory", 1060.0),), SCORING, H100),
    ],
)
def test_efficiency_that_cannot_be_said(rows, roofs, scoring, ceilings):
    assert compute_efficiency(rows, roofs, scoring, ceilings) is None


def test_a_little_above_the_roof_is_noise():
    assert compute_efficiency((row(time_ms=1.0),), (roof("memory", 1040.0),), SCORING, H100) == pytest.approx(1.04)


def test_a_copy_has_no_arithmetic_and_is_bound_by_memory():
    found = only(Work(flops="0*M", bytes="M"))
    assert (found.bound, found.intensity) == ("memory", 0.0)
    assert found.floor_us == pytest.approx(4096 / 3350e9 * 1e6)
