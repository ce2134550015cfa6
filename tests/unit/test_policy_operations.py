"""Operations and bytes of every operator family, each against numbers worked out by hand."""

import pytest

from ridgeline.graph.rules.operations import FAMILIES, SizeError, Types, amount, canonical, family, sizes, types


def work(op, shape, dtype="bf16", out=None):
    found = family(op)
    return amount(found, sizes(found, shape.split(",")), types(found, dtype, out))


@pytest.mark.feature("F071")
@pytest.mark.parametrize(
    ("op", "shape", "dtype", "flops", "moved"),
    [
        # M=2 N=3 K=4: A has 8, B 12, C 6 elements of two bytes
        ("gemm", "2,3,4", "bf16", 48, 2 * (8 + 12 + 6)),
        ("gemm", "K=4,M=2,N=3", "bf16", 48, 52),
        ("gemm", "4096,4096,4096", "bf16", 137438953472, 100663296),
        # FP8 in, BF16 out
        ("gemm", "2,3,4", "fp8", 48, 8 + 12 + 6 * 2),
        ("batched_gemm", "5,2,3,4", "bf16", 240, 260),
        # two groups of 3 x 4 weights, six rows in all: A 6*4, B 2*12, C 6*3
        ("grouped_gemm", "2,6,3,4", "bf16", 2 * 6 * 3 * 4, 2 * (24 + 24 + 18)),
        # K=256 is two blocks, N=130 two: scales of A 2*2, of B 2*2, 4 bytes each
        ("gemm_blockscaled", "2,130,256", "fp8", 2 * 2 * 130 * 256, 2 * 256 + 256 * 130 + 2 * 130 * 2 + 4 * (4 + 4)),
        # weights half a byte, two groups of scales: 2 * N * 2 bytes
        ("gemm_w4a16", "2,3,256", "fp16", 2 * 2 * 3 * 256, 2 * 256 * 2 + 256 * 3 / 2 + 2 * 3 * 2 + 2 * 3 * 2),
        ("gemm_backward", "2,3,4", "bf16", 96, 2 * (8 + 12 + 6) + 2 * (8 + 12)),
        ("matvec", "3,4", "fp32", 24, 4 * (12 + 4 + 3)),
        # B=1 H=2 S=3 D=4: 9 pairs; Q, K, V, O of 24 elements each
        ("attention", "1,2,3,4", "bf16", 4 * 2 * 4 * 9, 2 * 4 * 24),
        # causal: 1 + 2 + 3 pairs, one key and value head of 12 elements
        ("attention", "1,2,3,4,1,1", "bf16", 4 * 2 * 4 * 6, 2 * (24 + 24 + 2 * 12)),
        # prefill after a cache of two: pairs 3 + 4 + 5
        ("attention", "1,2,3,4,2,1,5", "bf16", 4 * 2 * 4 * 12, 2 * (24 + 24 + 2 * 40)),
        # reads Q O dO (24 each), K V (24 each), statistics 4 bytes for 6 rows; writes dQ dK dV
        ("attention_backward", "1,2,3,4", "bf16", 10 * 2 * 4 * 9, 2 * 5 * 24 + 2 * 3 * 24 + 24),
        # one token over 5 cached, 4 query heads on 2 cached heads
        ("attention_decode", "1,4,5,8,2", "bf16", 4 * 4 * 5 * 8, 2 * 2 * 2 * 5 * 8 + 2 * 2 * 4 * 8),
        # FP8 cache, 16-bit Q and O
        ("attention_decode", "1,4,5,8,2", "fp8", 640, 2 * 2 * 5 * 8 + 2 * 2 * 4 * 8),
        # 33 tokens are three pages: three entries of the table
        ("attention_paged", "1,1,33,8", "bf16", 4 * 33 * 8, 2 * 2 * 33 * 8 + 2 * 2 * 8 + 12),
        ("layernorm", "2,8", "bf16", 7 * 16, 2 * (16 + 16 + 2 * 8)),
        ("layernorm_backward", "2,8", "bf16", 13 * 16, 2 * (32 + 8) + 2 * 2 * 4 + 2 * (16 + 16)),
        ("rmsnorm", "2,8", "bf16", 4 * 16, 2 * (16 + 16 + 8)),
        ("rmsnorm_backward", "2,8", "bf16", 9 * 16, 2 * (32 + 8) + 2 * 4 + 2 * (16 + 8)),
        ("softmax", "2,8", "fp32", 80, 128),
        ("softmax_backward", "2,8", "fp32", 64, 3 * 64),
        ("reduction", "2,8", "fp32", 14, 64 + 8),
        ("scan", "2,8", "fp32", 14, 128),
        ("elementwise", "10", "fp32", 10, 80),
        ("elementwise", "10,2,3", "fp32", 30, 120),
        ("elementwise", "10,1,0", "fp32", 0, 80),
        # 200 columns are two groups of 128
        ("quantization", "3,200", "bf16", 2400, 3 * 200 * 3 + 4 * 3 * 2),
        ("dequantization", "3,200", "fp8", 600, 3 * 200 * 3 + 24),
        ("copy", "10", "fp32", 0, 80),
        # two tokens, width 4, inner 8, four experts, one each: two experts are hit
        ("moe", "2,4,8,4,1", "bf16", 6 * 2 * 4 * 8 + 2 * 2 * 4 * 4, 2 * (8 + 16 + 3 * 2 * 32) + 2 * 8 + 8 * 2),
        # all tokens on one expert
        ("moe", "2,4,8,4,1,1", "bf16", 6 * 2 * 4 * 8 + 64, 2 * (8 + 16 + 3 * 32) + 16 + 16),
    ],
)
def test_work_of_a_call(op, shape, dtype, flops, moved):
    found = work(op, shape, dtype)
    assert (found.flops, found.bytes) == (flops, moved)


