"""Recorded decision points and the scores of answers: what was known then, what was known later."""

import json
from pathlib import Path

import pytest
from scipy import stats

from ridgeline.evals.decisions.points import decisions
from ridgeline.evals.decisions.scores import Score, rank_correlation, score, summary

FOLDER = Path(__file__).parents[2] / "evals" / "campaigns"
POINTS = decisions(FOLDER / "gemm_gelu_h100")
FIRST = next(point for point in POINTS if point.kind == "propose" and point.round == 3)
DRAFT = next(point for point in POINTS if point.kind == "draft" and point.round == 2)


def scored(answer: str, point=FIRST) -> Score:
    return score(point, answer, tokens=1, line=lambda path, number: "text" if number < 100 else None)


def changed(change) -> str:
    """The recorded answer, its directions changed."""
    given = json.loads(FIRST.answer)["directions"]
    return json.dumps({"directions": change(given)})


def test_a_point_knows_what_was_known_then_and_what_was_known_later():
    assert [point.round for point in POINTS] == sorted(point.round for point in POINTS)
    assert {point.kind for point in POINTS} == {"propose", "draft"}
    last = [point for point in POINTS if point.round == 6]
    assert all(point.failed and not point.good for point in last)
    assert [tried.round for tried in FIRST.tried] == [2]
    assert FIRST.outcome.accepted
    assert FIRST.outcome.speedup == pytest.approx(1.5487, abs=1e-4)
    assert len(FIRST.good) == 3
    assert dict(FIRST.sources)["kernel.py"] != dict(POINTS[0].sources)["kernel.py"], "round 2 had changed it"


def test_a_recorded_answer_is_scored():
    found = scored(FIRST.answer)
    assert (found.parses, found.one_change, found.resolved, found.repeats, found.hit_at) == (True, 1, 1, 0, 1)
    assert found.measured == FIRST.outcome.speedup
    assert found.predicted > 1


@pytest.mark.parametrize(
    ("answer", "field", "value"),
    [
        ("I would rather not.", "parses", False),
        ('{"directions": []}', "parses", False),
        ('{"directions": [], "exhausted": "at the ceiling"}', "parses", True),
        (changed(lambda given: [{**one, "bucket": "W2"} for one in given]), "one_change", 0),
        (changed(lambda given: [{**one, "citations": ["kernel.py:100000"]} for one in given]), "resolved", 0),
        (changed(lambda given: [{**one, "citations": ["bench.py:1"]} for one in given]), "resolved", None),
        (changed(lambda given: [{**given[0], "citations": ["kernel.py:1", "knowledge/x.md:200"]}]), "resolved", 0.5),
        (changed(lambda given: [{**given[1]}, given[0]]), "hit_at", 2),
        (changed(lambda given: [{**given[1]}, given[0]]), "predicted", None),
        (
            changed(lambda given: [{**one, "change": "fold 77 rows", "id": "x"} for one in given]),
            "hit_at",
            None,
        ),
        (
            changed(lambda given: [{**given[0], "change": FIRST.tried[0].hypothesis.change, "target_class": "decode"}]),
            "repeats",
            1,
        ),
        (
            changed(lambda given: [{**one, "risks": " "} for one in given[:1]]),
            "parses",
            False,
        ),
    ],
)
def test_a_worse_answer_scores_worse(answer, field, value):
    assert getattr(scored(answer), field) == value


def test_edits_are_applied_to_the_files_of_then():
    assert scored(DRAFT.answer, DRAFT).applies is True
    assert scored(DRAFT.answer, DRAFT.model_copy(update={"sources": (("kernel.py", "pass\n"),)})).applies is False
    assert scored("no edit at all", DRAFT).applies is False


def test_a_summary_counts_only_what_arises_and_says_that_few_are_few():
    found = summary([Score(parses=True, directions=3, hit_at=3, tokens=10), Score(parses=False, tokens=20)])
    assert (found.parses, found.hit_at_1, found.hit_at_3, found.tokens) == (0.5, 0, 1, 15)
    assert (found.applies, found.sign_right, found.rank, found.log_error, found.predictions) == (None,) * 4 + (0,)
    assert found.few is True
    wrong = Score(parses=True, directions=1, predicted=1.1, measured=0.9, tokens=1)
    assert summary([wrong] * 30).sign_right == 0
    assert summary([wrong] * 30).few is False


@pytest.mark.parametrize("ties", [False, True])
def test_the_rank_correlation_is_spearmans(ties):
    one, other = [1.0, 3.0, 2.0, 5.0, 3.0 if ties else 4.0], [0.5, 0.9, 0.9 if ties else 1.0, 2.0, 0.1]
    assert rank_correlation(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)


@pytest.mark.parametrize(("one", "other"), [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2])])
def test_no_rank_without_three_values_that_vary(one, other):
    assert rank_correlation(one, other) is None


def test_the_command_counts_and_scores(cli):
    listed = cli("eval", *sorted(path for path in FOLDER.iterdir() if path.is_dir()), "--list", "--json")
    assert listed.code == 0, listed.err
    assert listed.json["decisions"] == sum(
        row[kind] for row in listed.json["recordings"] for kind in ("propose", "draft", "repair")
    )
    assert listed.json["rolled_back"] >= 4
    told = cli("eval", FOLDER / "gemm_gelu_h100", "--json").json
    assert told["decisions"] == len(POINTS)
    assert told["kinds"]["propose"]["parses"] == 1
    said = cli("eval", FOLDER / "gemm_gelu_h100")
    assert "few answers" in said.err
    assert cli("eval", FOLDER / "nothing").code == 2
