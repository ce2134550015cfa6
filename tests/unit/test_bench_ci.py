"""What fails a build: the statistics, files and exit codes are real, only the timings and the clock are made up."""

import inspect
import json
import math
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from ridgeline.agent.bench.ci import EXIT_CODES, Judge, annotations, read_expectations, read_fail_on, write_junit
from ridgeline.agent.bench.comparison import Answer, Course, answer
from ridgeline.agent.bench.display import SilentWatch
from ridgeline.agent.bench.laboratory import About
from ridgeline.agent.bench.request import BenchSettings, Request
from ridgeline.agent.cli.bench import bench
from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold.contract import CI_FILES
from ridgeline.graph.limits import Limits
from tests.unit.test_bench_course import MadeUp

HERE = About(a="old", b="new", engine="wall", machine="a processor", unit="us", fingerprint="aa", changed=("k.c",))
ELSEWHERE = About(a="old", b="new", engine="wall", machine="another processor", unit="us", fingerprint="bb")
PLANTED = -0.03
"""A regression: t_A / t_B is 0.97."""


def compared(
    gain: float,
    *,
    sd: float = 0.006,
    seed: int = 1,
    pairs: int = 30,
    about: About = HERE,
    shapes: dict[str, float] | None = None,
    **request: object,
) -> Answer:
    """A whole comparison by the rule that the request says."""
    asked = Request.model_validate({"a": "old", "b": "new", **request})
    limits = Limits(margin=asked.margin or 0.005).model_copy(update={"looks": tuple(range(1, pairs + 1))})
    margin = read_fail_on(asked.fail_on, limits.margin)
    limits = limits.model_copy(update={"shape_guard": margin or limits.shape_guard})
    settings = BenchSettings(
        limits=limits,
        blocks=1,
        max_pairs=pairs,
        max_seconds=600,
        calibration_pairs=asked.calibration_pairs or 8,
        slower_margin=margin,
    )
    lab = MadeUp(gain, sd, seed=seed, shapes=shapes)
    judge = Judge(asked, settings)
    course = Course(
        lab, settings, SilentWatch(), clock=lambda: lab.now, is_settled=lambda look: judge.is_settled(look, about)
    )
    outcome = course.run()
    found = answer(outcome, about, settings).model_copy(update={"gate": judge.judge(outcome, about)})
    if asked.update:
        path, content = judge.store(found)
        path.write_bytes(content)
    return found


@pytest.mark.parametrize(
    ("gain", "relation", "outcome", "verdict", "begins"),
    [
        (PLANTED, "slower", "failed", "not_faster", "B is slower than A by"),
        (0.0, "equal", "passed", None, "B is as fast as A to within 1.5 %"),
        (0.05, "faster", "passed", "faster", "B is faster than A by"),
    ],
)
def test_a_planted_regression_fails_and_what_is_no_slower_passes(gain, relation, outcome, verdict, begins):
    for seed in range(20):
        said = compared(gain, seed=seed, fail_on="slower:1.5%")
        assert (said.relation, said.gate.outcome, said.gate.exit_code) == (relation, outcome, EXIT_CODES[outcome])
        assert verdict in (None, said.verdict)
        assert said.sentence.startswith(begins)


def test_what_is_not_shown_either_way_is_no_pass():
    said = compared(-0.015, fail_on="slower:1.5%", pairs=8)
    assert (said.relation, said.gate.outcome, said.gate.exit_code) == ("undecided", "undecided", 6)
    assert said.gate.sentence == "not shown whether B is slower by more than 1.5 %"


def test_false_alarms_are_rare_even_at_the_margin():
    alarms = [compared(math.expm1(-math.log1p(0.01)), seed=seed, fail_on="slower:1%", pairs=12) for seed in range(60)]
    assert sum(said.gate.outcome == "failed" for said in alarms) <= 3, "at alpha 1 % one is expected at the most"


def test_one_slow_shape_fails_although_the_mean_is_faster():
    said = compared(0.2, shapes={"small": 0.1, "odd": -0.3}, fail_on="slower:2%")
    assert (said.relation, said.gate.outcome, said.gate.mean) == ("faster", "failed", "passed")
    assert said.gate.slow_shapes == ("odd",)
    assert said.gate.sentence.endswith("slower for sure on odd")


def test_without_being_asked_nothing_fails_and_a_program_sees_slower_and_equal_apart():
    slower, close = compared(-0.1), compared(0.0, sd=0.0005)
    assert (slower.verdict, slower.relation, slower.gate) == ("not_faster", "slower", None)
    assert (close.verdict, close.relation, close.gate) == ("not_faster", "equal", None)


