"""What code that nobody has read leaves behind: removed and listed however deep, read only where it is a plain file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.sandbox.isolation.directory_pool import (
    DEEPEST,
    fresh_folder,
    list_files,
    read_left,
    remove_tree,
    walk_tree,
)
from ridgeline.sandbox.workspace.checkouts import FolderNames, scratch_copy

NEST = "import os, sys\nos.chdir(sys.argv[1])\nfor _ in range(int(sys.argv[2])):\n    os.mkdir('d'); os.chdir('d')\n"


def nest(folder: Path, depth: int) -> None:
    """In a process of its own, which may stand where no path leads."""
    subprocess.run([sys.executable, "-S", "-c", NEST, str(folder), str(depth)], check=True)


@pytest.mark.parametrize("depth", [1100, 3000])
def test_a_tree_of_any_depth_is_removed(tmp_path, depth):
    top = tmp_path / "top"
    (top / "more").mkdir(parents=True)
    (top / "more" / "file").write_text("x")
    nest(top, depth)
    remove_tree(top)
    assert not top.exists()


def test_a_folder_for_one_use_outlives_nothing_that_was_put_there():
    with fresh_folder("home") as folder:
        nest(folder / "home", 1100)
    assert not folder.exists()


def test_links_are_removed_and_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "top")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "missing")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "file"]


def test_listing_ends_where_no_build_goes_and_removes_what_lies_deeper(tmp_path):
    nest(tmp_path, 1100)
    (tmp_path / "file").write_text("x")
    assert len(list(walk_tree(tmp_path))) == DEEPEST + 2
    assert list_files(tmp_path) == [tmp_path / "file"]
    assert FolderNames.of(tmp_path).clear() == ()
    with scratch_copy(tmp_path) as copy:
        assert (copy / "file").read_text() == "x"


def test_only_plain_files_are_read(tmp_path):
    (tmp_path / "plain").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    found = {name: read_left(tmp_path / name) for name in ("plain", "link", "folder", "pipe", "missing")}
    assert found == {"plain": b"x", "link": None, "folder": None, "pipe": None, "missing": None}
    assert list_files(tmp_path) == [tmp_path / "plain"]
    with scratch_copy(tmp_path) as copy:  # a pipe is not waited for
        assert sorted(path.name for path in copy.iterdir()) == ["folder", "link", "plain"]
