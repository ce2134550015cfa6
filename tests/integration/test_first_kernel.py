"""Stage 1: where only PyTorch is, the planner writes the first kernel; Stage 2 follows by itself."""

import json
import re
from dataclasses import replace

import pytest
import yaml

from ridgeline.agent.campaign import folders, wiring
from ridgeline.agent.campaign.progress import FIRST_KERNEL, SilentProgress
from ridgeline.agent.campaign.runner import StartRequest, resume, start
from ridgeline.agent.campaign.status import status_of
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.graph.briefing import Draft
from ridgeline.graph.errors import BrokenBaseline
from ridgeline.graph.values import FileEdit
from tests.builders import make_limits
from tests.campaigns import make_campaign
from tests.drive import TextPlanner
from tests.model_fakes import NoBooks, ScriptedModel
from tests.repositories import git, make_repository
from tests.text_project import files
from tests.world import KERNEL, ScriptedPlanner, TextChecker


class Author(ScriptedPlanner):
    """Writes the first kernel: one text for each attempt."""

    def __init__(self, firsts, *scripts):
        super().__init__(*scripts)
        self.firsts, self.evidence = list(firsts), []

    def write_baseline(self, briefing, about, edits, evidence):
        self.evidence.append(evidence)
        if not self.firsts:
            return Draft(edits=(), refusal="no idea")
        return Draft(edits=(FileEdit(path=KERNEL, text=self.firsts.pop(0) + "\n"),), explanation="a tile of 64")


def campaign_of(tmp_path, planner, preset="router", start="pytorch", **limits):
    limits = make_limits(preset, target_peak_fraction=None, **limits)
    return make_campaign(tmp_path, planner=planner, limits=limits, kernel="torch speed 100", start=start)


@pytest.mark.feature("F073", "F074")
def test_the_first_kernel_is_tested_reported_and_committed_and_then_optimized(tmp_path):
    planner = Author(["speed 80 wrong", "speed 80"], "speed 120")
    campaign = campaign_of(tmp_path, planner)
    campaign.drive()
    history = campaign.history()
    written = history.opened.first_kernel
    assert planner.evidence[0] == ""
    assert planner.evidence[1].startswith("incorrect: MISMATCH")
    assert [repair.evidence[:9] for repair in written.repairs] == ["incorrect"]
    assert campaign.workspace.sources(written.upstream)[0].text == "torch speed 100\n"
    assert campaign.workspace.sources(history.opened.base_commit)[0].text == "speed 80\n"
    assert campaign.workspace.branch_log()[-1] == history.opened.base_commit
    report = campaign.files.read("baseline_report.md")
    assert "PASS" in report
    assert "a tile of 64" in report
    assert "Attempt 1 was not kept: incorrect: MISMATCH" in report
    assert "## Performance" in report
    assert f"commit `{history.opened.base_commit}`" in report
    assert "write the first C kernel of matmul_fp32" in campaign.files.read("plans/v0_plan.md")
    memory = json.loads(campaign.files.read("memory/v0.json"))
    assert memory["correctness"]["status"] == "PASS"
    assert memory["git_commit_hash"] == history.opened.base_commit
    assert memory["optimization"]["action_category"] == "algorithm"
    assert campaign.verdicts()[0] == "faster"
    assert history.concluded.speedup == pytest.approx(1.5, rel=0.02)


class Judging(TextChecker):
    """Says of a borrowed kernel what the judge says of ready-made operators."""

    def check(self, commit, *, purpose):
        own_work = "no" if "borrowed" in self._read(commit) else None
        return (
            super().check(commit, purpose=purpose).model_copy(update={"own_work": own_work, "detail": "aten.softmax"})
        )


@pytest.mark.feature("F073")
def test_ready_made_operators_are_no_first_kernel(tmp_path):
    planner = Author(["speed 90 borrowed", "speed 80"], "speed 120")
    campaign = campaign_of(tmp_path, planner)
    campaign.ports = replace(campaign.ports, checker=Judging(campaign.ports.checker._read))
    campaign.drive()
    assert planner.evidence == ["", "right, and not its own work: aten.softmax"]
    assert campaign.workspace.sources(campaign.history().opened.base_commit)[0].text == "speed 80\n"


@pytest.mark.feature("F073")
def test_without_a_right_first_kernel_nothing_is_committed(tmp_path):
    campaign = campaign_of(tmp_path, Author([f"speed 80 wrong {n}" for n in range(9)], "speed 120"))
    with pytest.raises(BrokenBaseline, match="no first kernel passed the test, so nothing is committed: incorrect"):
        campaign.drive()
    assert campaign.workspace.branch_log() == []
    assert campaign.ports.ledger.lines() == ()
    assert len(campaign.ports.planner.evidence) == 4


