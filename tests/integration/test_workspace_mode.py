"""Workspace mode: a minimal project first, and only the kernel's own changes go on to the project itself."""

import json

import pytest
import yaml

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.progress import SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, start
from ridgeline.agent.contract_file import load
from ridgeline.graph.contract import MinimalProject, Rebuild
from ridgeline.graph.errors import BrokenBaseline
from ridgeline.graph.limits import PRESETS
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.trial import Applied, find
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.store.ledger import JsonlLedger
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands
from tests.drive import TextPlanner
from tests.repositories import git, make_repository, workspace
from tests.text_project import files

INTEGRATION = """
import pathlib as _p, sys as _s
if _p.Path("whole" + ".txt").exists() and "breaks" in _p.Path("kernel.txt").read_text() and _s.argv[1] == "bench":
    _s.exit("the integration benchmark fails in the whole project")
"""
SCRIPTS = (["speed 120 wrong", "speed 120"], "speed 200 breaks", "speed 50")


class Scaffolder(TextPlanner):
    """Adds a file of its own to every draft and repair."""

    def draft(self, briefing, proposal):
        return self.with_notes(super().draft(briefing, proposal))

    def repair(self, briefing, broken, attempt):
        return self.with_notes(super().repair(briefing, broken, attempt))

    def with_notes(self, draft):
        return draft.model_copy(update={"edits": (*draft.edits, FileEdit(path="scratch/notes.md", text="tried\n"))})


def project(**changes):
    """The text project in workspace mode, with a file that only the whole project has."""
    project_files = dict(files())
    contract = yaml.safe_load(project_files["ridgeline.yaml"])
    contract |= {"execution_mode": "workspace", "editable": ["kernel.txt", "scratch/**"], **changes}
    harness = project_files["harness.py"].replace("import pathlib, random", "import common, pathlib, random")
    head, line, rest = harness.partition("def speed")
    return {
        **project_files,
        "ridgeline.yaml": yaml.safe_dump(contract, sort_keys=False),
        "harness.py": f"{head}{INTEGRATION}{line}{rest}",
        "common.py": "",
        "whole.txt": "heavy\n",
        "scratch/README.md": "tries\n",
        "other/kernel2.txt": "speed 1\n",
    }


def run(tmp_path, monkeypatch, project_files, *scripts):
    root = make_repository(tmp_path / "repo", project_files)
    (root / "harness.py").chmod(0o755)
    git(root, "commit", "-qam", "executable")
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: Scaffolder(*scripts))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root / ".git"))
    cheap = {"target_peak_fraction": None, "max_restarts": 0, "calibration_pairs": 0, "final_pairs": 3, "blocks": 2}
    limits = PRESETS["campaign"].model_copy(update=cheap)
    request = StartRequest(
        contract=load(root), instruction="", limits=limits, planner="scripted", progress=SilentProgress()
    )
    start(request)
    (folder,) = (root / "agent/workspace").iterdir()
    return root, folder, fold_ledger(JsonlLedger(folder / "ledger.jsonl").lines())


@pytest.mark.feature("F013", "F014")
def test_only_the_kernel_leaves_the_workspace_and_only_the_integration_gate_accepts(tmp_path, monkeypatch):
    root, folder, history = run(tmp_path, monkeypatch, project(), *SCRIPTS)
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text())
    base = git(root, "rev-parse", "main")
    assert manifest["execution_mode"] == "workspace"
    assert manifest["upstream_commit"] == base
    assert {group: sorted(names) for group, names in manifest["extracted_files"].items()} == {
        "src": ["kernel.txt"],
        "tests": ["common.py", "harness.py"],
        "bench": ["common.py", "harness.py"],
    }
    assert (folder / "src/kernel.txt").read_text() == "speed 100\n"
    assert (folder / "tests/harness.py").read_bytes() == (root / "harness.py").read_bytes()
    assert not list(folder.glob("*/whole.txt"))

    first, breaking, slow = history.rounds
    assert [closed.judged.verdict.reason for closed in history.rounds] == [
        "faster",
        "benchmark_failed",
        "local_gate",
    ]
    passed_locally = find(breaking.judged, Applied).local
    assert passed_locally.test.passed
    assert passed_locally.gain > 0.5
    assert "integration benchmark fails in the whole project" in breaking.judged.verdict.sentence
    assert find(slow.judged, Applied).local.gain < -0.05
    assert len(find(first.judged, Applied).drafted.repairs) == 1
    assert find(first.judged, Applied).left == ("scratch/notes.md",)
    synced = git(root, "diff", "--name-only", base, history.opened.branch).split()
    assert synced == ["kernel.txt"]
    assert git(root, "show", f"{history.opened.branch}:kernel.txt") == "speed 120"
    summary = (folder / "rounds/round-2/summary.md").read_text()
    assert "Local gate: the minimal project builds and passes its test" in summary
    assert "Not synced back: `scratch/notes.md`" in summary


