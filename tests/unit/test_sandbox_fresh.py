import multiprocessing
from pathlib import Path

import pytest

from ridgeline.sandbox.isolation.directory_pool import fresh_folder


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_folder_that_was_left_as_it_was_made_serves_again():
    with fresh_folder("home", "tmp") as first:
        assert listing(first) == ["home", "tmp"]
        (first / "output").write_text("said")
    with fresh_folder("home", "tmp") as second:
        assert second == first
        assert listing(second) == ["home", "tmp"]


def test_two_at_once_are_two_and_other_shapes_are_others():
    with fresh_folder("home") as one, fresh_folder("home") as two, fresh_folder() as bare:
        assert len({one, two, bare}) == 3
        assert listing(bare) == []


def fill_home(folder: Path) -> None:
    (folder / "home/.cache").write_text("left for the next run")


def nest(folder: Path) -> None:
    (folder / "more/below").mkdir(parents=True)


def open_up(folder: Path) -> None:
    (folder / "tmp").chmod(0o777)


def replace_by_link(folder: Path) -> None:
    (folder / "tmp").rmdir()
    (folder / "tmp").symlink_to("/")


def make_anew(folder: Path) -> None:
    (folder / "tmp").rename(folder / "old")
    (folder / "tmp").mkdir()
    (folder / "old").rmdir()


def remove(folder: Path) -> None:
    (folder / "home").rmdir()


@pytest.mark.parametrize("leave", [fill_home, nest, open_up, replace_by_link, make_anew, remove])
def test_a_folder_that_anything_was_left_in_goes(leave):
    with fresh_folder("home", "tmp") as first:
        leave(first)
    assert not first.exists()
    with fresh_folder("home", "tmp") as second:
        assert second != first
        assert listing(second) == ["home", "tmp"]


def test_somebody_who_comes_between_two_uses_leaves_nothing_for_the_second():
    with fresh_folder("home") as first:
        pass
    (first / "home/planted").write_text("x")
    with fresh_folder("home") as second:
        assert second != first
        assert listing(second) == ["home"]
    assert not first.exists()


def test_a_folder_that_was_tidied_away_meanwhile_is_made_again():
    with fresh_folder() as first:
        pass
    first.rmdir()
    with fresh_folder() as second:
        assert second.is_dir()


def test_an_error_inside_passes_and_the_folder_serves_again():
    with pytest.raises(FileNotFoundError), fresh_folder("home") as folder:
        (folder / "missing/x").write_text("x")
    with fresh_folder("home") as again:
        assert again == folder


def test_nobody_else_may_look():
    with fresh_folder("home") as folder:
        assert folder.stat().st_mode & 0o077 == 0


def test_a_copy_of_this_process_lends_out_none_of_its_folders():
    """Two copies of one process would have worked in the same folder."""
    with fresh_folder() as folder:
        pass
    ours, theirs = multiprocessing.Pipe()

    def tell() -> None:
        with fresh_folder() as own:
            theirs.send(own)

    copy = multiprocessing.get_context("fork").Process(target=tell)
    copy.start()
    assert ours.poll(30)
    assert ours.recv() != folder
    copy.join()
    with fresh_folder() as again:
        assert again == folder
