"""Candidates, deep rounds and warm starts at equal cost: what is read of recordings, and what the simulation makes of it."""

import random
import re
from math import exp, isclose, log
from pathlib import Path

import pytest

import ridgeline.evals
from ridgeline.evals.research.candidates import (
    Arm,
    Campaign,
    Problem,
    Recorded,
    compare_courses,
    main,
    read_course,
    read_problem,
    simulate_arms,
    time_candidates,
    write_table,
)

CAMPAIGNS = Path(ridgeline.evals.__file__).parent / "campaigns"
ARMS = Path(ridgeline.evals.__file__).parent / "research" / "arms"
PROBLEM = Problem(
    name="made",
    headroom=log(16.0),
    gain=log(8.0),
    scatter=0.001,
    build_s=1.0,
    test_s=1.0,
    benchmark_s=1.0,
    pair_s=1.0,
    rest_s=2.0,
    round_s=7.0,
    propose_tokens=50.0,
    draft_tokens=30.0,
    lesson_tokens=20.0,
)


def run(arm: Arm, shares: list[float], **budget: float) -> float:
    """The speedup that the arm reaches."""
    return exp(Campaign(PROBLEM, shares, arm, random.Random(1)).run(**budget))


def test_shares_of_a_recording_are_of_what_was_left_before_each_question() -> None:
    recorded = read_problem(CAMPAIGNS / "gemm_gelu_h100")
    assert recorded is not None
    problem, shares = recorded.problem, [question[0] for question in recorded.questions]
    assert isclose(exp(problem.headroom), 3.534, rel_tol=1e-3)  # 28.3 % of the compute ceiling at the start
    assert isclose(problem.gain, log(1.7911 * 1.5487 * 1.0179 * 1.0325), rel_tol=1e-3)
    assert isclose(shares[1], log(1.5487) / (problem.headroom - log(1.7911)), rel_tol=1e-3)
    assert (len(shares), recorded.distances, recorded.beside) == (5, (), ())
    assert problem.round_tokens == (21534 + 15622 + 16762 + 16893 + 17455) / 5


def test_candidates_of_one_question_are_held_against_the_same_version() -> None:
    recorded = read_problem(CAMPAIGNS / "maxpool3d_h100")
    assert recorded is not None
    (question,) = recorded.questions
    assert isclose(exp(question[0] * recorded.problem.headroom), 4.797, rel_tol=1e-3)
    assert isclose(exp(question[1] * recorded.problem.headroom), 5.057, rel_tol=1e-3)
    assert exp(recorded.problem.headroom) > 5.06, "a ceiling that was passed is none"
    assert recorded.problem.round_tokens == 14627 - 2 * recorded.problem.draft_tokens
    assert recorded.beside == ("round 2: the first alone 4.797x in 32 s, of 3 kept 5.057x in 97 s",)


def test_rounds_that_a_busy_machine_left_untimed_say_nothing_of_proposals() -> None:
    assert read_problem(CAMPAIGNS / "layernorm_c_mailbox") is None
    recorded = read_problem(CAMPAIGNS / "conv3x3_c_mailbox")
    assert recorded is not None
    assert len(recorded.questions) == 2  # of four rounds


def test_candidates_as_alike_as_recorded_lie_beside_the_first() -> None:
    arm = Arm(name="alike", candidates=3, as_recorded=True)
    campaign = Campaign(PROBLEM, [0.5], arm, random.Random(1), distances=(-0.5,))
    assert isclose(exp(campaign.run(tokens=170)), 4.0)
    assert campaign.runners_up == [], "the others took nothing"


def test_the_fastest_proven_candidate_is_kept_and_none_without_a_gain() -> None:
    rng = random.Random(3)
    assert time_candidates(rng, [0.1, 0.4, 0.2], scatter=0.01, sharing=3)[0] == 1
    assert time_candidates(rng, [0.0, -0.1, 0.0], scatter=0.01, sharing=3)[0] is None


def test_equal_candidates_side_by_side_only_cost_more() -> None:
    plain, three = Arm(name="plain"), Arm(name="three", candidates=3)
    assert isclose(run(plain, [0.5], tokens=200), 8.0)  # two questions: half of four halvings, then half of two
    assert isclose(run(three, [0.5], tokens=200), 4.0)  # one question of 50 + 3 * 30 + 20
    assert run(three, [0.5], seconds=40) < run(plain, [0.5], seconds=40)


def test_side_by_side_reaches_more_where_most_proposals_give_nothing() -> None:
    shares = [0.5] + [0.0] * 9
    reached = {
        candidates: sum(
            Campaign(PROBLEM, shares, Arm(name="a", candidates=candidates), random.Random(seed)).run(tokens=1000)
            for seed in range(40)
        )
        for candidates in (1, 3)
    }
    assert reached[3] > reached[1]


def test_a_deep_round_is_judged_once_and_a_champion_needs_no_question() -> None:
    deep = Campaign(PROBLEM, [0.5], Arm(name="deep", deep=True), random.Random(1))
    assert exp(deep.run(seconds=45)) > 15.9  # ten halvings, 30 s of steps and one judgement
    warm = Campaign(PROBLEM, [0.0], Arm(name="warm", warm=True), random.Random(1))
    assert isclose(exp(warm.run(tokens=99)), 8.0)


def test_a_table_names_what_no_recording_says() -> None:
    table = list(
        write_table(simulate_arms([Recorded(problem=PROBLEM, questions=((0.5, 0.4), (0.2,)), beside=())], runs=2))
    )
    assert len(table) == 2 + 2 * 7
    assert next(line for line in table if "deep" in line and "| tokens |" in line).count("not recorded") == 2


def test_campaigns_are_compared_at_the_cost_that_all_of_them_reached(capsys: pytest.CaptureFixture[str]) -> None:
    courses = [read_course(CAMPAIGNS / name) for name in ("reverse_cumsum_h100", "reverse_cumsum_short_h100")]
    _, _, longer, shorter = compare_courses(courses)
    assert "after 167 s of commands" in next(compare_courses(courses))
    assert "2.76x (at least 2.74x) | 2.76x" in longer  # its first round alone was over by then
    assert "1.09x (at least 1.08x)" in shorter
    assert longer.endswith("3.03x, at least 3.02x |")
    assert main(["compare", str(CAMPAIGNS)]) == 2
    assert "campaigns/ledger.jsonl" in capsys.readouterr().err


def test_what_the_page_tells_of_live_campaigns_is_what_their_ledgers_hold() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "planners.md").read_text(encoding="utf-8")
    for folder in ARMS.iterdir():
        row = next(line for line in page.splitlines() if line.startswith(f"| {folder.name} |"))
        *_, compared = compare_courses([read_course(folder)])
        final = compared.rpartition(" | ")[2].removesuffix(" |")
        numbers = [float(number) for number in re.findall(r"[\d.]+(?=x)", final)]
        told = [float(number) for number in re.findall(r"[\d.]+(?=x)", row.split(" | ")[3])]
        assert told == [pytest.approx(number, abs=0.06) for number in numbers], folder.name
