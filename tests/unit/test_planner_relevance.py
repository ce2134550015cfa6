"""What of the knowledge is about another machine, format or operator, and what scores are made of."""

import pytest

from ridgeline.agent.planner.measurements import (
    counted_work,
    describe_score,
    of_score,
    profile_of,
    split_chains,
    timed_by,
)
from ridgeline.agent.planner.tools import alien, of_other_dtype, relevant
from ridgeline.graph.briefing import ShapeNow
from ridgeline.graph.contract import Profile, Scoring, Work
from ridgeline.graph.evidence import Origin
from ridgeline.graph.kernel_profile import KernelProfile, LaunchShape
from ridgeline.graph.values import Prediction
from ridgeline.knowledge.search import Hit
from tests.builders import make_contract, make_hypothesis, make_machine, make_profiled, make_target
from tests.catalog_briefs import brief

SHAPES = tuple(
    ShapeNow(label=label, config_class=name, original=1.0, best=1.0, original_us=1.0, best_us=1.0)
    for label, name in (("a", "r=large"), ("b", "r=large"), ("c", "r=decode"), ("d", "r=decode"))
)


def told(op="gemm_gelu", *, kind="nvidia", dtype="bf16", description="", **fields):
    target = make_target(target_op=op, dtype=dtype)
    contract = make_contract(description=description)
    return brief({}, target=target, machine=make_machine(kind=kind, arch="sm_90"), contract=contract, **fields)


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("Run all groups of a grouped product in one kernel", {}, True),
        ("Run all groups of a grouped product in one kernel", {"op": "moe_gemm"}, False),
        ("Scan with decoupled look-back", {"op": "cumsum", "description": "of each row of a matrix"}, True),
        ("Scan with decoupled look-back", {"op": "cumsum", "description": "of one long vector"}, False),
        ("FP8 with block scales", {}, True),
        ("FP8 with block scales", {"dtype": "fp8_e4m3"}, False),
        ("FP8 with block scales", {"dtype": "fp64"}, True),
        ("MFMA 32x32 on CDNA3", {}, True),
        ("MFMA 32x32 on CDNA3", {"kind": "amd"}, False),
        ("TMA loads on Hopper", {}, False),
        ("TMA loads on Hopper", {"kind": "amd"}, True),
        ("they read the same operand tiles", {"op": "cumsum"}, True),
        ("they read the same operand tiles", {}, False),
        ("Split the inner dimension over several blocks", {}, False),
    ],
)
def test_what_is_about_something_else(text, fields, expected):
    assert alien(text, told(**fields)) is expected


def hit(excerpt, *, path="knowledge/ops/gemm/directions.md", heading="Loops"):
    return Hit(id="a", path=path, line=1, heading=heading, excerpt=excerpt, score=1.0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (hit("- one\n- two"), "- one\n- two"),
        (hit("- one\n- on gfx950 it differs\n- two"), "- one\n- two"),
        (hit("- on gfx950 it differs\n- and on MI300X\n- two"), None),
        (hit("- one", heading="FP8 with block scales"), None),
        (hit("- one", path="knowledge/ops/softmax/notes.md"), None),
        (hit("[...]"), None),
    ],
)
def test_of_a_section_the_lines_that_fit_are_kept(given, kept):
    found = relevant(given, told())
    assert (found.excerpt if found else None) == kept


@pytest.mark.parametrize(
    ("metric", "dtype", "expected"),
    [
        ("fp32_vector", "bf16", True),
        ("fp32_vector", "fp32", False),
        ("bf16_dense", "bf16", False),
        ("tf32_dense", "fp32", True),
        ("hbm_bandwidth", "bf16", False),
    ],
)
def test_peaks_of_other_formats_are_not_shown(metric, dtype, expected):
    assert of_other_dtype(metric, dtype) is expected


@pytest.mark.parametrize(
    ("target_class", "speedup", "said"),
    [
        ("global", 1.5, "of every shape, so of the score: 1.5x"),
        ("r=decode", 4.0, "of c, d; so the score 2x (computed: 2 of 4 shapes)"),
        ("b, c", 4.0, "of b, c; so the score 2x (computed: 2 of 4 shapes)"),
        ("r=none", 4.0, ""),
        ("r=decode", None, ""),
    ],
)
def test_what_a_prediction_makes_of_the_score(target_class, speedup, said):
    expected = Prediction(counter="x", direction="up", speedup=speedup)
    scoring = Scoring(primary_metric="GFLOPS")
    assert of_score(make_hypothesis(target_class=target_class, prediction=expected), SHAPES, scoring) == said


def test_weights_and_protected_shapes_are_told_and_counted():
    """Seen: the page called the score a mean of equal shapes, and computed what a speedup makes of it so."""
    scoring = Scoring(primary_metric="GFLOPS", shape_weights={"c": 3, "a": 1}, protected_shapes=("b",))
    expected = Prediction(counter="x", direction="up", speedup=4.0)
    of_c = of_score(make_hypothesis(target_class="c", prediction=expected), SHAPES, scoring)
    assert of_c == "of c; so the score 2x (computed: 1 of 4 shapes, by their weights)"
    about = told(shapes=SHAPES)
    contract = about.contract.model_copy(update={"scoring": scoring})
    said = describe_score(about.model_copy(update={"contract": contract}))
    assert "over the 4 shapes, weighted (c 3; every other 1), of which b may lose nothing, of GFLOPS" in said