@pytest.mark.parametrize(
    ("text", "margin"), [("slower", 0.005), ("slower:2%", 0.02), ("slower:0.02", 0.02), ("slower:1.5 %", 0.015)]
)
def test_margins(text, margin):
    assert read_fail_on(text, 0.005) == pytest.approx(margin)


@pytest.mark.parametrize("text", ["faster", "slower:", "slower:3", "slower:x", "slower:0", "slower:1.2.3"])
def test_a_margin_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="--fail-on"):
        read_fail_on(text, 0.005)


# What was stored.


def test_a_ratio_that_was_stored_here_holds_or_fails(tmp_path):
    file = tmp_path / "expected.json"
    stored = compared(1.0, expect=file, margin=0.02, update=True)
    assert stored.pairs == 30, "bounds that later runs are held against take all pairs"
    assert stored.gate is None
    kept = compared(1.0, seed=2, expect=file, margin=0.02)
    assert (kept.gate.outcome, kept.gate.expected.ratio) == ("passed", stored.ratio)
    lost = compared(0.94, seed=3, expect=file, margin=0.02)
    assert (lost.verdict, lost.gate.outcome, lost.gate.exit_code) == ("faster", "failed", 1)
    assert lost.gate.sentence.startswith("B is slower against A than was stored of this machine: A takes 2.0")


def test_another_machines_numbers_are_told_and_never_compared(tmp_path):
    file = tmp_path / "expected.json"
    compared(1.0, expect=file, margin=0.02, update=True)
    there = compared(0.0, expect=file, about=ELSEWHERE)
    assert (there.gate.outcome, there.gate.exit_code, there.gate.expected.ratio) == ("undecided", 6, None)
    assert (
        "expects nothing of this machine, another processor (wall): it knows a processor (wall)" in there.gate.sentence
    )
    compared(0.5, expect=file, about=ELSEWHERE, margin=0.02, update=True)
    entries = json.loads(file.read_text())["expectations"]
    assert [entry["fingerprint"] for entry in entries] == ["aa", "bb"]
    assert compared(1.0, seed=4, expect=file, margin=0.02).gate.outcome == "passed"


@pytest.mark.parametrize("content", [b"", b"{}[", b'{"schema_version": 2}', b'{"expectations": [{}]}'])
def test_a_file_that_is_none_is_one_line(tmp_path, content):
    file = tmp_path / "expected.json"
    file.write_bytes(content)
    with pytest.raises(UserError) as refusal:
        read_expectations(file, may_be_missing=True)
    assert str(refusal.value).startswith(f"--expect: {file}: ")
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_says_how_it_is_made(tmp_path):
    with pytest.raises(UserError, match="--update"):
        read_expectations(tmp_path / "none.json", may_be_missing=False)


def test_a_card_that_nobody_named_has_no_expectation(tmp_path):
    judge = Judge(
        Request(a="x", b="y", expect=tmp_path / "x.json", update=True),
        BenchSettings(limits=Limits(), blocks=1, max_pairs=3, max_seconds=1, calibration_pairs=0),
    )
    with pytest.raises(UserError, match="which card"):
        judge.check(HERE.__class__(**{**HERE.__dict__, "fingerprint": ""}))


# How a CI system is told.


def test_junit_tells_failed_from_undecided(tmp_path):
    file, xml = tmp_path / "expected.json", tmp_path / "out.xml"
    compared(1.0, expect=file, margin=0.02, update=True)
    said = compared(PLANTED, expect=file, fail_on="slower:1.5%", about=ELSEWHERE, shapes={"small": 0.01, "large": -0.1})
    write_junit(xml, said, said.gate)
    suite = ElementTree.parse(xml).getroot()
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "2",
        "errors": "1",
    }
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases["B is not slower than A by more than 1.5 %"] == ["failure", "system-out"]
    assert (cases["shape small"], cases["shape large"]) == (["skipped", "system-out"], ["failure", "system-out"])
    assert cases[f"as {file} expects"] == ["error", "system-out"]


def test_a_shape_that_measures_slower_and_is_not_shown_to_be_has_not_passed(tmp_path):
    xml = tmp_path / "out.xml"
    said = compared(0.0, sd=0.1, pairs=4, fail_on="slower:1.5%", shapes={"small": 0.2, "large": -0.2})
    assert not said.gate.slow_shapes
    write_junit(xml, said, said.gate)
    suite = ElementTree.parse(xml).getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    measured = {shape.label: shape.ratio for shape in said.shapes}
    assert measured["large"] < 1 - said.gate.margin < measured["small"]
    assert (cases["shape small"], cases["shape large"]) == (["system-out"], ["skipped", "system-out"])
    assert suite.get("skipped") == "1"


