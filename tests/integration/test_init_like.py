"""`init --like`: two projects of the design documents, and the documents' own example from its sentence to its report."""

import json
import os
import runpy
import shlex
import subprocess
import sys

import pytest
import yaml

from ridgeline.agent.campaign import wiring
from ridgeline.agent.contract_file import load
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import WorldError
from ridgeline.graph.trial import WRAPS
from ridgeline.graph.values import FileEdit
from tests.repositories import git, make_repository
from tests.standins_projects import FLYDSL_CONTRACT, KERNEL, SENTENCE, flydsl, kernel, primus_turbo, write_pytest
from tests.standins_smi import stand_in
from tests.world import ScriptedPlanner

CARD = {
    "GPU use (%)": "0",
    "VRAM Total Memory (B)": "205822885888",
    "VRAM Total Used Memory (B)": "299687936",
    "Card Series": "AMD Instinct MI300X",
}
CHEAP = ("calibration_pairs=0", "final_pairs=3", "blocks=2", "max_restarts=0", "min_remeasure=2")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with one idle MI300X, and quick stand-ins of `pytest` and `python`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("RIDGELINE_GATE", "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0")
    monkeypatch.setenv("RIDGELINE_QUIET_S", "0")
    smi = stand_in(tmp_path / "smi", "rocm-smi", [json.dumps({"card0": CARD})])
    programs = write_pytest(tmp_path / "bin", os.path.realpath(sys.executable))
    monkeypatch.setenv("PATH", f"{smi}:{programs}:/usr/bin:/bin")
    return smi


LOOK = """#!/bin/sh
# Lists CAMPAIGN, and runs its quick script for as long as that refuses.
find CAMPAIGN -mindepth 1 -printf '%P\\n' 2>/dev/null | sort > HERE/looked
[ -e HERE/files ] || [ ! -e CAMPAIGN/quick_test_bench.py ] || {
  cp HERE/looked HERE/files; cp CAMPAIGN/manifest.yaml HERE/manifest
  python CAMPAIGN/quick_test_bench.py > HERE/refusal 2>&1; echo "exit $?" >> HERE/refusal
}
"""


def look_whenever_a_card_is_asked_about(smi, campaign):
    """The stand-in of rocm-smi looks at the campaign's folder too: it is asked before every command of the contract."""
    script = (smi / "rocm-smi").read_text().removeprefix("#!/bin/sh\n")
    (smi / "rocm-smi").write_text(LOOK.replace("CAMPAIGN", str(campaign)).replace("HERE", str(smi)) + script)


class Observer(ScriptedPlanner):
    """Writes kernels of these speeds, and looks at the campaign's folder whenever it is asked."""

    folder, seen, plans = None, [], {}

    def look(self, moment):
        present = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        self.seen.append((moment, present))
        self.plans[moment] = {path.name: path.read_text() for path in self.folder.glob("plans/*")}

    def propose(self, briefing):
        self.look(f"propose {briefing.round}")
        return super().propose(briefing)

    def draft(self, briefing, proposal):
        self.look(f"draft {briefing.round}")
        script = self._script(briefing.round)[0]
        return (
            super()
            .draft(briefing, proposal)
            .model_copy(
                update={
                    "edits": (
                        FileEdit(path=KERNEL, text=kernel(float(script.split()[0]), right="wrong" not in script)),
                    )
                }
            )
        )

    def repair(self, briefing, broken, attempt):
        return super().draft(briefing, None).model_copy(update={"edits": (), "refusal": "no weaker form"})


