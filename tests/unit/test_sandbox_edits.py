import pytest

from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.workspace.edits import MAX_BYTES, refusal
from ridgeline.sandbox.workspace.git import Entry
from ridgeline.sandbox.workspace.globs import matches
from tests.builders import make_contract


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("kernel.c", "kernel.c", True),
        ("kernel.c", "src/kernel.c", False),
        ("kernel.c", "kernel.cc", False),
        ("kernelxc", "kernel.c", False),
        ("./kernel.c", "kernel.c", True),
        ("*.c", "kernel.c", True),
        ("*.c", "src/kernel.c", False),
        ("src/*.c", "src/a.c", True),
        ("src/*.c", "src/deep/a.c", False),
        ("**/*.c", "a.c", True),
        ("**/*.c", "x/y/a.c", True),
        ("src/**", "src/a", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("src/**/k.c", "src/k.c", True),
        ("src/**/k.c", "src/a/b/k.c", True),
        ("src", "src/a/b.c", True),
        ("src/", "src/a/b.c", True),
        ("src", "srcs/a", False),
        ("k?.c", "k1.c", True),
        ("k?.c", "k/.c", False),
        ("k[0-9].c", "k7.c", True),
        ("k[!0-9].c", "k7.c", False),
        ("k[!0-9].c", "kx.c", True),
        ("k[.c", "k[.c", True),
        ("a+b(c).cu", "a+b(c).cu", True),
        ("**", "anything/at/all", True),
        ("*", "a\nb", True),
    ],
)
def test_globs(glob, path, expected):
    assert matches(path, (glob,)) is expected


def test_no_glob_matches_nothing():
    assert not matches("kernel.c", ())


CONTRACT = make_contract(
    kernel_source=("kernel.c",),
    editable=("kernel.c", "src/**", "link", "module", "ridgeline.yaml"),
    protected=("src/test*",),
)
PRESENT = {
    path: Entry(mode=mode, oid="0", path=path)
    for path, mode in {
        "kernel.c": "100644",
        "src/run.sh": "100755",
        "link": "120000",
        "module": "160000",
        "src/out": "120000",
        "bench.c": "100644",
    }.items()
}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "not a relative path"),
        ("/etc/passwd", "not a relative path"),
        ("src\\a.c", "not a relative path"),
        ("../outside.c", "plain form"),
        ("src/../../outside.c", "plain form"),
        ("src/../bench.c", "plain form"),
        ("./kernel.c", "plain form"),
        ("src//a.c", "plain form"),
        ("src/", "plain form"),
        ("src/a\nb.c", "cannot be printed"),
        ("src/\x00.c", "cannot be printed"),
        (".git/config", "belongs to git"),
        ("src/.git/hooks/post-checkout", "belongs to git"),
        ("src/.GIT/config", "belongs to git"),
        ("src/.gitattributes", "belongs to git"),
        ("src/ .git /x", "belongs to git"),
        ("bench.c", "not editable"),
        ("new.c", "not editable"),
        ("src/test_kernel.c", "protected"),
        ("src/tests/a.c", "protected"),
        ("ridgeline.yaml", "protected"),
        ("link", "symbolic link"),
        ("module", "submodule"),
        ("module/a.c", "below module"),
        ("link/a.c", "below link"),
        ("src/out/a.c", "below src/out"),
        ("src/run.sh/a.c", "below src/run.sh"),
        ("src/" + "a" * 256, "a name of 256 bytes"),
        ("src/" + "\u00e9" * 128 + "/a.c", "a name of 256 bytes"),
        ("src/" + "ab/" * 350 + "a.c", "1057 bytes long"),
    ],
)
def test_hostile_paths_are_refused_with_the_reason(path, words):
    said = refusal((FileEdit(path=path, text="x"),), CONTRACT, PRESENT)
    assert said is not None
    assert words in said


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (FileEdit(path="kernel.c", text="a\0b"), "not text"),
        (FileEdit(path="kernel.c", text="x" * (MAX_BYTES + 1)), "at most"),
        (FileEdit(path="kernel.c", text="\ud800"), "Unicode"),
        (FileEdit(path="src/none.c", text=None), "does not exist"),
    ],
)
def test_hostile_texts_are_refused(edit, words):
    assert words in (refusal((edit,), CONTRACT, PRESENT) or "")


def test_an_edit_of_a_folder_and_a_doubled_edit_are_refused():
    below = {"src/deep/a.c": Entry(mode="100644", oid="0", path="src/deep/a.c")}
    assert "is a folder" in (refusal((FileEdit(path="src/deep", text="x"),), CONTRACT, below) or "")
    twice = (FileEdit(path="kernel.c", text="a"), FileEdit(path="kernel.c", text="b"))
    assert "edited twice" in (refusal(twice, CONTRACT, PRESENT) or "")


@pytest.mark.parametrize("paths", [("src/new", "src/new/x.h"), ("src/new/deep/x.h", "src/new")])
def test_a_file_that_another_edit_needs_as_a_folder_is_refused(paths):
    said = refusal(tuple(FileEdit(path=path, text="x") for path in paths), CONTRACT, PRESENT) or ""
    assert said.startswith("'src/new': is written as a file, and")
    assert "\n" not in said


def test_names_that_only_look_like_folders_are_no_clash():
    edits = tuple(FileEdit(path=path, text="x") for path in ("src/new", "src/new.h", "src/newer/x.h"))
    assert refusal(edits, CONTRACT, PRESENT) is None


@pytest.mark.parametrize(
    "edit",
    [
        FileEdit(path="kernel.c", text="int a;\n"),
        FileEdit(path="kernel.c", text="x" * MAX_BYTES),
        FileEdit(path="kernel.c", text=None),
        FileEdit(path="src/new/deep/kernel.cu", text=""),
        FileEdit(path="src/" + "a" * 255, text="x"),
        FileEdit(path="src/run.sh", text="échelle\n"),
    ],
)
def test_edits_of_the_editable_surface_are_taken(edit):
    assert refusal((edit,), CONTRACT, PRESENT) is None
