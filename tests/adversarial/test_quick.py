"""The suite for a card as it is shared out among processes: order, cases alone, lost ones, lines of one state of the code."""

import ast
import gc
import importlib
import json
import sys
import time
import types

import pytest

from tests.adversarial.gpu import quick
from tests.adversarial.gpu.quick import SuiteRun, find_ground, summarize
from tests.adversarial.suite import CARD, attacks, cheats, stage

SERVE = """
import json, os, sys
for words in sys.stdin:
    name = words.strip()
    with open(sys.argv[1], "a") as log:
        log.write(f"{os.getpid()} {name}\\n")
    print("not a line of JSON")
    if "dies" in name:
        sys.exit("no card")
    if "hangs" in name:
        import time; time.sleep(600)
    again = open(sys.argv[1]).read().count(name) > 1
    line = {"verdict": "ok", "unlike_expected": {}, "correct": ["yes"], "faster": ["no"], "own_work": ["yes"]}
    line |= {"accepted": "accepted" in name, "path": "card", "caught_by": []}
    lost = "lost" in name and not again
    print(json.dumps({"name": name, "s": 1.0, "ok": not lost, **({"error": "lost"} if lost else line)}), flush=True)
"""


@pytest.fixture
def run(tmp_path):
    def make(code="state", **seconds):
        argv = (sys.executable, "-c", SERVE, str(tmp_path / "log"))
        tasks = {name: name[0] for name in seconds}
        return SuiteRun(tmp_path, tmp_path / "out", "commit", code, tasks, argv=argv, seconds_by_case=seconds)

    return make


def test_long_cases_begin_and_a_process_that_ends_is_replaced(run, tmp_path):
    asked = run(a_short=1.0, a_long=9.0, b_dies=8.0, a_middle=5.0, c_lost=7.0)
    asked.judge_cases(["a_short", "a_long", "b_dies", "a_middle", "c_lost"], 1, time.monotonic() + 60)
    log = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [name for _, name in log] == ["a_long", "b_dies", "c_lost", "a_middle", "a_short"]
    assert log[0][0] == log[1][0] != log[2][0] == log[4][0]
    by_name = {line["name"]: line for line in asked.lines}
    assert "ended with 1: 'no card" in by_name["b_dies"]["error"]
    asked.judge_cases(["c_lost"], 1, time.monotonic() + 60)
    assert [line["ok"] for line in asked.lines if line["name"] == "c_lost"] == [True]
    assert len((tmp_path / "out").read_text().splitlines()) == 6


def test_what_is_under_way_at_the_end_has_no_line(run, monkeypatch):
    monkeypatch.setattr(quick, "LAST_S", 0.0)
    asked = run(a_hangs=1.0)
    asked.judge_cases(["a_hangs"], 2, time.monotonic() + 0.3)
    assert asked.lines == []


def test_lines_of_another_state_of_the_code_are_judged_again(run):
    earlier = run(code="before")
    earlier.judge_cases(["a", "b"], 2, time.monotonic() + 60)
    now = run()
    now.read_judged(["a", "b"])
    assert now.lines == []
    now.judge_cases(["a"], 1, time.monotonic() + 60)
    later = run()
    later.read_judged(["a", "b"])
    assert [line["name"] for line in later.lines] == ["a"]
    *_, summary = summarize(["a", "b"], later.lines, 1.0)
    assert "1 of 2 judged" in summary
    assert "not reached 1" in summary
    assert "at one state of the code: {'commit (state)': 1}" in summary
    *_, mixed = summarize(["a", "b"], [*earlier.lines, *later.lines], 1.0)
    assert "at 2 states of the code" in mixed


