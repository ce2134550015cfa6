"""What a suite's table says of its rows: shares, means with bounds, two arms side by side."""

import json
import math

import pytest

from ridgeline.agent.attempts import Ended
from ridgeline.agent.suite.run import read_judgment, read_outcome
from ridgeline.agent.suite.table import (
    Row,
    compare_arms,
    render_contests,
    render_leads,
    render_sides,
    render_table,
    summarize_rows,
)


def faster(problem: str, arm: str, speedup: float, lower: float) -> Row:
    return Row(problem=problem, arm=arm, result="faster", speedup=speedup, speedup_lower=lower, seconds=60)


ROWS = (
    faster("p1", "a", 4.0, 1.9),
    Row(problem="p2", arm="a", result="wrong", detail="a NaN at 3", seconds=30),
    Row(problem="p3", arm="a", result="refused", detail="no shape"),
    Row(problem="p4", arm="a", result="waiting"),
)


def test_shares_count_what_is_right_and_faster_among_what_was_tried_to_an_end():
    table = summarize_rows(ROWS, ["a"], attempts=6)
    (arm,) = table.arms
    assert (arm.problems, arm.correct, arm.wrong, arm.refused, arm.unfinished) == (2, 1, 1, 1, 1)
    assert [(share.p, share.measured, share.proven) for share in arm.fast] == [
        (1, 0.5, 0.5),
        (1.5, 0.5, 0.5),
        (2, 0.5, 0),
    ]
    assert arm.geometric_mean == pytest.approx(2.0)  # of 4x, and of 1x for the one that was wrong
    assert arm.geometric_mean_lower == pytest.approx(math.sqrt(1.9))
    assert (table.untried, arm.minutes) == (2, 1.5)
    assert render_table(table)[0][:5] == ("a", "2", "1", "1", "1")


def test_a_later_row_of_the_same_attempt_stands():
    table = summarize_rows((*ROWS, faster("p4", "a", 2.0, 1.5)), ["a"], attempts=4)
    assert (table.arms[0].unfinished, table.arms[0].faster) == (0, 2)


def test_two_arms_are_compared_on_what_both_ended():
    rows = (
        faster("p1", "a", 2.0, 1.8),
        faster("p2", "a", 2.0, 1.8),
        faster("p1", "b", 4.0, 3.0),
        faster("p2", "b", 3.0, 1.9),
    )
    contest = compare_arms((*rows, Row(problem="p3", arm="b", result="wrong")), "a", "b")
    assert contest is not None
    assert (contest.problems, contest.a_ahead, contest.b_ahead) == (2, 0, 1)
    assert contest.ratio == pytest.approx(math.sqrt(2 * 1.5))
    assert contest.lower is not None
    assert contest.lower < contest.ratio < (contest.upper or 0)
    assert "surely ahead on 1 and 0" in render_contests(summarize_rows(rows, ["a", "b"], attempts=4))[0]


def test_champions_beside_others_are_summed_by_the_least_lower_bound():
    rows = [
        Row(
            problem="p",
            arm="m",
            result="faster",
            asked=("eager", "compile"),
            over={"eager": 5.0, "compile": 3.0},
            over_lower={"eager": 4.0, "compile": 2.0},
        ),
        Row(
            problem="q",
            arm="m",
            result="faster",
            asked=("eager", "rival"),
            over={"eager": 0.6, "rival": 4.0},
            over_lower={"eager": 0.5, "rival": 3.0},
        ),
        Row(problem="r", arm="m", result="faster", asked=("eager",), over={"eager": 7.0}),
        Row(problem="s", arm="m", result="not_faster"),
        Row(  # the one without a bound may be the best
            problem="t",
            arm="m",
            result="faster",
            asked=("eager", "compile"),
            over={"eager": 9.0, "compile": 0.8},
            over_lower={"eager": 8.0},
        ),
        Row(  # so may the one that two clocks did not tell apart
            problem="u",
            arm="m",
            result="faster",
            asked=("eager", "compile"),
            over={"eager": 9.0},
            over_lower={"eager": 8.0},
            undecided=("compile",),
        ),
    ]
    table = summarize_rows(rows, ["m"], attempts=6)
    torch, rival = table.leads
    assert (torch.problems, torch.ahead, torch.names) == (2, 1, ("eager",))
    assert torch.geometric_mean_lower == pytest.approx(1.0)
    assert (rival.over, rival.problems, rival.geometric_mean_lower) == ("rival", 1, pytest.approx(3.0))
    assert render_leads(table) == [
        "m against the best of PyTorch that was timed (eager): at least 1.000x in the mean of 2 problems, ahead on 1",
        "m against others' kernels: at least 3.000x in the mean of 1 problem, ahead on 1",
    ]
    assert render_sides(rows[-1]) == "at least 8.000x eager; compile not told apart"


def test_a_table_without_an_ended_problem_has_no_numbers():
    (arm,) = summarize_rows(ROWS[2:], ["a"], attempts=2).arms
    assert (arm.problems, arm.fast, arm.geometric_mean) == (0, (), None)


