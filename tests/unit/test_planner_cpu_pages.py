"""What a model is shown for a kernel on a processor speaks of processors."""

import re

import pytest

from ridgeline.agent.planner import catalog
from ridgeline.agent.planner.context import Context
from ridgeline.agent.planner.directions import list_fallback_directions, list_untouched_categories
from ridgeline.agent.planner.tools import BriefedReader, ShippedBooks, Toolbox, alien, for_machine
from ridgeline.knowledge.search import Hit
from tests.builders import make_hypothesis, make_machine, make_round, make_target
from tests.catalog_briefs import brief, naive
from tests.model_fakes import call

OF_GPUS = re.compile(
    r"\b(?:warps?|LDS|occupancy|registers? per (?:lane|thread)|waves?|wavefronts?|shared memory|thread ?blocks?"
    r"|num_warps|num_stages|launch(?:es)?|SMs?|GPUs?|HBM|MFMA|tensor cores?|Triton|TMA|CUDA|PTX|wgmma|coalesc\w*)\b",
    re.IGNORECASE,
)
TASKS = {"matmul_c": "matmul_f32", "softmax_c": "softmax_f32"}


@pytest.fixture(scope="module")
def books():
    return ShippedBooks()


def told(task="matmul_c", **fields):
    target = make_target(target_op=TASKS[task], target_backend="C", target_lang="C")
    return brief(naive(task), target=target, **fields)


def count(text):
    return -(-len(text) // 4)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("bottleneck", ["compute", "memory", "latency", "unknown"])
def test_no_section_of_a_page_speaks_of_gpus(books, task, bottleneck):
    briefing = told(task, bottleneck=bottleneck, bottleneck_evidence="too few loads in flight, shared tile, occupancy")
    context = Context(briefing, budget=24_000, count=count, books=books, reader=BriefedReader(briefing))
    sections = context.planning(without_tools=True)
    assert sections["knowledge"].count("knowledge/") >= 2
    drafted = context.drafting(make_hypothesis(lever="register-tile"), naive(task))
    for name, text in (*sections.items(), *drafted.items()):
        if name != "profile":  # which quotes the evidence above
            assert OF_GPUS.findall(text) == [], name


@pytest.mark.parametrize(
    "question",
    ["occupancy warps shared memory", "prefetch tile tensor cores", "softmax row maximum", "MFMA LDS bank conflicts"],
)
def test_a_search_answers_with_what_is_about_processors(books, question):
    briefing = told("softmax_c")
    box = Toolbox(briefing, reader=BriefedReader(briefing), books=books, tokens=2000, count=count)
    answer = box.run(call("search_knowledge", question=question))
    assert OF_GPUS.findall(answer) == []


def hit(excerpt, *, path="knowledge/backends/c/notes.md"):
    return Hit(id="a", path=path, line=1, heading="Loops", excerpt=excerpt, score=1.0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (hit("- unroll\n- vectorise"), "- unroll\n- vectorise"),
        (hit("- unroll\n- raise num_warps\n- vectorise"), "- unroll\n- vectorise"),
        (hit("- stage the tile in shared memory"), None),
        (
            hit("- stage the tile in shared memory", path="house/backends/c/notes.md"),
            "- stage the tile in shared memory",
        ),
        (hit("- unroll", path="knowledge/ops/gemm/directions.md"), None),
    ],
)
def test_of_what_is_found_a_processor_gets_what_is_about_it(given, kept):
    assert [one.excerpt for one in for_machine([given], told())] == ([kept] if kept else [])
    gpu = told().model_copy(update={"machine": make_machine(kind="nvidia", arch="sm_90")})
    assert for_machine([given], gpu) == (given,)


@pytest.mark.parametrize("text", ["TMA loads on Hopper", "one warp per row", "MFMA 32x32", "coalesced loads", "HBM3"])
def test_words_of_every_gpu_are_alien_to_a_processor(text):
    assert alien(text, told())


@pytest.mark.parametrize("text", ["sixteen lanes of a vector", "blocks of rows in the first cache", "wave64", "device"])
def test_words_that_both_have_are_judged_by_the_rest(text):
    assert alien(text, told()) is (text == "wave64")


def test_a_processor_has_no_occupancy_to_explore():
    past = make_round(2, "rolled_back", hypothesis=make_hypothesis(category="tile"))
    cpu = brief(naive("matmul_c"), past)
    gpu = cpu.model_copy(update={"machine": make_machine(kind="amd", arch="gfx942")})
    assert list_untouched_categories(cpu) == "layout, pipelining, backend, algorithm, compiler"
    assert list_untouched_categories(gpu) == "layout, pipelining, occupancy, backend, algorithm, compiler"
    for said in (list_fallback_directions(cpu), catalog.directions([], cpu)):
        assert len(said) >= 3
        assert not any("occupancy" in line or "shared memory" in line for line in said)
    assert any(line.startswith("occupancy") for line in list_fallback_directions(gpu))
