"""What a fact is, who said it, and the words it may not have."""

import pytest

from ridgeline.knowledge.documents import Section
from ridgeline.knowledge.facts import Citation, citations, find_hedge, list_unsourced, without


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("A. [src: one]", (Citation(source="one"),)),
        ("A. [src: one, section 3.2]", (Citation(source="one", place="section 3.2"),)),
        (
            "A. [src: one; two, table 4, row 2]",
            (Citation(source="one"), Citation(source="two", place="table 4, row 2")),
        ),
        ("A. [src: one] and more", ()),
        ("A. [src: ]", ()),
        ("A [1] b. [src: one]", (Citation(source="one"),)),
        ("A.", ()),
    ],
)
def test_citations_end_the_item(text, cited):
    assert citations(text) == cited
    if cited:
        assert without(text).startswith("A")
        assert "src" not in without(text)


@pytest.mark.feature("F070")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The peak is approximately 989 TFLOPS.", "approximately"),
        ("It should be 80 CUs.", "should be"),
        ("LDS is usually 64 KiB.", "usually"),
        ("The same as a similar product.", "similar product"),
        ("Roughly 5 TB/s.", "Roughly"),
        ("About 50 MB.", "About"),
        ("It takes ~20 cycles.", "~"),
        ("around 3.35 TB/s", "around"),
        ("A fact about LDS.", None),
        ("Move it around.", None),
        ("`~/.cache` holds it.", None),
        ("Write `approximately` nowhere.", None),
        ("The unusually wide load.", None),
        ("A 64-lane wave. [src: roughly-speaking]", None),
    ],
)
def test_hedging_words(text, word):
    assert find_hedge(text) == word


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("- LDS has 32 banks.", True),
        ("- LDS has 32 banks. [src: isa]", False),
        ("- A gain of 1.5x.", True),
        ("- Rows of 1 024 elements.", True),
        ("- Pad the rows.", False),
        ("- Use `num_warps=8` here.", False),
        ("- Compile at -O3 for gfx942 with fp16.", False),
        ("- Read section 3.2 and step 4.", False),
        ("- Read [page 7](https://example.com/7).", False),
        ("1. Take 3 steps.", False),
    ],
)
def test_a_number_needs_a_source(item, found):
    section = Section(path="d.md", line=10, heading="H", text=f"\n{item}\n")
    assert [problem.line for problem in list_unsourced(section)] == ([12] if found else [])
