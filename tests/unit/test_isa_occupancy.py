"""Occupancy: every limit at its boundary, against worked examples of the vendors' tables."""

import pytest

from ridgeline.sandbox.profiles.isa.occupancy import HARDWARE, launch_refusals, occupancy, register_tier
from ridgeline.sandbox.profiles.isa.values import KNOWN, Resources, UnknownTarget, target_of

CDNA = ("gfx90a", "gfx942", "gfx950")


@pytest.mark.feature("F115")
@pytest.mark.parametrize("arch", CDNA)
@pytest.mark.parametrize(
    ("registers", "waves"),
    [
        (1, 8), (64, 8), (65, 7), (72, 7), (73, 6), (80, 6), (81, 5), (96, 5), (97, 4), (102, 4), (104, 4), (128, 4),
        (129, 3), (168, 3), (169, 2), (256, 2), (257, 1), (280, 1), (512, 1), (513, 0),
    ],
)  # fmt: skip
def test_registers_of_cdna(arch, registers, waves):
    assert register_tier(target_of(arch), registers) == waves


@pytest.mark.feature("F115")
def test_both_register_files_count_together():
    held = Resources(arch_vgpr=144, accum_vgpr=136, vgpr_total=280, threads=64, lds_bytes=12 * 1024, sgpr=102)
    found = occupancy(target_of("gfx942"), held)
    assert (found.waves_per_simd, found.limiter, found.registers_for_next) == (1.0, "registers", 256)


@pytest.mark.parametrize(
    ("arch", "registers", "warps"),
    [
        ("sm_90", 32, 16), ("sm_90", 33, 12), ("sm_90", 40, 12), ("sm_90", 41, 10), ("sm_90", 64, 8), ("sm_90", 65, 7),
        ("sm_90", 128, 4), ("sm_90", 129, 3), ("sm_90", 168, 3), ("sm_90", 169, 2), ("sm_90", 255, 2),
        ("sm_80", 255, 2), ("sm_100", 24, 16), ("sm_86", 40, 12), ("sm_89", 41, 10), ("sm_120", 168, 3), ("sm_121", 32, 12),
    ],
)  # fmt: skip
def test_registers_of_nvidia(arch, registers, warps):
    assert register_tier(target_of(arch), registers) == warps


@pytest.mark.parametrize(
    ("arch", "held", "waves", "limiter", "blocks"),
    [
        ("gfx942", {"vgpr_total": 64, "threads": 256}, 8, "waves", 8),
        ("gfx942", {"vgpr_total": 64, "threads": 256, "lds_bytes": 8192}, 8, "waves", 8),
        ("gfx942", {"vgpr_total": 64, "threads": 256, "lds_bytes": 8193}, 7, "shared", 7),
        ("gfx942", {"vgpr_total": 64, "threads": 256, "lds_bytes": 65536}, 1, "shared", 1),
        ("gfx942", {"vgpr_total": 64, "threads": 256, "lds_bytes": 65537}, 0, "shared", 0),
        ("gfx950", {"vgpr_total": 64, "threads": 256, "lds_bytes": 65536}, 2, "shared", 2),
        ("gfx950", {"vgpr_total": 64, "threads": 256, "lds_bytes": 20480}, 8, "waves", 8),
        ("gfx950", {"vgpr_total": 64, "threads": 256, "lds_bytes": 20481}, 7, "shared", 7),
        ("gfx942", {"vgpr_total": 32, "threads": 64, "sgpr": 100}, 8, "waves", 32),
        ("gfx942", {"vgpr_total": 32, "threads": 64, "sgpr": 101}, 7, "scalar", 28),
        ("gfx942", {"vgpr_total": 160, "threads": 512}, 2, "registers", 1),  # three waves fit, two blocks do not
        ("gfx942", {"vgpr_total": 512, "threads": 512}, 0, "registers", 0),
        ("gfx942", {"vgpr_total": 32, "threads": 65}, 8, "waves", 16),  # a wave with one lane is a wave
        ("sm_90", {"arch_vgpr": 32, "threads": 32}, 8, "blocks", 32),
        ("sm_90", {"arch_vgpr": 32, "threads": 64}, 16, "waves", 32),
        ("sm_90", {"arch_vgpr": 46, "threads": 256}, 10, "registers", 5),
        ("sm_90", {"arch_vgpr": 32, "threads": 128, "lds_bytes": 113 * 1024}, 2, "shared", 2),
        ("sm_90", {"arch_vgpr": 32, "threads": 128, "lds_bytes": 113 * 1024 + 1}, 1, "shared", 1),
        ("sm_80", {"arch_vgpr": 32, "threads": 128, "lds_bytes": 163 * 1024}, 1, "shared", 1),
        ("sm_80", {"arch_vgpr": 32, "threads": 128, "lds_bytes": 163 * 1024 + 1}, 0, "shared", 0),
    ],
)
def test_each_limit_at_its_boundary(arch, held, waves, limiter, blocks):
    found = occupancy(target_of(arch), Resources(**held))
    assert (found.waves_per_simd, found.limiter, found.blocks_per_unit) == (waves, limiter, blocks)
    assert found.share == found.waves_per_simd / found.most
    assert found.source


