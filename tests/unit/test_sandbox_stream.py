"""A commit in the words of `git fast-import` is the commit that git's plumbing makes, byte for byte."""

from pathlib import Path

import pytest

from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.git import KEPT_BYTES, Git, Holdings
from ridgeline.sandbox.workspace.signatures import is_folder
from tests.repositories import AT, BRANCH, FOLDER, git, make_repository, workspace

REF = "refs/ridgeline/c1/round-2-0123456789"


def by_plumbing(root: Path, changes: dict[str, tuple[str, bytes] | None], *, parent: str, message: str) -> str:
    """The same commit from read-tree, update-index, write-tree and commit-tree."""
    here = Git(git_dir=root / ".git")
    env = {"GIT_INDEX_FILE": str(root / ".git" / "apart")}
    rows = []
    for path, change in changes.items():
        oid = here.line("hash-object", "-w", "--stdin", stdin=change[1]) if change else "0" * len(parent)
        rows.append(f"{change[0] if change else 0} {oid}\t{path}\0")
    here.run("read-tree", f"{parent}^{{tree}}", env=env)
    here.run("update-index", "-z", "--index-info", stdin="".join(rows).encode(errors="surrogateescape"), env=env)
    return here.commit(here.line("write-tree", env=env), parent=parent, message=message, at=AT)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize(
    "changes",
    [
        {f"{FOLDER}/kernel.c": ("100644", b"int tile = 16;\n")},
        {f"{FOLDER}/kernel.c": None},
        {f"{FOLDER}/kernel.c": ("100755", b""), f"{FOLDER}/kernel.flags": ("100644", b"done\nM no newline")},
        {f"{FOLDER}/kernel.c": ("100644", b"same\n"), f"{FOLDER}/new/deep.c": ("100644", b"same\n")},
        {f'{FOLDER}/caf\u00e9 "quoted" back\\slash.c': ("100644", "\u00e9\n".encode())},
        {f"{FOLDER}/kernel.c": ("100644", b"int tile = 8;\n")},
        {"README": None, f"{FOLDER}/kernel.flags": ("100644", b"-O3\r\n\0")},
    ],
)
def test_a_stream_makes_the_commit_that_plumbing_makes(tmp_path, changes, object_format):
    root = make_repository(tmp_path / "kernels", object_format=object_format)
    parent = git(root, "rev-parse", "main")
    here = Git(git_dir=root / ".git")
    message = "candidate round-2\n\nof \u00e9\n"
    made = here.grow(changes, parent=parent, ref=REF, message=message, at=AT)
    assert made.commit == by_plumbing(root, changes, parent=parent, message=message)
    assert made.tree == here.tree(made.commit)
    assert here.tip(REF) == made.commit
    listed = {entry.path: entry.oid for entry in here.entries(made.commit, ".")}
    assert made.blobs == {path: listed[path] for path, change in changes.items() if change}
    assert here.grow(changes, parent=parent, ref=REF, message=message, at=AT) == made
    assert git(root, "rev-parse", "main") == parent


def test_a_branch_is_told_with_its_checkout(tmp_path):
    root = make_repository(tmp_path / "kernels")
    here, tip = Git(git_dir=root / ".git"), git(root, "rev-parse", "main")
    git(root, "branch", "other/x")
    assert here.branch("refs/heads/main") == (tip, True)
    assert here.branch("refs/heads/other/x") == (tip, False)
    assert here.branch("refs/heads/other") == (None, False)
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "other/x")
    assert here.branch("refs/heads/other/x") == (tip, True)
    git(root, "switch", "-q", "--detach")
    assert here.branch("refs/heads/main") == (tip, False)


def test_a_reference_moves_only_from_where_it_was_thought_to_be(tmp_path):
    root = make_repository(tmp_path / "kernels")
    here, tip = Git(git_dir=root / ".git"), git(root, "rev-parse", "main")
    before = git(root, "rev-parse", "main~1")
    here.move("refs/heads/other", new=before, old=None)
    assert not here.try_move("refs/heads/other", new=tip, old=tip)
    assert here.tip("refs/heads/other") == before
    assert here.try_move("refs/heads/other", new=tip, old=before)


def test_what_was_written_here_is_what_git_says(tmp_path):
    root = make_repository(tmp_path / "kernels")
    space = workspace(root)
    base = space.open(BRANCH).commit
    edits = (FileEdit(path="kernel.c", text="int tile = 16;\n"), FileEdit(path="kernel.flags", text=None))
    done = space.apply(round=2, parent=base, edits=edits, at=AT)
    again = workspace(root)
    assert space.files(done.commit) == again.files(done.commit)
    assert space.sources(done.commit) == again.sources(done.commit)
    assert space.snapshot(done.commit) == again.snapshot(done.commit)
    assert space.tree(done.commit) == again.tree(done.commit) == done.tree


def test_contents_beyond_the_limit_are_asked_for_again(tmp_path):
    root = make_repository(tmp_path / "kernels")
    here = Git(git_dir=root / ".git")
    held = Holdings(workspace(root).contract_dir)
    small, large = (here.line("hash-object", "-w", "--stdin", stdin=data) for data in (b"a", b"b" * (KEPT_BYTES + 1)))
    assert held.contents(here, (small,)) == (b"a",)
    assert held.contents(here, (large, small)) == (b"b" * (KEPT_BYTES + 1), b"a")
    assert held.contents(here, (small, small)) == (b"a", b"a")


@pytest.mark.parametrize("link", [False, True])
def test_a_slot_whose_head_was_pointed_at_a_branch_moves_no_branch(tmp_path, link):
    """A candidate can write there; git's own reset would then move what HEAD names."""
    root = make_repository(tmp_path / "kernels")
    space = workspace(root)
    base = space.open(BRANCH).commit
    commits = [
        space.apply(round=n, parent=base, edits=(FileEdit(path="kernel.c", text=f"int tile = {n};\n"),), at=AT).commit
        for n in range(2, 6)
    ]
    trees, mirror = Trees(space), space.repository()
    for commit in commits[:3]:
        trees.at(commit)
    for slot in ("a", "b", "c"):
        head = mirror.git_dir / "worktrees" / slot / "HEAD"
        if link:
            head.unlink()
            head.symlink_to(mirror.git_dir / "HEAD")
        else:
            head.write_text(f"ref: refs/heads/{BRANCH}\n")
    before = (mirror.git_dir / "HEAD").read_text()
    place = trees.at(commits[3])
    assert (place / "kernel.c").read_text() == "int tile = 5;\n"
    assert mirror.tip(f"refs/heads/{BRANCH}") == base
    assert (mirror.git_dir / "HEAD").read_text() == before
    assert is_folder(place)


def test_a_repository_may_be_named_from_where_the_reader_stands(tmp_path, monkeypatch):
    root = make_repository(tmp_path / "repository")
    monkeypatch.chdir(tmp_path)
    here, tip = Git(git_dir=Path("repository/.git"), work_tree=Path("repository")), git(root, "rev-parse", "main")
    assert here.has(tip)
    assert here.line("rev-parse", "main") == tip
