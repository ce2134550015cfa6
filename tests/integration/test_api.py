"""`import ridgeline`: four calls on real commands, kernels and recordings; frozen values; errors of one family."""

import inspect
import subprocess
import sys
from pathlib import Path

import pydantic
import pytest

import ridgeline
from ridgeline.agent.scaffold.contract import compose
from ridgeline.evals.task_folders import folders
from tests.rocprof_samples import row, trace
from tests.task_copies import timed_at_two_shapes

QUICK = {"looks": "1,2,3", "calibration_pairs": 2, "blocks": 2, "final_pairs": 3}


def test_every_public_name_is_there_and_imported_only_when_it_is_used():
    assert all(getattr(ridgeline, name) is not None for name in ridgeline.__all__)
    assert set(ridgeline.__all__) <= set(dir(ridgeline))
    code = "import sys, ridgeline; print('pydantic' in sys.modules, 'ridgeline.agent' in sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = ridgeline.optimise


@pytest.mark.parametrize("name", ["compare", "judge", "optimize", "read_profile"])
def test_every_call_is_typed_and_takes_options_by_name_alone(name):
    signature = inspect.signature(getattr(ridgeline, name))
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert (parameter.kind is inspect.Parameter.KEYWORD_ONLY) == (parameter.default is not inspect.Parameter.empty)


def test_compare_says_which_of_two_commands_is_faster(tmp_path):
    seen = ridgeline.compare("sleep 0.06", "sleep 0.02", folder=tmp_path, calibration_pairs=4)
    assert isinstance(seen, ridgeline.Comparison)
    assert seen.verdict == "faster", seen.sentence
    assert seen.ratio is not None
    assert 1.5 < seen.ratio < 3.5
    with pytest.raises(pydantic.ValidationError):
        seen.verdict = "not_faster"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda here: ridgeline.compare("no-such-program-x", "sleep 0", folder=here),
            "A: 'no-such-program-x' is no folder",
        ),
        (lambda here: ridgeline.compare("sleep 0", "sleep 0", folder=here, max_pairs=1), "--max-pairs: is 1"),
        (lambda here: ridgeline.compare("true", "true", folder=here, clock="gpu"), "clock: is 'gpu'; give wall or cpu"),
        (lambda here: ridgeline.judge(here), "task.yaml"),
        (lambda here: ridgeline.judge(here, margin=-1), "judge: margin: input should be greater"),
        (lambda here: ridgeline.optimize(here), "ridgeline.yaml"),
        (lambda here: ridgeline.read_profile(here / "none.csv"), "no such file or folder"),
    ],
)
def test_bad_input_is_one_line_of_one_error(tmp_path, call, line):
    with pytest.raises(ridgeline.RidgelineError, match=line) as raised:
        call(tmp_path)
    assert raised.value.exit_code == 2
    assert len(str(raised.value).splitlines()) == 1


def test_a_command_that_fails_is_the_worlds_error(tmp_path):
    with pytest.raises(ridgeline.RidgelineError, match="false"):
        ridgeline.compare("false", "sleep 0", folder=tmp_path, calibration_pairs=0, max_pairs=2)


@pytest.mark.slow
def test_judge_refuses_a_wrong_kernel(tmp_path):
    task = compose("softmax_c", folders()["softmax_c"], tmp_path / "task")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    source = (task / "kernel.c").read_text(encoding="utf-8")
    assert "/ sum;" in source
    (wrong / "kernel.c").write_text(source.replace("/ sum;", "/ sum * 1.01f;"), encoding="utf-8")
    seen = ridgeline.judge(task, candidate=wrong, device="cpu", max_pairs=2)
    assert seen.correct.answer == "no"
    assert not seen.accepted


@pytest.mark.slow
def test_optimize_runs_a_campaign_and_says_nothing_on_standard_output(tmp_path, capsys):
    repository = timed_at_two_shapes(tmp_path / "kernel")
    seen = ridgeline.optimize(repository, max_rounds=1, limits=QUICK, campaign_dir=tmp_path / "campaign")
    assert isinstance(seen, ridgeline.Outcome)
    assert (seen.status, seen.planner) == ("concluded", "catalog")
    assert seen.accepted + seen.rolled_back == seen.rounds
    assert Path(seen.report).is_file()
    assert capsys.readouterr().out == ""


def test_read_profile_reads_a_recording(tmp_path):
    file = trace(tmp_path / "run_kernel_trace.csv", [row("add", 1000, 3000), row("add", 5000, 9000)])
    (recording,) = ridgeline.read_profile(str(file))
    assert isinstance(recording, ridgeline.Recording)
    assert [(kernel.name, kernel.calls) for kernel in recording.kernels] == [("add", 2)]
