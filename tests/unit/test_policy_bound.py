"""What bounds a kernel: every rule at its boundary, the order of the rules, flags, confidence, advice."""

import pytest

from ridgeline.graph.kernel_profile import KernelProfile, LaunchShape, ProfileNumber, StallShare
from ridgeline.graph.rules.bound import Thresholds, classify_bound


def profile(numbers=None, *, stalls=None, **changes):
    """A kernel of 100 us that fills its GPU, with what is given on top; a number of None is not told."""
    told = {"time.median_ns": 100_000, "occ.fill_waves": 4, **(numbers or {})}
    known = {
        "vendor": "nvidia", "arch": "sm_90", "kernel": "k", "display": "k", "key": "0", "category": "compute",
        "launched": LaunchShape(calls=9), "calls": 9, "grade": "trace",
    }  # fmt: skip
    return KernelProfile(
        **{**known, **changes},
        numbers=tuple(
            ProfileNumber(name=name, value=value, source="here", rung="counters")
            for name, value in told.items()
            if value is not None
        ),
        stalls=tuple(StallShare(stall=name, share=share, basis="wave_time") for name, share in (stalls or {}).items()),
    )


def loads(memory, compute):
    return {"mem.pct_of_peak": memory, "comp.matrix_busy": compute}


@pytest.mark.parametrize(
    ("numbers", "bound", "subclass"),
    [
        ({"time.median_ns": 4_999, "time.gap_before_ns": 4_999}, "launch_bound", "short"),
        ({"time.median_ns": 5_000, "time.gap_before_ns": 5_000}, "mixed", ""),
        ({"time.median_ns": 4_999, "time.gap_before_ns": 4_998}, "mixed", ""),
        ({"time.median_ns": 4_999}, "launch_bound", "short"),
        ({"time.gap_before_ns": 100_000, "time.busy_of_span": 0.29}, "host_bound", ""),
        ({"time.gap_before_ns": 100_000, "time.busy_of_span": 0.30}, "mixed", ""),
        ({"time.gap_before_ns": 99_999, "time.busy_of_span": 0.01}, "mixed", ""),
        ({"time.gap_before_ns": 100_000, "time.busy_of_span": 0.01, **loads(0.9, 0.1)}, "memory_bound", "hbm"),
        ({"time.helpers_of_span": 0.51, **loads(0.9, 0.1)}, "not_compute", "helpers"),
        ({"time.helpers_of_span": 0.50, **loads(0.9, 0.1)}, "memory_bound", "hbm"),
        ({"occ.fill_waves": 0.99}, "under_filled", "grid"),
        ({"occ.fill_waves": 1.0, **loads(0.1, 0.1)}, "latency_bound", ""),
        ({"occ.fill_waves": 1.49}, "under_filled", "tail"),
        ({"occ.fill_waves": 1.5, **loads(0.1, 0.1)}, "latency_bound", ""),
        ({"occ.fill_waves": 2.1, **loads(0.1, 0.1)}, "latency_bound", ""),
        ({"occ.fill_waves": 0.5, **loads(0.1, 0.8)}, "compute_bound", "matrix"),
        (loads(0.60, 0.50), "memory_bound", "hbm"),
        (loads(0.59, 0.10), "latency_bound", ""),
        (loads(0.65, 0.56), "mixed", ""),
        (loads(0.70, 0.60), "memory_bound", "hbm"),
        (loads(0.69, 0.60), "balanced", ""),
        (loads(0.60, 0.60), "balanced", ""),
        (loads(0.50, 0.60), "compute_bound", "matrix"),
        (loads(0.51, 0.60), "mixed", ""),
        (loads(0.599, 0.599), "latency_bound", ""),
        ({**loads(0.9, None)}, "memory_bound", "hbm"),
        ({**loads(None, 0.2)}, "mixed", ""),
        ({**loads(0.2, None)}, "mixed", ""),
        ({**loads(0.8, 0.1), "mem.l2_hit": 0.81, "sol.l2": 0.6}, "memory_bound", "l2"),
        ({**loads(0.8, 0.1), "mem.l2_hit": 0.80, "sol.l2": 0.6}, "memory_bound", "hbm"),
        ({**loads(0.8, 0.1), "mem.l2_hit": 0.81, "sol.l2": 0.59}, "memory_bound", "hbm"),
        ({**loads(0.8, 0.1), "mem.dram_of_requests": 0.49}, "memory_bound", "fabric"),
        ({"sol.memory": 0.7, "sol.compute": 0.2}, "memory_bound", "hbm"),
        ({"mem.pct_of_peak": 0.59, "sol.memory": 0.7, "sol.compute": 0.2}, "memory_bound", "l1"),
        ({"mem.pct_of_peak": 0.59, "sol.memory": 0.7, "sol.compute": 0.2, "sol.l2": 0.6}, "memory_bound", "l2"),
        ({"mem.pct_of_peak": 0.1, "comp.pct_of_peak": 0.7}, "compute_bound", "vector"),
        ({"time.median_ns": None, "occ.fill_waves": None, **loads(0.1, 0.1)}, "latency_bound", ""),
        ({"mem.pct_of_peak": 0.1, "comp.vector_busy": 0.7, "comp.matrix_busy": 0.1}, "compute_bound", "vector"),
        ({"mem.pct_of_peak": 0.1, "sol.compute": 0.8, "comp.sfu_busy": 0.7}, "compute_bound", "sfu"),
        ({**loads(0.3, 0.3), "regs.scratch_bytes_per_thread": 4}, "resource_bound", "spills"),
        ({**loads(0.3, 0.3), "regs.spill_ops": 0}, "latency_bound", ""),
        ({**loads(0.8, 0.3), "regs.spill_ops": 9}, "memory_bound", "hbm"),
    ],
)
def test_classes_at_their_boundaries(numbers, bound, subclass):
    found = classify_bound(profile(numbers))
    assert (found.bound, found.subclass) == (bound, subclass)


