"""What is not read again, and that nothing hides behind it."""

import os
import time
from pathlib import Path

import pytest

from ridgeline.sandbox.workspace import checkouts as pristine_module
from ridgeline.sandbox.workspace import signatures as seal_module
from ridgeline.sandbox.workspace.checkouts import Pristine
from ridgeline.sandbox.workspace.signatures import SETTLED_NS, Seals, contents, is_settled, signs_of
from tests.repositories import FOLDER, applied, git, make_repository, workspace

PATIENCE_S = SETTLED_NS / 1e9 + 0.02


@pytest.fixture
def checkout(tmp_path):
    """A checkout of three files, and what git says of them."""
    root = make_repository(tmp_path / "kernels")
    space = workspace(root)
    base = space.open("none").commit
    entries = space.repository().entries(base, FOLDER)
    committed = {entry.path.removeprefix(f"{FOLDER}/"): entry for entry in entries}
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "checkout"), base)
    return tmp_path / "checkout" / FOLDER, committed, space


def settle() -> None:
    time.sleep(PATIENCE_S)


def counted(monkeypatch) -> list[Path]:
    """Which files are read from now on."""
    seen: list[Path] = []
    for module in (pristine_module, seal_module):
        monkeypatch.setattr(module, "contents", lambda place: (seen.append(Path(place)), contents(place))[1])
    return seen


def test_what_was_found_right_is_not_read_again(checkout, monkeypatch):
    place, committed, space = checkout
    settle()
    pristine = Pristine(place, committed)
    read = counted(monkeypatch)
    assert pristine.restore(space.repository) == ()
    assert len(read) == len(committed)
    assert pristine.restore(space.repository) == ()
    assert len(read) == len(committed)


def test_what_was_changed_just_now_is_read_however_it_looks(checkout, monkeypatch):
    place, committed, space = checkout
    (place / "bench.c").write_text((place / "bench.c").read_text())
    pristine = Pristine(place, committed)
    pristine.restore(space.repository)
    read = counted(monkeypatch)
    assert pristine.restore(space.repository) == ()
    assert place / "bench.c" in read


def same_size(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().upper())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def in_place(path: Path) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def through_a_link(path: Path) -> None:
    other = path.with_name("other")
    other.hardlink_to(path)
    in_place(other)
    other.unlink()


def renamed_over(path: Path) -> None:
    status = path.stat()
    fresh = path.with_name("fresh")
    fresh.write_text(path.read_text().upper())
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.rename(path)


@pytest.mark.feature("F099")
@pytest.mark.parametrize("tamper", [same_size, in_place, through_a_link, renamed_over])
def test_a_forged_time_stamp_hides_nothing(checkout, tamper):
    place, committed, space = checkout
    settle()
    pristine = Pristine(place, committed)
    seals = Seals()
    seals.close("tree", place, covers=lambda path: path == "bench.c")
    assert pristine.restore(space.repository) == ()
    assert seals.broken("tree", place) == ()
    tamper(place / "bench.c")
    assert seals.broken("tree", place) == ("bench.c",)
    assert pristine.restore(space.repository) == ("bench.c",)
    assert pristine.restore(space.repository) == ()
    assert (place / "bench.c").read_text() == "the benchmark\n"


@pytest.mark.feature("F099")
def test_a_folder_that_became_a_link_to_the_very_same_files_is_put_back(checkout):
    place, committed, space = checkout
    settle()
    pristine = Pristine(place, committed)
    assert pristine.restore(space.repository) == ()
    (place / "tests").rename(place / "moved")
    (place / "tests").symlink_to("moved")
    assert pristine.restore(space.repository) == ("tests/check.c",)
    assert not (place / "tests").is_symlink()


def test_a_seal_on_a_file_just_built_compares_contents_until_the_signs_can_be_relied_on(tmp_path, monkeypatch):
    (tmp_path / "kernel.so").write_bytes(b"binary")
    seals = Seals()
    seals.close("tree", tmp_path, covers=lambda path: True)
    read = counted(monkeypatch)
    assert seals.broken("tree", tmp_path) == ()
    assert len(read) == 1
    settle()
    assert seals.broken("tree", tmp_path) == ()
    assert seals.broken("tree", tmp_path) == ()
    assert len(read) == 2


def test_signs_are_of_plain_files_only(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    assert signs_of(tmp_path / "link") is None
    assert signs_of(tmp_path) is None
    assert signs_of(tmp_path / "none") is None
    assert signs_of(tmp_path / "file" / "below") is None


@pytest.mark.parametrize(
    ("age_ns", "sure"), [(0, False), (SETTLED_NS // 2, False), (2 * SETTLED_NS, True), (-SETTLED_NS, False)]
)
def test_when_signs_can_be_relied_on(age_ns, sure):
    assert is_settled((0o100644, 1, 0, time.time_ns() - age_ns, 1)) is sure


def test_a_twin_is_restored_and_built_apart(tmp_path):
    from ridgeline.sandbox.workspace.checkouts import Trees

    space = workspace(make_repository(tmp_path / "kernels"))
    base = space.open("none").commit
    trees = Trees(space)
    twin = trees.twin(base)
    assert trees.twin(twin) == twin
    one, other = trees.pair(base, twin)
    assert one != other
    assert (one / "kernel.c").read_bytes() == (other / "kernel.c").read_bytes()
    trees.mark_built(base)
    assert trees.built(base)
    assert not trees.built(twin)
    (other / "bench.c").write_text("changed\n")
    assert trees.restore(base) == ()
    assert trees.restore(twin) == ("bench.c",)
    assert trees.content(base) == trees.content(twin) == space.repository().line("rev-parse", f"{base}:{FOLDER}")
    for number in range(3):
        trees.at(applied(space, base, f"int tile = {number};\n", number + 2).commit)
    assert trees.at(twin) == other