@pytest.mark.parametrize(
    ("scoring", "said"),
    [
        (Scoring(primary_metric="GFLOPS"), "geometric mean over the 4 shapes of GFLOPS, higher is better; the best"),
        (Scoring(primary_metric="ms", higher_is_better=False), "of ms, lower is better"),
        (Scoring(primary_metric=("A", "B")), "of A and B; none of them may fall"),
        (Scoring(primary_metric="x", forward="F", backward="B", higher_is_better=False), "6 / (2 / F + 4 / B), higher"),
    ],
)
def test_how_the_score_is_made(scoring, said):
    about = told(shapes=SHAPES)
    contract = about.contract.model_copy(update={"scoring": scoring})
    assert said in describe_score(about.model_copy(update={"contract": contract}))


def test_what_the_clock_counts_is_told_where_something_is_launched():
    assert "launches are in it" in timed_by(told())
    assert timed_by(told(kind="cpu")) == ""


def test_the_work_that_shares_count_is_told():
    contract = make_contract(work=Work(flops="2*M", bytes="4*M"))
    assert counted_work(contract).startswith("operations 2*M, bytes 4*M: the least")
    assert counted_work(make_contract(work=Work())) == ""


def test_a_profile_says_what_it_is_of_and_begins_with_what_limits_a_patch():
    about = told(
        profile=make_profiled({"dram_pct": 40.0, "registers": 128.0}), bottleneck_evidence="a 1 -> b -> c; d -> e -> f"
    )
    contract = about.contract.model_copy(update={"profile": Profile(command=("bench", "--profile", "big"))})
    lines = profile_of(about.model_copy(update={"contract": contract})).splitlines()
    assert lines[:3] == ["bottleneck: memory", "because: a 1 -> b -> c", "because: d -> e -> f"]
    assert lines[3].endswith("of one command: bench --profile big")
    assert lines[4:6] == ["registers = 128", "dram_pct = 40, device memory alone"]


def test_a_profile_names_the_kernel_that_its_counters_are_of():
    kernel = KernelProfile(
        vendor="nvidia", arch="sm_90", kernel="decode_merge(float*)", display="decode_merge", key="0", category="compute",
        launched=LaunchShape(calls=9), calls=9,
    )  # fmt: skip
    profile = make_profiled({"dram_pct": 40.0}).model_copy(update={"kernel": kernel})
    assert ", of the kernel decode_merge" in profile_of(told(profile=profile))


def test_a_line_for_each_chain_whatever_semicolons_it_has():
    times = "decode 42 % in 92.8 us or more -> few loads in flight; no launch takes so long -> more blocks"
    counted = "mem.pct_of_peak 0.8 (high from 0.6) [here; counters] -> memory_bound/hbm, high -> compare the bytes; then tiles (ncu)"
    assert split_chains(f"{times}; sq 32 % -> leads -> larger tiles") == [times, "sq 32 % -> leads -> larger tiles"]
    assert split_chains(f"{counted}; {times}") == [counted, times]
    assert split_chains("no counter says why; none was read") == ["no counter says why; none was read"]


def test_a_number_under_several_names_stands_there_once_and_the_names_can_be_predicted():
    told_by = {"dram_pct": "mem.pct_of_peak 1", "mem_throughput": "mem.pct_of_peak: mem.pct_of_peak 1"}
    profile = make_profiled(
        {"MfmaUtil": 90.0, "mfma_util": 90.0, "dram_pct": 86.1, "mem_throughput": 86.1, "calls": 90.0}
    )
    origins = tuple(Origin(name=name, rung="counters", source=source) for name, source in told_by.items())
    lines = profile_of(told(profile=profile.model_copy(update={"origins": origins}))).splitlines()
    assert [line for line in lines if "90" in line] == ["MfmaUtil = mfma_util = 90", "calls = 90"]
    assert [line for line in lines if "86.1" in line] == ["dram_pct = mem_throughput = 86.1 (counters)"]
    assert "`prediction.counter` takes one name of these, `score` or `time`" in lines
    apart = profile_of(told(profile=make_profiled({"dram_pct": 40.0, "mem_throughput": 70.0}))).splitlines()
    assert "dram_pct = 40, device memory alone" in apart
    assert "mem_throughput = 70, the busiest part of the memory system, caches too" in apart


def test_a_bottleneck_from_times_alone_is_called_a_hint():
    about = told(bottleneck_evidence="a -> b -> c (rests on timing alone: no counter of the kernel was read)")
    text = profile_of(about)
    assert text.startswith("bottleneck (a hint: it rests on times alone, no counter of the kernel was read): memory")
    assert text.endswith(
        "because: a -> b -> c\nno profile of the best version, so `prediction.counter` is `score` or `time`"
    )


def test_the_time_of_a_processors_profile_is_told_apart_from_what_is_measured():
    counters = {"kernel_time_us": 382.4, "calls": 3.0}
    (line,) = [
        line
        for line in profile_of(told(profile=make_profiled(counters, rung="compiler_report"))).splitlines()
        if line.startswith("kernel_time_us")
    ]
    assert (
        line
        == "kernel_time_us = 382.4, of a few first calls in a process of their own: no measurement, the shapes' times are"
    )
    assert "no measurement" not in profile_of(told(profile=make_profiled(counters, rung="ncu")))
