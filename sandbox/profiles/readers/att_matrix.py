"""How long the matrix pipe of a SIMD works on one MFMA instruction, and which chip the code can only be for."""

import re
from collections.abc import Sequence

from ridgeline.sandbox.profiles.readers.att_code import Instruction

SIMDS = 4
"""Per compute unit, on every CDNA chip."""
PEAK = {
    "gfx90a": {"f64": 256, "f32": 256, "f16": 1024, "bf16": 1024, "i8": 1024},
    "gfx942": {"f64": 256, "f32": 256, "xf32": 1024, "f16": 2048, "bf16": 2048, "i8": 4096, "f8": 4096},
    "gfx950": {"f64": 128, "f32": 256, "f16": 4096, "bf16": 4096, "i8": 8192, "f8": 8192, "f6f4": 16384},
}
"""Floating-point operations per clock and compute unit. Sources: AMD's white papers of CDNA 2, 3 and 4."""
_MFMA = re.compile(r"v_(mfma|smfmac)_(?:scale_)?(f32|f64|i32)_(\d+)x(\d+)x(\d+)_?(?:(\d+)b_)?(\w+)")
_ONLY_GFX950 = re.compile(
    r"v_mfma_scale_|v_mfma_\w+_f8f6f4|ds_read_b(64|96)_tr_|v_permlane(16|32)_swap|v_cvt_scalef32_"
)


def arch(code: Sequence[Instruction], generation: str | None) -> str | None:
    """The chip, where an instruction exists on one alone; a trace names only its generation (9: gfx90a to gfx950)."""
    if generation != "9":
        return None
    return "gfx950" if any(_ONLY_GFX950.match(row.isa) for row in code) else None


def cycles(isa: str, chip: str | None) -> float | None:
    """Least cycles of a SIMD's matrix pipe for one MFMA: its operations over the peak of its type.

    An unknown chip counts as the fastest, so that use of the pipe is never overstated. None for what is not an MFMA of
    a known type. Older shapes run below the peak of a newer chip: a lower bound.
    """
    match = _MFMA.match(isa)
    if match is None:
        return None
    m, n, k, blocks = (int(digits or 1) for digits in match.group(3, 4, 5, 6))
    family = _family(match.group(7).split(" ")[0])
    chips = [PEAK[chip]] if chip in PEAK else list(PEAK.values())
    peak = max((peaks[family] for peaks in chips if family in peaks), default=None)
    # a structured-sparse instruction skips half of K
    operations = 2 * m * n * k * blocks / (2 if match.group(1) == "smfmac" else 1)
    return None if peak is None else operations / (peak / SIMDS)


def busy(code: Sequence[Instruction], busy_cycles: int, chip: str | None) -> float | None:
    """Share of `busy_cycles` in which the matrix pipe had work, at least; None where no MFMA is in the code."""
    costs = [(row.hits, cycles(row.isa, chip)) for row in code if row.kind == "mfma"]
    known = [hits * cost for hits, cost in costs if cost is not None]
    return sum(known) / busy_cycles if known and busy_cycles else None


def _family(types: str) -> str:
    for prefix, family in (
        ("f8f6f4", "f6f4"), ("fp8", "f8"), ("bf8", "f8"), ("bf16", "bf16"), ("f16", "f16"), ("i8", "i8"),
        ("xf32", "xf32"), ("f32", "f32"), ("f64", "f64"),
    ):  # fmt: skip
        if types.startswith(prefix):
            return family
    return types
