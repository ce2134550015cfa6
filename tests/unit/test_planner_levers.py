"""Which knowledge cards a model is shown first, and how."""

import time

import pytest

from ridgeline.agent.planner.context import Context
from ridgeline.agent.planner.tools import (
    BriefedReader,
    ShippedBooks,
    describe_card,
    distinct,
    levers,
    list_other_levers,
)
from ridgeline.graph.record import Spec
from ridgeline.graph.values import FileEdit
from ridgeline.knowledge.cards import load
from tests.builders import make_hypothesis, make_machine, make_round, make_target
from tests.catalog_briefs import brief, naive

CARDS = load()
FOR_SOFTMAX = make_target(target_op="softmax_f32", target_backend="C", target_lang="C")


def ids(told) -> list[str]:
    return [card.id for card in levers(CARDS, told)]


def tried(lever: str, number: int = 2, decision: str = "rolled_back"):
    return make_round(number, decision, hypothesis=make_hypothesis(lever=lever))


def test_a_naive_product_is_shown_the_levers_for_products():
    found = ids(brief(naive("matmul_c"), bottleneck="compute"))
    assert found[:2] == ["loop-interchange", "register-tile"]
    assert {"gcc-march-native", "gcc-o3", "gcc-target-pragma", "row-jam"} <= set(found[:6])
    assert found.index("poly-exp") > found.index("row-jam")


def test_a_softmax_is_shown_the_levers_for_exponentials():
    found = ids(brief(naive("softmax_c"), bottleneck="compute", target=FOR_SOFTMAX))
    assert {"gcc-o3", "poly-exp", "exp-once"} <= set(found[:4])
    assert found.index("register-tile") > 6


@pytest.mark.parametrize(
    ("machine", "missing"),
    [({"features": ("sse2",)}, "gcc-target-pragma"), ({"features": ("sse2",)}, "vector-width")],
)
def test_what_the_machine_cannot_do_is_not_shown(machine, missing):
    told = brief(naive("matmul_c"))
    assert missing in ids(told)
    assert missing not in ids(told.model_copy(update={"machine": make_machine(**machine)}))


def test_cards_are_for_one_language_operator_and_architecture():
    target = make_target(target_op="matmul_bf16", target_backend="TRITON", target_lang="TRITON")
    hopper = brief({"kernel.py": "import triton\n"}, target=target, machine=make_machine(kind="nvidia", arch="sm_90"))
    found = {card.id: card for card in levers(CARDS, hopper)}
    assert all("triton" in card.langs for card in found.values())
    assert "gemm-split-k" in found
    assert not {"softmax-load-row-once", "hip-xcd-remap", "amd-kpack"} & set(found)


@pytest.mark.parametrize(
    ("rounds", "there"),
    [
        ((), True),
        ((tried("loop-interchange"),), False),
        ((tried("loop-interchange", decision="accepted"),), False),
        ((tried("row-jam"),), True),
    ],
)
def test_what_a_round_settled_is_not_shown_again(rounds, there):
    assert ("loop-interchange" in ids(brief(naive("matmul_c"), *rounds))) == there


def test_a_lever_worth_a_retry_comes_back_after_another_was_kept():
    lost, kept = tried("row-jam"), tried("restrict", 3, "accepted")
    assert "row-jam" not in ids(brief(naive("matmul_c"), lost))
    assert "row-jam" in ids(brief(naive("matmul_c"), lost, kept))
    assert "constant-sweep" in ids(brief(naive("matmul_c"), tried("constant-sweep")))


def test_what_the_sources_have_already_is_not_shown():
    sources = {**naive("matmul_c"), "kernel.flags": "-O3 -march=native\n"}
    assert not {"gcc-o3", "gcc-march-native"} & set(ids(brief(sources)))


def test_two_cards_of_one_reason_are_one_lever_in_two_forms():
    found = distinct(levers(CARDS, brief(naive("matmul_c"), bottleneck="compute")))
    forms = {card.id: names for card, names in found}
    assert forms["gcc-march-native"] == ("gcc-target-pragma",)
    assert len({card.because for card, _ in found}) == len(found)


def test_a_card_is_short_and_begins_with_what_is_cited():
    card = next(card for card in CARDS if card.id == "row-jam")
    text = describe_card(card, ("other",))
    assert text.startswith("knowledge/cards/c/row-jam.md:1  Work on four output rows at a time [lever row-jam, tile")
    assert "another form: other]" in text
    assert "instructions down to 0.7 of it, expected 1.45x" in text
    assert len(text) < 900
    assert "\nhow: " not in text
    assert "\nhow: " in describe_card(card, how=True)


@pytest.mark.parametrize(
    ("count", "begins", "ends"),
    [
        (0, "", ""),
        (1, "1 further lever left out: lever-0", "lever-0"),
        (4, "4 further levers left out: lever-0", "lever-3"),
        (14, "14 further levers left out: lever-0", "lever-3, and 10 more"),
    ],
)
def test_how_many_are_left_out_is_said(count, begins, ends):
    said = list_other_levers([f"lever-{number}" for number in range(count)])
    assert said.startswith(begins)
    assert said.endswith(ends)


def test_among_equals_the_lever_of_the_language_and_the_measured_one_come_first():
    target = make_target(target_op="gemm_gelu_bf16", target_backend="TRITON", target_lang="TRITON")
    machine = make_machine(kind="nvidia", arch="sm_90")
    found = ids(brief({"kernel.py": "import triton\n"}, target=target, machine=machine, bottleneck="latency"))
    assert found.index("gemm-split-k") < found.index("gemm-stream-k")


