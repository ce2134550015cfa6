"""How many waves of a kernel fit: registers, LDS, block and wave slots, each by its own allocation step."""

from math import ceil

from ridgeline.graph.kernel_profile import Limiter
from ridgeline.graph.values import Named, Value
from ridgeline.sandbox.profiles.isa.values import Occupancy, Resources, Target

SIMDS = 4
"""SIMDs per CU (CDNA) and per WGP (RDNA), schedulers per SM."""


class Hardware(Value):
    """Constants of one architecture. Registers are counted per lane and SIMD."""

    registers: int
    """Per lane of one SIMD (AMD), or 32-bit registers of one scheduler (NVIDIA)."""
    register_step: int
    """AMD: per lane. NVIDIA: registers per warp."""
    waves: int
    """Per SIMD."""
    shared: int
    """Per CU or SM."""
    shared_step: int
    shared_reserved: int
    """Taken from each block by the system."""
    blocks: int
    """Per CU or SM."""
    shared_of_block: int
    """The most that one block may ask for."""
    source: str


CDNA_SOURCE = (
    "AMD CDNA instruction set documents (512 registers per lane and SIMD in steps of 8, 8 waves, 4 SIMDs) and LLVM's "
    "AMDGPU occupancy (16 workgroups of several waves per CU, 7 waves above 100 SGPRs)"
)
CUDA_SOURCE = (
    "CUDA C++ Programming Guide, technical specifications per compute capability (64 Ki registers per SM in steps of "
    "256 per warp, 1 KiB of shared memory reserved per block); blocks per SM by cuda_occupancy.h of CUDA 13.0"
)
RDNA_SOURCE = (
    "LLVM's AMDGPU occupancy in wave32 (1536 registers per lane and SIMD in steps of 24 on gfx1100, gfx1101, gfx1151 and "
    "gfx12, else 1024 in steps of 16; 16 waves) per WGP of 4 SIMDs and 128 KiB of LDS, of which a block takes 64"
)
KIB = 1024


def _cdna(*, lds_kib: int, step: int) -> Hardware:
    return Hardware(
        registers=512,
        register_step=8,
        waves=8,
        shared=lds_kib * KIB,
        shared_step=step,
        shared_reserved=0,
        blocks=16,
        shared_of_block=lds_kib * KIB,
        source=CDNA_SOURCE,
    )


def _rdna(*, registers: int, step: int) -> Hardware:
    return Hardware(
        registers=registers,
        register_step=step,
        waves=16,
        shared=128 * KIB,
        shared_step=512,
        shared_reserved=0,
        blocks=32,
        shared_of_block=64 * KIB,
        source=RDNA_SOURCE,
    )


def _cuda(*, shared_kib: int, waves: int = 16, blocks: int = 32) -> Hardware:
    return Hardware(
        registers=16 * KIB,
        register_step=256,
        waves=waves,
        shared=shared_kib * KIB,
        shared_step=128,
        shared_reserved=KIB,
        blocks=blocks,
        shared_of_block=(shared_kib - 1) * KIB,
        source=CUDA_SOURCE,
    )


HARDWARE = {
    "gfx90a": _cdna(lds_kib=64, step=512),
    "gfx942": _cdna(lds_kib=64, step=512),
    "gfx950": _cdna(lds_kib=160, step=1280),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"), _rdna(registers=1536, step=24)),
    "gfx1102": _rdna(registers=1024, step=16),
    "sm_80": _cuda(shared_kib=164),
    "sm_86": _cuda(shared_kib=100, waves=12, blocks=16),
    "sm_89": _cuda(shared_kib=100, waves=12, blocks=24),
    "sm_90": _cuda(shared_kib=228),
    "sm_100": _cuda(shared_kib=228),
    "sm_103": _cuda(shared_kib=228),
    "sm_120": _cuda(shared_kib=100, waves=12, blocks=24),
    "sm_121": _cuda(shared_kib=100, waves=12, blocks=24),
}
THREADS = 1024
"""The most in a block, on every architecture here."""
TENSOR_COLUMNS = 512
"""Of tensor memory per SM (sm_100; NVIDIA's Tilus guide): a block that allocates all is alone on its SM."""
SGPR_FREE = 100
"""More SGPRs than these leave room for 7 waves of a SIMD (gfx9)."""
SGPR_WAVES = 7
WAVE64 = 64
"""Lanes of a wave of CDNA, which alone shares its scalar registers out."""


