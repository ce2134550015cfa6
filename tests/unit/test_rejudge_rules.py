"""The rules that recordings are judged by again, and what is taken for the truth."""

import math
import random
from pathlib import Path

import pytest
from scipy import stats

from ridgeline.evals.research.rejudge.cases import Process, Times, Worth, cases, pool, reconcile
from ridgeline.evals.research.rejudge.rules import rank_test, rules
from ridgeline.evals.research.rejudge.table import HEAD, markdown, rows, tally
from ridgeline.graph.evidence import Comparison, ShapePairs
from tests.builders import MACHINE, make_artifact

CAMPAIGNS = Path(__file__).resolve().parents[2] / "evals" / "campaigns"
RULES = {rule.name: rule for rule in rules()}


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize(("n", "m"), [(12, 12), (40, 25), (200, 190)])
def test_the_rank_test_is_that_of_scipy(n, m, digits, shift):
    draw = random.Random(n * m)
    ours = [round(draw.gauss(0, 1), digits) for _ in range(n)]
    theirs = [round(draw.gauss(shift, 1), digits) for _ in range(m)]
    expected = stats.mannwhitneyu(ours, theirs, alternative="less", method="asymptotic").pvalue
    assert rank_test(ours, theirs) == pytest.approx(expected, abs=1e-12)


def test_the_rank_test_of_equal_samples_says_nothing():
    assert rank_test([1.0] * 20, [1.0] * 20) == 1.0


def process(best: float, candidate: float) -> Process:
    return Process(
        shapes=(
            Times(label="a", best=(best, best * 1.01), candidate=(candidate, candidate * 1.01)),
            Times(label="b", best=(2 * best,), candidate=(2 * candidate,)),
        )
    )


def test_a_process_reports_means_over_shapes_and_can_be_turned_round():
    one = process(100, 80)
    assert one.level("best") - one.level("candidate") == pytest.approx(math.log(1.25))
    assert one.swap().level("best") == one.level("candidate")
    assert one.mean("best", "a") == pytest.approx(100.5)
    with pytest.raises(KeyError):
        one.mean("best", "c")


class Shown:
    """A case as far as the rules of the field look at it."""

    def __init__(self, *gains: float) -> None:
        self.processes = tuple(process(100, 100 / (1 + gain)) for gain in gains)
        self.bench = None


@pytest.mark.parametrize(
    ("rule", "gains", "answer"),
    [
        ("one-percent-twice", (0.011, 0.011), "kept"),
        ("one-percent-twice", (0.011, 0.009), "dropped"),
        ("one-percent-twice", (0.009, 0.5), "dropped"),
        ("one-percent-twice", (0.009,), "dropped"),
        ("one-percent-twice", (0.011,), "unrecorded"),
        ("one-percent-twice", (), "unrecorded"),
        ("best-of-k", (-0.02, 0.001), "kept"),
        ("best-of-k", (-0.02, -0.001), "dropped"),
        ("best-of-k", (0.0, 0.0), "dropped"),
        ("best-of-k", (), "unrecorded"),
        ("mean", (0.001,), "kept"),
        ("mean", (0.0,), "dropped"),
        ("mean", (), "unrecorded"),
        ("rank-test", (), "unrecorded"),
    ],
)
def test_rules_of_the_field(rule, gains, answer):
    assert RULES[rule].decide(Shown(*gains)).answer == answer


def compared(*means: float) -> Comparison:
    shape = ShapePairs(label="a", pairs=tuple((mean,) for mean in means), best_us=1, candidate_us=1)
    return Comparison(
        best="a", candidate="b", machine=MACHINE, engine="wall", shapes=(shape,), raw=make_artifact(), seconds=1
    )


def test_the_pooled_worth_never_claims_to_know_more_than_the_noise_allows():
    calm = pool((compared(0.1, 0.1, 0.1),), 0.01)
    assert (calm.theta, calm.variance) == (pytest.approx(0.1), pytest.approx(1e-4 / 3))
    scattered = pool((compared(0.0, 0.2, 0.4),), 0.01)
    assert (scattered.theta, scattered.variance) == (pytest.approx(0.2), pytest.approx(0.04 / 3))


def test_kept_ones_add_up_to_a_final_test_that_is_known_exactly():
    worths = {
        2: Worth(theta=0.5, variance=1e-4),
        3: Worth(theta=0.1, variance=3e-4),
        4: Worth(theta=0.2, variance=1e-4),
    }
    found = reconcile(worths, [2, 3], Worth(theta=0.56, variance=0.0))
    assert found[2].theta + found[3].theta == pytest.approx(0.56)
    assert found[3].theta - 0.1 == pytest.approx(3 * (found[2].theta - 0.5)), "the one that is known worse gives more"
    assert found[4] == worths[4]
    assert all(found[number].variance <= worths[number].variance for number in worths)


@pytest.mark.parametrize(("kept", "final"), [([2], None), ([], Worth(theta=1, variance=1))])
def test_without_a_final_test_the_pairs_are_all_there_is(kept, final):
    worths = {2: Worth(theta=0.5, variance=1e-4)}
    assert reconcile(worths, kept, final) == worths


def test_a_final_test_that_tells_of_a_race_that_is_left_out_is_not_shared_out_to_what_remains():
    rounds = [case for case in cases(CAMPAIGNS / "gqa_decode_deep_h100") if not case.identical]
    assert [case.round for case in rounds] == [5]
    assert 1.01 < math.exp(rounds[0].truth.theta) < 1.05, "not the 10x of the whole campaign"


def test_an_empty_table_is_a_table():
    nothing = [tally(rule, ()) for rule in RULES.values()]
    assert all((one.candidates, one.kept, one.claimed, one.true, one.inflation) == (0, 0, 1, 1, 1) for one in nothing)
    assert {len(row) for row in rows(nothing)} == {len(HEAD)}
    assert markdown(nothing).count("\n") == len(nothing) + 1
