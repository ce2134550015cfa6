"""Operations and bytes of every operator family, each against numbers worked out by hand."""

from itertools import product
from pathlib import Path

import pytest
import yaml

from ridgeline.graph.formula import evaluate
from ridgeline.graph.rules.operations import FAMILIES, SizeError, Types, amount, canonical, family, sizes, span, types

ROOT = Path(__file__).parents[2]


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
        # K=40 is two blocks of 32 and three of 16: a row is 20 bytes of elements and its scales, 5 rows; 2 x 3 outputs
        ("gemm_mxfp4", "2,3,40", "mxfp4", 480, 5 * (20 + 2) + 2 * 6),
        ("gemm_nvfp4", "2,3,40", "nvfp4", 480, 5 * (20 + 3) + 2 * 4 + 2 * 6),
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
        # a 3 x 3 filter on 5 x 6 without padding: 3 x 4 outputs of nine taps; task conv3x3_c says 18 (h - 2) (w - 2)
        ("conv2d", "1,1,5,6,1,3", "fp32", 18 * 3 * 4, 4 * (5 * 6 + 9 + 3 * 4)),
        # padded by one: rows meet 2 + 3 + 3 + 3 + 2 taps, columns 2 + 3 + 3 + 2; 2 images, 4 channels, 6 filters in 2 groups
        ("conv2d", "2,4,5,4,6,3,PAD=1,GROUPS=2", "bf16", 2 * 2 * 6 * 2 * 13 * 10, 2 * (160 + 6 * 2 * 9 + 2 * 6 * 20)),
        # 1 x 1 with a stride of two meets rows 0 2 4 and columns 0 2 alone
        ("conv2d", "1,8,5,4,3,1,1,2", "bf16", 2 * 3 * 8 * 6, 2 * (8 * 6 + 3 * 8 + 3 * 6)),
        # taps 0 2 4 of a row of seven: outputs 0 1 2, every position met; a column of one
        ("conv2d", "1,1,7,1,1,3,1,1,0,2", "fp32", 2 * 9, 4 * (7 + 3 + 3)),
        # every channel with its own filter: 3 channels, 4 x 4, stride 2, padded by one: taps 2 + 3 of a side, all met
        ("conv2d_depthwise", "1,3,4,4,3,3,2,1", "fp16", 2 * 3 * 5 * 5, 2 * (3 * 16 + 3 * 9 + 3 * 4)),
        # 2 x 2 becomes 4 x 4: each of the 4 inputs of 3 channels meets four taps of 5 filters
        ("conv2d_transposed", "1,3,2,2,5,2,2,2", "fp16", 2 * 3 * 5 * 16, 2 * (3 * 4 + 3 * 5 * 4 + 5 * 16)),
        # padded by one, 2 becomes 3 - 0: (2 - 1) 2 - 2 + 3 = 3; each input loses one of its three taps a side
        ("conv2d_transposed", "1,1,2,2,1,3,3,2,1", "fp32", 2 * 4 * 4, 4 * (4 + 9 + 9)),
        # 8 tokens, 2 heads of 4 with 16 states, one group: the recurrence has 4 * 8 * 2 * 64, one masked product less
        ("ssd", "1,8,2,4,16", "bf16", 8 * 9 * (16 + 8), 2 * 8 * (8 + 32 + 2) + 2 * 8 * 8 + 4 * 2),
        ("ssd", "1,800,2,4,16", "bf16", 4 * 800 * 2 * 64, 2 * 800 * (8 + 32 + 2) + 2 * 800 * 8 + 4 * 2),
        # one token decoded: the states of 3 sequences are read and written in FP32
        ("ssd", "3,1,2,4,16,1,2", "bf16", 4 * 3 * 2 * 64, 2 * 3 * 42 + 2 * 3 * 8 + 4 * 2 + 4 * 2 * 3 * 2 * 64),
        # 5 tokens: 30 pairs' worth of width 4 + 8 is less than 4 * 5 * 32; with a state kept it is not taken
        ("linear_attention", "1,5,2,4,8", "bf16", 5 * 6 * 2 * 12, 2 * 10 * (8 + 8) + 2 * 10 * 8),
        ("linear_attention", "1,5,2,4,8,1", "bf16", 4 * 10 * 32, 2 * 10 * 16 + 2 * 10 * 8 + 4 * 2 * 32),
        # 4 heads of values on 2 of keys: q and k 2 * 2 * 4, v 4 * 8, g and beta 2 * 4 numbers a token
        ("gated_delta_rule", "1,3,4,4,8,2", "bf16", 2 * 9 * (8 + 32), 2 * 3 * (16 + 32 + 8) + 2 * 3 * 32),
        ("gated_delta_rule", "2,1,4,4,8,2,2", "bf16", 6 * 2 * 128, 2 * 2 * 56 + 2 * 2 * 32 + 4 * 2 * 2 * 128),
        # the best 3 of 100: values of two bytes with positions of four
        ("topk", "2,100,3", "bf16", 2 * 99, 2 * 200 + 2 * 3 * 6),
        ("sampling", "2,100", "bf16", 1200, 2 * 200 + 2 * 8),
        ("cross_entropy", "2,100", "bf16", 800, 2 * 200 + 2 * (4 + 4)),
        ("cross_entropy_fused", "2,100", "bf16", 1000, 2 * 400 + 2 * (4 + 4)),
        # each of four devices adds three quarters of an element to its share, the residual, and normalises
        ("allreduce_rmsnorm", "2,8,4", "bf16", 16 * 5.75, 2 * 4 * 16 + 2 * 8),
        # 5 tokens, 4 heads and 2 cached ones of width 8: Q in and out, K and V in and out, 8 sines and cosines, 8 bytes
        ("rope_kv_write", "5,4,8,2", "bf16", 5 * 6 * 4 * 6, 5 * (2 * 2 * 32 + 2 * 2 * 32 + 2 * 8 + 8)),
        # half of each head turns; the other half of Q stays where it is
        ("rope_kv_write", "5,4,8,2,4", "bf16", 5 * 6 * 2 * 6, 5 * (2 * 2 * 16 + 2 * 2 * 32 + 2 * 4 + 8)),
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