def test_annotations_stand_at_the_changed_files_and_are_escaped():
    said = compared(PLANTED, fail_on="slower:1.5%")
    lines = list(annotations(said, said.gate, "", ("src/a,b.c", "k.c")))
    assert [line.split(",title=")[0] for line in lines] == ["::error file=src/a%2Cb.c", "::error file=k.c"]
    assert all("1.5 %25" in line and "\n" not in line for line in lines)
    fine = compared(0.0, fail_on="slower:1.5%")
    assert next(annotations(fine, fine.gate, "", ("k.c",))).startswith("::notice title=ridgeline bench::")
    assert next(annotations(said, said.gate, "other.c", ("k.c",))).startswith("::error file=other.c,")


def test_nothing_is_stored_where_nothing_bounds_the_ratio(tmp_path):
    file = Path(tmp_path / "expected.json")
    said = compared(1.0, pairs=2, expect=file, margin=0.02, update=True)
    unbounded = said.model_copy(update={"lower": None})
    settings = BenchSettings(limits=Limits(), blocks=1, max_pairs=3, max_seconds=1, calibration_pairs=0)
    with pytest.raises(UserError, match="--update"):
        Judge(Request(a="x", b="y", expect=file, margin=0.02, update=True), settings).store(unbounded)


# The files for CI systems, with a ridgeline on the path that writes down its arguments.

STANDIN = """#!/bin/sh
printf '%s\\n' "$@" > arguments
exit "$ENDS"
"""


def script_of(system: str, file: Path) -> str:
    """The shell of the step that compares."""
    document = yaml.safe_load(file.read_text())
    if system == "gitlab":
        return document[".ridgeline-bench"]["script"][-1]
    steps = document["jobs"]["bench"]["steps"]
    return next(step["run"] for step in steps if step.get("name") == "compare")


@pytest.mark.parametrize(
    ("system", "ends", "undecided", "code"),
    [("github", 6, "pass", 0), ("gitlab", 1, "pass", 1), ("gitlab", 6, "fail", 6)],
)
def test_a_ci_file_compares_the_branch_with_its_base(
    cli, make_repository, git, tmp_path, system, ends, undecided, code
):
    root = make_repository({"size": "1\n"})
    base = git(root, "rev-parse", "HEAD").strip()
    (root / "size").write_text("2\n")
    git(root, "commit", "-qam", "larger")
    assert cli("init", root, "--ci", system).code == 0
    file = root / CI_FILES[system]
    assert cli("init", root, "--ci", system).complaint.startswith(f"{file}: exists already")
    standin = tmp_path / "bin" / "ridgeline"
    standin.parent.mkdir()
    standin.write_text(STANDIN)
    standin.chmod(0o755)
    wanted = {"COMMAND": "./bench 4", "BUILD": "cp size built", "BASE": base, "MARGIN": "2%", "OPTIONS": "--cpu-time"}
    environment = {**os.environ, **wanted, "UNDECIDED": undecided, "ENDS": str(ends)}
    environment["PATH"] = f"{standin.parent}:{environment['PATH']}"
    done = subprocess.run(("bash", "-e", "-c", script_of(system, file)), cwd=root, env=environment, check=False)
    assert done.returncode == code
    there = root.parent / "ridgeline-base"
    assert ((there / "built").read_text(), (root / "built").read_text()) == ("1\n", "2\n")
    arguments = (root / "arguments").read_text().splitlines()
    assert arguments[:3] == ["bench", "cmd:env -C ../ridgeline-base ./bench 4", "cmd:env -C . ./bench 4"]
    assert "--cpu-time" in arguments
    options = {word for word in arguments if word.startswith("--")}
    assert options <= {f"--{name.replace('_', '-')}" for name in inspect.signature(bench).parameters}


@pytest.mark.parametrize("gain", [-0.05, -0.5])
def test_one_pair_alone_calls_nothing_slower(gain):
    """Seen: after one of 30 pairs the sentence said that B is slower by half, and `relation` that nothing is decided."""
    said = compared(gain, calibration_pairs=16)
    assert (said.verdict, said.relation, said.ended) == ("not_faster", "slower", "decided")
    assert said.pairs >= 2
    cut = compared(gain, calibration_pairs=16, pairs=1)
    assert (cut.verdict, cut.relation) == ("undecided", "undecided")
    assert cut.sentence.startswith("Undecided, 1 pair")
