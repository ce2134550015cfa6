"""The planner without a model: which lever first, what a round's outcome changes, what it says at the end."""

from collections.abc import Callable

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner, hypothesis_of
from ridgeline.graph.briefing import Draft, Proposal
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import Broken, Drafted
from ridgeline.graph.values import Cost, Hypothesis
from ridgeline.graph.verdict import ShapeChange
from tests.builders import (
    make_applied,
    make_built,
    make_contract,
    make_drafted,
    make_failed,
    make_judged,
    make_machine,
    make_profiled,
    make_proposed,
    make_round,
    make_test,
    make_traced,
)
from tests.catalog_briefs import AVX2, brief, naive

RELAXED = make_contract(flags_file="kernel.flags", relaxed_math="allowed")


def play(
    planner: CatalogPlanner, sources: dict[str, str], wins: dict[str, float], rounds: int, **fields: object
) -> list[RoundClosed]:
    """A campaign in which exactly the levers of `wins` gain; sources move on with each accepted one."""
    closed: list[RoundClosed] = []
    for number in range(2, 2 + rounds):
        now = brief(sources, *closed, **fields)
        proposal = planner.propose(now)
        if proposal.hypothesis is None:
            break
        edits = planner.draft(now, proposal).edits
        assert edits
        gain = wins.get(proposal.hypothesis.id)
        if gain is not None:
            sources = sources | {edit.path: edit.text or "" for edit in edits}
        closed.append(
            make_round(
                number,
                "accepted" if gain else "rolled_back",
                reason="faster" if gain else "noise",
                gain=gain or 0.0,
                hypothesis=proposal.hypothesis,
            )
        )
    return closed


def ids(rounds: list[RoundClosed]) -> list[str]:
    return [hypothesis_of(closed).id for closed in rounds]


def test_matmul_takes_the_big_wins_first() -> None:
    wins = {"loop-interchange": 0.6, "gcc-o3": 2.5, "gcc-march-native": 0.3, "register-tile:avx2-4x2": 1.9}
    rounds = play(CatalogPlanner(), naive("matmul_c"), wins, 8)
    assert ids(rounds)[:4] == list(wins)
    assert "constant-sweep:TILE_ROWS=6" in ids(rounds)


def test_softmax_takes_the_big_wins_first() -> None:
    wins = {"exp-once": 0.9, "gcc-relaxed-math": 1.5, "gcc-march-native": 0.5}
    rounds = play(CatalogPlanner(), naive("softmax_c"), wins, 8, contract=RELAXED)
    assert ids(rounds)[0] == "exp-once"
    assert set(wins) <= set(ids(rounds)[:6])


def test_ends_with_a_reason_and_never_repeats_itself() -> None:
    rounds = play(CatalogPlanner(), naive("softmax_c"), {}, 60)
    assert len(rounds) < 60
    assert len(ids(rounds)) == len(set(ids(rounds)))
    proposal = CatalogPlanner().propose(brief(naive("softmax_c"), *rounds))
    assert proposal.hypothesis is None
    assert f"{len(rounds)} rounds were run" in proposal.exhausted


def test_language_without_cards_is_exhausted_at_once() -> None:
    proposal = CatalogPlanner().propose(brief({"k.py": "x = 1\n"}, lang="FLYDSL"))
    assert proposal == Proposal(hypothesis=None, exhausted=proposal.exhausted)
    assert "FLYDSL" in proposal.exhausted


@pytest.mark.feature("F063", "F117")
def test_hypothesis_cites_the_counter_and_the_place() -> None:
    profile = make_profiled({"d1_misses": 4.1e7})
    proposal = CatalogPlanner().propose(brief(naive("matmul_c"), profile=profile))
    asked = proposal.hypothesis
    assert asked is not None
    assert asked.evidence[0].startswith("d1_misses = 4.1e+07 (")
    assert asked.evidence[0].count(" -> ") == 2
    assert asked.evidence[1].startswith("kernel.c:4 ")
    assert asked.sources[0] == "knowledge/cards/c/loop-interchange.md:1"
    assert asked.prediction.speedup == 3.0
    assert asked.claim.startswith("I expect ")
    assert proposal.cost == Cost()
    assert proposal.ranked


