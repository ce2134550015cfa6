"""What every `Workspace` does, the real one on git and the one in memory."""

from pathlib import PurePosixPath

import pytest

from ridgeline.graph.errors import NoSuchBase, WorldError
from ridgeline.graph.ports import CandidateCommit, EditRefusal, Workspace
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.worktree import GitWorkspace
from tests.builders import make_contract
from tests.fakes import FakeWorkspace
from tests.repositories import FILES, FOLDER, make_repository

AT = "2026-11-21T10:00:00.125+00:00"
CONTRACT = make_contract(kernel_source=("kernel.c",), flags_file="kernel.flags", protected=("tests/**",))


def make(kind: str, tmp_path, contract=CONTRACT) -> Workspace:
    if kind == "fake":
        below = {path.removeprefix(f"{FOLDER}/"): text for path, text in FILES.items() if path.startswith(FOLDER)}
        return FakeWorkspace(files=below, contract=contract)
    root = make_repository(tmp_path / "kernels")
    campaign = root / "agent/workspace/c1"
    return GitWorkspace(root, PurePosixPath(FOLDER), campaign, contract, ArtifactStore(campaign))


@pytest.fixture(params=["fake", "git"])
def kind(request) -> str:
    return request.param


@pytest.fixture
def workspace(kind, tmp_path) -> Workspace:
    return make(kind, tmp_path)


def applied(workspace: Workspace, parent: str, text: str, round: int = 2) -> CandidateCommit:
    done = workspace.apply(round=round, parent=parent, edits=(FileEdit(path="kernel.c", text=text),), at=AT)
    assert isinstance(done, CandidateCommit)
    return done


def kernel(workspace: Workspace, commit: str) -> str | None:
    return {file.path: file.text for file in workspace.sources(commit)}.get("kernel.c")


def test_opening_twice_is_opening_once(workspace):
    base = workspace.open("optimize/c1")
    assert base.branch == "optimize/c1"
    assert base.repository == "kernels"
    assert base.contract_path.endswith("ridgeline.yaml")
    assert workspace.open("optimize/c1") == base


def test_sources_are_the_editable_files_and_no_others(workspace):
    base = workspace.open("optimize/c1")
    assert {file.path: file.text for file in workspace.sources(base.commit)} == {
        "kernel.c": "int tile = 8;\n",
        "kernel.flags": "-O2\n",
    }


def test_a_snapshot_names_the_kernel_and_its_flags(workspace):
    base = workspace.open("optimize/c1")
    assert {artifact.name for artifact in workspace.snapshot(base.commit)} == {"kernel.c", "kernel.flags"}


def test_the_same_edits_make_the_same_commit(workspace):
    base = workspace.open("optimize/c1")
    one, two = applied(workspace, base.commit, "int tile = 16;\n"), applied(workspace, base.commit, "int tile = 16;\n")
    assert one == two
    assert one.changed == ("kernel.c",)
    assert one.commit != base.commit
    assert one.tree != base.tree
    assert kernel(workspace, one.commit) == "int tile = 16;\n"
    assert kernel(workspace, base.commit) == "int tile = 8;\n"
    assert applied(workspace, base.commit, "int tile = 16;\n", round=3).commit != one.commit


def test_an_edit_that_changes_nothing_keeps_the_tree(workspace):
    base = workspace.open("optimize/c1")
    same = applied(workspace, base.commit, "int tile = 8;\n")
    assert same.tree == base.tree
    assert same.changed == ()


def test_deleting_a_file_is_an_edit(workspace):
    base = workspace.open("optimize/c1")
    done = workspace.apply(round=2, parent=base.commit, edits=(FileEdit(path="kernel.flags", text=None),), at=AT)
    assert isinstance(done, CandidateCommit)
    assert done.changed == ("kernel.flags",)
    assert [file.path for file in workspace.sources(done.commit)] == ["kernel.c"]


@pytest.mark.feature("F099")
@pytest.mark.parametrize(
    "path", ["bench.c", "tests/check.c", "../gemm/kernel.c", "/kernel.c", ".git/hooks/x", "ridgeline.yaml"]
)
def test_edits_outside_the_surface_are_refused(workspace, path):
    base = workspace.open("optimize/c1")
    edits = (FileEdit(path="kernel.c", text="int tile = 1;\n"), FileEdit(path=path, text="x"))
    done = workspace.apply(round=2, parent=base.commit, edits=edits, at=AT)
    assert isinstance(done, EditRefusal)
    assert path in done.detail


def test_an_unknown_parent_is_an_error_not_a_refusal(workspace):
    workspace.open("optimize/c1")
    with pytest.raises(NoSuchBase):
        workspace.apply(round=2, parent="0123456789" * 4, edits=(FileEdit(path="kernel.c", text=""),), at=AT)


@pytest.mark.feature("F044", "F060")
def test_accepted_commits_line_up_and_accepting_twice_is_accepting_once(workspace):
    base = workspace.open("optimize/c1")
    done = applied(workspace, base.commit, "int tile = 16;\n")
    one = workspace.accept(parent=base.commit, tree=done.tree, message="round 2\n", at=AT)
    assert workspace.accept(parent=base.commit, tree=done.tree, message="round 2\n", at=AT) == one
    after = applied(workspace, one, "int tile = 32;\n", round=3)
    two = workspace.accept(parent=one, tree=after.tree, message="round 3\n", at=AT)
    assert workspace.accept(parent=base.commit, tree=done.tree, message="round 2\n", at=AT) == one
    workspace.reset(two)
    assert kernel(workspace, two) == "int tile = 32;\n"
    workspace.reset(one)
    workspace.reset(one)
    assert kernel(workspace, one) == "int tile = 16;\n"


def test_a_branch_is_never_reset_to_what_is_not_on_it(workspace):
    base = workspace.open("optimize/c1")
    done = applied(workspace, base.commit, "int tile = 16;\n")
    with pytest.raises(WorldError):
        workspace.reset(done.commit)
    workspace.reset(base.commit)


@pytest.mark.parametrize(("branch", "wanted"), [("none", True), ("optimize/c1", False)])
def test_without_a_branch_commits_are_still_there(kind, tmp_path, branch, wanted):
    workspace = make(kind, tmp_path, CONTRACT.model_copy(update={"git_commit": wanted}))
    base = workspace.open(branch)
    done = applied(workspace, base.commit, "int tile = 16;\n")
    kept = workspace.accept(parent=base.commit, tree=done.tree, message="round 2\n", at=AT)
    workspace.reset(kept)
    assert kernel(workspace, kept) == "int tile = 16;\n"
