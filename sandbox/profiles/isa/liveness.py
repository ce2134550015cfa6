"""Which vector registers of AMD code hold a value that is still read: liveness over its basic blocks.

LLVM prints no live registers, so they are counted from the listing, as a compiler counts them: backwards from each
read to the writes that reach it, over every branch. Both register files count together, as they are allocated from
gfx90a on. A half of a register has a bit of its own, because some loads and conversions write one half and leave the
other. A write counts for all lanes, whatever EXEC masks: so it does where LLVM gives out registers.

Operands follow AMD's CDNA3, CDNA4 and RDNA4 instruction set documents in LLVM's spelling: the first one is written,
the others are read, and the exceptions stand below.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgeline.sandbox.profiles.isa.values import Instruction

REGISTER = re.compile(r"(?<![\w.$@])([va])(?:(\d+)(?:\.([lh]))?(?![\w.])|\[(\d+)(?::(\d+))?\])")
SYMBOL = re.compile(r"(?<![\w.$@])[va]\[[^\]]*[A-Za-z_]")
"""A register by a name that the assembler resolves, as hand-written kernels have them."""
HALVES = {None: 3, "l": 1, "h": 2}
"""Bits of a register's two halves, by the letter behind it."""
FILE_BITS = 2 * 1024
"""Of the file of vector registers; accumulators stand behind them."""
LOW_HALVES = sum(1 << at for at in range(0, 2 * FILE_BITS, 2))
MEMORY = ("buffer_", "global_", "flat_", "scratch_", "tbuffer_")
RETURNS = re.compile(r"\b(?:glc|sc0)\b|TH_ATOMIC\w*RETURN")
LDS_RESULT = re.compile(r"ds_(?:read|load|b?permute|swizzle|consume|append)|ds_\w*_rtn")
ACCUMULATES = re.compile(
    r"v_(?:dual_)?(?:pk_)?(?:fmac|mac)_|v_(?:dual_)?dot\d+(?:acc|c)_|v_smfmac_|v_swmmac_|v_writelane_|v_swap|v_permlane\d+_swap"
)
"""Reads what its first operand held."""
SWAPS = re.compile(r"v_swap|v_permlane\d+_swap")
"""Writes its second operand too."""
HIGH_HALF = re.compile(r"_d16_hi\b|_d16_hi_|v_(?:fma|mad)_mixhi_")
SELECTED = re.compile(r"op_sel:\[([01,]+)\]")
SOME_LANES = re.compile(r"row_mask:0x[0-9a-e]\b|bank_mask:0x[0-9a-e]\b|(?:row|wave)_(?:shl|shr):|row_bcast")
"""Lanes that such a move does not reach keep what the register held."""
UNFOLLOWED = re.compile(r"v_movrel|s_set_gpr_idx|s_swappc|s_call|s_setpc|image_|exp$|lds_")
"""Registers by an index, calls, and what no compute kernel has."""

Block = tuple[int, int, tuple[int, ...]]
"""First and last instruction, and the blocks that may follow."""


@dataclass(frozen=True)
class Effect:
    """What one instruction does to registers, as bits of their halves."""

    written: int
    read: int