def test_taps_of_a_convolution_are_those_that_counting_them_gives():
    for extent, filter_taps, stride, pad, dilation in product(range(1, 10), range(1, 5), (1, 2, 3), (0, 1, 2), (1, 2)):
        outputs = (extent + 2 * pad - dilation * (filter_taps - 1) - 1) // stride + 1
        if outputs < 1:
            continue
        places = [p * stride - pad + r * dilation for p, r in product(range(outputs), range(filter_taps))]
        inside = [place for place in places if 0 <= place < extent]
        counted = span(extent, filter_taps, stride=stride, pad=pad, dilation=dilation)
        assert (counted.outputs, counted.taps, counted.touched) == (outputs, len(inside), len(set(inside)))


@pytest.mark.parametrize("op", ["gemm_mxfp4", "gemm_nvfp4"])
def test_a_product_of_block_formats_is_the_plain_one_where_blocks_are_whole(op):
    dtype = op.removeprefix("gemm_")
    assert work(op, "64,128,256", dtype).bytes == work("gemm", "64,128,256", dtype).bytes + (
        8 if dtype == "nvfp4" else 0
    )


@pytest.mark.parametrize(
    ("task", "dims", "op", "shape"),
    [
        ("evals/tasks/conv3x3_c", {"h": 1026, "w": 771}, "conv2d", "1,1,1026,771,1,3"),
        # targets of eight bytes there, of four here
        ("tests/adversarial/tasks/cross_entropy", {"rows": 128, "cols": 1000}, "cross_entropy", "128,1000"),
    ],
)
def test_tasks_that_write_their_own_formulas_agree(task, dims, op, shape):
    declared = yaml.safe_load((ROOT / task / "task.yaml").read_text())
    index_bytes = 4 * dims.get("rows", 0) if op == "cross_entropy" else 0
    of_family = work(op, shape, "fp32")
    assert of_family.flops == evaluate(str(declared["flops"]), dims)
    assert of_family.bytes == evaluate(str(declared["bytes"]), dims) - index_bytes


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
        ("topk", "2,4,5", "bf16", "K is 5 of 4 columns"),
        ("conv2d", "1,1,2,2,1,3", "bf16", "a filter of 3 taps, 1 apart, is longer than 2"),
        ("conv2d", "1,4,4,4,6,1,GROUPS=4", "bf16", "GROUPS=4 must divide C=4 and K=6"),
        ("conv2d_transposed", "1,1,1,1,1,1,PAD=1", "bf16", "PAD=1 leaves no output"),
        ("gated_delta_rule", "1,1,3,4,4,2", "bf16", "H=3 heads of values are no multiple of HK=2"),
        ("allreduce_rmsnorm", "2,8,1", "bf16", "an all-reduce needs 2 or more"),
        ("rope_kv_write", "1,1,8,1,16", "bf16", "ROT=16 is more than the head's width D=8"),
        ("gemm_nvfp4", "1,2,3", "bf16", "gemm_nvfp4 reads nvfp4 or fp4, not bf16"),
        ("moe", "2,4,8,4,5", "bf16", "TOPK is 5 of 4 experts"),
        ("moe", "2,4,8,4,1,3", "bf16", "1 to 2 experts can be hit"),
    ],
)
def test_what_cannot_be_is_refused_with_its_mend(op, shape, dtype, said):
    with pytest.raises(SizeError, match=said.replace("(", r"\(")):
        work(op, shape, dtype)