def test_without_a_counter_the_bottleneck_is_cited() -> None:
    asked = CatalogPlanner().propose(brief(naive("matmul_c"))).hypothesis
    assert asked is not None
    assert asked.evidence[0].startswith("memory bottleneck (d1_misses per load 0.4) -> ")


@pytest.mark.feature("F040")
def test_after_a_rollback_the_diagnosis_is_cited() -> None:
    failed = make_round(2, "rolled_back", reason="noise", gain=0.0)
    asked = CatalogPlanner().propose(brief(naive("matmul_c"), failed)).hypothesis
    assert asked is not None
    assert any(line.startswith("round 2 rolled back tile: noise") for line in asked.evidence)


def proposed_first(sources: dict[str, str], *rounds: RoundClosed, **fields) -> Hypothesis:
    asked = CatalogPlanner().propose(brief(sources, *rounds, **fields)).hypothesis
    assert asked is not None
    return asked


@pytest.mark.parametrize(
    ("reason", "accepted_after", "again"),
    [("noise", True, True), ("noise", False, False), ("incorrect", True, False), ("build_failed", True, False)],
)
def test_retry_needs_another_accepted_round(reason: str, accepted_after: bool, again: bool) -> None:
    sources = {"kernel.c": "void f(float *x, int n) {\n    x[0] = n;\n}\n", "kernel.flags": "-O2\n"}
    first = proposed_first(sources)
    assert first.id == "gcc-o3"
    rounds = [make_round(2, "rolled_back", reason=reason, gain=0.0, hypothesis=first)]
    if accepted_after:
        rounds.append(make_round(3, "accepted"))
    offered = [lever.id for lever in CatalogPlanner().order(brief(sources, *rounds))[0]]
    assert ("gcc-o3" in offered) is again


def test_an_option_is_not_tried_again_because_another_option_was_kept() -> None:
    sources = {"kernel.c": "void f(float *x, int n) {\n    x[0] = n;\n}\n", "kernel.flags": "-O2\n"}
    level = proposed_first(sources)
    rounds = [make_round(2, "rolled_back", reason="not_better", gain=0.0, hypothesis=level)]
    target = level.model_copy(update={"id": "gcc-march-native", "lever": "gcc-march-native"})
    rounds.append(make_round(3, "accepted", hypothesis=target))
    assert "gcc-o3" not in {lever.id for lever in CatalogPlanner().order(brief(sources, *rounds))[0]}


@pytest.mark.parametrize(
    ("features", "flags", "lever"),
    [
        (AVX2, "-O3 -march=native", "register-tile:avx2-4x2"),
        (AVX2, "-O3", "register-tile:sse-4x2"),
        ((*AVX2, "avx512f"), "-O3 -march=native", "register-tile:avx512-4x2"),
    ],
)
def test_requirements_choose_the_variant(features: tuple[str, ...], flags: str, lever: str) -> None:
    sources = naive("matmul_c") | {"kernel.flags": flags}
    now = brief(sources, machine=make_machine(features=features))
    offered = [lever.id for lever in CatalogPlanner().order(now)[0]]
    tiles = [line for line in offered if line.startswith("register-tile")]
    assert tiles[0].startswith(lever)


def test_failed_requirements_are_said() -> None:
    dropped = CatalogPlanner().propose(brief(naive("matmul_c"))).dropped
    assert any(line.startswith("openmp-rows: needs more than 1 thread") for line in dropped)
    assert any(line.startswith("gcc-target-pragma: is for builds without a flags file") for line in dropped)


def test_sweep_goes_on_after_success_and_never_back() -> None:
    planner, closed = CatalogPlanner(), []
    sources = {
        "kernel.c": "#define TILE_ROWS 4\nint rows(void) { return TILE_ROWS; }\n",
        "kernel.flags": "-O3 -march=native",
    }
    seen = []
    for accepted in (True, False):
        now = brief(sources, *closed)
        proposal = planner.propose(now)
        assert proposal.hypothesis is not None
        seen.append(proposal.hypothesis.change)
        if accepted:
            sources = sources | {edit.path: edit.text or "" for edit in planner.draft(now, proposal).edits}
        decision = "accepted" if accepted else "rolled_back"
        closed.append(make_round(len(closed) + 2, decision, hypothesis=proposal.hypothesis))
    assert seen == ["TILE_ROWS from 4 to 6", "TILE_ROWS from 6 to 8"]
    assert planner.propose(brief(sources, *closed)).hypothesis is None