@pytest.mark.feature("F064", "F001", "F008", "F009", "F010", "F017", "F032", "F059", "F060", "F065")
def test_the_documents_own_example_from_its_sentence_to_its_report(cli, tmp_path, machine, monkeypatch):
    root = make_repository(tmp_path / "turbo", dict(primus_turbo()))
    said = cli("init", root, "--like", "primus-turbo", "-i", SENTENCE)
    assert said.code == 0, said.err
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a contract")

    planner = Observer("345 faster", "200 slower", "500 wrong")
    planner.folder, planner.seen, planner.plans = tmp_path / "campaign", [], {}
    look_whenever_a_card_is_asked_about(machine, planner.folder)
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: planner)
    limits = [word for pair in CHEAP for word in ("--set", pair)]
    words = ("--planner", "scripted", "--preset", "campaign", "--max-rounds", "3", "-i", SENTENCE)
    said = cli("run", root, *words, *limits, "--dir", planner.folder, "--json")
    assert said.code == 0, said.err
    campaign = planner.folder

    manifest = yaml.safe_load((campaign / "manifest.yaml").read_text())
    assert manifest["target_op"] == "gemm_fp8_blockwise"
    assert (manifest["target_backend"], manifest["target_lang"], manifest["target_gpu"]) == (
        "TRITON",
        "TRITON",
        "gfx942",
    )
    assert manifest["performance_target"] is None
    assert manifest["execution_mode"] == "repo"
    assert manifest["primary_metric"] == "Forward TFLOPS"
    assert manifest["kernel_source"] == KERNEL
    assert manifest["test_command"] == "pytest tests/pytorch/ops/test_gemm_fp8.py -v -k 'blockwise and TRITON'"
    bench = "PRIMUS_TURBO_GEMM_BACKEND=TRITON python benchmark/ops/training/bench_gemm_turbo.py --dtype fp8"
    assert bench in manifest["benchmark_command"]
    assert len(manifest["representative_shapes"]) in (3, 4)
    assert "M4096_N4096_K4096" in manifest["representative_shapes"]

    assert [line.split("round-")[1][0] for line in _subjects(root, said.json["branch"])] == ["2"]
    assert said.json["accepted"] == 1
    assert said.json["rolled_back"] == 2
    header = (campaign / "rounds/round-1/artifacts/benchmark.csv").read_text().splitlines()[0]
    assert header.startswith("label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS")
    project = (campaign / "rounds/round-1/artifacts/project_benchmark.csv").read_text()
    assert project.startswith("TestID,Platform,GPU,Case,MBS,M,N,K,Dtype,Granularity,Check")
    report = (campaign / "final_report.md").read_text()
    assert "gemm_fp8_blockwise" in report
    assert "+15.00" in report or "1.15" in report
    trend = (campaign / "logs/performance_trend.md").read_text()
    assert [word for word in ("BASELINE", "ACCEPTED", "ROLLBACK") if word in trend] == [
        "BASELINE",
        "ACCEPTED",
        "ROLLBACK",
    ]
    assert "### Termination Check" in (campaign / "logs/optimize.md").read_text()
    for path in campaign.rglob("*"):
        if path.suffix in (".md", ".yaml", ".csv", ".json"):
            assert path.read_text(encoding="utf-8").strip(), f"{path} is empty"

    # the tree of the documents, and a quick script that refuses, were there before the first command
    early = set((machine / "files").read_text().splitlines())
    assert {"manifest.yaml", "README.md", "quick_test_bench.py", "profiles", "rounds", "memory", "plans"} <= early
    assert {"logs/optimize.md", "logs/performance_trend.md"} <= early
    assert "rounds/round-1" not in early
    assert yaml.safe_load((machine / "manifest").read_text()) == {
        **manifest,
        **{"status": "preparing", "representative_shapes": [], "core_shapes": []},
        **{"best_round": None, "best_commit": manifest["base_commit"]},
    }
    refusal = (machine / "refusal").read_text()
    assert refusal.startswith("quick_test_bench: SHAPES is empty")
    assert refusal.endswith("exit 2\n")
    # and now it runs what the rounds were measured with, on the representative shapes
    script = runpy.run_path(str(campaign / "quick_test_bench.py"))
    assert script["SHAPES"] == manifest["representative_shapes"]
    assert script["COMMAND"] == shlex.split(manifest["project_quick_command"])
    run = subprocess.run(["python", campaign / "quick_test_bench.py"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == header
    assert [line.split(",")[0] for line in run.stdout.splitlines()[1:]] == manifest["representative_shapes"]

    moments = dict(planner.seen)
    first = moments["propose 2"]
    assert {"manifest.yaml", "README.md", "quick_test_bench.py", "logs/optimize.md", "memory/v0.json"} <= first
    assert {"rounds/round-1/summary.md", f"rounds/round-1/kernel_snapshot/{KERNEL}"} <= first
    for number in (2, 3):
        closed = {f"rounds/round-{number}/summary.md", f"memory/v{number - 1}.json", f"plans/v{number - 1}_plan.md"}
        closed |= {f"rounds/round-{number}/kernel_snapshot/{KERNEL}", f"rounds/round-{number}/artifacts/benchmark.csv"}
        assert closed <= moments[f"propose {number + 1}"]
        assert f"rounds/round-{number}/summary.md" not in moments[f"draft {number}"]
        assert f"memory/v{number - 1}.json" in moments[f"draft {number}"], "rule 10.6: before the edit"
        # the plan that stands when the round is closed is the one that stood before an edit of it was asked for
        plan = f"v{number - 1}_plan.md"
        assert plan not in planner.plans[f"propose {number}"]
        assert planner.plans[f"draft {number}"][plan] == (campaign / "plans" / plan).read_text()
        assert ", before any edit." in planner.plans[f"draft {number}"][plan]
    closed = [line["body"] for line in map(json.loads, (campaign / "ledger.jsonl").read_text().splitlines())]
    for drafted in (_find_draft(body["judged"]) for body in closed if body["kind"] == "round"):
        assert drafted["proposed"]["opened_at"] < drafted["proposed"]["written_at"] < drafted["edited_at"]
    assert "final_report.md" not in moments["draft 4"]
    assert "- Bound: compute-bound" in (campaign / "README.md").read_text()
    reached = "of the compute ceiling (compute peak 2.615e+06 GFLOP/s, stated in knowledge/hardware/mi300x.md:L22)"
    assert reached in (campaign / "final_report.md").read_text()
    assert git(root, "status", "--porcelain") == ""


def _find_draft(stage):
    """The draft inside a judged trial, in JSON."""
    while stage["stage"] != "drafted":
        stage = stage[WRAPS[stage["stage"]]]
    return stage


def _subjects(root, branch):
    """Subjects of the campaign's own commits."""
    return git(root, "log", "--format=%s", f"main..{branch}").splitlines()


@pytest.mark.feature("F064")
@pytest.mark.parametrize(
    ("sentence", "complaint"),
    [
        ("make it fast", "backend: names none"),
        ("blockwise FP8 GEMM Triton", "GPU: names none"),
        ("FP8 GEMM Triton on MI300X", "granularity: names none"),
        ("attention Triton on MI300X", "names no one operator that is known here"),
        ("blockwise FP8 GEMM HIPBLASLT on MI300X", "no kernel of gemm_fp8 for HIPBLASLT is known"),
    ],
)
def test_what_the_instruction_leaves_open_is_asked_for(cli, tmp_path, sentence, complaint):
    root = make_repository(tmp_path / "turbo", dict(primus_turbo()))
    said = cli("init", root, "--like", "primus-turbo", "-i", sentence)
    assert said.code == 2
    assert complaint in said.complaint
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.feature("F064")
def test_a_checkout_that_is_laid_out_otherwise_is_told_by_the_missing_file(cli, tmp_path):
    other = {path: text for path, text in primus_turbo().items() if "bench_gemm" not in path}
    root = make_repository(tmp_path / "turbo", other)
    said = cli("init", root, "--like", "primus-turbo", "-i", SENTENCE)
    assert (said.code, "has neither benchmark/ops/training/bench_gemm_turbo.py nor" in said.complaint) == (2, True)
    assert cli("init", root, "--like", "primus").code == 2


@pytest.mark.feature("F064", "F100")
def test_the_fixed_command_of_flydsl_is_described_as_a_run_left_it(cli, tmp_path, machine):
    """No script of ours stands between: file, columns and names of the rows are those of a run by hand."""
    root = make_repository(tmp_path / "flydsl", dict(flydsl()))
    words = ("init", root, "--like", "flydsl", "-i", "paged attention FlyDSL on MI300X")
    said = cli(*words)
    assert (said.code, "run `python tests/kernels/test_pa.py` there once" in said.complaint) == (2, True)
    subprocess.run([sys.executable, "tests/kernels/test_pa.py"], cwd=root, check=True)
    said = cli(*words)
    assert said.code == 0, said.err
    assert git(root, "status", "--porcelain").split() == ["??", "pa_results.csv", "??", "ridgeline.yaml"]
    written, by_hand = load(root).contract, Contract.model_validate(yaml.safe_load(FLYDSL_CONTRACT))
    for field in ("test_command", "quick_command", "correctness", "project_output", "scoring"):
        assert getattr(written, field) == getattr(by_hand, field), field
    assert written.benchmark_output.columns == by_hand.benchmark_output.columns
    (root / "pa_results.csv").write_text(
        "head_size,num_heads,us_gluon,err_flydsl_ps,us_flydsl_ps\n128,8,9,0,1\n128,16,9,0,1\n"
    )
    (root / "ridgeline.yaml").unlink()
    assert cli(*words).code == 0
    assert load(root).contract.project_output.label == "head_size{head_size}_num_heads{num_heads}"


DEMO = """
def get_inputs():
    import random
    return [[random.random() for _ in range(64)]]

def run(values):
    return [2.0 * value for value in values]
"""


def _router(tmp_path, **said):
    """The instruction with these fields, and a demo that is there."""
    demo = tmp_path / "demo.py"
    demo.write_text(DEMO)
    fields = {"platform": "MI300X", "framework": "Triton", "kernel_demo": demo, **said}
    return ", ".join(f"{name}: {value}" for name, value in fields.items() if value is not None)


@pytest.mark.feature("F066", "F067")
def test_the_routers_workspace_is_made_around_a_demo(cli, tmp_path, machine):
    folder, elsewhere = tmp_path / "ws", tmp_path / "not there yet"
    said = cli("init", folder, "--like", "gpu-kernel-optimizer", "-i", _router(tmp_path, reference_project=elsewhere))
    assert said.code == 0, said.err
    files = git(folder, "ls-files").split()
    assert {"kernel.py", "reference.py", "test_kernel.py", "README.md", ".gitignore", "ridgeline.yaml"} <= set(files)
    assert git(folder, "status", "--porcelain") == ""
    assert (folder / "kernel.py").read_text() == (folder / "reference.py").read_text() == DEMO
    assert "agent/workspace/" in (folder / ".gitignore").read_text().split()
    readme = (folder / "README.md").read_text()
    assert [line[3:] for line in readme.splitlines() if line.startswith("## ")][:5] == [
        *("Target", "Execution", "Inputs", "Hard Constraints", "Additional Notes"),
    ]
    assert "- arch: gfx942" in readme
    assert "- local_gpu: TBD" in readme
    contract = yaml.safe_load((folder / "ridgeline.yaml").read_text())
    assert (contract["target_backend"], contract["target_gpu"]) == ("TRITON", "MI300X")
    assert contract["knowledge"] == {"reference_project": str(elsewhere)}, "of the paths only the demo's is looked at"

    elsewhere.mkdir()
    with wiring.measuring(load(folder)) as (ports, commit):
        test = ports.checker.check(commit, purpose="test")
        assert (test.kind, test.rel_err) == ("pass", 0.0)
        run = ports.timer.benchmark(commit, level="quick", source="quick", shapes=(), repeat=0, purpose="test")
        assert [(row.label, row.check) for row in run.rows] == [("demo", "PASS")]
        wrong = FileEdit(path="kernel.py", text=DEMO.replace("2.0", "2.1"))
        edit = ports.workspace.apply(round=2, parent=commit, edits=(wrong,), at="2026-11-23T10:00:00Z")
        assert ports.checker.check(edit.commit, purpose="test").kind == "incorrect"


@pytest.mark.feature("F066")
def test_a_workspace_that_is_there_is_not_overwritten_and_a_missing_demo_is_an_error(cli, tmp_path):
    folder = tmp_path / "ws"
    said = cli("init", folder, "--like", "gpu-kernel-optimizer", "-i", _router(tmp_path, kernel_demo="nowhere.py"))
    assert (said.code, "kernel_demo: nowhere.py: no such file" in said.complaint) == (2, True)
    assert not folder.exists()
    folder.mkdir()
    (folder / "kernel.py").write_text("mine\n")
    said = cli("init", folder, "--like", "gpu-kernel-optimizer", "-i", _router(tmp_path))
    assert (said.code, "nothing in it is overwritten" in said.complaint) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["kernel.py"]
    assert (folder / "kernel.py").read_text() == "mine\n"


@pytest.mark.feature("F067")
@pytest.mark.parametrize("left_out", [("platform",), ("framework",), ("kernel_demo",), ("platform", "kernel_demo")])
def test_the_router_asks_for_each_required_input_that_is_missing(cli, tmp_path, left_out):
    instruction = _router(tmp_path, **dict.fromkeys(left_out))
    said = cli("init", tmp_path / "ws", "--like", "gpu-kernel-optimizer", "-i", instruction)
    assert said.code == 2
    for name in ("platform", "framework", "kernel_demo"):
        assert (f"{name}: is not given" in said.err) == (name in left_out)
    assert not (tmp_path / "ws").exists()


@pytest.mark.feature("F100")
@pytest.mark.parametrize(
    ("text", "kind", "detail", "reason"),
    [
        ("SPEED = 100\n", "pass", "", None),
        ("SPEED = 100  # wrong\n", "incorrect", "row 1: err_flydsl_ps = 0.25, needed == 0", None),
        ("SPEED = 100  # crashes\n", "crash", "exit code 1", "no_csv"),
        ("SPEED = 100  # no csv\n", "crash", "wrote no CSV", "no_csv"),
        ("SPEED = 100  # no error column\n", "crash", "no column 'err_flydsl_ps'", "schema_drift"),
    ],
)
def test_a_program_without_arguments_label_or_check_is_described_as_it_is(
    tmp_path, machine, text, kind, detail, reason
):
    root = make_repository(tmp_path / "flydsl", {**flydsl(text), "ridgeline.yaml": FLYDSL_CONTRACT})
    (root / "pa_results.csv").write_text("of a run by hand: not committed, and no result of anything\n")
    with wiring.measuring(load(root)) as (ports, commit):
        test = ports.checker.check(commit, purpose="test")
        assert test.kind == kind, test.detail
        assert detail in test.detail
        asked = {"level": "quick", "source": "quick", "repeat": 0, "purpose": "test"}
        run = ports.timer.benchmark(commit, shapes=("block_size64_mtp0_head_size128",), **asked)
        if reason:
            assert run.reason == reason
            return
        (row,) = run.rows
        assert (row.label, row.check) == ("block_size64_mtp0_head_size128", "PASS" if kind == "pass" else "FAIL")
        assert (row.metric("us_flydsl_ps"), row.metric("Time (ms)")) == (14.0, 0.014)
        assert row.config_class.startswith("block_size=64")
        if kind == "pass":
            labels = ("block_size16_mtp0_head_size128", "block_size64_mtp0_head_size128")
            pair = {"first_pair": 0, "pairs": 1, "blocks": 1, "purpose": "test"}
            compared = ports.timer.compare(best=commit, candidate=commit, shapes=labels, **pair)
            # its rows were read; whether the machine was quiet meanwhile is no matter
            assert getattr(compared, "reason", "unstable") == "unstable"


@pytest.mark.feature("F100")
def test_a_fixed_file_that_is_committed_is_refused(tmp_path, machine):
    files = {**flydsl(), "ridgeline.yaml": FLYDSL_CONTRACT, "pa_results.csv": "err_flydsl_ps\n0\n"}
    root = make_repository(tmp_path / "flydsl", files)
    with (
        wiring.measuring(load(root)) as (ports, commit),
        pytest.raises(WorldError, match="pa_results.csv is committed"),
    ):
        ports.checker.check(commit, purpose="test")
