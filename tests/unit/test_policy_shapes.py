"""Representative shapes, classes and the guarded set."""

import pytest

from ridgeline.graph.rules.shapes import (
    NoShapes,
    SkewMissing,
    choose_representative,
    core_shapes,
    is_grouped,
    list_classes,
)
from tests.builders import METRIC, make_contract, make_row

NO_WORK = {"work": {}}


def sized(label, size, stddev=0.0, check="PASS"):
    metrics = {"M": size, "N": 1.0, "K": 1.0, METRIC: 100.0, f"{METRIC}_stddev": stddev, "Time (ms)": 1000.0 - size}
    return make_row(label, check=check, metrics=metrics)


SEVEN = [sized(f"s{n}", float(n), stddev=0.1 * n) for n in (4, 1, 7, 2, 6, 3, 5)]


@pytest.mark.feature("F020")
def test_small_medium_large_and_the_two_noisiest_in_benchmark_order():
    assert choose_representative(SEVEN, make_contract()) == ("s4", "s1", "s7", "s6", "s5")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([sized("a", 1)], ("a",)),
        ([sized("a", 1), sized("b", 2)], ("a", "b")),
        ([sized(c, ord(c)) for c in "dcba"], ("d", "c", "a")),
        ([sized("a", 1), sized("bad", 9, check="FAIL"), sized("b", 2), sized("c", 3)], ("a", "b", "c")),
    ],
)
def test_few_shapes_no_spread_and_failed_rows(rows, expected):
    assert choose_representative(rows, make_contract()) == expected


def test_size_falls_back_to_bytes_time_and_position():
    only_bytes = make_contract(work={"bytes": "-M"})
    assert choose_representative(SEVEN, only_bytes) == choose_representative(SEVEN, make_contract())
    timed = choose_representative(SEVEN, make_contract(**NO_WORK))
    assert set(timed) == {"s1", "s4", "s7", "s6", "s5"}
    plain = make_contract(**NO_WORK, scoring={"primary_metric": METRIC})
    assert choose_representative([sized(c, 1) for c in "abcde"], plain) == ("a", "c", "e")


def test_nothing_passed():
    with pytest.raises(NoShapes):
        choose_representative([sized("a", 1, check="ERROR")], make_contract())


@pytest.mark.feature("F021")
@pytest.mark.parametrize("op", ["moe_fp8", "grouped_gemm_bf16", "gemm_group"])
def test_a_grouped_operator_needs_a_skewed_shape(op):
    with pytest.raises(SkewMissing, match="skew_shapes"):
        choose_representative(SEVEN, make_contract(target_op=op))
    chosen = choose_representative(SEVEN, make_contract(target_op=op, skew_shapes=("s2", "s3")))
    assert chosen == ("s4", "s1", "s7", "s2", "s6", "s3", "s5")


@pytest.mark.feature("F021")
@pytest.mark.parametrize("op", ["groupnorm_bf16", "per_token_group_quant", "grouped_query_attention", "conv2d_groups"])
def test_groups_of_channels_or_heads_need_no_skewed_shape(op):
    assert not is_grouped(make_contract(target_op=op))
    assert choose_representative(SEVEN, make_contract(target_op=op))


@pytest.mark.feature("F021")
def test_a_skewed_shape_that_did_not_pass_is_named():
    rows = [*SEVEN, sized("hot", 8, check="FAIL")]
    with pytest.raises(SkewMissing, match="hot"):
        choose_representative(rows, make_contract(skew_shapes=("hot",)))


@pytest.mark.feature("F107")
def test_classes_come_from_the_columns_that_exist():
    rows = [
        make_row("a", config=(("block", "64"),)),
        make_row("b", config=(("block", "16"),)),
        make_row("c", config=()),
    ]
    assert list_classes([*rows, rows[0]]) == ("block=64", "block=16", "all")


def test_core_shapes_default_to_the_active_set():
    assert core_shapes(make_contract(), ["a", "b"]) == ("a", "b")
    assert core_shapes(make_contract(core_shapes=("b",)), ["a", "b"]) == ("b",)
