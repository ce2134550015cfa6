"""Recordings joined into one profile per kernel: which time counts, which names are one kernel, where numbers stand."""

import pytest

from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording, StallShare, ThreadTrace
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.names import own_name
from ridgeline.sandbox.profiles.readers.profiles import COUNTED, profile


def kernel(name="k(int*)", **changes):
    known = {
        "display": name, "category": "compute", "calls": 9, "total_ns": 900e3, "mean_ns": 100e3, "median_ns": 100e3,
        "last": LaunchShape(calls=9, workgroup=(256, 1, 1), blocks=(1024, 1, 1), arch_vgpr=64, accum_vgpr=0),
    }  # fmt: skip
    return KernelCalls(name=name, **{**known, **changes})


def recording(*kernels, **changes):
    known = {"format": "kernel_trace", "tool": "rocprofv3", "vendor": "amd", "grade": "trace", "files": ("x/a.csv",)}
    return Recording(kernels=kernels, **{**known, **changes})


def trace(name="k", **changes):
    known = {
        "instructions": 1, "waves": 1, "wave_cycles": 10, "hits": 1, "latency": 9, "stall": 5, "idle": 1,
        "by_class": (StallShare(stall="mem_wait", share=0.5, basis="wave_time"),), "checksum": 1.0, "checksum_ok": True,
        "validators": (("hits", True),), "matrix_busy": 0.25,
    }  # fmt: skip
    return ThreadTrace(kernel=name, **{**known, **changes})


def counters(**told):
    return tuple(Named(name=name, value=value) for name, value in told.items())


def source(found, name):
    return next((said for said in found.numbers if said.name == name), None)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("void at::<unnamed>::grid_stride<float, 4, (lambda at 0)>(int)", "grid_stride"),
        ("a<b>::c<d>(e) [clone .kd]", "c"),
        ("x.kd", "x"),
        ("; softmax_kernel_0", "softmax_kernel_0"),
        ("void (anonymous namespace)::k<(T)2>(int*)", "k"),
        ("copy_blocked[v1,cw51](Array<long long>)", "copy_blocked"),
        ("Cijk_Ailk_Bljk_BBS", "Cijk_Ailk_Bljk_BBS"),
        ("f(g<h>", "f"),
        ("", ""),
    ],
)
def test_a_functions_own_name(name, own):
    assert own_name(name) == own


def test_the_best_time_counts_and_every_number_says_where_it_is_from():
    timed = recording(kernel())
    counted = recording(
        kernel("k", median_ns=500e3, total_ns=500e3, calls=1, metrics=counters(TCC_HIT_sum=3, TCC_MISS_sum=1)),
        format="counter_collection", grade="serialised", arch="gfx942",
    )  # fmt: skip
    (found,) = profile([counted, timed])
    assert (found.grade, found.calls, found.arch) == ("trace", 9, "gfx942")
    assert found.number("time.median_ns") == 100e3
    assert source(found, "time.median_ns").rung == "trace"
    assert source(found, "time.median_ns").source.startswith("rocprofv3 a.csv")
    assert (found.number("mem.l2_hit"), source(found, "mem.l2_hit").rung) == (0.75, "counters")
    assert source(found, "occ.theoretical").rung == "analytic"


def test_rates_of_a_run_with_counters_say_so():
    bytes_moved = counters(TCC_EA0_WRREQ_sum=2e6, TCC_EA0_WRREQ_64B_sum=2e6, FETCH_SIZE=125_000)
    counted = recording(kernel(metrics=bytes_moved), format="counter_collection", grade="serialised", arch="gfx942")
    (alone,) = profile([counted])
    assert source(alone, "mem.gbps").value == pytest.approx((128e6 + 128e6) / 100e3)
    assert source(alone, "mem.gbps").corrected == COUNTED
    (timed,) = profile([counted, recording(kernel(median_ns=50e3))])
    assert source(timed, "mem.gbps").value == pytest.approx(256e6 / 50e3)
    assert source(timed, "mem.gbps").corrected == ""


def test_a_stated_peak_gives_a_share_where_no_counter_does():
    moved = counters(TCC_EA0_WRREQ_sum=2e6, TCC_EA0_WRREQ_64B_sum=2e6, FETCH_SIZE=125_000)
    one = recording(kernel(metrics=moved), arch="gfx942", device="MI300X")
    (found,) = profile([one], bandwidths={"MI300X": Named(name="mi300x.md:L31", value=5120.0)})
    assert found.number("mem.pct_of_peak") == pytest.approx(0.5)
    assert "mi300x.md:L31" in source(found, "mem.pct_of_peak").source
    assert profile([one])[0].number("mem.pct_of_peak") is None


def test_a_thread_trace_joins_the_kernel_of_its_name():
    traced = recording(format="att", grade=None, att=trace(), arch="gfx950")
    (found,) = profile([traced, recording(kernel())])
    assert (found.stalls[0].stall, found.validators) == ("mem_wait", (("hits", True),))
    assert "lower bound" in source(found, "comp.matrix_busy").corrected
    assert found.number("regs.total_per_thread") == 128  # gfx950: known from the trace, applied to the times


def test_another_kernels_trace_is_not_believed():
    found = profile([recording(format="att", grade=None, att=trace("other")), recording(kernel())])
    assert [one.kernel for one in found] == ["k(int*)", "other"]
    assert found[0].stalls == ()


def test_two_architectures_complete_nobody():
    found = profile([recording(kernel()), recording(kernel("a"), arch="gfx942"), recording(kernel("b"), arch="gfx950")])
    assert all(one.number("regs.total_per_thread") is None for one in found if one.kernel == "k(int*)")


def test_template_instances_of_one_function_stay_apart():
    first = recording(kernel("f<1>(int)", total_ns=2.0), kernel("f<2>(int)", total_ns=1.0))
    second = recording(kernel("f"), format="counter_collection", grade="serialised")
    assert [one.kernel for one in profile([first, second])] == ["f<1>(int)", "f<2>(int)", "f"]


def test_helpers_are_left_to_the_end_and_shown_only_alone():
    copy = kernel("__amd_rocclr_copyBuffer", category="copy", total_ns=5e9)
    assert [one.kernel for one in profile([recording(copy, kernel())])] == ["k(int*)"]
    assert [one.category for one in profile([recording(copy)])] == ["copy"]
    assert [one.category for one in profile([recording(copy, kernel())], target="copyBuffer")] == ["copy"]
    assert profile([recording(kernel())], target="nothing") == ()


def test_launches_that_do_not_fill_the_gpu_are_limited_by_the_grid():
    few = LaunchShape(calls=9, workgroup=(256, 1, 1), blocks=(10, 1, 1), arch_vgpr=64, accum_vgpr=0)
    one = recording(kernel(last=few, vgpr_total=64), arch="gfx942", facts=counters(units=304))
    (found,) = profile([one])
    assert found.limiter == "grid"
    assert found.number("occ.fill_waves") < 1
    assert (found.number("occ.theoretical"), found.launched) == (1.0, few)


def test_at_most_as_many_as_asked():
    many = recording(*(kernel(f"k{number}", total_ns=100.0 - number) for number in range(20)))
    assert len(profile([many])) == 8
    assert len(profile([many], most=20)) == 20
    assert profile([]) == ()
