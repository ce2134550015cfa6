"""What the planner may read of a real repository."""

import pytest

from ridgeline.agent.planner.tools import TreeReader
from ridgeline.graph.errors import NoSuchBase
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from tests.builders import make_artifact
from tests.repositories import FOLDER, workspace


@pytest.fixture
def read(make_repository, tmp_path):
    files = {
        f"{FOLDER}/kernel.c": "int a;\nint Tile = 8;\n",
        f"{FOLDER}/include/shape.h": "#define TILE 8\n",
        f"{FOLDER}/ridgeline.yaml": "contract: 1\n",
        "secret/outside.c": "int tile;\n",
    }
    root = make_repository(files)
    (root / FOLDER / "link.c").symlink_to("../secret/outside.c")
    (root / FOLDER / "binary.bin").write_bytes(b"tile\0\xff")
    (root / FOLDER / "large.txt").write_text("tile\n" * 300_000)
    from tests.repositories import git

    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "more")
    place = tmp_path / "campaign"
    made = workspace(root, place)
    base = made.open("none")
    store = ArtifactStore(place)
    return TreeReader(made, store), base.commit, store


def test_files_of_the_contracts_folder_and_no_other(read):
    reader, commit, _ = read
    assert reader.paths(commit) == ("binary.bin", "include/shape.h", "kernel.c", "large.txt", "ridgeline.yaml")
    assert reader.text(commit, "include/shape.h") == "#define TILE 8\n"
    for path in ("link.c", "binary.bin", "large.txt", "../secret/outside.c", "none.c", ""):
        assert reader.text(commit, path) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tile =", ("kernel.c:2: int Tile = 8;",)),
        ("TILE 8", ("include/shape.h:1: #define TILE 8",)),
        (".*", ()),
        ("-e", ()),
        ("--output=x", ()),
    ],
)
def test_lines_are_found_as_plain_text(read, text, found):
    reader, commit, _ = read
    assert reader.search(commit, text) == found


def test_an_unknown_commit_is_an_error_and_a_lost_artifact_is_none(read):
    reader, _, store = read
    with pytest.raises(NoSuchBase):
        reader.paths("0" * 40)
    kept = store.put("round.diff", b"+new\n")
    assert reader.read_artifact(kept) == "+new\n"
    assert reader.read_artifact(make_artifact("gone")) is None
    assert reader.read_artifact(store.put("x", b"\xff\xfe")) is None
