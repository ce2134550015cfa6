"""Unified diffs: both sides of a file, whether it is at hand or not."""

import difflib

import pytest

from ridgeline.sandbox.audit.diffs import NoDiff, looks_like_diff, parse, sides
from ridgeline.sandbox.audit.examine import find_added

OLD = "import time\n\n\ndef f(x):\n    return mine(x)\n\n\ndef g(x):\n    y = 1\n    return y\n"
NEW = OLD.replace("    return mine(x)\n", "    time.sleep(1)\n    return mine(x)\n").replace("y = 1", "y = 2")


def diff(old: str | None, new: str | None, name: str = "k.py") -> str:
    lines = difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), lineterm="", n=1)
    body = list(lines)[2:]
    head = [
        "--- " + (f"a/{name}" if old is not None else "/dev/null"),
        "+++ " + (f"b/{name}" if new is not None else "/dev/null"),
    ]
    return "\n".join([f"diff --git a/{name} b/{name}", *head, *body]) + "\n"


@pytest.mark.parametrize("disk", [OLD, NEW], ids=["before", "after"])
def test_the_file_at_hand_may_be_either_side(disk):
    (file,) = parse(diff(OLD, NEW))
    before, after, shift = sides(file, lambda _: disk)
    assert (before, after, shift) == (OLD, NEW, 0)
    assert [(one.rule, one.line) for one in find_added({"k.py": before}, {"k.py": after})] == [("sleeps", 5)]


@pytest.mark.parametrize("disk", [None, "something else\n"])
def test_without_the_file_the_pieces_stand_for_it(disk):
    (file,) = parse(
        diff(OLD.replace("import time\n", ""), NEW.replace("import time\n", "").replace("time.", "torch.cuda._"))
    )
    before, after, _ = sides(file, lambda _: disk)
    assert "return mine(x)" in before
    assert "torch.cuda._sleep(1)" in after


def test_a_new_file_and_a_deleted_one():
    (made,) = parse(diff(None, "import os\nos._exit(0)\n"))
    before, after, _ = sides(made, lambda _: None)
    assert [one.rule for one in find_added({made.path: before}, {made.path: after})] == ["ends-process"]
    (gone,) = parse(diff("x = 1\n", None))
    assert sides(gone, lambda _: None)[1] is None
    assert gone.path == "k.py"


def test_a_piece_alone_has_its_place_in_the_file():
    text = "--- a/k.py\n+++ b/k.py\n@@ -40,2 +40,3 @@\n def f(x):\n+    import os; os._exit(0)\n     return x\n"
    (file,) = parse(text)
    before, after, shift = sides(file, lambda _: None)
    (found,) = [one for one in find_added({"k.py": before}, {"k.py": after}) if one.rule == "ends-process"]
    assert found.line + shift == 41


@pytest.mark.parametrize("text", ["", "plain text\n", "--- a\n+++ b\n@@ -1,3 +1,3 @@\n x\n", "@@ -1 +1 @@\n-a\n+b\n"])
def test_what_is_no_diff_is_said(text):
    with pytest.raises(NoDiff):
        parse(text)


def test_a_source_is_no_diff():
    assert looks_like_diff(diff(OLD, NEW))
    assert not looks_like_diff(OLD)
    assert not looks_like_diff("--- heading\n+++ other\n")