def test_failing_category_falls_behind() -> None:
    sources = naive("softmax_c") | {"kernel.flags": "-O3"}
    failed = [
        make_round(
            n,
            "rolled_back",
            reason="noise",
            gain=0.0,
            hypothesis=proposed_first(sources).model_copy(update={"id": f"x{n}"}),
        )
        for n in (2, 3, 4)
    ]
    assert hypothesis_of(failed[0]).category == "algorithm"
    assert proposed_first(sources, *failed).category == "compiler"


@pytest.mark.feature("F056")
def test_review_names_three_directions_unexplored_first() -> None:
    sources = naive("matmul_c")
    tried = make_round(2, "rolled_back", reason="noise", gain=0.0, hypothesis=proposed_first(sources))
    review = CatalogPlanner().review(brief(sources, tried), "2 consecutive rollbacks")
    assert len(review.directions) >= 3
    assert len({line.split(" ")[0] for line in review.directions}) == len(review.directions)
    assert "not tried yet" in review.directions[0]
    assert review.directions[0].startswith("compiler")


def test_review_has_three_directions_even_when_nothing_is_left() -> None:
    review = CatalogPlanner().review(brief({"kernel.c": "int a;\n"}), "stagnation")
    assert len(review.directions) >= 3


def test_after_a_review_unexplored_categories_come_first() -> None:
    sources = naive("softmax_c") | {"kernel.flags": "-O3"}
    failed = make_round(2, "rolled_back", reason="incorrect", gain=None, hypothesis=proposed_first(sources))
    assert hypothesis_of(failed).category == "algorithm"
    assert proposed_first(sources, failed, directions=("compiler: flags",)).category == "compiler"


@pytest.mark.feature("F101")
def test_repair_walks_down_the_fallbacks_then_refuses() -> None:
    planner, now = CatalogPlanner(), brief(naive("softmax_c"), contract=RELAXED)
    asked = proposed_first(naive("softmax_c")).model_copy(
        update={"id": "gcc-relaxed-math", "lever": "gcc-relaxed-math"}
    )
    built = make_built(make_applied(make_drafted(make_proposed(hypothesis=asked))))
    broken = Broken(built=built, test=make_test(passed=False, kind="incorrect"))
    first, second, third = (planner.repair(now, broken, attempt) for attempt in (1, 2, 3))
    assert "-fassociative-math" in (first.edits[0].text or "")
    assert "-fassociative-math" not in (second.edits[0].text or "")
    assert third == Draft(edits=(), refusal="gcc-relaxed-math has no weaker form left")


def test_split_is_refused() -> None:
    assert CatalogPlanner().split(brief(naive("matmul_c")), make_judged()).refusal


def test_draft_of_an_unknown_hypothesis_is_refused() -> None:
    asked = proposed_first(naive("matmul_c")).model_copy(update={"lever": "magic"})
    draft = CatalogPlanner().draft(brief(naive("matmul_c")), Proposal(hypothesis=asked))
    assert draft.edits == ()
    assert draft.refusal


@pytest.mark.parametrize(
    ("before", "after", "decision", "reason", "words", "lesson"),
    [
        (100.0, 15.0, "accepted", "faster", "confirmed", True),
        (100.0, 15.0, "rolled_back", "not_better", "not what limits", False),
        (100.0, 120.0, "rolled_back", "not_better", "refuted", True),
        (100.0, 120.0, "rolled_back", "noise", "refuted", False),
        (None, None, "rolled_back", "noise", "was not measured here", False),
    ],
)
def test_reflection_compares_prediction_and_profile(before, after, decision, reason, words, lesson) -> None:
    sources = naive("matmul_c")
    profiles = [None if value is None else make_profiled({"d1_misses": value}) for value in (before, after)]
    asked = proposed_first(sources)
    judged = make_judged(decision, reason, trial=make_traced(hypothesis=asked, profile=profiles[1]))
    told = CatalogPlanner().reflect(brief(sources, profile=profiles[0]), judged)
    assert words in f"{told.attribution} {told.root_cause}"
    assert (told.lesson is not None) is lesson
    assert bool(told.root_cause) is (decision != "accepted")
    assert told.next_direction


