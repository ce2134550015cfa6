"""Sentences of recorded answers that are one change, though they name tiles and pipelines, and some that are two."""

import pytest

from ridgeline.graph.rules.change import explain_several_changes, find_change_kinds
from tests.builders import make_hypothesis

SINGLE = (
    # conv3x3: what one place is called, twice
    "add software prefetch of the next row block, at the same column, to the tile loop",
    "prefetch of the next row block inside the tile loop",
    "In each tile, prefetch at the same columns the lines of the next row block: the 4 new input rows (p + 6*w .. "
    "p + 9*w, read) and the 4 output rows (q + 4*ow .. q + 7*ow, for write), issued for every second tile since a "
    "line holds two tiles.",
    # attention: a block with the loop order that it needs
    "Cache-block the query rows: a block of 24 rows (4 tiles of 6; p becomes 24*seq floats) in place of 6, with the "
    "loop order that this reuse needs: for the scores, key panel outside and the 4 row tiles inside; for the output, "
    "chunks of 64 keys outside, then the 16-column panel, then the 4 row tiles, where the tile adds its scaled result "
    "to out from the second chunk on. The last block takes fewer tiles, its last tile overlapping as now. The register "
    "tile itself stays 6x16.",
    "Let each panel serve 24 query rows (4 register tiles of 6x16; p holds 24*seq floats), with the loop order that "
    "this reuse needs: scores with the key panel outside and the row tiles inside; output with chunks of 64 keys "
    "outside, then the 16-column panel, then the row tiles, the tile adding its scaled result to out from the second "
    "chunk on. Rows left at the end take fewer tiles; a last overlapping tile runs as a block of its own, from the "
    "first chunk on.",
    "Specialise the score tile for dim 32 and dim 64: an always_inline body with constant n, lda and ldb and a pragma "
    "GCC unroll 4, called from two noinline wrappers; other dims use the present tile.",
    "Specialise the score tile for dim 32 and dim 64: one always_inline body with constant n, lda and ldb and pragma "
    "GCC unroll 4, in two noinline wrappers; other dims and the output product keep the present tile.",
    "Copy V per head into 64-byte aligned panels of 16 columns, as is done for K, and call the output tile on them "
    "with ldb = 16.",
    # gemm: the order of tiles is not their size
    "make tma_gemm_gelu_kernel persistent: a grid of at most one program per SM, an outer tl.range(pid, tiles, "
    "programs, flatten=True) over tiles in the present order with the K loop inside; tile, warps and stages stay",
    "tma_gemm_gelu_kernel becomes persistent: a grid of at most one block per multiprocessor, each walking tiles with "
    "tl.range(pid, tiles, programs, flatten=True) in today's M-first order; tile, warps, buffers, loads and epilogue "
    "arithmetic stay.",
    "tma_gemm_gelu_kernel becomes persistent: one block per multiprocessor walks the tiles with stride num_programs in "
    "today's order, in a tl.range(..., flatten=True) loop around the K loop, so that the load pipeline runs on across "
    "tiles",
    "split_k_kernel reads A and B through tensor descriptors where the operands are aligned (as the large path does), "
    "with the pointer kernel kept for the others; tile, warps, stages and splits stay",
    # layernorm: blocks that a transpose works on
    "blocks of eight rows are summed with rows as lanes: 8 x 8 columns of floats are transposed in AVX2 registers "
    "(target avx2,fma) and widened, so that each fp64 lane sums one row for mean and for variance; the output loop and "
    "the code for left-over rows stay as now, left-over columns of the block are added lane by lane.",
    "blocks of eight rows by eight columns are transposed in AVX2 registers so that the lanes of the fp64 vectors are "
    "rows, for both sums and the output, with today's code for rows and columns left over.",
    # reverse cumulative sum
    "in the unaligned loop, load the next block to the left before the scan of the present one and carry it into the "
    "next step; the first block is loaded ahead of the loop",
    "In the odd-row branch of cumsum_kernel, load the block of the next iteration before scanning the current one and "
    "carry it in a register tile.",
)
DOUBLE = (
    ("tile size 64 and also double buffering", ("tile size", "buffering")),
    ("tile size 64 and double buffering", ("tile size", "buffering")),
    ("prefetch the next row block inside the tile loop and raise the tile size from 64 to 128",
     ("buffering", "tile size")),
    ("a 128x128 tile, together with a prefetch of the next block", ("tile size", "buffering")),
    ("double-buffer the loads of the tile loop; also swizzle the tile in shared memory", ("buffering", "data layout")),
    ("tile the k loop by 64, then prefetch the next row block", ("tile size", "buffering")),
    ("make the kernel persistent over tiles and use larger tiles", ("scheduling", "tile size")),
    ("hoist the scale out of the tile loop, and block the columns by 256", ("hoisting", "tile size")),
    ("split the rows into blocks of 32 and interchange the two inner loops", ("tile size", "data layout")),
    ("use MFMA 32x32 for the tile product along with double buffering of its operands",
     ("matrix instruction", "buffering")),
    ("block the loops for the first cache plus OpenMP over the row blocks", ("tile size", "threads")),
    ("pass -O3 for the tile loop and transpose b before it", ("compiler flags", "data layout")),
)  # fmt: skip


@pytest.mark.feature("F031")
@pytest.mark.parametrize("change", SINGLE)
def test_where_a_change_is_made_is_no_second_change(change):
    assert explain_several_changes(make_hypothesis(change=change)) is None


@pytest.mark.feature("F031")
@pytest.mark.parametrize(("change", "named"), DOUBLE)
def test_two_changes_are_two_wherever_they_are_made(change, named):
    assert find_change_kinds(change) == named
    assert (explain_several_changes(make_hypothesis(change=change)) or "").startswith("names 2 changes")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("prefetch the next row", ("buffering",)),
        ("speed up the scan by double buffering and by tiling", ("buffering", "tile size")),
        ("a non-blocking store in the pipelined loop", ()),
        ("store the sums in order to feed the pipeline, and hoist the scale", ("hoisting",)),
        ("a change of tile size", ("tile size",)),
        ("each row block is scanned from the right", ()),
    ],
)
def test_kinds_of_what_is_done(change, named):
    assert find_change_kinds(change) == named
