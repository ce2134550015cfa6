"""Two versions side by side: what counts against the second, and that the loop's gate rejects it."""

import pytest

from ridgeline.sandbox.profiles.isa.report import compare_reports, read_assembled
from ridgeline.sandbox.profiles.isa.values import Assembly, target_of
from tests.assembly import AMD, PTX, SASS
from tests.builders import BASE, make_limits, make_profiled
from tests.judging import by_gain, drive

CLEAN = AMD.replace(".vgpr_spill_count: 3", ".vgpr_spill_count: 0").replace("fixed_size: 8", "fixed_size: 0")
WIDE = CLEAN.replace("TotalNumVgprs: 116", "TotalNumVgprs: 130")
SASS_CLEAN = "\n".join(line for line in SASS.splitlines() if "STL" not in line)


def report(text, arch="gfx942", form="amdgcn", **fields):
    return read_assembled(
        Assembly(target=target_of(arch), compiler="by hand", assembly=text, form=form, **fields)
    ).report


def found(before, after):
    return {(one.name, one.weight, one.before, one.after) for one in compare_reports([before], [after])}


@pytest.mark.feature("F081")
def test_a_new_spill_counts_against():
    findings = [one for one in compare_reports([report(CLEAN)], [report(AMD)]) if one.weight == "against"]
    assert [(one.name, one.before, one.after, one.target) for one in findings] == [
        ("spills", 0, 3, "gfx942"),
        ("scratch", 0, 8, "gfx942"),
    ]
    assert findings[0].text == "register spills rose from 0 to 3"
    assert "against" not in {weight for _, weight, _, _ in found(report(AMD), report(CLEAN))}


@pytest.mark.parametrize(
    ("before", "after", "weight"), [(116, 120, None), (120, 128, None), (128, 129, "against"), (129, 128, "for")]
)
def test_a_lost_wave_tier_counts_against(before, after, weight):
    was, now = (report(CLEAN.replace("TotalNumVgprs: 116", f"TotalNumVgprs: {n}")) for n in (before, after))
    weights = [one.weight for one in compare_reports([was], [now]) if one.name == "occupancy"]
    assert weights == ([weight] if weight else [])


def test_a_tier_of_registers_that_costs_no_wave_is_only_noted():
    block = CLEAN.replace("max_flat_workgroup_size: 256", "max_flat_workgroup_size: 768")
    was, now = (report(block.replace("TotalNumVgprs: 116", f"TotalNumVgprs: {n}")) for n in (128, 168))
    assert was.occupancy.register_tier > now.occupancy.register_tier
    assert found(was, now) == {("occupancy", "note", 3, 3), ("registers", "note", 128, 168)}


def test_nvidia_spills_are_seen_in_the_code():
    was, now = (report(text, "sm_90", "sass") for text in (SASS_CLEAN, SASS))
    assert ("spills", "against", 0, 3) in found(was, now)


def test_widths_and_sizes_are_noted():
    narrow = CLEAN.replace("buffer_load_dwordx4", "buffer_load_dword").replace("\ts_barrier\n", "")
    assert found(report(CLEAN), report(narrow)) == {
        ("width", "note", 10, 4), ("barriers", "note", 1, 0), ("size", "note", 18, 17),
    }  # fmt: skip


def test_what_one_version_does_not_tell_is_no_difference():
    assert compare_reports([report(PTX, "sm_90", "ptx")], [report(SASS, "sm_90", "sass")]) == ()
    assert compare_reports([report(CLEAN)], [report(SASS, "sm_90", "sass")]) == ()


def test_the_same_twice_differs_in_nothing():
    assert compare_reports([report(AMD)], [report(AMD)]) == ()


@pytest.mark.feature("F081")
@pytest.mark.parametrize(("text", "reason"), [(CLEAN, "faster"), (AMD, "isa_regression"), (WIDE, "isa_regression")])
def test_the_loop_rejects_a_faster_kernel_for_its_code(text, reason):
    best, after = (
        {"spills": read.resources.vgpr_spills, "occupancy": 100 * read.occupancy.share}
        for read in (report(CLEAN), report(text))
    )
    profiles = {"best_profile": make_profiled(best, commit=BASE), "profile": make_profiled(after)}
    verdict, _ = drive(by_gain(0.3), make_limits("campaign"), **profiles)
    assert verdict.reason == reason


def test_dynamic_lds_and_block_come_from_the_launch():
    held = report(CLEAN, shared_bytes=65536, threads=64)
    assert (held.resources.lds_bytes, held.resources.threads) == (65536, 64)
    assert (held.occupancy.waves_per_simd, held.occupancy.limiter) == (0.25, "shared")
