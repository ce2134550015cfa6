"""A champion beside PyTorch's versions: who is timed, what each side is, and what is refused before anything runs."""

import ast
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml

from ridgeline.agent.bench import baselines
from ridgeline.agent.bench.baselines import (
    BaselineRequest,
    SideBySide,
    describe_program,
    mean_us,
    measure_baselines,
    open_sides,
    read_names,
)
from ridgeline.agent.campaign import folders
from ridgeline.agent.cli.judge import _print_baselines, _refuse
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import WorldError
from ridgeline.graph.judgment import JudgeFailed, TimedCall
from ridgeline.graph.rules.history import lineage
from ridgeline.sandbox.judge import task_judge
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.task_file import load_task
from ridgeline.sandbox.judge.task_judge import CompiledVersion
from ridgeline.sandbox.judge.timing import TimingRefused

EVALS = Path(__file__).parents[2] / "evals"
GEMM = EVALS / "tasks/gemm_gelu_triton/task.yaml"
CAMPAIGN = EVALS / "campaigns/gemm_gelu_h100"
TASK = {
    "task": 1,
    "name": "row_softmax",
    "language": "python",
    "source": ["kernel.py"],
    "entry": "run",
    "inputs": [{"name": "x", "shape": ["rows", "cols"]}],
    "outputs": [{"name": "y", "shape": ["rows", "cols"]}],
    "shapes": [{"label": "a", "dims": {"rows": 64, "cols": 100}}],
}
KERNEL = "import torch\n\n\ndef run(x, y):\n    torch.softmax(x, dim=1, out=y)\n"
REFERENCE = "import torch\n\n\ndef reference(x):\n    return torch.softmax(x, dim=1)\n"


@pytest.fixture
def request_of(tmp_path: Path) -> BaselineRequest:
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(TASK))
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return BaselineRequest(task_file=tmp_path / "task.yaml", ours=None)


