"""Documents are cut into sections that can be cited by line, and what is wrong is told by file, line and mend."""

import pytest

from ridgeline.knowledge.documents import DocumentError, parse
from tests.knowledge_base import GEMM, PRODUCT


def test_sections_know_their_lines():
    document = parse(GEMM, "knowledge/ops/gemm/directions.md")
    lines = GEMM.splitlines()
    assert [section.heading for section in document.sections] == ["GEMM", "Tiles", "Shared memory layout"]
    for section in document.sections:
        assert lines[section.line - 1].lstrip("# ") == section.heading
        for item in section.items():
            assert lines[item.line - 1].startswith("- ")
    assert document.sections[1].id == "knowledge/ops/gemm/directions.md#Tiles"


def test_items_outside_code_blocks_with_their_continuation_lines():
    text = GEMM.replace("- A tile of 128x128 launches", "- A tile of 128x128\n  launches")
    (tiles,) = [section for section in parse(text, "d.md").sections if section.heading == "Tiles"]
    (item,) = tiles.items()
    assert item.text == "A tile of 128x128 launches 64 blocks for 1024x1024. [src: acme-sheet]"


def test_front_matter_is_read():
    document = parse(PRODUCT, "knowledge/hardware/roadrunner-80.md")
    assert (document.kind, document.gpus, document.ops, document.langs) == ("product", ("gfx942",), (), ())
    assert document.default_for == ("Roadrunner",)
    assert document.overview
    assert not parse(GEMM, "knowledge/ops/gemm/directions.md").overview


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("---\ntitle", "title", 1, "no front matter"),
        ("title: GEMM, directions\n", "", 1, "title is missing"),
        ("summary: What to try.\n", "", 1, "summary is missing"),
        ("kind: op", "kind: opinion", 3, "kind is 'opinion'"),
        ("ops: [gemm]", "ops: gemm", 4, "ops is not a list"),
        ("phase: [propose]", "phase: [guess]", 5, "phase: 'guess'"),
        ("summary: What to try.", "summary: One: two.", 6, "not YAML"),
        ("phase: [propose]", "phases: [propose]", 5, "phases is no field"),
    ],
)
def test_an_error_names_file_line_and_mend(old, new, where, what):
    assert old in GEMM
    with pytest.raises(DocumentError) as caught:
        parse(GEMM.replace(old, new, 1), "ops/bad.md")
    problem = caught.value.problem
    assert (problem.path, problem.line) == ("ops/bad.md", where)
    assert what in problem.what
    assert problem.mend
    assert str(problem).startswith(f"ops/bad.md:{where}: ")
