from pathlib import PurePosixPath

import pytest

from ridgeline.graph.errors import NotAGitRepository
from ridgeline.graph.ports import CandidateCommit
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.worktree import GitWorkspace, find_repository
from tests.builders import make_contract
from tests.repositories import AT, BRANCH, FILES, FOLDER, accepted, applied, git, make_repository, workspace


@pytest.fixture
def root(tmp_path):
    return make_repository(tmp_path / "kernels")


def test_modes_links_and_binaries_are_respected(tmp_path):
    root = make_repository(tmp_path / "kernels")
    folder = root / FOLDER
    (folder / "src").mkdir()
    (folder / "src/gen.sh").write_text("#!/bin/sh\n")
    (folder / "src/gen.sh").chmod(0o755)
    (folder / "src/table.bin").write_bytes(b"\0\1\2")
    (folder / "src/latin.c").write_bytes("é".encode("latin-1"))
    (folder / "src/link.c").symlink_to("../bench.c")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "more")
    made = workspace(root, editable=("kernel.c", "src/**"))
    base = made.open(BRANCH)
    assert [file.path for file in made.sources(base.commit)] == ["kernel.c", "kernel.flags", "src/gen.sh"]
    done = made.apply(round=2, parent=base.commit, edits=(FileEdit(path="src/gen.sh", text="#!/bin/sh\n:\n"),), at=AT)
    assert isinstance(done, CandidateCommit)
    assert (Trees(made).at(done.commit) / "src/gen.sh").stat().st_mode & 0o111
    assert "src/link.c" in (
        made.apply(round=2, parent=base.commit, edits=(FileEdit(path="src/link.c", text=""),), at=AT).detail
    )


def test_a_sha256_repository_works_alike(tmp_path):
    made = workspace(make_repository(tmp_path / "kernels", object_format="sha256"))
    two = accepted(made, made.open(BRANCH).commit)
    assert len(two) == 64
    assert Trees(made).restore(two) == ()


def test_a_contract_at_the_root_works_alike(tmp_path):
    root = make_repository(tmp_path / "kernels", {"kernel.c": "a\n", "bench.c": "b\n"})
    made = GitWorkspace(root, PurePosixPath("."), tmp_path / "c1", make_contract(), ArtifactStore(tmp_path / "c1"))
    base = made.open(BRANCH)
    done = applied(made, base.commit)
    assert done.changed == ("kernel.c",)
    assert [artifact.name for artifact in done.snapshot] == ["kernel.c"]
    assert sorted(path.name for path in Trees(made).at(done.commit).iterdir()) == [".git", "bench.c", "kernel.c"]


def test_the_repository_is_found_from_below_and_missed_elsewhere(root, tmp_path):
    assert find_repository(root / FOLDER / "tests") == root.resolve()
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NotAGitRepository):
            find_repository(folder)


def test_files_are_checked_out_byte_for_byte(tmp_path):
    files = {**FILES, ".gitattributes": "*.c text eol=crlf\n*.flags filter=lfs diff=lfs merge=lfs -text\n"}
    made = workspace(make_repository(tmp_path / "kernels", files))
    base = made.open(BRANCH)
    assert (Trees(made).at(base.commit) / "bench.c").read_bytes() == b"the benchmark\n"
    assert Trees(made).restore(base.commit) == ()