def test_sides_of_a_recorded_campaign_are_its_champion_its_start_and_three_of_pytorch() -> None:
    task, folder = load_task(GEMM)
    champion = lineage(folders.history(CAMPAIGN))[-1].snapshot[0]
    with open_sides(BaselineRequest(task_file=GEMM, ours=CAMPAIGN), task, folder) as (task_file, ours, sides):
        derived = load_task(task_file).task
        assert derived.convention == "return"
        assert [side.who for side, _ in sides] == ["start", "eager", "compile", "max_autotune"]
        assert sha256((ours / "kernel.py").read_bytes()).hexdigest() == champion.sha256
        entries = {side.who: (place / derived.source[0]).read_text() for side, place in sides}
        for text in entries.values():
            assert {"call", "read"} <= {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        places = {side.who: place for side, place in sides}
        assert (places["start"] / "kernel.py").read_bytes() == (folder / "kernel.py").read_bytes()
        assert (places["eager"] / "ridgeline_program.py").read_text() == (folder / "reference.py").read_text()
    assert "torch.compile" not in entries["start"] + entries["eager"]
    assert "dynamic=False)" in entries["compile"]
    assert 'mode="max-autotune-no-cudagraphs"' in entries["max_autotune"]


def test_what_has_no_version_in_pytorch_is_refused_with_its_field(request_of: BaselineRequest) -> None:
    folder = request_of.task_file.parent

    def refusal(request: BaselineRequest = request_of, **fields: object) -> str:
        request.task_file.write_text(yaml.safe_dump({**TASK, **fields}))
        with pytest.raises(UserError) as error:
            measure_baselines(request, Options(device="cpu"), print)
        return str(error.value)

    (folder / "kernel.c").write_text("void run(const float *x, float *y) {}")
    assert ": language: c and PyTorch" in refusal(language="c", source=["kernel.c"])
    inputs = [{**TASK["inputs"][0], "constness": "mutated"}]  # type: ignore[index, dict-item]
    assert ": inputs.x: is changed by the kernel" in refusal(inputs=inputs)
    assert refusal(replace(request_of, rival=folder / "theirs")).endswith("theirs: no such folder; correct the path")
    (folder / "empty").mkdir()
    assert "empty: has no kernel.py" in refusal(replace(request_of, rival=folder / "empty"))
    (folder / "reference.py").write_text("import numpy\n\n\ndef reference(x):\n    return numpy.exp(x)\n")
    assert "give a file with `reference(x)` as --torch" in refusal()
    assert "there are start, eager, compile, max_autotune, rival" in str(
        pytest.raises(UserError, read_names, "torch").value
    )


def test_a_short_program_is_told_as_it_stands_and_a_long_one_by_its_file(request_of: BaselineRequest) -> None:
    program = request_of.task_file.with_name("reference.py")
    assert describe_program(program) == "PyTorch is timed as `return torch.softmax(x, dim=1)`"
    program.write_text("def scale(x):\n    return 2 * x\n\n\ndef reference(x):\n    return scale(x)\n")
    assert describe_program(program).endswith("/reference.py writes it")


def test_eager_pytorch_and_a_rival_are_timed_beside_the_champion(request_of: BaselineRequest) -> None:
    pytest.importorskip("torch")
    rival = request_of.task_file.parent / "rival"
    rival.mkdir()
    (rival / "kernel.py").write_text(KERNEL.replace("dim=1, out=y)", "dim=1, out=y).mul_(1.5)"))
    request = replace(request_of, rival=rival, only=read_names("eager,rival"))
    options = Options(device="cpu", pairs=2, most_pairs=2, blocks=1, calibration_pairs=2)
    answer = measure_baselines(request, options, print)
    assert (answer.task, answer.types, answer.engine) == ("row_softmax", "fp32", "wall")
    assert {*answer.speedup} == {"eager"}, "a rival that is wrong has no time"
    assert mean_us(answer.shapes, "eager")
    assert mean_us(answer.shapes, "rival") is None
    assert answer.notes[0] == "PyTorch is timed as `return torch.softmax(x, dim=1)`"
    assert answer.notes[1].startswith("rival is not measured: rival was refused:")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A card that takes 2 us for ours and what `card` says for the others, 10 s for a pair; None: it does not compile."""
    state: dict[str, object] = {"now": 0.0, "eager": 4.0, "compile": 3.0, "max_autotune": 3.0, "asked": []}

    def pair(task_file: Path, a: Path, b: Path, *, blocks: int, **rest: object) -> tuple[TimedCall, ...] | JudgeFailed:
        state["now"] += 10.0  # type: ignore[operator]
        if state.get(a.name, 2.0) is None:
            raise WorldError("the card was lost")
        if isinstance(failed := state.get(a.name), JudgeFailed):
            return failed
        state["asked"].append(a.name)  # type: ignore[attr-defined]
        sides = {"a": float(state.get(a.name, 2.0)), "b": 2.0}  # type: ignore[arg-type]
        return tuple(
            TimedCall(
                label="a",
                block=block,
                slot=slot,
                side=side,
                time_us=sides[side] * (1 + 0.001 * (slot + block)),
                claimed_us=state.get(f"{a.name}, claimed", 0.0) if side == "a" else 0.0,  # type: ignore[arg-type]
                at_us=0.0,
            )
            for block in range(blocks)
            for slot, side in enumerate("abba")
        )

    def compile_versions(task_file: Path, places: list[Path], *rest: object) -> tuple[CompiledVersion, ...]:
        state["sizes"] = [shape.label for shape in load_task(task_file).task.shapes]
        return tuple(
            CompiledVersion(seconds=1, failure="" if state[place.name] else "timeout: no answer in 5 s")
            for place in places
        )

    monkeypatch.setattr(baselines, "time_pair", pair)
    monkeypatch.setattr(baselines, "compile_versions", compile_versions)
    monkeypatch.setattr(baselines, "time", SimpleNamespace(monotonic=lambda: state["now"]))
    return state


def test_pytorch_is_what_lies_beside_the_task_where_none_is_named(
    request_of: BaselineRequest, card: dict[str, object]
) -> None:
    """A task's reference computes in wider types, and its time would say that PyTorch is slow."""
    beside = request_of.task_file.parent / "pytorch.py"
    beside.write_text(REFERENCE.replace("torch.softmax(x, dim=1)", "x.softmax(1)"))
    request = replace(request_of, only=read_names("eager"))
    answer = measure_baselines(request, Options(device="cuda", pairs=2, most_pairs=2), print)
    assert answer.notes[0] == "PyTorch is timed as `return x.softmax(1)`"
    named = replace(request, program=request_of.task_file.parent / "reference.py")
    assert (
        "torch.softmax(x, dim=1)"
        in measure_baselines(named, Options(device="cuda", pairs=2, most_pairs=2), print).notes[0]
    )


def test_what_is_done_when_time_is_over_is_kept_and_the_next_run_times_the_others(
    request_of: BaselineRequest, card: dict[str, object]
) -> None:
    request = replace(request_of, keep=request_of.task_file.with_name("times.json"), until=65.0)
    request.task_file.write_text(
        yaml.safe_dump(
            TASK | {"shapes": [*TASK["shapes"], {"label": "b", "dims": {"rows": 1, "cols": 3}, "timed": False}]}
        )  # type: ignore[misc]
    )
    options = Options(device="cpu", pairs=2, most_pairs=4, blocks=2, calibration_pairs=2)
    lines: list[str] = []
    first = measure_baselines(request, options, lines.append)
    assert card["sizes"] == ["a"], "what is not timed is compiled for nobody"
    assert {*first.speedup} == {"eager", "compile"}
    assert first.notes[-1] == "max_autotune is not measured: no time was left after 0 process pairs"
    assert read_kept(request) == first
    assert lines[0] == "   0 s  the champion against itself"
    assert lines[1] == "  20 s  eager against the champion", "who does not compile waits for no compiler"
    assert lines[3] == "  40 s  compiling, untimed: compile and max_autotune"

    card["asked"], card["compile"] = [], None
    later = measure_baselines(replace(request, until=1e9), options, lines.append)
    assert {*card["asked"]} == {"ours", "max_autotune"}  # type: ignore[call-overload]
    assert later.speedup["compile"] == first.speedup["compile"]
    assert later.speedup["max_autotune"] == pytest.approx(1.5)
    assert later.shapes[0].times_us["ours"] == first.shapes[0].times_us["ours"]
    assert later.notes[1:] == ("max_autotune: in a later run, beside the champion at 2.004 us",)

    (request.task_file.with_name("kernel.py")).write_text(KERNEL + "# another\n")
    with pytest.raises(UserError, match="times.json: digests.ours: is of another champion; name another file"):
        measure_baselines(request, options, lines.append)


BEFORE = {"max_autotune": ("compiling",)}


def test_sides_are_timed_in_the_order_that_is_asked_for(request_of: BaselineRequest, card: dict[str, object]) -> None:
    rival = request_of.task_file.parent / "rival"
    rival.mkdir()
    (rival / "kernel.py").write_text(KERNEL + "# theirs\n")
    options = Options(device="cpu", pairs=2, most_pairs=2, blocks=2, calibration_pairs=2)
    for words in ("rival,max_autotune,eager", "eager,rival"):
        card["asked"], lines = [], list[str]()
        measure_baselines(replace(request_of, rival=rival, only=read_names(words)), options, lines.append)
        steps = [line[8:].split(" ")[0].rstrip(",") for line in lines if line[8] != " "]
        assert steps == ["the", *(step for word in words.split(",") for step in BEFORE.get(word, ()) + (word,))]
        assert [*dict.fromkeys(card["asked"])] == ["ours", *words.split(",")]  # type: ignore[call-overload]


def read_kept(request: BaselineRequest) -> SideBySide:
    assert request.keep is not None
    return SideBySide.model_validate_json(request.keep.read_bytes())


def test_a_version_that_does_not_compile_is_told_and_the_others_are_timed(
    request_of: BaselineRequest, card: dict[str, object]
) -> None:
    card["compile"] = None
    options = Options(device="cpu", pairs=2, most_pairs=2, blocks=2, calibration_pairs=2)
    answer = measure_baselines(request_of, options, print)
    assert {*answer.speedup} == {"eager", "max_autotune"}
    assert answer.notes[1] == "compile is not measured: it did not compile in 1 s: timeout: no answer in 5 s"
    card["eager"] = None
    answer = measure_baselines(request_of, options, print)
    assert {*answer.speedup} == {"max_autotune"}
    assert answer.notes[1] == "eager is not measured: after 0 process pairs: the card was lost"


CLOCKS = "a, timed on a card: the card's timer claims 1.6 us less a call, and 44 calls in a row show -0.6 us"


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (
            JudgeFailed(reason="refused", detail=CLOCKS, side="b", unclear=True),
            f"it and the champion are not told apart: the two clocks disagree on the champion's lead: {CLOCKS}",
        ),
        (
            JudgeFailed(reason="refused", detail="a: 2 more processes run beside it", side="a", unclear=True),
            "the time of eager says nothing: a: 2 more processes run beside it",
        ),
        (
            JudgeFailed(reason="refused", detail="a, timed: y: is wrong", side="b"),
            "the champion was refused: a, timed: y: is wrong",
        ),
    ],
)
def test_a_pair_whose_clocks_disagree_accuses_nobody(
    request_of: BaselineRequest, card: dict[str, object], failed: JudgeFailed, told: str
) -> None:
    card["eager"] = failed
    options = Options(device="cpu", pairs=2, most_pairs=2, blocks=2, calibration_pairs=2)
    answer = measure_baselines(replace(request_of, only=read_names("eager")), options, print)
    assert answer.notes[-1] == f"eager is not measured: {told}"
    assert answer.undecided == (("eager",) if "not told apart" in told else ())
    assert baselines.CLAIM in Path(task_judge.__file__).with_name("device_timing.py").read_text(), (
        "the words are the judge's"
    )


