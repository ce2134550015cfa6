import hashlib
from pathlib import PurePosixPath

import pytest

from ridgeline.graph.errors import DirtyTree, NotAGitRepository
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


def add_submodule(root, library, path):
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), path)
    git(root, "commit", "-q", "-m", f"a submodule {path}")


def test_submodules_stand_in_every_checkout_as_they_do_in_the_users(tmp_path):
    """From the user's own checkout, without its hooks and filters; those of submodules too."""
    inner = make_repository(tmp_path / "inner", {"inner.h": "int in;\n"})
    library = make_repository(tmp_path / "library", {"lib.h": "int x;\n", ".gitattributes": "* filter=f eol=crlf\n"})
    add_submodule(library, inner, "deep")
    root = make_repository(tmp_path / "kernels")
    add_submodule(root, library, f"{FOLDER}/third/library")
    git(root, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
    git(root / FOLDER / "third/library", "config", "filter.f.smudge", f"touch {tmp_path}/ran; cat")
    made = workspace(root)
    base = made.open(BRANCH)
    for gone in (inner, library):  # nothing is asked for again
        gone.rename(gone.with_name(f"{gone.name}-gone"))
    trees = Trees(made)
    one = trees.at(base.commit)
    headers = {"third/library/lib.h": "int x;\n", "third/library/deep/inner.h": "int in;\n"}
    assert {path: (one / path).read_text() for path in headers} == headers
    (one / "third/library/lib.h").write_text("int y;\n")
    (one / "third/library/deep/inner.h").unlink()
    assert trees.restore(base.commit) == ("third/library/deep/inner.h", "third/library/lib.h")
    assert {path: (one / path).read_text() for path in headers} == headers
    (one / "third/library/stray.h").write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (one / "third").rename(tmp_path / "moved")
    (one / "third").symlink_to(tmp_path / "elsewhere")
    for number in range(3):  # every slot again, that one too
        candidate = trees.at(applied(made, base.commit, f"int tile = {number};\n").commit)
        assert {path: (candidate / path).read_text() for path in headers} == headers
        assert not (candidate / "third/library/stray.h").exists()
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    assert not (tmp_path / "ran").exists()


def test_contents_in_lfs_are_those_of_the_users_checkout(tmp_path):
    data = b"a large table\n"
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(data).hexdigest()}\nsize {len(data)}\n"
    )
    root = make_repository(
        tmp_path / "kernels", {**FILES, ".gitattributes": "*.bin filter=lfs\n", f"{FOLDER}/tests/table.bin": pointer}
    )
    place = root / FOLDER / "tests/table.bin"
    status = place.stat()
    place.write_bytes(data.ljust(status.st_size))
    with pytest.raises(DirtyTree, match="tests/table.bin"):
        workspace(root).open(BRANCH)
    git(root, "config", "filter.lfs.clean", f"printf '{pointer!s}'".replace("\n", "\\n"))
    place.write_bytes(data)
    git(root, "add", "-A")
    assert git(root, "status", "--porcelain") == ""
    made = workspace(root)
    base = made.open(BRANCH)
    trees = Trees(made)
    assert (trees.at(base.commit) / "tests/table.bin").read_bytes() == data
    (trees.at(base.commit) / "tests/table.bin").write_bytes(b"other")
    assert trees.restore(base.commit) == ("tests/table.bin",)
    candidate = applied(made, base.commit)
    assert (trees.at(candidate.commit) / "tests/table.bin").read_bytes() == data
    assert git(made.repository().git_dir, "show", f"{candidate.commit}:{FOLDER}/tests/table.bin") == pointer.strip()