def test_an_arm_whose_every_answer_is_missing_has_no_share_and_no_mean():
    missing = [Row(problem=name, arm="a", result="missing") for name in ("p1", "p2")]
    table = summarize_rows(missing, ["a"], attempts=2)
    (arm,) = table.arms
    assert (arm.problems, arm.fast, arm.geometric_mean, arm.geometric_mean_lower) == (2, (), None, None)
    assert render_table(table)[0][5:-1] == ("-",) * 5
    tried = summarize_rows([*missing, Row(problem="p3", arm="a", result="wrong")], ["a"], attempts=3)
    assert tried.arms[0].geometric_mean == 1.0, "a wrong answer is no faster"
    assert [share.measured for share in tried.arms[0].fast] == [0.0] * 3


def test_an_arm_without_any_answer_is_compared_with_nobody():
    missing = [Row(problem=name, arm="a", result="missing") for name in ("p1", "p2")]
    faster = [Row(problem=name, arm="b", result="faster", speedup=2.0) for name in ("p1", "p2")]
    assert summarize_rows([*missing, *faster], ["a", "b"], attempts=4).contests == ()
    answered = Row(problem="p3", arm="a", result="wrong")
    beside = Row(problem="p3", arm="b", result="faster", speedup=2.0)
    (contest,) = summarize_rows([*missing, answered, *faster, beside], ["a", "b"], attempts=6).contests
    assert contest.ratio == pytest.approx(2.0), (
        "one wrong answer is an answer; those that are missing keep the original"
    )


BLANK = Row(problem="p", arm="a", result="failed")


@pytest.mark.parametrize(
    ("ended", "result"),
    [
        (Ended(code=0, output='{"status": "concluded", "speedup": 1.5, "speedup_lower": 1.2}'), "faster"),
        (Ended(code=0, output='{"status": "concluded", "speedup": 1.5, "speedup_lower": 0.9}'), "not_faster"),
        (Ended(code=0, output='{"status": "concluded", "speedup": null, "speedup_lower": null}'), "not_faster"),
        (Ended(code=3, output='{"status": "waiting"}'), "waiting"),
        (Ended(code=2, output='{"error": "kernel.c: no such file"}'), "failed"),
        (Ended(code=0, output="no JSON"), "failed"),
    ],
)
def test_a_campaign_is_a_gain_only_with_a_bound_above_one(ended: Ended, result: str):
    assert read_outcome(BLANK, ended).result == result


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        (
            '"correct": {"answer": "no", "evidence": ["y: 3 of 4"]}, "faster": {"answer": "yes"}, "own_work": {"answer": "yes"}',
            "wrong",
        ),
        ('"correct": {"answer": "yes"}, "faster": {"answer": "no"}, "own_work": {"answer": "yes"}', "not_faster"),
        ('"correct": {"answer": "yes"}, "faster": {"answer": "yes"}, "own_work": {"answer": "no"}', "not_faster"),
    ],
)
def test_an_answer_counts_only_when_the_judge_accepts_it(fields: str, result: str):
    row = read_judgment(BLANK, Ended(code=1, output=f'{{"accepted": false, {fields}}}'))
    assert row.result == result
    assert row.speedup is None


def test_an_interrupted_command_ends_the_suite():
    with pytest.raises(KeyboardInterrupt):
        read_outcome(BLANK, Ended(code=130, output=""))


def test_problems_that_are_all_alike_say_nothing_of_others():
    """Two ties once gave an interval from 1.000x to 1.000x."""
    rows = [Row(problem=problem, arm=arm, result="not_faster") for problem in ("p1", "p2") for arm in ("a", "b")]
    contest = compare_arms(rows, "a", "b")
    assert contest is not None
    assert (contest.ratio, contest.lower, contest.upper) == (1, None, None)
    assert "between" not in render_contests(summarize_rows(rows, ["a", "b"], attempts=4))[0]


def test_an_answer_that_is_not_accepted_says_why():
    """It is right, and what timings said of it stands in its row."""
    evidence = {"answer": "unverified", "evidence": ["undecided: 0.938x, at least 0.624x"]}
    judged = {"correct": {"answer": "yes"}, "faster": evidence, "own_work": {"answer": "yes"}, "accepted": False}
    ended = Ended(code=1, output=json.dumps(judged))
    row = read_judgment(Row(problem="p", arm="a", result="missing"), ended)
    assert (row.result, row.detail) == ("not_faster", "undecided: 0.938x, at least 0.624x")


def test_an_answer_that_breaks_says_what_ended_it():
    """The place comes first, the error last of all that its process printed."""
    crash = "small (call n=1): crash: exit code 1\n  Traceback\n  TypeError: ModelNew has other parameters"
    judged = {"correct": {"answer": "no", "evidence": [crash]}, "faster": {}, "own_work": {}, "accepted": False}
    row = read_judgment(Row(problem="p", arm="a", result="missing"), Ended(code=1, output=json.dumps(judged)))
    assert row.detail == "small (call n=1): crash: exit code 1; TypeError: ModelNew has other parameters"