def occupancy(target: Target, resources: Resources) -> Occupancy | None:
    """Waves that fit, and what stops one more. None where the registers are not known.

    Whole blocks are placed: a block of 8 waves takes 2 on each SIMD or does not fit. Where the block's size is unknown
    a block is taken to be one wave, and LDS is then left out.
    """
    registers = resources.vgpr_total if target.vendor == "amd" else resources.arch_vgpr
    hardware = HARDWARE.get(target.arch)
    if registers is None or hardware is None:
        return None
    per_block = max(1, ceil(resources.threads / target.wave)) if resources.threads else None
    tier = register_tier(target, registers)
    limits: dict[Limiter, int] = {"registers": tier * SIMDS, "waves": hardware.waves * SIMDS}
    if per_block is not None:
        limits["blocks"] = _block_slots(target, hardware, per_block) * per_block
        if resources.tensor_columns:
            limits["tensor_memory"] = TENSOR_COLUMNS // resources.tensor_columns * per_block
        if resources.lds_bytes:
            limits["shared"] = hardware.shared // _round_up(resources.lds_bytes, hardware) * per_block
    if target.wave == WAVE64 and resources.sgpr is not None and resources.sgpr > SGPR_FREE:
        limits["scalar"] = SGPR_WAVES * SIMDS
    waves = {name: most // (per_block or 1) * (per_block or 1) for name, most in limits.items()}
    least = min(waves.values())
    return Occupancy(
        waves_per_simd=least / SIMDS,
        most=hardware.waves,
        share=least / (hardware.waves * SIMDS),
        blocks_per_unit=None if per_block is None else least // per_block,
        limiter=_limiter(limits, waves, least),
        limits=tuple(Named(name=name, value=most) for name, most in limits.items()),
        register_tier=tier,
        registers_for_next=_for_next(target, hardware, tier, per_block or 1),
        source=hardware.source,
    )


def launch_refusals(target: Target, resources: Resources) -> tuple[str, ...]:
    """Machine code: what of a block is over the device's limits, so that its launch fails; empty where nothing is."""
    hardware = HARDWARE.get(target.arch)
    asked = (
        ("threads", resources.threads, THREADS),
        ("bytes of shared memory", resources.lds_bytes, hardware.shared_of_block if hardware else None),
        ("columns of tensor memory", resources.tensor_columns, TENSOR_COLUMNS),
    )
    return tuple(
        f"cannot be launched: a block of it has {size} {what}, and {target.arch} takes {most}"
        for what, size, most in asked
        if size is not None and most is not None and size > most
    )


def register_tier(target: Target, registers: int) -> int:
    """Waves per SIMD that `registers` per lane leave room for; 0 when even one does not fit."""
    hardware = HARDWARE[target.arch]
    if target.vendor == "amd":
        each = max(1, ceil(registers / hardware.register_step)) * hardware.register_step
    else:
        each = max(1, ceil(registers * target.wave / hardware.register_step)) * hardware.register_step
    return min(hardware.waves, hardware.registers // each)


def _for_next(target: Target, hardware: Hardware, tier: int, per_block: int) -> int | None:
    """The most registers per lane with which one more block than now fits; None where the wave slots end first."""
    blocks = tier * SIMDS // per_block + 1
    waves = ceil(blocks * per_block / SIMDS)
    if waves > hardware.waves:
        return None
    share = hardware.registers // waves // hardware.register_step * hardware.register_step
    return share if target.vendor == "amd" else share // target.wave


def _block_slots(target: Target, hardware: Hardware, per_block: int) -> int:
    if per_block * target.wave > THREADS:
        return 0
    if target.vendor == "amd" and per_block == 1:  # one wave needs no barrier, so its slots are those of waves
        return hardware.waves * SIMDS
    return hardware.blocks


def _round_up(size: int, hardware: Hardware) -> int:
    return ceil((size + hardware.shared_reserved) / hardware.shared_step) * hardware.shared_step


def _limiter(limits: dict[Limiter, int], waves: dict[Limiter, int], least: int) -> Limiter:
    """Machine code: the tightest of those that give the result; the hardware's own wave slots only where nothing else does."""
    tied = [name for name, most in waves.items() if most == least]
    by_resource = [name for name in tied if name != "waves"]
    if "waves" in tied and limits["waves"] <= min(limits[name] for name in tied):
        return "waves"
    return min(by_resource or tied, key=lambda name: limits[name])
