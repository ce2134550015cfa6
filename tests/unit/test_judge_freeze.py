"""Frozen sources: the task's files and no others, read-only, with their digests; and what is made of them."""

import hashlib
import os
from pathlib import Path

import pytest

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.freeze import MOST_BYTES, NotFrozen, freeze_sources
from ridgeline.sandbox.judge.worker import compile_command
from tests.session_tasks import task


def _task(*source: str, **fields: object) -> Task:
    return task().model_copy(update={"source": source, **fields})


def test_only_the_named_files_are_copied_and_none_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    for name in ("kernel.c", "inc/tile.h", "reference.py"):
        (tmp_path / name).write_text(name)
    with freeze_sources(_task("kernel.c", "inc/tile.h"), tmp_path) as version:
        place = version.folder
        assert sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()) == [
            "inc/tile.h",
            "kernel.c",
        ]
        assert version.files == (place / "kernel.c", place / "inc/tile.h")
        assert version.sha256["kernel.c"] == hashlib.sha256(b"kernel.c").hexdigest()
        assert all(path.stat().st_mode & 0o222 == 0 for path in (place, *place.rglob("*")))
        assert all(path.stat().st_mode & 0o004 for path in (place, *place.rglob("*")))
        (tmp_path / "kernel.c").write_text("other")
        assert version.list_changed() == ()
    assert not place.exists()


def test_a_file_that_changed_or_went_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("a")
    (tmp_path / "b.c").write_text("b")
    with freeze_sources(_task("a.c", "b.c"), tmp_path) as version:
        version.folder.chmod(0o755)
        for name in ("a.c", "b.c"):
            (version.folder / name).unlink()
        (version.folder / "a.c").write_text("A")
        assert version.list_changed() == ("a.c", "b.c")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.c", "cannot be read"),
        ("../outside.c", "outside"),
        ("/etc/passwd", "outside"),
        ("link.c", "cannot be read"),
        ("linked/outside.c", "cannot be read"),
        ("folder.c", "no regular file"),
        ("fifo.c", "no regular file"),
        ("large.c", "larger than 16 MiB"),
        ("built.so", "built file"),
    ],
)
def test_what_is_no_plain_source_is_refused_by_name(tmp_path: Path, name: str, says: str) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (tmp_path / "outside.c").write_text("secret")
    (folder / "link.c").symlink_to(tmp_path / "outside.c")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "folder.c").mkdir()
    os.mkfifo(folder / "fifo.c")
    with (folder / "large.c").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(NotFrozen, match=says) as refused, freeze_sources(_task(name), folder):
        pass
    assert name in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("fields", "first", "flag"),
    [
        ({"source": ("k.c", "k.h")}, "gcc", "-fPIC"),
        ({"source": ("k.cpp",)}, "g++", "-fPIC"),
        ({"source": ("k.cu", "k.cuh"), "language": "cuda"}, "nvcc", "-Xcompiler"),
        ({"source": ("k.hip",), "language": "hip"}, "hipcc", "-fPIC"),
    ],
)
def test_the_compiler_is_that_of_the_language(fields: dict[str, object], first: str, flag: str) -> None:
    words = compile_command(task().model_copy(update=fields), Path("/frozen"), Path("/out/lib.so"))
    assert words[0] == first
    assert flag in words
    assert not any(word.endswith((".h", ".cuh")) for word in words)


def test_the_tasks_compiler_and_flags_decide() -> None:
    one = task().model_copy(update={"build": task().build.model_copy(update={"compiler": "clang", "flags": ("-O1",)})})
    words = compile_command(one, Path("/frozen"), Path("/out/lib.so"))
    assert words[0] == "clang"
    assert words.index("-O1") > words.index("-O3")
