import os
import shutil
from pathlib import Path

import pytest

from ridgeline.graph.errors import BranchTaken, DetachedHead, DirtyTree, GitFailed, NoSuchBase, NotAGitRepository
from ridgeline.sandbox.workspace.checkouts import Trees
from tests.repositories import BRANCH, FOLDER, accepted, applied, fingerprint, git, make_repository, workspace


@pytest.fixture
def root(tmp_path) -> Path:
    return make_repository(tmp_path / "kernels")


@pytest.mark.feature("F095", "F060", "F007")
def test_a_whole_campaign_leaves_the_users_checkout_as_it_was(root):
    (root / "notes.txt").write_text("mine, untracked\n")
    before = fingerprint(root)
    made = workspace(root)
    base = made.open(BRANCH)
    Trees(made).pair(base.commit, applied(made, base.commit).commit)
    two = accepted(made, base.commit)
    three = accepted(made, two, "int tile = 32;\n", 3)
    made.reset(three)
    assert fingerprint(root) == before
    assert git(root, "status", "--porcelain") == "?? notes.txt"
    assert git(root, "log", "--format=%H %an <%ae> %s", f"main..{BRANCH}").splitlines() == [
        f"{three} Ridgeline <ridgeline@localhost> [optimize] gemm C round-3: wider",
        f"{two} Ridgeline <ridgeline@localhost> [optimize] gemm C round-2: wider",
    ]
    assert git(root, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", f"refs/heads/{BRANCH}"]
    assert not (root / ".git/shallow").exists()
    git(root, "fsck", "--strict")


def test_commits_do_not_depend_on_the_machine_or_the_hour(tmp_path, monkeypatch):
    shas = set()
    for name, zone in (("one", "UTC"), ("two", "Asia/Tokyo")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("GIT_AUTHOR_NAME", name)
        monkeypatch.setenv("GIT_DIR", "/nowhere")
        folder = tmp_path / name / "kernels"
        if not shas:
            make_repository(folder)
        else:
            shutil.copytree(tmp_path / "one" / "kernels", folder, ignore=shutil.ignore_patterns("agent"))
            git(folder, "branch", "-D", BRANCH)
        made = workspace(folder)
        base = made.open(BRANCH)
        shas.add((applied(made, base.commit).commit, accepted(made, base.commit)))
    assert len(shas) == 1


def test_no_hook_of_the_project_runs(root):
    for name in ("post-checkout", "reference-transaction", "pre-commit", "post-commit", "post-update"):
        hook = root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >>{root.parent}/hooked\n")
        hook.chmod(0o755)
    made = workspace(root)
    Trees(made).at(accepted(made, made.open(BRANCH).commit))
    assert not (root.parent / "hooked").exists()


def changed_file(root):
    (root / FOLDER / "bench.c").write_text("changed\n")


def staged_file(root):
    (root / "new").write_text("x")
    git(root, "add", "new")


def deleted_file(root):
    (root / "README").unlink()


def untracked_protected(root):
    (root / FOLDER / "tests/extra.c").write_text("x")


def kernel_not_committed(root):
    git(root, "rm", "-q", f"{FOLDER}/kernel.c")
    git(root, "commit", "-q", "-m", "gone")
    (root / ".git/info/exclude").write_text("kernel.c\n")
    (root / FOLDER / "kernel.c").write_text("x")


def submodule_inside(root):
    library = make_repository(root.parent / "library", {"lib.h": "int x;\n"})
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), f"{FOLDER}/library")
    git(root, "commit", "-q", "-m", "a submodule")


def submodule_elsewhere(root):
    submodule_inside(root)
    git(root, "config", "submodule.ops/gemm/library.ignore", "all")
    git(root / FOLDER / "library", "commit", "-q", "--allow-empty", "-m", "another")


def submodule_changed(root):
    submodule_inside(root)
    (root / FOLDER / "library/lib.h").write_text("int y;\n")


def pointer_to_lfs(root):
    (root / ".gitattributes").write_text("*.c filter=lfs\n")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    (root / FOLDER / "tests/check.c").write_text(pointer)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "large")


def test_a_submodule_that_nobody_has_filled_and_pointers_elsewhere_are_no_obstacle(root, caplog):
    submodule_inside(root)
    git(root, "submodule", "deinit", "-q", "--all")
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    (root / "picture.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a picture")
    assert workspace(root).open(BRANCH)
    assert "picture.bin" in caplog.text
    assert "Git LFS" in caplog.text


def test_a_filter_whose_program_is_gone_is_named(root):
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    (root / "picture.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a picture")
    git(root, "config", "filter.lfs.process", "no-such-lfs filter-process")
    git(root, "config", "filter.lfs.required", "true")
    os.utime(root / "picture.bin", (1, 1))
    with pytest.raises(GitFailed, match=r"git status failed: .*the program no-such-lfs, which is not here; install it"):
        workspace(root).open(BRANCH)


def detached(root):
    git(root, "checkout", "-q", "--detach")


def no_repository(root):
    shutil.rmtree(root / ".git")


def no_commit(root):
    shutil.rmtree(root / ".git")
    git(root, "init", "-q")