@pytest.mark.parametrize(
    ("stalls", "subclass"),
    [
        ({"mem_wait": 0.20, "issue": 0.8}, "global_latency"),
        ({"mem_wait": 0.19, "issue": 0.8}, ""),
        ({"mem_issue": 0.15, "store": 0.10}, "memory_pipe"),
        ({"lds_wait": 0.15, "lds_issue": 0.10}, "shared"),
        ({"barrier": 0.3, "mem_wait": 0.29}, "barrier"),
        ({"dependency": 0.2, "matrix": 0.2, "mem_wait": 0.3}, "dependency"),
        ({"smem_wait": 0.5}, "scalar_load"),
        ({"lgkm_wait": 0.3}, "scalar_or_shared"),
        ({"tail": 0.42, "mem_wait": 0.3}, "tail"),
        ({"not_selected": 0.9}, ""),
    ],
)
def test_what_a_latency_bound_kernel_waits_for(stalls, subclass):
    found = classify_bound(profile(loads(0.2, 0.2), stalls=stalls))
    assert (found.bound, found.subclass) == ("latency_bound", subclass)


@pytest.mark.parametrize(
    ("changes", "subclass"),
    [
        ({"validators": (("att_sum", False), ("hits", True))}, "checks"),
        ({"calls": 2}, "few_calls"),
    ],
)
def test_what_proves_nothing_has_no_class(changes, subclass):
    found = classify_bound(profile(**changes))
    assert (found.bound, found.subclass, found.confidence) == ("invalid", subclass, "low")


def test_one_replayed_launch_is_enough_where_counters_were_read():
    assert classify_bound(profile(loads(0.9, 0.1), calls=1, grade="replay")).bound == "memory_bound"


@pytest.mark.parametrize("category", ["comm", "copy", "fill", "rng", "runtime"])
def test_a_helper_is_not_the_kernel(category):
    assert classify_bound(profile(loads(0.9, 0.1), category=category)).bound == "not_compute"


