"""Which directions of a model's answer may be tried, decided by code."""

import json

import pytest

from ridgeline.agent.planner.checks import find_repetition, is_same_direction, measured_names, of_planning
from ridgeline.agent.planner.checks import summarize_round as known
from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.directions import CheckedDirections, check_directions
from ridgeline.agent.planner.tools import BriefedReader, Texts, resolver
from ridgeline.graph.briefing import ShapeNow
from ridgeline.graph.record import Spec
from tests.builders import make_hypothesis, make_profiled, make_round
from tests.catalog_briefs import brief, naive
from tests.model_fakes import NoBooks, direction, directions


class OneBook(NoBooks):
    def line(self, path, number):
        return "a line" if path == "knowledge/ops/gemm/notes.md" and number <= 40 else None


BRIEF = brief(naive("matmul_c"), profile=make_profiled())


def choose(*found, briefing=BRIEF, answer=None):
    texts = Texts(briefing, BriefedReader(briefing))
    return check_directions(answer or directions(*found), of_planning(briefing), resolver(texts.length, OneBook().line))


@pytest.mark.feature("F063")
def test_a_direction_with_all_its_answers_becomes_a_hypothesis():
    found = choose(direction(id="Swap Loops!", diagnosis=""))
    assert isinstance(found, CheckedDirections)
    only = found.hypotheses[0]
    assert only.id == "swap-loops"
    assert only.evidence == (
        "bottleneck: memory: the inner loop strides through the second operand",
        "bottleneck: memory -> strided reads -> swap the loops",
    )
    assert only.prediction.ratio == 0.5
    assert only.sources == ("kernel.c:1",)


@pytest.mark.feature("F063")
@pytest.mark.parametrize(
    "field",
    ["bottleneck", "change", "benefit", "risks", "verification", "bucket", "real_gain", "claim", "category"],
)
@pytest.mark.parametrize("missing", [True, False])
def test_each_of_the_answers_is_owed(field, missing):
    given = direction()
    if missing:
        del given[field]
    else:
        given[field] = " "
    found = choose(given)
    assert isinstance(found, Wrong)
    if missing:
        assert f"{field}: Field required" in found.why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"bucket": "W2"}, "bucket W2"),
        ({"bucket": "W3"}, "bucket W3"),
        ({"bucket": "W1"}, "without a bound"),
        ({"bucket": "K9"}, "bucket: Input should be"),
        ({"change": "tile by 64 and prefetch the next row"}, "names 2 changes"),
        ({"change": "BLOCK_M to 128, BLOCK_N to 64"}, "at once"),
        ({"citations": ["kernel.c:9999"]}, "kernel.c has 13 lines"),
        ({"citations": ["kernel.c:0"]}, "kernel.c has 13 lines"),
        ({"citations": ["kernel.c:5-3"]}, "ends before it begins"),
        ({"citations": ["a paper I read"]}, "not of the form path:line"),
        ({"citations": ["invented.c:3"]}, "no such line"),
        ({"citations": ["knowledge/ops/gemm/notes.md:41"]}, "no such line"),
        ({"citations": ["/etc/passwd:1"]}, "no such line"),
        ({"citations": []}, "citations: Tuple should have at least 1 item"),
        ({"evidence": []}, "evidence: Tuple should have at least 1 item"),
        (
            {"evidence": [{"measured": "my feeling", "evidence": "x", "inference": "y", "action": "z"}]},
            "cites no measurement",
        ),
        ({"prediction": {"counter": "d1_misses", "direction": "sideways"}}, "prediction.direction"),
        ({"prediction": {"counter": "d1_misses", "direction": "down", "ratio": 0}}, "prediction.ratio"),
    ],
)
@pytest.mark.feature("F046", "F117", "F031")
def test_what_is_dropped_and_why(fields, why):
    found = choose(direction(**fields))
    assert isinstance(found, Wrong)
    assert why in found.why


@pytest.mark.parametrize(
    "citation", ["kernel.c:13", "`kernel.c:1-13`", "./kernel.c:L3", "[knowledge/ops/gemm/notes.md:40]", "kernel.c:3: x"]
)
def test_citations_that_resolve(citation):
    assert isinstance(choose(direction(citations=[citation])), CheckedDirections)


SHAPES = tuple(
    ShapeNow(label=label, config_class=name, original=1.0, best=1.0, original_us=1.0, best_us=1.0)
    for label, name in (("decode56", "regime=decode"), ("r50001x777", "regime=short"), ("plain", "all"))
)
SHAPED = brief(naive("matmul_c"), make_round(7), profile=make_profiled(), shapes=SHAPES)


def rests_on(name, briefing=SHAPED):
    step = {"measured": name, "evidence": "x", "inference": "y", "action": "z"}
    return choose(direction(evidence=[step]), briefing=briefing)


@pytest.mark.parametrize(
    "name",
    [
        "bottleneck",
        "Instructions (cachegrind)",
        "GFLOPS",
        "decode56",
        "r50001x777",
        "decode56 GFLOPS",
        "time of r50001x777 in round 7",
        "round 1",
        "Round 7: the verdict",
        "regime=decode",
        "the decode shapes",
    ],
)
def test_measurements_that_count(name):
    assert isinstance(rests_on(name), CheckedDirections)