def live_registers(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> tuple[int, ...] | None:
    """Registers that hold something while each instruction runs: what it reads and writes, and what is read later.

    None where that cannot be told: calls, registers by an index or a name, a branch to a place that is not there.
    """
    blocks = _blocks(instructions, labels)
    if blocks is None or any(UNFOLLOWED.match(i.mnemonic) or SYMBOL.search(i.text) for i in instructions):
        return None
    effects = [effect_of(instruction) for instruction in instructions]
    counts = [0] * len(instructions)
    for (begin, last, _), behind in zip(blocks, _live_behind(effects, blocks), strict=True):
        live = behind
        for at in range(last, begin - 1, -1):
            held = live | effects[at].written
            live = live & ~effects[at].written | effects[at].read
            held |= live
            counts[at] = ((held | held >> 1) & LOW_HALVES).bit_count()
    return tuple(counts)


def effect_of(instruction: Instruction) -> Effect:
    """Registers that an instruction writes and reads."""
    written = read = 0
    for operation in instruction.text.split(" :: "):  # from gfx11 on one instruction may be two
        mnemonic, _, operands = operation.partition(" ")
        target, _, sources = operands.partition(",")
        if not _has_result(instruction, mnemonic):
            read |= _bits(operands)
            continue
        result = _bits(target)
        if HIGH_HALF.search(mnemonic):
            result &= LOW_HALVES << 1
        written |= result
        read |= _bits(sources) | (result if _keeps(mnemonic, sources) else 0)
        if SWAPS.match(mnemonic):
            written |= _bits(sources)
    return Effect(written, read)


def _has_result(instruction: Instruction, mnemonic: str) -> bool:
    """Machine code: whether the first operand is written."""
    if mnemonic.startswith("v_"):
        return not mnemonic.startswith("v_cmpx_")
    if mnemonic.startswith("ds_"):
        return LDS_RESULT.match(mnemonic) is not None
    if mnemonic.startswith(MEMORY):
        if "_atomic" in mnemonic:
            return RETURNS.search(instruction.text) is not None
        return "_load" in mnemonic and "lds" not in mnemonic and instruction.kind != "global_to_lds"
    return False


def _keeps(mnemonic: str, sources: str) -> bool:
    """Whether what the result's register held before is still in it, or goes into it."""
    if ACCUMULATES.match(mnemonic) or mnemonic.startswith("buffer_atomic") or "UNUSED_PRESERVE" in sources:
        return True
    if "bound_ctrl" not in sources and SOME_LANES.search(sources):
        return True
    selected = SELECTED.search(sources)
    if selected is None or mnemonic.startswith("v_pk_"):
        return False
    parts = selected[1].split(",")  # one more than there are sources where the last says which half is written
    count = len(sources[: selected.start()].rstrip().split(","))
    return len(parts) > count and "1" in parts[count - 1 if "fp4" in mnemonic else count :]


def _bits(operands: str) -> int:
    bits = 0
    for letter, one, half, begin, end in REGISTER.findall(operands):
        low = int(one or begin)
        width = int(end or low) - low + 1
        if not 0 < width <= FILE_BITS // 2 - low:
            continue
        mask = HALVES[half or None] if one else (1 << 2 * width) - 1
        bits |= mask << 2 * low + (FILE_BITS if letter == "a" else 0)
    return bits


def _blocks(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> list[Block] | None:
    """Machine code: instructions that run one after the other, and what follows them; None where a branch leads nowhere."""
    count = len(instructions)
    leaves = [i.kind == "end" or i.mnemonic.startswith(("s_branch", "s_cbranch")) for i in instructions]
    goals = {i.target for i, leave in zip(instructions, leaves, strict=True) if leave and i.kind == "branch"}
    if not goals <= labels.keys():
        return None
    begins = sorted(
        {0, *(labels[goal] for goal in goals if goal), *(at + 1 for at in range(count) if leaves[at])} - {count}
    )
    number = {begin: at for at, begin in enumerate(begins)}
    blocks = []
    for begin, after in zip(begins, (*begins[1:], count), strict=True):
        last = instructions[after - 1]
        follow = [] if last.kind == "end" or last.mnemonic == "s_branch" else [after]
        if leaves[after - 1] and last.target is not None:
            follow.append(labels[last.target])
        blocks.append((begin, after - 1, tuple(number[at] for at in follow if at in number)))
    return blocks


def _live_behind(effects: Sequence[Effect], blocks: Sequence[Block]) -> list[int]:
    """Machine code: bits that hold something behind each block, over all ways through the blocks."""
    sums = []
    for begin, last, _ in blocks:
        written = read = 0
        for effect in reversed(effects[begin : last + 1]):
            written, read = written | effect.written, read & ~effect.written | effect.read
        sums.append(Effect(written, read))
    before: list[list[int]] = [[] for _ in blocks]
    for at, (_, _, follow) in enumerate(blocks):
        for following in follow:
            before[following].append(at)
    needed, behind = [effect.read for effect in sums], [0] * len(blocks)
    waiting = list(range(len(blocks)))
    while waiting:
        at = waiting.pop()
        for following in blocks[at][2]:
            behind[at] |= needed[following]
        live = behind[at] & ~sums[at].written | sums[at].read
        if live != needed[at]:
            needed[at] = live
            waiting.extend(before[at])
    return behind