@pytest.mark.parametrize(
    ("numbers", "stalls", "flag", "raised"),
    [
        ({**loads(0.8, 0.1), "regs.spill_ops": 1}, {}, "spills", True),
        ({"occ.theoretical": 0.24, **loads(0.2, 0.2)}, {"mem_wait": 0.2}, "low_occupancy", True),
        ({"occ.theoretical": 0.25, **loads(0.2, 0.2)}, {"mem_wait": 0.2}, "low_occupancy", False),
        ({"occ.theoretical": 0.125, **loads(0.2, 0.2)}, {"mem_wait": 0.19}, "low_occupancy", False),
        ({"shm.conflict_rate": 0.05}, {}, "bank_conflicts", True),
        ({"shm.conflict_rate": 0.049}, {}, "bank_conflicts", False),
        ({"mem.sectors_per_request": 16}, {}, "uncoalesced", False),
        ({"mem.sectors_per_request": 16.1}, {}, "uncoalesced", True),
        ({"mem.sectors_over_ideal": 2.1}, {}, "uncoalesced", True),
        ({"launch.variants": 2}, {}, "name_variant_mix", True),
        (loads(0.8, 0.1), {"mem_wait": 0.1, "mem_issue": 0.09}, "suspicious_bytes", True),
        (loads(0.8, 0.1), {"mem_wait": 0.1, "mem_issue": 0.1}, "suspicious_bytes", False),
        (loads(0.8, 0.1), {}, "suspicious_bytes", False),
        (loads(0.1, 0.8), {"mem_wait": 0.51}, "suspicious_waits", True),
        (loads(0.1, 0.8), {"mem_wait": 0.50}, "suspicious_waits", False),
        (loads(None, 0.1), {}, "memory_unknown", True),
        (loads(0.1, None), {}, "compute_unknown", True),
    ],
)
def test_flags(numbers, stalls, flag, raised):
    found = classify_bound(profile(numbers, stalls=stalls))
    assert (flag in found.flags) is raised
    assert found.next


@pytest.mark.parametrize(("name", "raised"), [("gemm_bf16_tn", True), ("softmax_kernel", False)])
def test_a_matrix_product_without_matrix_instructions(name, raised):
    assert ("matrix_unused" in classify_bound(profile(loads(0.3, 0.0), kernel=name)).flags) is raised


SPREAD = {"time.min_ns": 98_000, "time.max_ns": 107_900}


@pytest.mark.parametrize(
    ("numbers", "stalls", "confidence"),
    [
        ({**loads(0.8, 0.1), **SPREAD}, {"mem_wait": 0.5}, "high"),
        ({**loads(0.8, 0.1), **SPREAD, "time.max_ns": 108_000}, {"mem_wait": 0.5}, "medium"),
        ({**loads(0.8, 0.1), **SPREAD}, {}, "medium"),
        (loads(0.8, 0.1), {"mem_wait": 0.5}, "medium"),
        ({**loads(0.8, 0.1), **SPREAD}, {"mem_wait": 0.1}, "low"),  # suspicious
        ({**loads(0.8, None), **SPREAD}, {"mem_wait": 0.5}, "low"),
        ({"time.median_ns": 2_000}, {}, "low"),
        ({"time.median_ns": 2_000, "time.gap_before_ns": 9_000}, {}, "medium"),
    ],
)
def test_confidence(numbers, stalls, confidence):
    assert classify_bound(profile(numbers, stalls=stalls)).confidence == confidence


@pytest.mark.feature("F062")
def test_every_class_names_its_numbers_thresholds_and_sources():
    found = classify_bound(profile({**loads(0.8, 0.1), **SPREAD}, stalls={"mem_wait": 0.5}))
    assert found.evidence[0] == "mem.pct_of_peak 0.8 (high from 0.6, 0.1 ahead of the other) [here; counters]"
    assert found.next[0].startswith("compare the bytes")


def test_a_matrix_product_whose_share_of_the_peak_alone_is_known():
    found = classify_bound(profile({"mem.pct_of_peak": 0.1, "comp.pct_of_peak": 0.7}, kernel="gemm_nt"))
    assert (found.bound, found.subclass) == ("compute_bound", "matrix")


def test_occupancy_alone_never_makes_a_class():
    found = classify_bound(profile({"occ.theoretical": 0.03, "occ.achieved": 0.02, **loads(0.7, 0.1)}))
    assert (found.bound, found.flags) == ("memory_bound", ())


def test_thresholds_can_be_moved():
    found = classify_bound(profile(loads(0.55, 0.1)), Thresholds(high=0.5))
    assert found.bound == "memory_bound"