@pytest.mark.parametrize("name", ["round 8", "round 70", "decode5", "my feeling", "all", "roundabout 7"])
def test_what_was_not_measured_is_refused_with_a_list_of_what_was(name):
    found = rests_on(name)
    assert isinstance(found, Wrong)
    for word in ("bottleneck", "GFLOPS", "decode56", "r50001x777", "instructions", "regime=decode", "from 1 to 7"):
        assert word in found.why


def test_every_kind_of_measurement_has_a_name():
    spec = Spec(metric="copy bandwidth", value=3017.0, unit="GB/s", source="measured here")
    told = SHAPED.model_copy(update={"specs": (spec,)})
    assert {"copy bandwidth", "Time (ms)", "decode"} <= set(measured_names(told))
    assert "Check" not in measured_names(told)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("decode", "regime=decode"),
        ("Decode", "regime=decode"),
        ("regime=decode", "regime=decode"),
        ("regime: short", "regime=short"),
        ("global", "global"),
        ("decode56", "decode56"),
        ("decode56, r50001x777", "decode56, r50001x777"),
    ],
)
def test_a_class_is_spelled_as_the_benchmark_spells_it(said, meant):
    found = choose(direction(target_class=said), briefing=SHAPED)
    assert isinstance(found, CheckedDirections)
    assert found.hypotheses[0].target_class == meant


@pytest.mark.parametrize("said", ["M=1", "prefill", "decode56, decode57", "GFLOPS"])
def test_a_class_that_the_benchmark_does_not_have_is_refused_with_those_it_has(said):
    refused = choose(direction(target_class=said), briefing=SHAPED)
    assert isinstance(refused, Wrong)
    assert f"target_class {said!r} is no class of the benchmark; give one of: global, regime=" in refused.why
    assert "\n" not in refused.why.split("target_class", 1)[1]


def test_one_bad_direction_does_not_spoil_the_others():
    good = direction(id="pad-rows", change="pad each row", extra="ignored")
    found = choose(direction(bucket="W2"), {"id": "half"}, good, {**good, "id": "pad-every-row"})
    assert isinstance(found, CheckedDirections)
    assert [one.id for one in found.hypotheses] == ["pad-rows"]
    assert len(found.dropped) == 3
    assert found.dropped[0].startswith("swap-loops: bucket W2")
    assert "repeats a better ranked" in found.dropped[2]


@pytest.mark.parametrize("answer", [json.dumps([direction()]), json.dumps(direction())])
def test_a_bare_list_and_a_bare_direction_are_understood(answer):
    assert isinstance(choose(answer=answer), CheckedDirections)


@pytest.mark.feature("F077")
def test_nothing_left_is_an_answer_when_it_says_why():
    found = choose(answer='{"directions": [], "exhausted": "every lever was tried"}')
    assert isinstance(found, CheckedDirections)
    assert found.exhausted == "every lever was tried"
    assert isinstance(choose(answer='{"directions": []}'), Wrong)
    assert isinstance(choose(answer='{"directions": "none"}'), Wrong)


@pytest.mark.feature("F040")
def test_after_a_rollback_the_diagnosis_is_owed():
    briefing = brief(naive("matmul_c"), make_round(2, "rolled_back"), profile=make_profiled())
    found = choose(direction(diagnosis=" "), briefing=briefing)
    assert isinstance(found, Wrong)
    assert "diagnosis" in found.why
    assert isinstance(choose(direction(), briefing=briefing), CheckedDirections)


def tried(reason, *, round=2, decision="rolled_back", **fields):
    hypothesis = make_hypothesis(id="pad-rows", change="pad each row by 16", **fields)
    return make_round(round, decision, reason=reason, hypothesis=hypothesis)


OTHER = make_round(3, "accepted", hypothesis=make_hypothesis(id="other", change="something else"))


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ((), ""),
        ((tried("faster", decision="accepted"),), "was accepted"),
        ((tried("not_better"),), "best version is still the same"),
        ((tried("not_better"), OTHER), ""),
        ((tried("not_better"), OTHER, tried("noise", round=4)), "had 2 rounds"),
        ((tried("incorrect"), OTHER), "rolled back (incorrect)"),
        ((tried("no_edit"),), ""),
        ((tried("no_edit"), tried("build_failed", round=3)), "had 2 rounds"),
    ],
)
@pytest.mark.parametrize(
    ("name", "change"), [("pad-rows", "give rows a pad of 16"), ("row-padding", "pad each row with 16")]
)
def test_repeats_are_known_by_name_or_by_words(rounds, why, name, change):
    found = find_repetition(make_hypothesis(id=name, change=change), tuple(map(known, rounds)))
    assert why in found
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"change": "pad each row by 32"}, False),
        ({"change": "swizzle the result", "id": "other"}, False),
        ({"target_class": "M=1"}, False),
        ({"id": "other"}, True),
    ],
)
def test_other_numbers_words_or_classes_are_other_directions(fields, expected):
    one = make_hypothesis(id="pad-rows", change="pad each row by 16")
    assert is_same_direction(one, one.model_copy(update=fields)) is expected


@pytest.mark.feature("F084")
def test_a_masked_round_does_not_count_as_tried():
    briefing = brief(naive("matmul_c"), profile=make_profiled())  # round 2 tried it and is masked: it is not here
    assert isinstance(choose(direction(change="pad each row by 16"), briefing=briefing), CheckedDirections)
