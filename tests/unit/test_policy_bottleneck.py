"""Bottleneck classes from counters, and from times alone."""

import pytest

from ridgeline.graph.contract import Scoring, Work
from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules.bottleneck import classify_bottleneck, classify_by_timing
from ridgeline.graph.rules.roofline import compute_shape_roofs
from tests.builders import make_profiled, make_row

SCORING = Scoring(primary_metric="GFLOPS", time_ms="Time (ms)")
CEILINGS = Ceilings(copy_gbps=10.0, flops_gflops=100.0, method="m", machine="m")
GEMM = Work(flops="2*M*N*K", bytes="4*(M*K+N*K+M*N)")


def counters(**values):
    return classify_bottleneck(make_profiled(values), (), (), SCORING)


@pytest.mark.feature("F062")
@pytest.mark.parametrize(
    ("values", "label", "word"),
    [
        ({"spills": 3}, "resource", "spills 3"),
        ({"spills": 0, "gpu_busy_pct": 29}, "launch", "gpu_busy_pct 29"),
        ({"gpu_busy_pct": 30, "dram_pct": 60}, "memory", "near its peak"),
        ({"dram_pct": 59, "occupancy": 24}, "resource", "occupancy 24"),
        ({"occupancy": 25, "dram_pct": 29, "compute_pct": 39}, "latency", "neither is busy"),
        ({"dram_pct": 30, "compute_pct": 39}, "compute", "arithmetic leads"),
        ({"dram_pct": 50, "compute_pct": 40}, "memory", "data movement leads"),
        ({"instructions": 1000, "ll_misses": 10}, "memory", "ll_misses 10.0"),
        ({"instructions": 1000, "ll_misses": 9, "d1_misses": 30, "cycles": 1001}, "memory", "d1_misses 30.0"),
        ({"instructions": 1000, "d1_misses": 29, "branch_misses": 5}, "latency", "branch_misses 5.0"),
        (
            {"instructions": 1000, "branch_misses": 4, "vectorized_loops": 0, "missed_vectorizations": 2},
            "compute",
            "missed_vectorizations 2",
        ),
        ({"instructions": 1000, "vectorized_loops": 1, "cycles": 1001}, "latency", "1.00 instructions per cycle"),
        ({"instructions": 1000, "vectorized_loops": 1, "cycles": 1000}, "compute", "instructions 1000"),
        ({"instructions": 1000}, "compute", "instructions 1000"),
        ({"vectorized_loops": 0, "missed_vectorizations": 2}, "compute", "scalar loops"),
    ],
)
def test_counters_decide(values, label, word):
    found, chain = counters(**values)
    assert found == label
    assert word in chain
    assert chain.count(" -> ") == 2
    assert chain.endswith("(cachegrind)")


@pytest.mark.feature("F087")
@pytest.mark.parametrize(
    "profiled",
    [
        None,
        make_profiled({"kernel_time_us": 5.0}, rung="timing_only"),
        make_profiled({"vectorized_loops": 0, "missed_vectorizations": 0}),
        make_profiled({"vectorized_loops": 2, "missed_vectorizations": 1}),
        make_profiled({"instructions": 0.0}),
        make_profiled({"dram_pct": 50.0}),
        make_profiled({"compute_pct": 50.0}),
    ],
)
def test_a_claim_without_counters_says_so(profiled):
    label, chain = classify_bottleneck(profiled, (), (), SCORING)
    assert label == "unknown"
    assert "rests on timing alone" in chain


def timed(*shapes, scoring=SCORING, work=GEMM, ceilings=None):
    """shapes: (M, N, K, GFLOP/s)."""
    rows = tuple(
        make_row(
            f"s{n}", metrics={"M": m, "N": cols, "K": k, "GFLOPS": rate, "Time (ms)": 2 * m * cols * k / rate / 1e6}
        )
        for n, (m, cols, k, rate) in enumerate(shapes)
    )
    return classify_by_timing(compute_shape_roofs(rows, work, ceilings), rows, scoring)


@pytest.mark.feature("F062")
@pytest.mark.parametrize(
    ("shapes", "label"),
    [
        # the rate grows with the shape, and the smallest call is about as short as a launch: 9.99 us
        (((64, 64, 64, 52.5), (128, 128, 128, 105), (256, 256, 256, 210)), "launch"),
        # no launch takes 10 us
        (((64, 64, 64, 52.4), (128, 128, 128, 105), (256, 256, 256, 210)), "latency"),
        # grows with K, whatever the size
        (((512, 512, 64, 10), (64, 64, 128, 20), (128, 128, 256, 40)), "memory"),
        # too few shapes for a trend
        (((64, 64, 64, 10), (128, 128, 128, 20)), "unknown"),
        # spread without a trend
        (((64, 64, 64, 40), (128, 128, 128, 10), (256, 256, 256, 30)), "unknown"),
        # one size: nothing to grow with
        (((64, 64, 64, 10), (64, 64, 64, 20), (64, 64, 64, 40)), "unknown"),
        # uniform, and no ceiling to compare with
        (((64, 64, 64, 10), (128, 128, 128, 10), (256, 256, 256, 10)), "unknown"),
        ((), "unknown"),
    ],
)
def test_trends(shapes, label):
    assert timed(*shapes)[0] == label