@pytest.mark.parametrize(
    ("arch", "held", "wanted"),
    [
        ("gfx942", {"vgpr_total": 248, "threads": 512}, 128),  # two waves more on each SIMD, for a whole block
        ("gfx942", {"vgpr_total": 200, "threads": 64}, 168),  # nine waves need three on a SIMD
        ("gfx942", {"vgpr_total": 64, "threads": 64}, None),
        ("sm_90", {"arch_vgpr": 46, "threads": 256}, 40),
    ],
)
def test_registers_at_which_one_more_block_fits(arch, held, wanted):
    target = target_of(arch)
    found = occupancy(target, Resources(**held))
    assert found.registers_for_next == wanted
    if wanted is not None:
        name = "vgpr_total" if target.vendor == "amd" else "arch_vgpr"
        more = occupancy(target, Resources(**{**held, name: wanted}))
        less = occupancy(target, Resources(**{**held, name: wanted + 1}))
        assert more.blocks_per_unit > found.blocks_per_unit == less.blocks_per_unit


def test_unknown_block_size_leaves_lds_out():
    found = occupancy(target_of("gfx942"), Resources(vgpr_total=64, lds_bytes=65536))
    assert (found.waves_per_simd, found.blocks_per_unit) == (8, None)


@pytest.mark.parametrize("arch", KNOWN)
def test_unknown_registers_are_not_zero_registers(arch):
    assert occupancy(target_of(arch), Resources(threads=64)) is None
    assert arch in HARDWARE


@pytest.mark.parametrize(
    ("name", "arch"),
    [("GFX942", "gfx942"), ("gfx942:sramecc+:xnack-", "gfx942"), (" sm90a", "sm_90"), ("sm_100", "sm_100")],
)
def test_names_of_targets(name, arch):
    assert target_of(name).arch == arch


@pytest.mark.parametrize("name", ["", "gfx943", "sm_", "h100"])
def test_unknown_targets_are_refused_with_a_list(name):
    with pytest.raises(UnknownTarget, match="gfx90a, gfx942"):
        target_of(name)


def test_all_of_tensor_memory_is_one_block():
    held = {"arch_vgpr": 64, "threads": 128}
    whole, half = (occupancy(target_of("sm_100"), Resources(**held, tensor_columns=columns)) for columns in (512, 256))
    assert (whole.blocks_per_unit, whole.limiter) == (1, "tensor_memory")
    assert (half.blocks_per_unit, half.limiter) == (2, "tensor_memory")


@pytest.mark.parametrize(
    ("arch", "held", "words"),
    [
        ("gfx942", {"threads": 1024, "lds_bytes": 65536}, ()),
        ("gfx942", {"threads": 2048}, ("2048 threads, and gfx942 takes 1024",)),
        ("gfx942", {"lds_bytes": 65537}, ("65537 bytes of shared memory, and gfx942 takes 65536",)),
        ("sm_80", {"lds_bytes": 166912}, ()),
        ("sm_80", {"lds_bytes": 166913}, ("and sm_80 takes 166912",)),
        ("sm_90", {"lds_bytes": 232448}, ()),
        ("sm_90", {"lds_bytes": 232449}, ("and sm_90 takes 232448",)),
        ("sm_100", {"tensor_columns": 513, "threads": 1025}, ("1025 threads", "513 columns of tensor memory")),
    ],
)
def test_a_block_over_the_device_s_limits_cannot_be_launched(arch, held, words):
    refused = launch_refusals(target_of(arch), Resources(**held))
    assert len(refused) == len(words)
    assert all(word in text for word, text in zip(words, refused, strict=True))
    if held.get("threads", 0) > 1024:
        assert occupancy(target_of(arch), Resources(arch_vgpr=8, vgpr_total=8, **held)).waves_per_simd == 0


@pytest.mark.parametrize(
    ("arch", "registers", "waves"),
    [("gfx1100", 96, 16), ("gfx1100", 97, 12), ("gfx1201", 120, 12), ("gfx1201", 256, 5), ("gfx1102", 64, 16),
     ("gfx1102", 65, 12), ("gfx1102", 256, 4)],
)  # fmt: skip
def test_registers_of_rdna(arch, registers, waves):
    assert register_tier(target_of(arch), registers) == waves


@pytest.mark.parametrize(
    ("arch", "held", "waves", "limiter", "blocks"),
    [
        ("gfx1201", {"vgpr_total": 64, "threads": 128, "lds_bytes": 65536}, 2, "shared", 2),
        ("gfx1100", {"vgpr_total": 64, "threads": 256, "sgpr": 106}, 16, "waves", 8),
        ("sm_86", {"arch_vgpr": 32, "threads": 64}, 8, "blocks", 16),
        ("sm_89", {"arch_vgpr": 32, "threads": 64}, 12, "waves", 24),
        ("sm_120", {"arch_vgpr": 32, "threads": 32}, 6, "blocks", 24),
        ("sm_120", {"arch_vgpr": 32, "threads": 256, "lds_bytes": 50 * 1024}, 2, "shared", 1),
    ],
)
def test_blocks_of_consumer_cards(arch, held, waves, limiter, blocks):
    found = occupancy(target_of(arch), Resources(**held))
    assert (found.waves_per_simd, found.limiter, found.blocks_per_unit) == (waves, limiter, blocks)


@pytest.mark.parametrize(
    ("name", "arch", "wave"),
    [("sm120a", "sm_120", 32), ("sm_103f", "sm_103", 32), ("SM_89", "sm_89", 32), ("gfx1201", "gfx1201", 32)],
)
def test_names_of_targets_with_features(name, arch, wave):
    assert (target_of(name).arch, target_of(name).wave) == (arch, wave)
