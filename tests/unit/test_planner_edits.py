"""Edits are applied exactly, as a whole, and only where the contract allows."""

import pytest

from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.edits import EditedFiles, apply_answer
from tests.builders import make_contract

KERNEL = "int a = 1;\nint b = 2;\nfor (;;) {\n    work();\n}\nint a = 1;\n"
CONTRACT = make_contract(kernel_source=("kernel.c", "lib/*.h"), protected=("lib/fixed.h",))


def block(path, search, replace):
    return f"EDIT {path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def apply(answer, sources=None):
    return apply_answer(answer, sources or {"kernel.c": KERNEL}, CONTRACT)


def text_of(answer, sources=None):
    found = apply(answer, sources)
    assert isinstance(found, EditedFiles), found
    return {edit.path: edit.text for edit in found.edits}


def test_a_block_replaces_its_lines_and_the_words_before_it_explain():
    found = apply("**Why**: the loop was slow.\n\n" + block("kernel.c", "    work();", "    fast();"))
    assert isinstance(found, EditedFiles)
    assert found.explanation == "Why: the loop was slow."
    assert found.edits[0].text == KERNEL.replace("work", "fast")


def test_blocks_build_on_each_other():
    answer = block("kernel.c", "int b = 2;", "int b = 3;") + block("kernel.c", "int b = 3;", "int b = 4;\nint c;")
    assert text_of(answer) == {"kernel.c": KERNEL.replace("int b = 2;", "int b = 4;\nint c;")}


@pytest.mark.parametrize(
    "header",
    [
        "EDIT kernel.c",
        "### EDIT `kernel.c`:",
        "**EDIT: kernel.c**",
        "EDIT: ./kernel.c",
        "EDIT kernel.c\n```c",
        "```\nEDIT kernel.c",
        "",
    ],
)
def test_headers_in_the_forms_that_models_write(header):
    body = "<<<<<<< SEARCH\nint b = 2;\n=======\n>>>>>>> REPLACE\n```"
    assert text_of(f"{header}\n{body}") == {"kernel.c": KERNEL.replace("int b = 2;\n", "")}


def test_a_whole_file_keeps_inner_fences():
    text = "/*\n```\nexample\n```\n*/\nint x;\n"
    assert text_of(f"FILE kernel.c\n````c\n{text}````\n") == {"kernel.c": text}


def test_a_new_file_inside_the_globs():
    assert text_of("Added.\nFILE lib/new.h\n```\n#pragma once\n```\n") == {"lib/new.h": "#pragma once\n"}


def test_line_ends_stay_as_they_were():
    sources = {"kernel.c": "one\r\ntwo\r\nthree\r\n"}
    assert text_of(block("kernel.c", "two", "2\n2"), sources) == {"kernel.c": "one\r\n2\r\n2\r\nthree\r\n"}
    assert text_of("FILE kernel.c\n```\na\nb\n```", sources) == {"kernel.c": "a\r\nb\r\n"}


def test_a_last_line_without_end_stays_without():
    assert text_of(block("kernel.c", "two", "2"), {"kernel.c": "one\ntwo"}) == {"kernel.c": "one\n2"}


LONG = "\n".join(f"line{number};" for number in range(402)) + "\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no edit here", "no edit was found"),
        (block("kernel.c", "int a = 1;", "int a = 2;"), "SEARCH stands 2 times, at lines 1, 6"),
        (block("kernel.c", "work();", "fast();"), "the nearest lines are 4-4:\n    work();"),
        (block("kernel.c", "for (;;) {\n  work();\n}", "x"), "the nearest lines are 3-5:\nfor (;;) {\n    work();\n}"),
        (block("kernel.c", "", "x"), "SEARCH is empty"),
        (block("kernel.c", "int b = 2;", "int b = 2;"), "leave every file as it was"),
        (block("lib/none.h", "x", "y"), "does not exist; write it with FILE"),
        ("EDIT kernel.c\n<<<<<<< SEARCH\nint b = 2;\n=======\nint b", "not closed"),
        ("FILE kernel.c\n```\nint b", "not closed"),
        (block("kernel.c", "int b = 2;", "1") * 61, "at most 60"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(answer, why):
    found = apply(answer)
    assert isinstance(found, Wrong)
    assert why in found.why


def test_a_long_file_may_be_written_again_as_a_whole_and_a_longer_one_beside_it():
    rewritten = LONG.replace("line", "other")
    assert text_of(f"FILE kernel.c\n```\n{rewritten}```", {"kernel.c": LONG}) == {"kernel.c": rewritten}
    beside = f"FILE lib/second.h\n```\n{rewritten}```\n{block('kernel.c', 'line7;', 'use();')}"
    texts = text_of(beside, {"kernel.c": LONG})
    assert texts == {"kernel.c": LONG.replace("line7;", "use();"), "lib/second.h": rewritten}
    refused = apply(f"FILE elsewhere/second.h\n```\n{rewritten}```", {"kernel.c": LONG})
    assert isinstance(refused, Wrong)
    assert "is not editable; the contract allows" in refused.why


@pytest.mark.feature("F099")
@pytest.mark.parametrize(
    "path",
    ["bench.c", "test.py", "ridgeline.yaml", "../kernel.c", "/kernel.c", "lib/fixed.h", ".git/config", "lib\\new.h"],
)
@pytest.mark.parametrize("form", ["block", "file"])
def test_no_edit_leaves_the_editable_files(path, form):
    answer = block(path, "x", "y") if form == "block" else f"FILE {path}\n```\nx\n```\n"
    found = apply(answer, {"kernel.c": KERNEL})
    assert isinstance(found, Wrong)
    assert "refused" in found.why


def test_one_bad_block_undoes_all():
    found = apply(block("kernel.c", "int b = 2;", "int b = 3;") + block("bench.c", "x", "y"))
    assert isinstance(found, Wrong)
    assert found.why.startswith("block 2, bench.c: refused")


@pytest.mark.parametrize("mark", ["=======", "========="])
def test_a_line_of_equal_signs_in_the_code_is_no_middle_mark(mark):
    """Such as below a title in a comment; where no mark is as wide as SEARCH's, the first one is the middle."""
    title = "/* Sum\n======\n*/\n"
    sources = {"kernel.c": title + KERNEL}
    answer = block("kernel.c", title + "int a = 1;\nint b = 2;", "/* Total\n========\n*/\nint b = 3;")
    assert text_of(answer, sources)["kernel.c"].startswith("/* Total\n========\n*/\nint b = 3;\nfor")
    assert text_of(block("kernel.c", "int b = 2;", "int b = 3;").replace("=======", mark)) == {
        "kernel.c": KERNEL.replace("int b = 2;", "int b = 3;")
    }