@pytest.mark.parametrize("rates", [(10, 14.9, 10), (59, 59, 59)])
def test_uniformly_low_is_compute(rates):
    shapes = [(256, 256, 256, rate) for rate in rates]
    label, chain = timed(*shapes, ceilings=CEILINGS)
    assert (label, "the instruction stream leads" in chain) == ("compute", True)


@pytest.mark.parametrize(
    ("shapes", "label", "word"),
    [
        (((256, 256, 256, 60),), "compute", "some time goes elsewhere"),
        (((256, 256, 256, 86),), "compute", "at the peak -> only less work"),
        (((4096, 4096, 1, 4.5),), "memory", "s0 90 % of the memory peak -> at the peak"),
        (((256, 256, 256, 50), (256, 256, 256, 70)), "compute", "s0 50 % of the compute peak -> the instruction"),
        (((256, 256, 256, 106),), "unknown", ""),
    ],
)
def test_near_the_roof(shapes, label, word):
    found, chain = timed(*shapes, ceilings=CEILINGS)
    assert found == label
    assert word in chain


def test_shapes_of_two_peaks_are_never_compared_by_their_rates():
    """As recorded: products of few rows read B at a seventh of the memory peak, large ones compute at a third."""
    shapes = ((4096, 4096, 1, 0.7), (4096, 4096, 1, 2.1), (512, 512, 512, 31), (512, 512, 2048, 34))
    label, chain = timed(*shapes, ceilings=CEILINGS)
    assert label == "latency"
    assert (
        "s0 14 %, s1 42 % of the memory peak in 1.6e+04 us or more -> shapes differ, so too few loads are in flight"
        in chain
    )
    assert "; s2 31 %, s3 34 % of the compute peak -> the instruction stream leads" in chain


@pytest.mark.parametrize(("us", "label"), [(9.9, "launch"), (10.0, "unknown")])
def test_only_a_call_as_short_as_a_launch_is_blamed_on_one(us, label):
    row = make_row("s", metrics={"GFLOPS": 1.0, "Time (ms)": us / 1e3})
    roof = ShapeRoof(label="s", flops=1.0, bytes=1.0, intensity=1.0, bound="memory", floor_us=us / 2)
    assert classify_by_timing((roof,), (row,), SCORING)[0] == label


def test_a_low_share_of_memory_alike_in_all_shapes_may_be_passes_that_nobody_counted():
    label, chain = timed((4096, 4096, 1, 1.3), (2048, 4096, 1, 1.4), ceilings=CEILINGS)
    assert label == "unknown"
    assert "more passes over memory are made than the least that is counted" in chain


def test_many_shapes_are_counted():
    shapes = [(256, 256, 256, rate) for rate in (30, 31, 32, 33, 34, 35)]
    chain = timed(*shapes, ceilings=CEILINGS)[1]
    assert "s0, s1, s2, s3 and 2 more reach 30 to 35 % of the compute peak" in chain


def test_a_throughput_metric_stands_in_for_a_missing_time():
    scoring = Scoring(primary_metric="GFLOPS")
    assert timed((64, 64, 64, 10), (128, 128, 128, 20), (256, 256, 256, 40), scoring=scoring)[0] == "latency"
    lower = Scoring(primary_metric="GFLOPS", higher_is_better=False)
    assert timed((64, 64, 64, 10), (128, 128, 128, 20), (256, 256, 256, 40), scoring=lower)[0] == "unknown"


def test_bytes_count_as_work_where_there_are_no_operations():
    shapes = ((64, 64, 64, 10), (128, 128, 128, 40), (256, 256, 256, 90))
    assert timed(*shapes, work=Work(bytes="4*M*N"))[0] == "latency"
    assert timed(*shapes, work=Work())[0] == "unknown"


def test_rows_without_a_roof_are_left_out():
    rows = (make_row("a"), make_row("b"), make_row("c"))
    other = ShapeRoof(label="z", flops=1.0, bytes=1.0, intensity=1.0, bound="memory", floor_us=1.0)
    assert classify_by_timing((other,), rows, SCORING)[0] == "unknown"