def test_every_family_is_worked_out_and_explains_itself():
    covered = {case[0] for case in test_work_of_a_call.pytestmark[0].args[1]}
    assert set(FAMILIES) <= covered
    assert all(found.formula for found in FAMILIES.values())


def test_intensity_of_nothing_that_moves_is_none():
    assert work("gemm", "4096,4096,4096").intensity == pytest.approx(1365.33, abs=0.01)
    assert work("copy", "8").intensity == 0


@pytest.mark.parametrize(
    ("op", "dtype", "out", "expected"),
    [
        ("gemm", "bfloat16", None, Types(main="bf16", out="bf16")),
        ("gemm", "e4m3", None, Types(main="fp8", out="bf16")),
        ("gemm", "fp8", "fp8", Types(main="fp8", out="fp8")),
        ("softmax", "fp8", None, Types(main="fp8", out="fp8")),
        ("quantize", "bf16", None, Types(main="bf16", out="fp8")),
        ("dequantize", "fp8", "float32", Types(main="fp8", out="fp32")),
    ],
)
def test_types(op, dtype, out, expected):
    assert types(family(op), dtype, out) == expected


def test_block_formats_carry_their_scales():
    assert Types(main="mxfp4", out="fp32").read_bytes * 32 == 17
    assert Types(main="nvfp4", out="fp32").read_bytes * 16 == 9
    assert canonical(" Half ") == "fp16"


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "said"),
    [
        ("gem", "1,2,3", "bf16", "did you mean"),
        ("zzzz", "1,2,3", "bf16", "one of gemm"),
        ("gemm", "1,2", "bf16", "K missing; gemm takes M,N,K"),
        ("gemm", "1,2,3,4", "bf16", "4 or more sizes"),
        ("gemm", "1,2,M=3", "bf16", "given twice"),
        ("gemm", "1,2,Q=3", "bf16", "no size of this operator"),
        ("gemm", "1,2,x", "bf16", "K is 'x'; give a whole number"),
        ("gemm", "1,2,0", "bf16", "K is 0; it must be 1 or more"),
        ("attention", "1,1,1,1,1,-1", "bf16", "0 or more"),
        ("gemm", "1,2,3", "fp7", "unknown type 'fp7'"),
        ("attention", "1,2,3,4,2,1,2", "bf16", "needs SKV of at least S"),
        ("moe", "2,4,8,4,5", "bf16", "TOPK is 5 of 4 experts"),
        ("moe", "2,4,8,4,1,3", "bf16", "1 to 2 experts can be hit"),
    ],
)
def test_what_cannot_be_is_refused_with_its_mend(op, shape, dtype, said):
    with pytest.raises(SizeError, match=said.replace("(", r"\(")):
        work(op, shape, dtype)