@pytest.mark.parametrize(
    ("reason", "fields", "words"),
    [
        (
            "not_better",
            {"gain": -0.1244, "lower": -0.1319, "upper": -0.1169, "faster": "no"},
            "-12.44% [-13.19%, -11.69%], slower (not_better)",
        ),
        (
            "undecided",
            {"gain": 0.1675, "faster": "unverified"},
            "not settled: +16.75%, not resolved (undecided)",
        ),
        (
            "core_regression",
            {
                "gain": 0.05,
                "lower": 0.04,
                "upper": 0.06,
                "faster": "yes",
                "shapes": (ShapeChange(label="r256", config_class="all", gain=-0.072, lower=-0.08, upper=-0.064),),
            },
            "shape r256 changed by -7.20% [-8.00%, -6.40%]; all shapes together +5.00% [+4.00%, +6.00%], faster",
        ),
    ],
)
def test_the_cause_of_a_rollback_is_what_was_measured(reason, fields, words) -> None:
    asked = proposed_first(naive("matmul_c"))
    judged = make_judged("rolled_back", reason, trial=make_traced(hypothesis=asked), **fields)
    told = CatalogPlanner().reflect(brief(naive("matmul_c")), judged)
    assert told.root_cause.startswith(words)
    assert "noise" not in told.root_cause


def test_the_cause_of_a_refused_hypothesis_is_who_refused_it_and_why() -> None:
    failed = make_failed("rejected", hypothesis=proposed_first(naive("matmul_c")), detail="rejected by Ada: too risky")
    judged = make_judged("rolled_back", "rejected", gain=None, trial=failed, correct="unverified")
    assert CatalogPlanner().reflect(brief(naive("matmul_c")), judged).root_cause == "it was rejected by Ada: too risky"


def test_reflection_on_a_failure_quotes_its_first_line() -> None:
    asked = proposed_first(naive("matmul_c"))
    failed = make_failed("build_failed", hypothesis=asked, detail="kernel.c:3: error: no\nmore")
    judged = make_judged("rolled_back", "build_failed", gain=None, trial=failed, correct="unverified")
    told = CatalogPlanner().reflect(brief(naive("matmul_c")), judged)
    assert told.attribution.endswith("(build_failed): kernel.c:3: error: no")
    assert told.lesson is None


def test_same_briefing_same_answer() -> None:
    now = brief(naive("matmul_c"))
    assert CatalogPlanner().propose(now) == CatalogPlanner().propose(now)


def test_drafted_texts_are_whole_files() -> None:
    now = brief(naive("matmul_c"))
    draft = CatalogPlanner().draft(now, CatalogPlanner().propose(now))
    assert isinstance(make_drafted(edits=draft.edits, explanation=draft.explanation), Drafted)
    assert (draft.edits[0].text or "").startswith('#include "kernel.h"\n')
    assert draft.explanation.startswith("Interchange")


PYTHON = """\
def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        new = [i + 1]
        for j, y in enumerate(b):
            new.append(min(row[j + 1] + 1, new[j] + 1, row[j] + (x != y)))
        row = new
    return row[-1]


def spread(values):
    return max(values[0], values[1]) - min(values[0], values[1]) + sum(x ** 2 for x in values)
"""


def test_the_levers_of_python_change_what_a_function_is_made_of_and_not_what_it_gives():
    sources, seen = {"edit.py": PYTHON}, []
    for closed in play(CatalogPlanner(), sources, {}, 9, lang="PYTHON"):
        seen.append(hypothesis_of(closed).lever)
    assert sorted(seen) == [
        "python-greatest-inline", "python-least-inline", "python-square-product", "python-sum-of-list",
    ]  # fmt: skip
    original: dict[str, Callable[..., object]] = {}
    exec(PYTHON, original)
    planner, nan = CatalogPlanner(), float("nan")
    now = brief(sources, lang="PYTHON")
    for candidate in planner.order(now)[0]:
        changed: dict[str, Callable[..., object]] = {}
        exec(candidate.texts["edit.py"], changed)
        assert changed["distance"]("kitten", "sitting") == 3
        for values in ([2.0, 1.5], [1.5, 2.0], [nan, 1.0], [1.0, nan], [0.0, -0.0]):
            assert repr(changed["spread"](values)) == repr(original["spread"](values))