def test_large_sources_are_ranked_without_trying_every_edit_on_them():
    many = "".join(naive("matmul_c")["kernel.c"].replace("matmul_f32", f"product_{n}") for n in range(200))
    told = brief({"kernel.c": many, "kernel.flags": "-O2\n"}, bottleneck="compute")
    began = time.process_time()
    assert ids(told)[:2] == ["loop-interchange", "register-tile"]
    assert time.process_time() - began < 1


def triton_brief(op: str, **fields):
    target = make_target(target_op=op, target_backend="TRITON", target_lang="TRITON")
    machine = make_machine(kind="nvidia", arch="sm_90", features=())
    return brief({"kernel.py": "import triton\n"}, lang="TRITON", target=target, machine=machine, **fields)


def test_a_decode_with_too_few_blocks_is_shown_how_the_work_is_split():
    found = ids(
        triton_brief(
            "paged_attention_decode_bf16",
            bottleneck="resource",
            bottleneck_evidence="64 blocks on 132 SMs -> under_filled/grid, high confidence -> split the work",
        )
    )
    assert found[0] == "attn-split-kv"
    assert found.index("attn-split-kv") < found.index("triton-num-stages")
    assert not [card.id for card in levers(CARDS, triton_brief("x")) if "triton" not in card.langs]


@pytest.mark.parametrize("bottleneck", ["resource", "latency", "memory", "compute", "unknown"])
def test_the_one_lever_that_is_named_by_the_operator_is_shown_whatever_was_measured(bottleneck):
    evidence = "64 blocks on 132 SMs -> under_filled/grid, high confidence -> split the work"
    told = {"bottleneck": bottleneck, "bottleneck_evidence": evidence if bottleneck == "resource" else ""}
    assert "attn-gqa-pack-heads" in ids(triton_brief("gqa_decode_attention", **told))[:2]
    assert ids(triton_brief("attention_decode", **told))[:1] != ["attn-gqa-pack-heads"] or bottleneck == "memory"


def test_too_few_blocks_are_filled_up_before_anything_else_is_tried():
    evidence = "32 blocks on 132 SMs -> under_filled/grid, high confidence -> split the work"
    found = ids(triton_brief("gemm_bf16", bottleneck="resource", bottleneck_evidence=evidence))
    assert {"gemm-split-k", "gemm-persistent-groups"} == set(found[:2])
    assert ids(triton_brief("topk_f32", bottleneck="resource", bottleneck_evidence=evidence))[0] == "topk-split-row"


@pytest.mark.parametrize(("kernel", "shown"), [("tl.store(out, y)\n", False), ("tl.atomic_add(dq_ptr, dq)\n", True)])
def test_a_lever_of_the_backward_pass_is_for_a_backward_pass(kernel, shown):
    told = triton_brief("attention_bf16", bottleneck="memory", bottleneck_evidence="a -> memory_bound/hbm -> b")
    sources = (FileEdit(path="kernel.py", text=f"import triton\n{kernel}"),)
    assert ("attn-backward-two-passes" in ids(told.model_copy(update={"sources": sources}))[:4]) is shown


def test_a_selection_is_shown_how_to_select_and_nothing_of_cuda_alone():
    books = ShippedBooks()
    now = triton_brief("topk_f32", bottleneck="compute", bottleneck_evidence="comp.pct_of_peak 0.9 -> compute_bound")
    found = books.levers(now)
    assert {card.id for card in found[:2]} == {"topk-keep-running-best", "topk-radix-threshold"}
    assert [card.id for card in found if "triton" not in card.langs] == []
    context = Context(now, budget=24_000, count=len, books=books, reader=BriefedReader(now))
    assert "lever topk-" in context.planning(without_tools=True)["knowledge"]


def test_an_operator_without_a_card_is_said_not_to_be_covered():
    books = ShippedBooks()
    for op, covered in (("fft_f32", False), ("softmax_f32", True), ("topk_f32", True)):
        now = triton_brief(op)
        context = Context(now, budget=24_000, count=len, books=books, reader=BriefedReader(now))
        text = context.planning(without_tools=True)["knowledge"]
        assert ("not covered: no lever here is about" in text) is not covered


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        ("sol.memory 0.9 -> memory_bound/l1, high confidence -> wider accesses", True),
        ("lds_wait 0.4 -> latency_bound/shared, medium confidence -> padding", True),
        ("dram 0.8 -> memory_bound/hbm, high confidence -> fewer bytes", False),
    ],
)
def test_rates_of_l1_and_shuffles_are_shown_where_they_are_the_ceiling(evidence, shown):
    specs = tuple(
        Spec(metric=metric, value=value, unit=unit, source="knowledge/hardware/sm_90/overview.md:L17")
        for metric, value, unit in (("l1_bandwidth", 128.0, "bytes/clk/SM"), ("shuffle_rate", 32.0, "lanes/clk/SM"))
    )
    now = triton_brief("topk_f32", bottleneck_evidence=evidence).model_copy(update={"specs": specs})
    context = Context(now, budget=24_000, count=len, books=ShippedBooks(), reader=BriefedReader(now))
    page = context.planning(without_tools=True)["target"]
    assert ("shuffle_rate: 32 lanes/clk/SM <- knowledge/hardware/sm_90/overview.md:L17" in page) == shown
    assert ("l1_bandwidth: 128 bytes/clk/SM" in page) == shown