def branch_exists(root):
    git(root, "branch", BRANCH)


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (changed_file, DirtyTree, "bench.c changed since"),
        (staged_file, DirtyTree, "new changed since"),
        (deleted_file, DirtyTree, "README changed since"),
        (untracked_protected, DirtyTree, r"tests/extra\.c belongs to the contract but is not tracked"),
        (kernel_not_committed, DirtyTree, "kernel_source: 'kernel.c' matches no committed file"),
        (
            submodule_elsewhere,
            DirtyTree,
            r"ops/gemm/library: a git submodule that stands at .*; commit it, or run git submodule update",
        ),
        (submodule_changed, DirtyTree, r"changed since the last commit|a git submodule that has changes"),
        (
            pointer_to_lfs,
            DirtyTree,
            r"ops/gemm/tests/check\.c: kept in Git LFS, and not in the checkout .* git lfs pull",
        ),
        (detached, DetachedHead, "git switch"),
        (no_repository, NotAGitRepository, "git init"),
        (no_commit, NotAGitRepository, "no commit yet"),
        (branch_exists, BranchTaken, f"git branch -D {BRANCH}"),
    ],
)
def test_a_repository_that_is_not_ready_is_refused_with_the_mend(root, spoil, error, words):
    spoil(root)
    with pytest.raises(error, match=words) as caught:
        workspace(root).open(BRANCH)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["two..dots", "-option", "with space"])
def test_a_name_that_git_does_not_allow_is_refused(root, name):
    with pytest.raises(BranchTaken, match="git_branch"):
        workspace(root).open(name)


def test_other_untracked_files_are_nobodys_business(root):
    (root / FOLDER / "scratch.txt").write_text("x")
    assert workspace(root).open(BRANCH).branch == BRANCH


def test_once_open_the_checkout_may_change_and_the_answer_stays(root):
    base = workspace(root).open(BRANCH)
    changed_file(root)
    detached(root)
    assert workspace(root).open(BRANCH) == base


def test_campaigns_are_excluded_once_and_the_users_own_lines_stay(root):
    exclude = root / ".git/info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.o")
    for _ in range(2):
        workspace(root).open(BRANCH)
    assert exclude.read_text() == "*.o\n/agent/workspace/\n/agent/historical_experience/\n"


def test_a_linked_checkout_shares_the_exclusions(root, tmp_path):
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    made = workspace(tmp_path / "side")
    accepted(made, made.open(BRANCH).commit)
    assert "/agent/workspace/" in (root / ".git/info/exclude").read_text()
    assert git(tmp_path / "side", "status", "--porcelain") == ""


def test_an_unwanted_branch_is_never_made(root):
    made = workspace(root)
    accepted(made, made.open("none").commit)
    assert git(root, "branch", "--format=%(refname:short)") == "main"
    other = workspace(root, root / "agent/workspace/c2", git_commit=False)
    accepted(other, other.open(BRANCH).commit)
    assert git(root, "branch", "--format=%(refname:short)") == "main"


def test_a_branch_that_somebody_committed_to_is_not_overwritten(root):
    made = workspace(root)
    base = made.open(BRANCH)
    git(root, "checkout", "-q", BRANCH)
    git(root, "commit", "-q", "--allow-empty", "-m", "mine")
    mine = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "main")
    with pytest.raises(BranchTaken, match="did not make"):
        accepted(made, base.commit)
    assert git(root, "rev-parse", BRANCH) == mine


def test_a_branch_that_is_looked_at_waits_and_then_catches_up(root, caplog):
    made = workspace(root)
    base = made.open(BRANCH)
    git(root, "checkout", "-q", BRANCH)
    two = accepted(made, base.commit)
    assert "is checked out" in caplog.text
    assert git(root, "rev-parse", "HEAD") == base.commit
    git(root, "checkout", "-q", "main")
    made.reset(two)
    assert git(root, "rev-parse", BRANCH) == two


def test_a_copied_campaign_goes_on_without_the_repository(root, tmp_path):
    made = workspace(root)
    base = made.open(BRANCH)
    two = accepted(made, base.commit)
    tree = Trees(made).at(two)
    (tree / "build.o").write_text("of the other machine")
    Trees(made).mark_built(two)
    shutil.copytree(root / "agent/workspace/c1", tmp_path / "copy/c1", symlinks=True)
    shutil.rmtree(root)
    there = workspace(tmp_path / "nowhere", tmp_path / "copy/c1")
    assert there.open(BRANCH) == base
    assert not Trees(there).built(two)
    assert (Trees(there).at(two) / "kernel.c").read_text() == "int tile = 16;\n"
    assert not (Trees(there).at(two) / "build.o").exists()
    three = accepted(there, two, "int tile = 32;\n", 3)
    assert (Trees(there).at(three) / "kernel.c").read_text() == "int tile = 32;\n"


def test_a_copied_campaign_brings_its_branch_to_another_clone(root, tmp_path):
    made = workspace(root)
    base = made.open(BRANCH)
    two = accepted(made, base.commit)
    shutil.copytree(root / "agent/workspace/c1", tmp_path / "copy/c1", symlinks=True)
    git(tmp_path, "clone", "-q", "--single-branch", "--branch", "main", str(root), str(tmp_path / "clone"))
    there = workspace(tmp_path / "clone", tmp_path / "copy/c1")
    assert there.open(BRANCH) == base
    assert git(tmp_path / "clone", "rev-parse", BRANCH) == two


def test_a_lost_mirror_is_made_again_from_the_branch(root):
    made = workspace(root)
    two = accepted(made, made.open(BRANCH).commit)
    shutil.rmtree(root / "agent/workspace/c1/mirror.git")
    assert accepted(workspace(root), two, "int tile = 32;\n", 3) == git(root, "rev-parse", BRANCH)


def test_when_both_are_lost_the_error_says_so(root, tmp_path):
    made = workspace(root, tmp_path / "c1")
    made.open(BRANCH)
    shutil.rmtree(tmp_path / "c1/mirror.git")
    shutil.rmtree(root)
    with pytest.raises(NoSuchBase, match="has no commit"):
        workspace(root, tmp_path / "c1").open(BRANCH)
    with pytest.raises(NoSuchBase, match="never opened"):
        workspace(root, tmp_path / "c9").sources("HEAD")
