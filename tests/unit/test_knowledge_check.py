"""The knowledge that ships can be trusted, and each kind of fault that is planted in a copy is named with its line."""

import shutil

import pytest

from ridgeline.knowledge.check import check
from ridgeline.knowledge.library import Library
from tests.knowledge_base import CARD, FILES, GEMM, SOURCES, write_base


@pytest.mark.feature("F068", "F070")
def test_what_ships_is_whole():
    found = check(Library())
    assert [str(problem) for problem in found.problems] == []
    assert found.facts >= 250
    assert found.cards >= 60


@pytest.mark.feature("F068")
def test_a_right_base_has_no_problem(tmp_path):
    found = check(write_base(tmp_path))
    assert found.problems == ()
    assert (found.documents, found.facts, found.specs, found.cards, found.sources) == (6, 7, 11, 1, 2)
    assert found.unused == ()


@pytest.mark.feature("F068", "F070")
@pytest.mark.parametrize(
    ("path", "old", "new", "what"),
    [
        ("ops/gemm/directions.md", " [src: acme-sheet]", "", "a number without source"),
        ("ops/gemm/directions.md", "acme-sheet]", "acme-shet]", "source 'acme-shet' is not registered"),
        ("ops/gemm/directions.md", "A tile of", "A tile of roughly", "'roughly' hedges"),
        ("ops/gemm/directions.md", "[src: acme-sheet]", "[src: acme-sheet] as said", "do not end the item"),
        ("ops/gemm/directions.md", "https://example.com/a", "https:/example", "leads nowhere"),
        ("ops/gemm/directions.md", "../../hardware/gfx942/overview.md", "../hardware/no.md", "leads nowhere"),
        ("ops/gemm/directions.md", "## Shared memory layout", "## Tiles", "stands in line"),
        ("ops/gemm/directions.md", "1. Steps", "\n" + "line\n" * 60 + "1. Steps", "lines"),
        ("ops/gemm/directions.md", "kind: op", "kind: operator", "kind is 'operator'"),
        ("hardware/roadrunner-80.md", "4.0 TB/s", "4.0 GB/s", "hbm_bandwidth is in GB/s"),
        ("hardware/roadrunner-80.md", "1000 TFLOPS [src: acme-sheet, table 2]", "1000 TFLOPS", "has no source"),
        ("cards/hip/pad-rows.md", "acme-isa, section 3", "somewhere", "source 'somewhere' is not registered"),
        ("cards/hip/pad-rows.md", "a column falls", "a column usually falls", "'usually' hedges"),
        ("cards/hip/pad-rows.md", "id: pad-rows", "id: pad-columns", "the id is not the file's name"),
        ("cards/hip/pad-rows.md", "direction: down", "direction: aside", "prediction.direction"),
        ("sources/acme.yaml", "  publisher: Acme\n", "", "publisher is missing"),
        ("sources/acme.yaml", "https://example.com/isa.pdf", "example.com", "is not an address"),
        ("sources/acme.yaml", "  path: sheet.md\n", "", "repo and path do not name a file"),
        ("sources/acme.yaml", "  accessed: 2026-11-21\n", "", "accessed is missing"),
        ("sources/acme.yaml", "  url: https://example.com/isa.pdf\n", "", "leads nowhere"),
        ("sources/acme.yaml", "acme-isa:", "Acme_ISA:", "not kebab-case"),
        ("sources/acme.yaml", "  title: The ISA", "  author: x\n  title: The ISA", "author is no field"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, path, old, new, what):
    assert old in FILES[path]
    problems = check(write_base(tmp_path, **{path: FILES[path].replace(old, new, 1)})).problems
    assert any(what in problem.what for problem in problems), [str(problem) for problem in problems]
    for problem in problems:
        assert problem.path.startswith("knowledge/")
        assert problem.line >= 1
        assert problem.mend


@pytest.mark.feature("F068")
def test_a_fault_is_told_with_its_line(tmp_path):
    text = GEMM.replace(" [src: acme-sheet]", "")
    (problem,) = check(write_base(tmp_path, **{"ops/gemm/directions.md": text})).problems
    assert "128x128" in text.splitlines()[problem.line - 1]


def test_the_same_source_or_card_twice(tmp_path):
    twice = {"sources/more.yaml": SOURCES.replace("acme-sheet", "acme-other"), "cards/ck/pad-rows.md": CARD}
    told = [str(problem) for problem in check(write_base(tmp_path, **twice)).problems]
    assert any("acme-isa is also in knowledge/sources/acme.yaml:1" in line for line in told)
    assert any("pad-rows is also in knowledge/cards/ck/pad-rows.md" in line for line in told)


@pytest.mark.parametrize("text", ["- a list", "a: [", "a: 1"])
def test_a_registry_that_is_no_mapping(tmp_path, text):
    problems = check(write_base(tmp_path, **{"sources/bad.yaml": text})).problems
    assert any(problem.path == "knowledge/sources/bad.yaml" for problem in problems)


def test_unused_sources_are_listed(tmp_path):
    more = SOURCES.replace("acme-isa", "acme-spare").split("acme-sheet")[0]
    assert check(write_base(tmp_path, **{"sources/more.yaml": more})).unused == ("acme-spare",)


@pytest.mark.feature("F068")
def test_a_wiki_is_under_the_same_rules(tmp_path):
    write_base(tmp_path / "wiki", **{"ops/gemm/directions.md": GEMM.replace(" [src: acme-sheet]", "")})
    wiki = tmp_path / "wiki"
    (wiki / "cards" / "hip" / "pad-rows.md").unlink()
    problems = check(Library((wiki,))).problems
    assert [problem.path for problem in problems] == ["wiki/ops/gemm/directions.md"]


def test_one_root_alone_is_checked_by_the_sources_of_all(tmp_path):
    base = write_base(tmp_path / "base", **{"ops/gemm/directions.md": GEMM.replace(" [src: acme-sheet]", "")}).roots[0]
    cited = GEMM.replace("acme-sheet", "acme-isa")
    write_base(tmp_path / "wiki", **{"ops/gemm/directions.md": cited, "ops/gemm/more.md": "no front matter"})
    for name in ("cards", "sources"):
        shutil.rmtree(tmp_path / "wiki" / name)
    report = check(Library((tmp_path / "wiki",), folder=base.folder), root="wiki")
    assert [problem.path for problem in report.problems] == ["wiki/ops/gemm/more.md"]
    assert (report.cards, report.sources) == (0, 2)
