"""Counters by name out of recordings and the compiler's report: which one stands, on which rung, from where."""

import pytest

from ridgeline.graph.kernel_profile import KernelProfile, LaunchShape, ProfileNumber, StallShare
from ridgeline.sandbox.profiles.isa.values import Occupancy, Report, Resources, Target
from ridgeline.sandbox.profiles.profilers.gpu_fallback import collect_counters, complete_profile


def kernel(*numbers, grade="trace", stalls=()):
    """A kernel with numbers of (name, value, rung)."""
    return KernelProfile(
        vendor="amd", arch="gfx942", kernel="k", display="k", key="0", category="compute",
        launched=LaunchShape(calls=9), calls=9, grade=grade, stalls=stalls,
        numbers=tuple(ProfileNumber(name=name, value=value, source=f"s:{name}", rung=rung) for name, value, rung in numbers),
    )  # fmt: skip


def report(**resources):
    return Report(
        kernel="k",
        target=Target(arch="gfx942", vendor="amd", wave=64),
        form="amdgcn",
        compiler="triton 3.9",
        resources=Resources(**resources),
        shape=None,
        occupancy=Occupancy(
            waves_per_simd=2, most=8, share=0.25, blocks_per_unit=1, limiter="registers", limits=(), register_tier=2,
            source="s",
        ),
    )  # fmt: skip


def named(*given):
    return {item.counter.name: (item.counter.value, item.origin.rung) for item in collect_counters(*given)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), {}),
        ((kernel(), None), {}),
        (
            (kernel(("mem.pct_of_peak", 0.5, "counters")), None),
            {"dram_pct": (50, "counters"), "mem_throughput": (50, "counters")},
        ),
        (
            (kernel(("comp.matrix_busy", 0.2, "counters"), ("comp.vector_busy", 0.7, "counters")), None),
            {"mfma_util": (20, "counters"), "vector_pct": (70, "counters"), "compute_pct": (70, "counters")},
        ),
        ((None, report(vgpr_spills=3)), {"spills": (3, "isa"), "occupancy": (25, "isa")}),
        ((None, report(vgpr_spills=0)), {"spills": (0, "isa"), "occupancy": (25, "isa")}),
        ((None, report(arch_vgpr=40)), {"registers": (40, "isa"), "occupancy": (25, "isa")}),
        # what was recorded goes before the compiler, and that before what is computed from a recording
        ((kernel(("occ.theoretical", 0.5, "counters")), report()), {"occupancy": (50, "counters")}),
        ((kernel(("occ.theoretical", 0.5, "analytic")), report()), {"occupancy": (25, "isa")}),
        ((kernel(("occ.theoretical", 0.5, "analytic")), None), {"occupancy": (50, "analytic")}),
        # spills: the compiler's word, else what a profiler sees of them
        (
            (kernel(("regs.spill_ops", 64, "counters")), None),
            {"spill_ops": (64, "counters"), "spills": (64, "counters")},
        ),
        (
            (kernel(("regs.scratch_bytes_per_thread", 8, "trace")), report(vgpr_spills=2)),
            {"scratch_bytes": (8, "trace"), "spills": (2, "isa"), "occupancy": (25, "isa")},
        ),
    ],
)
def test_every_counter_stands_on_its_rung(given, expected):
    assert named(*given) == expected


@pytest.mark.parametrize(
    ("grade", "expected"),
    [
        ("trace", {"kernel_time_us": 4, "calls": 9, "gpu_busy_pct": 25}),
        ("events", {"kernel_time_us": 4, "calls": 9, "gpu_busy_pct": 25}),
        ("replay", {}),
        ("serialised", {}),
        (None, {}),
    ],
)
def test_only_undisturbed_times_are_told(grade, expected):
    numbers = (("time.median_ns", 4_000, "trace"), ("time.gap_before_ns", 12_000, "trace"))
    assert {name: value for name, (value, _) in named(kernel(*numbers, grade=grade), None).items()} == expected


def test_the_largest_stalls_are_told_by_name():
    waits = {"mem_wait": 0.4, "barrier": 0.2, "valu": 0.1, "salu": 0.05, "nop": 0.02, "issue": 0.01}
    shares = tuple(StallShare(stall=name, share=share, basis="wave_time") for name, share in waits.items())
    told = named(kernel(stalls=shares), None)
    assert list(told) == [f"stall_{name}_pct" for name in ("mem_wait", "barrier", "valu", "salu", "nop")]
    assert told["stall_mem_wait_pct"] == (40, "trace")


def test_a_profile_gets_what_only_the_compiler_knows():
    whole = complete_profile(
        kernel(("regs.total_per_thread", 64, "trace")), report(arch_vgpr=40, vgpr_spills=3, lds_bytes=512)
    )
    numbers = {said.name: (said.value, said.rung) for said in whole.numbers}
    assert numbers["regs.total_per_thread"] == (64, "trace")
    assert numbers["regs.spilled"] == (3, "isa")
    assert numbers["shared.total_bytes"] == (512, "isa")
