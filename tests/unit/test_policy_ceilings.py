"""Measured against stated ceilings, UNKNOWN, refusals, and what a grid of tiles leaves of the peak."""

import pytest

from ridgeline.graph.evidence import Ceilings, Rate
from ridgeline.graph.record import Spec
from ridgeline.graph.rules.headroom import make_roofline_record
from ridgeline.graph.rules.operations import Amount, tiles, wave
from ridgeline.graph.rules.roofline import (
    CeilingError,
    cache_bytes,
    choose_ceilings,
    list_specs,
    require_below,
    stop_conditions,
    units_of,
)
from tests.builders import make_machine

PEAK = Spec(metric="bf16_dense", value=989.4, unit="TFLOPS", source="knowledge/hardware/h100-sxm.md:L16")
COPY = Spec(metric="hbm_bandwidth", value=3.35, unit="TB/s", source="knowledge/hardware/h100-sxm.md:L32")
UNITS = Spec(metric="sm_count", value=132, unit="SMs", source="knowledge/hardware/h100-sxm.md:L15")
L2 = Spec(metric="l2_capacity", value=50, unit="MiB", source="knowledge/hardware/h100-sxm.md:L34")
STATED = (PEAK, COPY, UNITS, L2)
NO_PEAK = PEAK.model_copy(update={"value": None, "source": "gpu-wiki not found"})
NO_COPY = COPY.model_copy(update={"value": None, "source": "gpu-wiki not found"})
H100 = choose_ceilings(None, STATED, "h").ceilings


def measured(flops=None, copy=None):
    return Ceilings(copy_gbps=copy, flops_gflops=flops, method="matmul and copy loops", machine="h")


@pytest.mark.feature("F068")
@pytest.mark.parametrize(
    ("own", "stated", "flops", "copy", "flops_source", "copy_source"),
    [
        (None, STATED, 989400, 3350, PEAK.source, COPY.source),
        (measured(700e3, 3000), STATED, 700e3, 3000, "", ""),
        (measured(None, 3000), STATED, 989400, 3000, PEAK.source, ""),
        (measured(700e3, None), STATED, 700e3, 3350, "", COPY.source),
        (measured(989400, 3350), STATED, 989400, 3350, "", ""),
        (measured(700e3, 3000), (), 700e3, 3000, "", ""),
        (measured(700e3, 3000), (NO_PEAK, NO_COPY), 700e3, 3000, "", ""),
        (None, (NO_PEAK, COPY), None, 3350, "", COPY.source),
    ],
)
def test_measured_is_preferred_and_stated_fills_in(own, stated, flops, copy, flops_source, copy_source):
    found = choose_ceilings(own, stated, "h").ceilings
    assert (found.flops_gflops, found.copy_gbps) == (pytest.approx(flops) if flops else None, pytest.approx(copy))
    assert (found.flops_source, found.copy_source) == (flops_source, copy_source)


@pytest.mark.parametrize(("flops", "copy", "word"), [(990e3, 3000, "compute peak"), (700e3, 3351, "copy bandwidth")])
def test_a_measured_ceiling_above_the_stated_peak_is_refused(flops, copy, word):
    found = choose_ceilings(measured(flops, copy), STATED, "h")
    assert f"a measured {word}" in found.note
    assert "refused" in found.note
    assert found.ceilings.flops_gflops <= 989400
    assert found.ceilings.copy_gbps <= 3350
    kept = {spec.metric for spec in list_specs(found.measured, make_machine(), STATED)}
    assert word not in kept
    assert {"compute peak", "copy bandwidth"} - kept == {word}


@pytest.mark.feature("F068")
def test_measured_and_stated_stand_side_by_side_with_their_origin():
    roof = make_roofline_record(measured(700e3, 3000), make_machine(), STATED)
    texts = [spec.text for spec in roof.specs]
    assert f"bf16_dense: 989.4 TFLOPS <- {PEAK.source}" in texts
    assert f"hbm_bandwidth: 3.35 TB/s <- {COPY.source}" in texts
    assert "compute peak: 700000 GFLOP/s <- measured here: matmul and copy loops" in texts
    assert "copy bandwidth: 3000 GB/s <- measured here: matmul and copy loops" in texts
    assert stop_conditions(roof.ceilings, 0.9) == (
        "compute-bound target >= 630 TFLOPS",
        "memory-bound target >= 2.7 TB/s",
    )


def test_a_measurement_that_failed_says_why_and_leaves_what_is_stated():
    why = "not measured: torch sees no GPU"
    failed = Ceilings(copy_gbps=None, flops_gflops=None, method=why, machine="h")
    found = make_roofline_record(failed, make_machine(), STATED)
    assert found.note == why
    assert (found.ceilings.flops_source, found.ceilings.copy_source) == (PEAK.source, COPY.source)
    assert not make_roofline_record(None, make_machine(), STATED).note
    assert make_roofline_record(failed, make_machine(), ()).note == why


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_kept_and_what_was_measured_besides_goes_along(kept):
    others = (Rate(name="read bandwidth", value=3100.0, unit="GB/s"),)
    own = measured(700e3, 3000).model_copy(update={"kept": kept, "others": others})
    found = choose_ceilings(own, STATED, "h").ceilings
    assert (found.kept, found.others) == (kept, others)
    # a record without either reads as before the fields existed
    assert ("kept" in found.model_dump(mode="json")) == kept
    assert "others" not in choose_ceilings(None, STATED, "h").ceilings.model_dump(mode="json")


