"""Formulas of AMD counters, on the copy kernel recorded on five GPUs (8,388,608 bytes each way) and at their edges."""

import csv

import pytest

from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.cdna import numbers
from tests.rocprof_samples import golden, sample

ARCH = {"MI100": "gfx908", "MI200": "gfx90a", "MI300A_A1": "gfx942", "MI300X_A1": "gfx942", "MI350": "gfx950"}
MI300X = {"units": 304, "l2_domains": 8, "clock_mhz": 2100, "simds_per_unit": 4}


def _named(values):
    return tuple(Named(name=name, value=value) for name, value in values.items())


def _told(values, arch="gfx942", facts=MI300X, duration_ns=None):
    return {one.name: one for one in numbers(_named(values), arch, _named(facts), duration_ns)}


def _value(name, *arguments, **options):
    told = _told(*arguments, **options)
    return told[name].value if name in told else None


@pytest.mark.parametrize("gpu", sorted(ARCH))
def test_bytes_and_hits_of_a_recorded_copy(gpu):
    with sample("rocprof_compute", f"vcopy_{gpu}", "pmc_perf.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    table = golden("vcopy")[gpu]
    assert table
    for row, expected in zip(rows, table, strict=True):
        values = {name: float(text) for name, text in row.items() if name.startswith(("TCC", "TCP")) and text}
        told = _told(values, ARCH[gpu], {}, expected["duration_ns"])
        assert told["mem.read_bytes"].value == expected["read_bytes_corrected"]
        assert told["mem.write_bytes"].value == expected["write_bytes"]
        assert told["mem.l2_hit"].value == pytest.approx(expected["l2_hit"], abs=5e-5)
        assert bool(told["mem.read_bytes"].corrected) == (gpu == "MI350")
        if expected["duration_ns"]:
            assert told["mem.gbps"].value == pytest.approx(expected["bandwidth_GBps"], abs=0.05)
        else:
            assert "mem.gbps" not in told


@pytest.mark.feature("F116")
@pytest.mark.parametrize(("arch", "prefix"), [("gfx90a", "TCC_EA_"), ("gfx942", "TCC_EA0_"), ("gfx950", "TCC_EA0_")])
def test_hits_and_the_share_of_narrow_reads(arch, prefix):
    requests = {f"{prefix}RDREQ_sum": 1000, f"{prefix}RDREQ_32B_sum": 50}
    told = _told({"TCC_HIT_sum": 17, "TCC_MISS_sum": 983, **requests}, arch)
    assert told["mem.l2_hit"].value == pytest.approx(0.017)
    assert told["mem.narrow_reads"].value == pytest.approx(0.05)
    assert "mem.narrow_reads" not in _told({f"{prefix}RDREQ_sum": 0, f"{prefix}RDREQ_32B_sum": 0}, arch)


def test_reads_by_size_are_exact_on_gfx950():
    sizes = {"TCC_EA0_RDREQ_32B_sum": 1, "TCC_EA0_RDREQ_64B_sum": 2, "TCC_EA0_RDREQ_128B_sum": 3}
    told = _told({**sizes, "TCC_EA0_RDREQ_sum": 6}, "gfx950")
    assert (told["mem.read_bytes"].value, told["mem.read_bytes"].corrected) == (32 + 128 + 384, "")


@pytest.mark.parametrize("arch", ["gfx950", "gfx942", "gfx90a", "gfx1100", None])
def test_fetch_size_counts_where_it_is_right(arch):
    told = _told({"FETCH_SIZE": 2.0, "WRITE_SIZE": 3.0}, arch)
    assert ("mem.read_bytes" in told) == (arch != "gfx950")
    assert told["mem.write_bytes"].value == 3072


def test_nothing_is_told_of_what_was_not_counted():
    assert numbers((), "gfx942", _named(MI300X), 1000.0) == ()
    assert numbers(_named({"TCC_EA0_RDREQ_sum": 5.0}), "gfx942", (), None) == ()
    assert "mem.read_bytes" not in _told(
        {"TCC_EA0_RDREQ_sum": 5, "TCC_EA0_RDREQ_32B_sum": 1, "TCC_BUBBLE_sum": 1}, None
    )


def test_elapsed_cycles_are_per_xcc():
    values = {"GRBM_GUI_ACTIVE": 8 * 100_000, "SQ_WAVE_CYCLES": 304 * 100_000 * 2, "SQ_ACTIVE_INST_VALU": 304 * 25_000}
    values |= {"SQ_VALU_MFMA_BUSY_CYCLES": 304 * 100_000}
    told = _told(values, duration_ns=50_000)
    assert told["occ.achieved"].value == 0.25
    assert told["comp.vector_busy"].value == 0.25
    assert told["comp.matrix_busy"].value == 0.25
    assert told["occ.achieved"].corrected == ""


@pytest.mark.parametrize(
    ("duration", "share", "corrected"), [(20_000, 0.5, False), (19_999.0, 1 / (19_999 * 2.1), True)]
)
def test_short_kernels_are_measured_by_their_time(duration, share, corrected):
    """At 20 us and above the counter is the clock; below, the duration is."""
    told = _told({"GRBM_GUI_ACTIVE": 16.0, "SQ_ACTIVE_INST_VALU": 304.0}, duration_ns=duration)
    assert told["comp.vector_busy"].value == pytest.approx(share)
    assert bool(told["comp.vector_busy"].corrected) == corrected


def test_shares_of_waves_and_conflicts():
    values = {"SQ_WAVE_CYCLES": 100, "SQ_WAIT_ANY": 60, "SQ_WAIT_INST_ANY": 25, "SQ_ACTIVE_INST_ANY": 15}
    values |= {"SQ_LDS_BANK_CONFLICT": 3, "SQ_LDS_IDX_ACTIVE": 12, "SQ_INSTS_LDS": 7}
    told = {name: said.value for name, said in _told(values, facts={}).items()}
    assert told == {
        "issue.waiting": 0.6,
        "issue.ready_not_issued": 0.25,
        "issue.active_of_waves": 0.15,
        "shm.conflict_rate": 0.25,
        "shm.accesses": 7,
    }
    assert "shm.conflict_rate" not in _told({"SQ_LDS_BANK_CONFLICT": 0, "SQ_LDS_IDX_ACTIVE": 0})


def test_a_share_above_one_says_that_its_passes_disagree():
    """Of vcopy on an MI300X in rocprof-compute's own tests: one pass waited three times as long as the others."""
    told = _told({"SQ_WAVE_CYCLES": 32_033_051, "SQ_WAIT_ANY": 50_184_019, "SQ_WAIT_INST_ANY": 13_285_747}, facts={})
    assert "passes, which disagree" in told["issue.waiting"].corrected
    assert told["issue.ready_not_issued"].corrected == ""


def test_matrix_work_and_intensity():
    values = {"SQ_INSTS_VALU_MFMA_MOPS_F16": 1000.0, "SQ_INSTS_VALU_MFMA_MOPS_BF16": 1000.0}
    values |= {"TCC_EA0_WRREQ_sum": 10, "TCC_EA0_WRREQ_64B_sum": 10, "FETCH_SIZE": 0.375}
    told = {name: said.value for name, said in _told(values, duration_ns=1024.0).items()}
    assert told["comp.matrix_flop"] == 1_024_000
    assert told["comp.tflops"] == 1.0
    assert told["comp.intensity"] == 1_024_000 / 1024
    assert told["mem.gbps"] == 1.0


def test_derived_metrics_stand_in_for_raw_counters():
    told = _told({"OccupancyPercent": 25.0, "MfmaUtil": 40.0, "VALUBusy": 10.0, "L2CacheHit": 33.0}, facts={})
    assert {name: said.value for name, said in told.items()} == {
        "occ.achieved": 0.25,
        "comp.matrix_busy": 0.4,
        "comp.vector_busy": 0.1,
        "mem.l2_hit": 0.33,
    }


def test_peak_is_of_the_memory_clock():
    facts = {"memory_clock_mhz": 1300, "memory_channels": 128}
    told = _told({"FETCH_SIZE": 2600.0, "WRITE_SIZE": 2600.0}, facts=facts, duration_ns=2000.0)
    assert told["mem.pct_of_peak"].value == pytest.approx(5200 * 1024 / 2000 / 5324.8)