def test_a_lead_that_two_clocks_tell_by_different_amounts_counts_by_the_lesser(
    request_of: BaselineRequest, card: dict[str, object]
) -> None:
    card["eager"], card["eager, claimed"] = 3.0, 7.0
    options = Options(device="cuda", pairs=2, most_pairs=2, blocks=2, calibration_pairs=2)
    answer = measure_baselines(replace(request_of, only=read_names("eager")), options, print)
    assert answer.speedup["eager"] == pytest.approx(1.5)
    assert answer.notes[-1] == (
        "eager at a: in 2 of 2 process pairs calls in a row show less of the champion's lead by the judge's clock than the "
        "card's timer, and the lesser counts: 3.006 us in place of 7"
    )
    assert answer.undecided == ()


@pytest.mark.parametrize(("unclear", "word"), [(True, "NO TIME"), (False, "MISMATCH")])
def test_a_pair_from_the_shell_calls_only_a_wrong_result_a_mismatch(
    capsys: pytest.CaptureFixture[str], unclear: bool, word: str
) -> None:
    with pytest.raises(typer.Exit) as left:
        _refuse(JudgeFailed(reason="refused", detail="said", side="b", unclear=unclear))
    assert left.value.exit_code == 1
    assert f"{word}: side b: said" in capsys.readouterr().err


