"""`ridgeline suite run`: many problems, several arms, stopped and gone on with."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Barrier

import psutil
import pytest

from ridgeline.agent.attempts import Ended, run_command
from ridgeline.agent.cli.suite import _parse_arm
from ridgeline.agent.errors import UserError
from ridgeline.agent.suite.run import Arm, Suite, SuiteSettings
from ridgeline.agent.suite.table import render_sides

TASKS = Path(__file__).parents[2] / "evals" / "tasks"
ARMS = (
    Arm(name="small", settings={"model": "m/small", "looks": "1,2"}),
    Arm(name="large", settings={"model": "m/large"}),
)


class Runner:
    """Stands for `ridgeline run`: notes what it is asked and says what it was given."""

    def __init__(self, *ended: Ended) -> None:
        self.asked: list[list[str]] = []
        self.ended = list(ended)

    def __call__(self, words: Sequence[str], timeout_s: float | None) -> Ended:
        self.asked.append(list(words))
        if words[0] == "run":
            Path(words[words.index("--dir") + 1]).mkdir()
        return self.ended.pop(0)


def gained(speedup: float) -> Ended:
    return Ended(code=0, output=json.dumps({"status": "concluded", "speedup": speedup, "speedup_lower": speedup - 0.1}))


def test_arms_take_turns_in_repositories_of_their_own_and_a_second_run_goes_on(tmp_path):
    settings = SuiteSettings(source=str(TASKS), arms=ARMS, minutes_each=2)
    runner = Runner(gained(2), Ended(code=3, output='{"status": "waiting"}'))
    table = Suite(folder=tmp_path / "suite", settings=settings, command=runner, only="softmax_c").run()
    first, second = runner.asked
    assert first[1] != second[1]
    assert all((Path(words[1]) / ".git").is_dir() for words in runner.asked)
    assert first[first.index("--model") + 1] == "m/large"
    assert second[-5:] == ["--model", "m/small", "--set", "looks=1,2", "--json"]
    assert [arm.unfinished for arm in table.arms] == [1, 0]

    later = Runner(gained(1.5))
    with (tmp_path / "suite" / "rows.jsonl").open("a") as rows:
        rows.write('{"problem": "softmax_c", "arm": "lar')  # cut by a kill
    Suite(folder=tmp_path / "suite", settings=settings, command=later, only="softmax_c").run()
    table = Suite(folder=tmp_path / "suite", settings=settings, only="softmax_c").table()
    assert [words[0] for words in later.asked] == ["resume"]
    assert [arm.geometric_mean for arm in table.arms] == pytest.approx([1.5, 2.0])
    assert table.contests[0].ratio == pytest.approx(2 / 1.5)


def test_a_budget_that_does_not_reach_for_every_arm_begins_nothing(tmp_path):
    runner = Runner()
    settings = SuiteSettings(source=str(TASKS), arms=ARMS, minutes_each=2)
    table = Suite(folder=tmp_path / "suite", settings=settings, command=runner, only="softmax_c").run(max_minutes=3)
    assert (runner.asked, table.untried) == ([], 2)


def test_an_attempt_s_minutes_are_those_of_all_calls_that_it_went_on_in(tmp_path):
    settings = SuiteSettings(source=str(TASKS), arms=ARMS[:1])
    now = iter(range(0, 1000, 60))
    runner = Runner(Ended(code=3, output='{"status": "waiting"}'), gained(2))
    for _ in range(2):
        suite = Suite(
            folder=tmp_path / "suite", settings=settings, command=runner, only="softmax_c", clock=lambda: next(now)
        )
        table = suite.run()
    assert [arm.minutes for arm in table.arms] == [2.0]


class MeetingRunner(Runner):
    """Of two that run at once, neither ends before the other has begun."""

    def __init__(self, *ended: Ended) -> None:
        super().__init__(*ended)
        self.meeting = Barrier(2, timeout=30)
        self.environments: list[Mapping[str, str] | None] = []
        self.names: list[str] = []

    def __call__(
        self, words: Sequence[str], timeout_s: float | None, *, name: str, environment: Mapping[str, str] | None
    ) -> Ended:
        self.environments.append(environment)
        self.names.append(name)
        self.meeting.wait()
        return super().__call__(words, timeout_s)


@pytest.mark.parametrize("cards", [True, False])
def test_as_many_attempts_as_wanted_run_at_a_time_each_on_cards_of_its_own(tmp_path, cards):
    settings = SuiteSettings(source=str(TASKS), arms=ARMS)
    runner = MeetingRunner(*[gained(2)] * 4)
    shares = [{"CUDA_VISIBLE_DEVICES": "GPU-a"}, {"CUDA_VISIBLE_DEVICES": "GPU-b"}] if cards else []
    suite = Suite(
        folder=tmp_path / "suite",
        settings=settings,
        command=runner,
        only="softmax",
        beside=2,
        share=lambda count: shares[:count],
    )
    table = suite.run()
    assert len(runner.asked) == 2 * len(suite.sources) == 4
    assert sorted(runner.names)[:2] == ["softmax_c, large", "softmax_c, small"]
    assert [arm.correct for arm in table.arms] == [2, 2]
    for pair in (runner.environments[:2], runner.environments[2:]):
        assert sorted(map(str, pair)) == sorted(map(str, shares or [None, None]))


def test_a_command_of_several_has_the_environment_that_it_is_given(monkeypatch):
    monkeypatch.setenv("RIDGELINE_TEST_WORD", "here")
    program = "import os; print([os.environ.get(n) for n in ('RIDGELINE_TEST_WORD', 'CUDA_VISIBLE_DEVICES')])"
    monkeypatch.setattr("ridgeline.agent.attempts.death_signal_words", lambda signal: [sys.executable, "-c", program])
    given = {**os.environ, "CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert run_command(["doctor"], 30, name="one", environment=given).output == "['here', 'GPU-a']\n"
    assert run_command(["doctor"], 30).output.startswith("['here', ")


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    settings = SuiteSettings(source=str(TASKS), arms=ARMS)
    Suite(folder=tmp_path / "suite", settings=settings)
    with pytest.raises(UserError, match="begun with other settings"):
        Suite(folder=tmp_path / "suite", settings=settings.model_copy(update={"max_rounds": 3}))


def test_a_copied_suite_goes_on_where_it_lies_with_the_same_problems(tmp_path):
    problems = tmp_path / "here" / "tasks"
    shutil.copytree(TASKS / "softmax_c", problems / "softmax_c")
    settings = SuiteSettings(source=str(problems), arms=ARMS[:1])
    page = tmp_path / "here/suite/repositories/small/softmax_c/agent/workspace/softmax_c/mailbox/001.request.md"
    waits = Ended(code=3, output=json.dumps({"status": "waiting", "request": str(page)}))
    table = Suite(folder=tmp_path / "here" / "suite", settings=settings, command=Runner(waits)).run()
    assert (tmp_path / "here" / "suite" / table.rows[0].page) == page

    shutil.move(tmp_path / "here", tmp_path / "there")
    moved = settings.model_copy(update={"source": str(tmp_path / "there" / "tasks")})
    runner = Runner(gained(2))
    Suite(folder=tmp_path / "there" / "suite", settings=moved, command=runner).run()
    campaign = page.parents[1].relative_to(tmp_path / "here")
    assert runner.asked[0][:2] == ["resume", str(tmp_path / "there" / campaign)]

    (tmp_path / "there" / "tasks" / "softmax_c").rename(tmp_path / "there" / "tasks" / "other")
    with pytest.raises(UserError, match="has no softmax_c, which .* began with"):
        Suite(folder=tmp_path / "there" / "suite", settings=moved)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_one_call_takes_every_campaign_to_its_question_and_answers_may_be_given_elsewhere(cli, tmp_path):
    names = ("first_c", "second_c")
    for name in names:  # the task that is judged soonest
        shutil.copytree(TASKS / "layernorm_c", tmp_path / "here" / "tasks" / name)
    quick = "looks=1,2,3,calibration_pairs=2,blocks=2,final_pairs=3"
    arm = ("--arm", f"m:model=mailbox,max_restarts=0,{quick}", "--max-rounds", "2")
    waiting = cli("suite", "run", tmp_path / "here/tasks", "--out", tmp_path / "here/out", *arm)
    assert waiting.code == 0, waiting.err
    pages = [
        tmp_path / "here/out/repositories/m" / name / "agent/workspace" / name / "mailbox/001.request.md"
        for name in names
    ]
    told = [f"waiting: {name}, m: {page}" for name, page in zip(names, pages, strict=True)]
    assert [line for line in waiting.out.splitlines() if line.startswith("waiting")] == told
    assert all(page.is_file() for page in pages)

    shutil.move(tmp_path / "here", tmp_path / "there")
    (tmp_path / "nothing.json").write_text('{"directions": [], "exhausted": "nothing that is worth a round"}')
    for page in pages:
        campaign = tmp_path / "there" / page.parents[1].relative_to(tmp_path / "here")
        assert cli("answer", campaign, tmp_path / "nothing.json").code == 0
    ended = cli("suite", "run", tmp_path / "there/tasks", "--out", tmp_path / "there/out", *arm, "--json")
    assert ended.code == 0, ended.err
    assert {(row["problem"], row["result"]) for row in ended.json["rows"]} == {(name, "not_faster") for name in names}


def timed(speedup: dict[str, float], lower: dict[str, float]) -> Ended:
    return Ended(code=0, output=json.dumps({"speedup": {"start": 3.0, **speedup}, "lower": {"start": 2.9, **lower}}))


def test_a_champion_is_timed_beside_others_once_and_a_later_call_adds_to_it(tmp_path):
    (tmp_path / "rivals/softmax_c").mkdir(parents=True)
    settings = SuiteSettings(source=str(TASKS), arms=(Arm(name="m", settings={"planner": "catalog"}),))

    def make(runner: Runner, *names: str) -> Suite:
        return Suite(
            folder=tmp_path / "suite", settings=settings, command=runner, only="softmax_c", baselines=names,
            rivals=tmp_path / "rivals", rival_name="somebody", rival_source="a/b@c",
        )  # fmt: skip

    runner = Runner(gained(3.0), timed({"eager": 1.5}, {"eager": 1.4}))
    (row,) = make(runner, "eager", "compile").run().rows
    words = runner.asked[1]
    assert words[:2] == ["judge", "baselines"]
    assert words[words.index("--only") + 1] == "eager,compile"
    assert words[words.index("--candidate") + 1] == runner.asked[0][runner.asked[0].index("--dir") + 1]
    assert (row.result, row.speedup, row.over_lower) == ("faster", 3.0, {"start": 2.9, "eager": 1.4})
    assert render_sides(row) == "at least 1.400x eager; compile not timed"

    again = Runner()
    make(again, "eager", "compile").run()
    assert again.asked == [], "what could not be timed says why, and is not tried in each call"
    later = Runner(
        Ended(code=1, output='{"error": "the card is gone"}'), timed({"eager": 1.5, "rival": 2}, {"eager": 1.4})
    )
    (row,) = make(later, "eager", "rival").run().rows
    assert (row.detail, row.over_lower) == ("not timed beside others: the card is gone", {"start": 2.9, "eager": 1.4})
    (row,) = make(later, "eager", "rival").run().rows
    assert [words[words.index("--only") + 1] for words in later.asked] == ["rival", "rival"]
    assert later.asked[1][-6:] == [
        "--rival",
        str(tmp_path / "rivals/softmax_c"),
        "--rival-name",
        "somebody",
        "--rival-source",
        "a/b@c",
    ]
    assert render_sides(row) == "at least 1.400x eager; compile not timed; rival without a bound"
    never = Runner(Ended(code=2, output='{"error": "c and PyTorch are not timed in one pair"}'))
    for _ in range(2):
        (row,) = make(never, "max_autotune").run().rows
    assert len(never.asked) == 1, "what can never be timed is not tried in each call"
    assert row.detail == "not timed beside others: c and PyTorch are not timed in one pair"


def test_nobody_is_timed_beside_a_campaign_without_a_gain_or_without_a_rival(tmp_path):
    settings = SuiteSettings(source=str(TASKS), arms=(Arm(name="m", settings={"planner": "catalog"}),))
    ended = Ended(code=0, output='{"status": "concluded", "speedup": null, "speedup_lower": null}')
    runner = Runner(ended, gained(2))
    suites = [
        Suite(
            folder=tmp_path / name,
            settings=settings,
            command=runner,
            only="softmax_c",
            baselines=(who,),
            rivals=tmp_path,
        )
        for name, who in (("a", "eager"), ("b", "rival"))
    ]
    assert [suite.run().rows[0].result for suite in suites] == ["not_faster", "faster"]
    assert len(runner.asked) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--baselines", "eager,torch"), "--baselines: torch: no such side; there are start, eager"),
        (("--baselines", "rival"), "--baselines: rival: is timed from a folder; give --rivals FOLDER"),
        (("--rivals", "/nowhere"), "--rivals: /nowhere: no such folder"),
    ],
)
def test_whom_nobody_can_time_is_refused_before_anything_begins(cli, tmp_path, words, said):
    refused = cli("suite", "run", TASKS, "--out", tmp_path / "out", *words)
    assert (refused.code, (tmp_path / "out").exists()) == (2, False)
    assert said in refused.complaint


def test_recorded_answers_are_those_of_each_problem_and_where_there_are_none_nothing_begins(tmp_path, monkeypatch):
    (tmp_path / "given/softmax_c").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    arm = _parse_arm("again:model=recorded:given,candidates=2")
    assert arm.recorded == tmp_path / "given"
    runner = Runner(gained(2))
    settings = SuiteSettings(source=str(TASKS), arms=(arm,))
    table = Suite(folder=tmp_path / "suite", settings=settings, command=runner, only="_c").run()
    (begun,) = runner.asked
    assert begun[begun.index("--model") + 1] == f"recorded:{tmp_path / 'given/softmax_c'}"
    results = {row.problem: (row.result, row.detail) for row in table.rows}
    assert results["softmax_c"][0] == "faster"
    said = f"no folder {tmp_path / 'given/matmul_c'}; recorded answers lie in a folder of the problem's name"
    assert results["matmul_c"] == ("missing", said)
    elsewhere = Arm(name="again", settings={**arm.settings, "model": "recorded:/other/given"})
    assert arm.anywhere == elsewhere.anywhere, "a suite is copied between machines"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:model", "write NAME:key=value"),
        ("a b:model=x", "write NAME"),
        ("a:answers=/nowhere", "no such folder"),
        ("a:model=recorded:/nowhere", "model: /nowhere: no such folder; give one with a folder for each problem"),
        ("a:model=recorded:.,base_url=http://h", "a: base_url: recorded answers ask nobody; leave it out"),
    ],
)
def test_an_arm_that_cannot_be_read_is_refused(text, said):
    with pytest.raises(UserError, match=said):
        _parse_arm(text)


def test_a_value_of_an_arm_may_hold_commas():
    assert _parse_arm("a:planner=catalog,looks=1,2,calibration-pairs=2").settings == {
        "planner": "catalog",
        "looks": "1,2",
        "calibration_pairs": "2",
    }


def test_the_command_lists_problems_and_says_what_is_no_suite(cli, tmp_path):
    listed = cli("suite", "list", TASKS, "--json")
    assert {"name": "softmax_c", "format": "task", "refused": ""} in listed.json["problems"]
    refused = cli("suite", "table", tmp_path)
    assert refused.code == 2
    assert "is no folder of a suite" in refused.complaint
    unknown = cli("suite", "run", TASKS, "--out", tmp_path / "s", "--only", "nothing_so")
    assert unknown.code == 2
    assert "has 'nothing_so' in its name" in unknown.complaint


def serves(number: int) -> bool:
    """Whether a child of the process waits for connections."""
    return any(child.net_connections() for child in psutil.Process(number).children())


def test_an_interrupted_suite_says_what_it_waits_for():
    """A minute went by without a word after Ctrl-C; here the command that runs ends at once."""
    code = "from ridgeline.agent.attempts import run_command; run_command(['serve', '--port', '0'], None)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as suite:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and not serves(suite.pid):
                time.sleep(0.05)
            os.killpg(suite.pid, signal.SIGINT)
            _, said = suite.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(suite.pid, signal.SIGKILL)
    assert "interrupted: `ridgeline serve` ends in order, within 60 s" in said
