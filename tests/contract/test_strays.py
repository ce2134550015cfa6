"""Files that a run adds are gone before the next one, and no run reaches the checkouts of other versions."""

import subprocess
import time
from pathlib import Path

import pytest

from ridgeline.sandbox.workspace.checkouts import FolderNames, Trees
from ridgeline.sandbox.workspace.signatures import SETTLED_NS
from tests.rooms import open_room, script_contract

KERNEL = "#!/bin/sh\necho right\n"
FILES = {
    "kernel.sh": KERNEL,
    "part/op.py": "NAME = 'op'\n",
    "test.sh": "#!/bin/sh\n./kernel.sh > /dev/null || exit 1\n[ -e planted ] && echo planted\nls part; echo PASS\n",
    "bench.sh": "#!/bin/sh\nexit 0\n",
    "build.sh": "#!/bin/sh\nmkdir -p out/part && cp kernel.sh out/built\n",
}
REBUILD = {"rebuild": {"required": True, "command": ("./build.sh",)}}
PLANT = (
    "#!/bin/sh\necho x > planted\nmkdir -p part/op && echo x > part/op/__init__.py\necho x > part/op.pyc\necho right\n"
)


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(files=None, **fields):
        repository = make_repository({**FILES, **(files or {})})
        return open_room(repository, tmp_path / "campaign", script_contract(**fields))

    return make


def names(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.mark.parametrize("fields", [{}, REBUILD], ids=["unbuilt", "built"])
def test_what_a_run_adds_is_gone_before_the_next(room, fields):
    here = room(**fields)
    candidate = here.candidate({"kernel.sh": PLANT})
    tree = here.builder.ensure_built(candidate)
    stood = names(tree)
    for _ in range(2):
        result = here.checker.check(candidate, purpose="p")
        assert (result.kind, "was there" in result.detail, "op.pyc" in result.detail) == ("pass", False, True)
        assert names(tree) == stood, "the build's own outputs stay, empty folders among them"


def test_what_stood_is_known_to_a_later_process(room):
    here = room(**REBUILD)
    tree = here.builder.ensure_built(here.base)
    stood = names(tree)
    (tree / "part/op.pyc").write_text("planted between two processes")
    later = Trees(here.workspace)
    later.settle(here.base, just_built=False)
    assert [gone for _, gone in later.tidy().values()] == [("part/op.pyc",)]
    assert names(tree) == stood


@pytest.mark.parametrize("fields", [{}, REBUILD], ids=["unbuilt", "built"])
@pytest.mark.parametrize("deed", ["echo x > $slot/part/op.pyc", "echo '# slow' >> $slot/kernel.sh"])
def test_a_run_may_not_reach_another_version(room, fields, deed):
    here = room(**fields)
    candidate = here.candidate({"kernel.sh": f"#!/bin/sh\necho right\nfor slot in ../?; do {deed}; done\n"})
    best = here.builder.ensure_built(here.base)
    tree = here.builder.ensure_built(candidate)
    stood = names(best)
    with here.commands.guard((candidate,)) as guard:  # as where a command can have no room of its own
        subprocess.run(["sh", "-c", f"cd {tree}; slot={best}; {deed}"], check=True)
    assert guard.tampered == (f"{deed.split('/', 1)[1]} (of another version)",)
    assert here.checker.check(candidate, purpose="p").kind in ("pass", "tampered")
    assert here.checker.check(here.base, purpose="p").kind == "pass", "the other version bears no blame"
    again = here.trees.at(here.base)
    assert names(again) == stood
    assert (again / "kernel.sh").read_text() == KERNEL


def test_python_leaves_no_compiled_modules_in_a_tree(room):
    here = room({"test.sh": "#!/bin/sh\npython3 -c 'import part.op; print(part.op.NAME)' && ls part && echo PASS\n"})
    result = here.checker.check(here.base, purpose="p")
    assert (result.kind, "__pycache__" in result.detail) == ("pass", False), result.detail


def make(top: Path) -> FolderNames:
    for folder in ("a/b", "empty", "locked/in"):
        (top / folder).mkdir(parents=True)
    (top / "a/b/file").write_text("x")
    return FolderNames.of(top)


@pytest.mark.parametrize(
    ("deed", "gone"),
    [
        (lambda top: None, ()),
        (lambda top: (top / "new").write_text("x"), ("new",)),
        (lambda top: (top / "empty/new").mkdir(), ("empty/new",)),
        (lambda top: (top / "a/b/link").symlink_to("/etc"), ("a/b/link",)),
        (lambda top: (top / "a/b/file").unlink(), ()),
        (lambda top: [(top / "empty").rmdir(), (top / "empty").symlink_to("a")], ("empty",)),
        (lambda top: [(top / "new/in").mkdir(parents=True), (top / "new").chmod(0o500)], ("new",)),
    ],
)
def test_only_what_did_not_stand_there_is_removed(tmp_path, deed, gone):
    standing = make(tmp_path / "top")
    deed(tmp_path / "top")
    assert standing.clear() == gone
    assert standing.clear() == ()
    assert Path("/etc/passwd").exists()


def test_a_quiet_folder_is_looked_at_again_when_it_changed(tmp_path):
    standing = make(tmp_path / "top")
    time.sleep(SETTLED_NS / 1e9 + 0.05)
    assert standing.clear() == ()
    (tmp_path / "top/a/b/late").write_text("x")
    assert standing.clear() == ("a/b/late",)


def test_what_was_kept_is_read_back_for_the_same_content_only(tmp_path):
    kept = tmp_path / "a.files"
    make(tmp_path / "top").keep(kept, content="one")
    again = FolderNames.load(tmp_path / "top", kept, content="one")
    assert again is not None
    (tmp_path / "top/new").write_text("x")
    assert again.clear() == ("new",)
    assert FolderNames.load(tmp_path / "top", kept, content="two") is None
    kept.write_text("[]")
    assert FolderNames.load(tmp_path / "top", kept, content="one") is None
    assert FolderNames.load(tmp_path / "top", tmp_path / "absent", content="one") is None