def test_the_champion_that_disagrees_with_itself_is_not_called_wrong(
    request_of: BaselineRequest, card: dict[str, object]
) -> None:
    card["ours"] = JudgeFailed(reason="refused", detail=CLOCKS, side="b", unclear=True)
    with pytest.raises(UserError, match="the champion cannot be timed beside itself: a, timed on a card"):
        measure_baselines(request_of, Options(device="cpu", calibration_pairs=2), print)


@pytest.mark.parametrize("unclear", [True, False])
def test_a_pair_says_whether_a_result_was_wrong_or_only_its_time_unclear(
    request_of: BaselineRequest, monkeypatch: pytest.MonkeyPatch, unclear: bool
) -> None:
    """What recordings hold of a wrong result reads as before the field was."""
    refused = TimingRefused(side="b", detail="said", unclear=unclear)
    monkeypatch.setattr(task_judge, "_time_here", lambda *rest: refused)
    folder = request_of.task_file.parent
    failed = task_judge.TaskJudge(Options(device="cpu")).compare(
        request_of.task_file, folder, folder, shapes=(), blocks=2, timeout_s=60
    )
    assert isinstance(failed, JudgeFailed)
    assert failed.unclear is unclear
    assert ("unclear" in failed.model_dump()) is unclear


def test_what_is_not_shown_is_not_promised(capsys: pytest.CaptureFixture[str]) -> None:
    """A bound of 0.9996 is below 1, and no rounding lifts it there."""
    times_us = {"ours": 10.0, "rival": 10.01}
    answer = SideBySide(
        shapes=({"label": "a", "times_us": times_us},), speedup={"rival": 1.001}, lower={"rival": 0.9996}
    )
    _print_baselines(answer)
    assert "over rival: 1.001x, at least 0.999x" in capsys.readouterr().out