@pytest.mark.feature("F069")
def test_what_no_document_gives_is_off_and_said():
    found = choose_ceilings(None, (NO_PEAK, COPY), "h")
    assert found.note == "bf16_dense is UNKNOWN (gpu-wiki not found): the target that needs it is off"
    assert stop_conditions(found.ceilings, 0.9) == (
        "compute-bound target: UNKNOWN (gpu-wiki not found)",
        "memory-bound target >= 3.015 TB/s",
    )
    assert choose_ceilings(None, (NO_PEAK, NO_COPY), "h").ceilings is None
    assert choose_ceilings(None, (), "h").ceilings is None


def test_stated_numbers_are_registered_once_and_measured_ones_beside_them():
    machine = make_machine(kind="nvidia", l1d_bytes=None, l2_bytes=None, l3_bytes=None)
    assert [spec.text for spec in list_specs(None, machine, STATED)] == [spec.text for spec in STATED]
    both = [spec.text for spec in list_specs(measured(700e3, None), machine, STATED)]
    assert both[-1] == "compute peak: 700000 GFLOP/s <- measured here: matmul and copy loops"
    assert len(both) == len(STATED) + 1


def test_the_largest_cache_counts():
    nothing = make_machine(l2_bytes=None, l3_bytes=None)
    assert cache_bytes(nothing, STATED) == 50 * 2**20
    assert cache_bytes(nothing, (PEAK,)) is None
    assert cache_bytes(make_machine(), ()) == 32 << 20
    assert units_of(STATED) == UNITS
    assert units_of((PEAK,)) is None


def test_equal_to_the_peak_is_no_refusal():
    assert require_below(100.0, 100.0, what="x", source="s") == 100.0
    with pytest.raises(CeilingError, match=r"x of 100\.001 is above the peak of 100 that s states; refused"):
        require_below(100.001, 100.0, what="x", source="s")


GEMM = Amount(flops=2 * 4096.0**3, bytes=3 * 2 * 4096.0**2)


def on_h100(block, m=4096, n=4096):
    grid, tile = tiles(m, n, 4096, block=block, read_bytes=2, written_bytes=2)
    call = Amount(flops=2.0 * m * n * 4096, bytes=2.0 * (m * 4096 + n * 4096 + m * n))
    return wave(grid=grid, units=132, call=call, tile=tile, ceilings=H100, source=PEAK.source)


@pytest.mark.parametrize(
    ("block", "grid", "waves", "filled", "fill"),
    [
        ((128, 256), 512, 4, 512 / 528, "normal"),
        ((128, 128), 1024, 8, 1024 / 1056, "normal"),
        ((1024, 1024), 16, 1, 16 / 132, "low"),
        ((2048, 2048), 4, 1, 4 / 132, "too few tiles"),
    ],
)
def test_waves_of_a_gemm(block, grid, waves, filled, fill):
    found = on_h100(block)
    assert (found.grid, found.waves, found.fill) == (grid, waves, fill)
    assert found.filled == pytest.approx(filled)
    # tiles that divide the product: the ceiling is the filled share of the peak
    assert found.ceiling_gflops == pytest.approx(989400 * filled)
    # a tile of 1024 x 1024 lies right of the ridge: it is bound by arithmetic even without reuse
    assert (found.no_reuse_gflops < found.ceiling_gflops) is (max(block) < 1024)


@pytest.mark.feature("F071")
def test_one_tile_takes_the_time_of_one_unit_not_of_the_whole_device():
    # 2*128*128*4096 operations at 989.4/132 TFLOPS; the faulty formula would be 132 times too fast
    found = on_h100((128, 128))
    assert found.kernel_time_us == pytest.approx(8 * 2 * 128 * 128 * 4096 / (989.4e6 / 132))
    # (128 + 128) * 4096 + 128 * 128 elements of two bytes at 3.35/132 TB/s
    assert found.no_reuse_time_us == pytest.approx(8 * 2 * (256 * 4096 + 128 * 128) / (3.35e6 / 132))


def test_a_tile_that_hangs_over_lowers_the_ceiling():
    # 33 rows of tiles fill all eight waves, and most of the last row computes nothing
    found = on_h100((128, 128), m=4097)
    assert found.filled == 1
    assert found.ceiling_gflops == pytest.approx(989400 * 4097 / (33 * 128))


def test_a_ceiling_above_the_peak_is_refused():
    # 64 tiles that each claim a tenth of their work: the printed example slips by more
    tile = Amount(flops=GEMM.flops / 640, bytes=1.0)
    with pytest.raises(CeilingError, match="above the peak"):
        wave(grid=132, units=132, call=GEMM, tile=tile, ceilings=H100, source="s")
    with pytest.raises(ValueError, match="known compute peak"):
        wave(grid=1, units=1, call=GEMM, tile=tile, ceilings=choose_ceilings(None, (COPY,), "h").ceilings, source="s")