def test_the_summary_says_what_was_accepted_refused_and_what_no_check_saw(run):
    def line(name, correct="yes", *evidence, faster="no", own="yes", caught=(), **more):
        return {
            "name": name, "ok": True, "s": 2.0, "verdict": "ok", "accepted": False, "path": "card", "caught_by": caught,
            "correct": [correct, *evidence], "faster": [faster], "own_work": [own], **more,
        }  # fmt: skip

    lines = [
        line("cheat:numbers", "no", "small, spike: out: relative_l2: error 3"),
        line("cheat:unloaded", "no", "load: while loading: undefined symbol: cublasCreate_v2"),
        line("cheat:exits", "no", "small, partly shift: crash: it ended", caught=["isolation"]),
        line("cheat:late", "no", "a timed call was refused: large, timed on a card: crash: it ended"),
        line("cheat:own", own="no", faster="yes"),
        line("cheat:slow"),
        line("attack:undecided", faster="unverified"),
        line("attack:accepted", faster="yes", accepted=True, verdict="WRONG"),
        line("honest:fine", faster="yes", accepted=True),
        line("honest:refused", "no", "small: out: x", verdict="WRONG"),
        {"name": "cheat:lost", "ok": False, "s": 1.0, "error": "CardLost"},
    ]
    grounds = [find_ground(each) for each in lines[:7]]
    assert grounds == ["wrong numbers", "load", "crash", "crash", "own work", "not faster", "undecided"]
    kept_out, ended, slow, honest, summary = summarize([each["name"] for each in lines], lines, 9.0)
    assert "crash 2" in kept_out
    assert "2: ['cheat:unloaded (load)', 'cheat:late (crash)']" in ended
    assert slow.endswith("2: ['cheat:slow', 'attack:undecided']")
    assert "honest, 2 judged: correct yes 1, faster yes 1, accepted 1" in honest
    assert "10 of 11 judged (8 cheats, 2 of them ended before a check was at work, 2 honest) in 9 s" in summary
    assert "cheats accepted 1: ['attack:accepted'], honest refused 1: ['honest:refused']" in summary
    assert "without a verdict ['cheat:lost']" in summary


def test_every_case_has_a_time_or_a_usual_one_and_the_state_is_named():
    names = {f"{each.kind}:{each.id}" for each in quick.list_cases()}
    assert set(json.loads(quick.SECONDS.read_text())) <= names
    assert quick.ALONE <= names
    commit, code = quick.describe_code()
    assert commit
    assert len(code) == 16


def test_cheats_that_call_a_library_are_linked_with_the_one_that_is_there(tmp_path, monkeypatch):
    (case,) = (each for each in cheats(CARD) if each.id == "cuda_h4_decoy")
    assert "- -lcublas" in stage(case, tmp_path / "none").task_file.read_text()
    library = tmp_path / "site" / "nvidia" / "cu13" / "lib" / "libcublas.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    text = stage(case, tmp_path / "there").task_file.read_text()
    assert f"- -L{library.parent}" in text
    assert "- -l:libcublas.so.13" in text


SEEKERS = [each for each in attacks() if "find(" in (each.home / "attacks" / each.task / each.file).read_text()]


@pytest.mark.parametrize("case", SEEKERS, ids=lambda each: each.id)
def test_attacks_on_a_worker_find_the_card_that_they_patch(case, monkeypatch):
    """Workers hide from `gc` what was there before the candidate: attacks that looked there attacked nothing."""
    monkeypatch.syspath_prepend(quick.ROOT / "sandbox" / "harness")
    segment = importlib.import_module("judge_worker_segment")
    tree = ast.parse((case.home / "attacks" / case.task / case.file).read_text())
    (find,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "find")
    names = {"sys": sys, "gc": gc}
    exec(compile(ast.Module([find], []), case.file, "exec"), names)  # noqa: S102
    device = object.__new__(segment.Device)
    device.driver, device._frames, found = Clock(), importlib.import_module("judge_frames"), []
    if case.id != "clock_class":  # which looks while it is imported
        gc.freeze()
    try:
        call = types.SimpleNamespace(kind=b"call", text="")
        device.run(call, lambda: found.append(names["find"]("Device")), (), None)
    finally:
        gc.unfreeze()
    assert found == [device]


class Clock:
    """A card's driver that does nothing."""

    no_persistence = sync = start = stop = elapsed_ns = lambda self: 0