@pytest.mark.feature("F073")
def test_a_planner_that_writes_no_kernels_leaves_no_branch_and_no_folder(tmp_path):
    root = pytorch_project(tmp_path / "repo")
    request = StartRequest(
        contract=load(root), instruction="", limits=make_limits("router"), planner="catalog", progress=SilentProgress()
    )
    with pytest.raises(BrokenBaseline, match="the catalog changes kernels that are there, and writes none"):
        start(request)
    assert git(root, "branch", "--format=%(refname:short)") == "main"
    assert not (root / "agent").exists()


@pytest.mark.feature("F073")
def test_a_model_is_shown_the_pytorch_and_then_what_was_wrong_with_its_kernel(tmp_path):
    def answer(text):
        return f"One tile of 64, one thread.\n\nFILE {KERNEL}\n````\n{text}\n````\n"

    model = ScriptedModel(answer("speed 80 wrong"), answer("speed 80"), '{"exhausted": "nothing is left to try here"}')
    planner = ModelPlanner(model, limits=make_limits("router"), books=NoBooks())
    campaign = campaign_of(tmp_path, planner, max_restarts=0)
    campaign.drive()
    first, second = ("\n".join(message.text for message in ask.messages) for ask in model.asks[:2])
    assert "Write a kernel of C in its place" in first
    assert "torch speed 100" in first
    assert "nothing is measured yet" in first
    assert "MISMATCH" not in first
    assert "What was wrong with your last one" in second
    assert "MISMATCH in incorrect" in second
    assert "speed 80 wrong" in second
    written = campaign.history().opened.first_kernel
    assert written.explanation == "One tile of 64, one thread."
    assert any(re.match(r"baseline\.v\d+\.md@", name) for name in written.prompts)


class Slow(TextPlanner):
    """Waits for a person before the second attempt, as a mailbox does."""

    answered = False

    def write_baseline(self, briefing, about, edits, evidence):
        if evidence and not Slow.answered:
            raise Waiting("an answer to the second question")
        text = "speed 80\n" if evidence else "speed 80 wrong\n"
        return Draft(edits=(FileEdit(path="kernel.txt", text=text),), explanation="in rows")


@pytest.mark.feature("F073")
def test_a_first_kernel_that_waits_for_an_answer_after_its_test_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: Slow())
    monkeypatch.setattr(Slow, "answered", False)
    root = pytorch_project(tmp_path / "repo")
    limits = make_limits("router", target_peak_fraction=None, calibration_pairs=0, max_restarts=0)
    request = StartRequest(
        contract=load(root), instruction="", limits=limits, planner="scripted", progress=SilentProgress()
    )
    with pytest.raises(Waiting):
        start(request)
    (folder,) = (root / "agent/workspace").iterdir()
    now = status_of(folder)
    assert (now.status, now.phase, now.detail) == ("waiting", "write_baseline", FIRST_KERNEL)
    with pytest.raises(UserError, match=r"has no closed event yet \(Stage 1: the planner writes a first kernel"):
        folders.history(folder)
    (row,) = Catalogue([root]).rows()
    assert (row.status, row.detail) == ("waiting", FIRST_KERNEL)
    monkeypatch.setattr(Slow, "answered", True)
    assert resume(folder, SilentProgress()).status == "concluded"
    assert git(root, "log", "--format=%s", "-1", f"optimize/{folder.name}") == "V0: baseline kernel"
    assert "Attempt 1 was not kept: incorrect" in (folder / "baseline_report.md").read_text()


def pytorch_project(place):
    """The text project as if its kernel were PyTorch."""
    project = dict(files())
    contract = yaml.safe_load(project["ridgeline.yaml"])
    project["ridgeline.yaml"] = yaml.safe_dump({**contract, "start": "pytorch"})
    root = make_repository(place, project)
    (root / "harness.py").chmod(0o755)
    git(root, "commit", "-qam", "executable")
    return root


@pytest.mark.parametrize(("preset", "start"), [("evidence", "pytorch"), ("router", "kernel")])
def test_an_existing_kernel_is_optimized_as_it_is(tmp_path, preset, start):
    campaign = campaign_of(tmp_path, Author([], "speed 120"), preset, start)
    campaign.drive()
    assert campaign.history().opened.first_kernel is None
    assert campaign.verdicts()[0] == "faster"
    with pytest.raises(KeyError):
        campaign.files.read("baseline_report.md")