def test_the_best_versions_minimal_project_is_timed_beside_each_candidate(tmp_path, monkeypatch):
    """Seen: after a round with a repair the next one was held against the best version's time of the round before."""
    _, folder, history = run(tmp_path, monkeypatch, project(), ["speed 50 wrong", "speed 50"], "speed 40")
    assert [closed.judged.verdict.reason for closed in history.rounds] == ["local_gate", "local_gate"]
    asked = [json.loads(line) for line in (folder / "tape.jsonl").read_text().splitlines()]
    timed = [line["about"] for line in asked if line["port"] == "timer" and "minimal project" in line["about"]]
    assert len([about for about in timed if "repeat=0" not in about]) == 4, timed


@pytest.mark.feature("F013")
def test_a_minimal_project_that_lacks_a_file_is_told_with_what_mends_it(tmp_path, monkeypatch):
    incomplete = project()
    incomplete["harness.py"] = incomplete["harness.py"].replace("import common,", "import")
    hidden = '\nopen("who" + "le.txt")\n'
    incomplete["harness.py"] = incomplete["harness.py"].replace("def speed", f"{hidden}\ndef speed", 1)
    with pytest.raises(BrokenBaseline, match=r"workspace: the minimal project \(2 files: kernel.txt, harness.py\)"):
        run(tmp_path, monkeypatch, incomplete, "speed 120")


@pytest.mark.feature("F013")
def test_a_minimal_project_is_what_its_commands_and_sources_reach(tmp_path):
    sources = {
        "ops/gemm/kernel.c": '#include "tile.h"\nint tile = TILE;\n',
        "ops/gemm/tile.h": '#include "base.h"\n#define TILE 8\n',
        "ops/gemm/base.h": "\n",
        "ops/gemm/unused.h": "\n",
        "ops/gemm/kernel.flags": "-O2\n",
        "ops/gemm/Makefile": "all:\n\tcc -c kernel.c huge.c\n",
        "ops/gemm/huge.c": "int huge;\n",
        "ops/gemm/tests/conftest.py": "",
        "ops/gemm/tests/test_gemm.py": "from tests import helpers\n",
        "ops/gemm/tests/helpers.py": "",
        "ops/gemm/tests/test_other.py": "",
        "ops/gemm/task.yaml": "reference: reference.py   # what is right\n",
        "ops/gemm/reference.py": "",
        "ops/gemm/bench/run.py": "from .shapes import ALL\n",
        "ops/gemm/bench/__init__.py": "",
        "ops/gemm/bench/shapes.py": "ALL = []\n",
    }
    root = make_repository(tmp_path / "repo", sources)
    commands = {
        "test_command": ("pytest", "tests/test_gemm.py::test_one", "-k", "fp8", "--task=x", "task.yaml"),
        "benchmark_command": ("python", "-m", "bench.run", "{csv}"),
        "quick_command": ("python", "-m", "bench.run", "{csv}", "{shapes}"),
    }
    whole = Rebuild(required=True, command="make")
    made = workspace(root, **commands, rebuild=whole)
    base = made.open("optimize/c1")
    extracted = made.extract(base.commit)
    names = {group: [file.name for file in getattr(extracted, group)] for group in ("src", "tests", "bench")}
    assert names == {
        "src": ["Makefile", "base.h", "huge.c", "kernel.c", "kernel.flags", "tile.h"],
        "tests": ["reference.py", "task.yaml", "tests/conftest.py", "tests/helpers.py", "tests/test_gemm.py"],
        "bench": ["bench/__init__.py", "bench/run.py", "bench/shapes.py"],
    }
    alone = MinimalProject(rebuild=Rebuild(required=True, command="cc -c kernel.c"), bench=("unused.h",))
    made = workspace(root, root / "agent/workspace/c2", **commands, rebuild=whole, workspace=alone)
    made.open("optimize/c2")
    extracted = made.extract(base.commit)
    assert [file.name for file in extracted.src] == ["base.h", "kernel.c", "kernel.flags", "tile.h"]
    assert "unused.h" in [file.name for file in extracted.bench]
    trees = Trees(made)
    place = trees.at(extracted.commit)
    files = sorted(path.name for path in place.iterdir() if path.is_file())
    assert files == ["base.h", "kernel.c", "kernel.flags", "reference.py", "task.yaml", "tile.h", "unused.h"]
    assert place != trees.at(base.commit)
    built = ContractBuilder(Commands(contract=made.contract, trees=trees)).build(extracted.commit)
    assert built.exit.argv[0] == "cc"
