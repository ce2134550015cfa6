"""Foreign text cannot break a document: on one line, in a cell, in a fence, bounded with the cut stated."""

import re

import pytest

from ridgeline.graph.record import Reflection
from ridgeline.graph.reports.figures import render_once
from ridgeline.graph.reports.files import commit_message, render_all, tip_entry
from ridgeline.graph.reports.final_report import render_final_report
from ridgeline.graph.reports.text import (
    BLOCK,
    LINE,
    cell,
    clip,
    code,
    command,
    fence,
    interval,
    line,
    minute,
    number,
    percent,
    times_at_least,
    unit,
)
from tests.builders import (
    make_failed,
    make_history,
    make_hypothesis,
    make_judged,
    make_profiled,
    make_round,
    make_traced,
)
from tests.document_builders import make_unbuilt

MEGABYTE = "x" * 1_000_000
EVIL = "a | b ``` \n# Heading\n| 1 | 2 |\n\x00\x1b[31m<script>alert(1)</script>\r\n> quote"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", "plain words"),
        ("two\nlines\t and   spaces", "two lines and spaces"),
        ("# heading", "\\# heading"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("-O3 for the kernel", "-O3 for the kernel"),
        ("--- ---", "\\--- ---"),
        ("1.5 times", "1.5 times"),
        ("#pragma omp", "#pragma omp"),
        ("```", "\\```"),
        ("a < b, a<b", "a < b, a&lt;b"),
        ("<script>", "&lt;script>"),
        ("bell\x07", "bell"),
        ("", ""),
    ],
)
def test_line(text: str, expected: str) -> None:
    assert line(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a | b", "a \\| b"),
        ("", "-"),
        ("+5%", "+5%"),
        ("`x`", "`x`"),
        ("odd ` mark", "odd ' mark"),
        ("a\n| b", "a \\| b"),
    ],
)
def test_cell(text: str, expected: str) -> None:
    assert cell(text) == expected


@pytest.mark.parametrize("make", [line, cell, fence, code])
def test_a_megabyte_is_cut(make) -> None:
    assert len(make(MEGABYTE)) < BLOCK + 200


def test_what_was_cut_is_stated() -> None:
    assert line("y" * LINE) == "y" * LINE
    assert line("y" * (LINE + 1)).endswith(" [... 1 characters left out]")
    assert line(MEGABYTE).endswith(f" [... {1_000_000 - LINE} characters left out]")
    assert fence("z" * BLOCK).count("z") == BLOCK
    assert f"[... {1_000_000 - BLOCK} characters left out ...]" in fence(MEGABYTE)
    assert clip("one two three", 9) == "one tw..."


@pytest.mark.parametrize("text", ["```", "a\n````\nb", "~~~", "no marks"])
def test_a_fence_is_longer_than_any_inside(text: str) -> None:
    first, *_, last = fence(text).splitlines()
    assert first == f"{last}text"
    assert last not in text


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (percent(0.08364, 3), "+8.364%"),
        (percent(-0.05), "-5.00%"),
        (percent(None), "-"),
        (number(1.07921, 4), "1.0792"),
        (number(0.00044271, 4), "0.0004427"),
        (number(0.0, 4), "0.0000"),
        (interval(0.05, 0.03, None), "+5.00% [+3.00%, -]"),
        (interval(0.05, None, None), "+5.00%"),
        (minute("2026-04-12T10:05:30.123Z"), "2026-04-12 10:05"),
        (unit("Forward TFLOPS"), "TFLOPS"),
        (unit("Forward GB/s"), "GB/s"),
        (unit("GFLOPS"), "GFLOPS"),
        (unit("time_us"), "time_us"),
        (command(("a b", "--csv", "{csv}", "it's")), "'a b' --csv {csv} 'it'\"'\"'s'"),
    ],
)
def test_numbers_and_words(made: str, expected: str) -> None:
    assert made == expected


def hostile(text: str):
    hypothesis = make_hypothesis(
        claim=text,
        change=text,
        risks=text,
        verification=text,
        evidence=(text,),
        lever=text,
        target_class=text,
        sources=(text,),
    )
    reflection = Reflection(
        attribution=text, root_cause=text, next_direction=text, lesson=text, applies=text, does_not_apply=text
    )
    profile = make_profiled({text[:50]: 1.0}, notes=(text,))
    judged = make_judged(
        "rolled_back", trial=make_traced(hypothesis=hypothesis, profile=profile), sentence=text, notes=(text,)
    )
    measured = make_round(2, judged=judged, reflection=reflection, bottleneck_evidence=text)
    failed = make_unbuilt(3, make_failed("build_failed", round=3, hypothesis=hypothesis, detail=text))
    kept = make_round(
        4, judged=make_judged(trial=make_traced(hypothesis=hypothesis), sentence=text), reflection=reflection
    )
    return make_history(measured, failed, kept)


def unfenced(text: str) -> str:
    """Without its fenced blocks, where foreign text may look like anything."""
    return re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", [EVIL, "|" * 5000, "`" * 4001, MEGABYTE], ids=["evil", "pipes", "marks", "megabyte"])
def test_hostile_text_leaves_every_document_whole_and_small(text: str) -> None:
    history = hostile(text)
    plain = render_all(hostile("harmless"), worktree="tree")
    files = render_all(history, worktree="tree")
    assert list(files) == list(plain)
    for path, body in files.items():
        if not isinstance(body, str) or not path.endswith(".md"):
            continue
        body, expected = unfenced(body), unfenced(str(plain[path]))
        assert [x for x in body.splitlines() if x.startswith("## ")] == [
            x for x in expected.splitlines() if x.startswith("## ")
        ], path
        columns = [x.replace("\\|", "").count("|") for x in body.splitlines() if x.startswith("| ")]
        assert columns == [x.count("|") for x in expected.splitlines() if x.startswith("| ")], path
        assert not any(mark in re.sub(r"`[^`\n]*`", "", body) for mark in ("\x00", "\x1b", "<script>")), path
        assert len(body) < 100_000, path
    assert all(len(str(body)) < 100_000 for path, body in files.items() if path.endswith(".json"))


def test_hostile_text_stays_small_in_messages() -> None:
    history = hostile(MEGABYTE)
    assert len(commit_message(history.rounds[2].judged, history, 4)) < 10_000
    assert len(tip_entry(history.rounds[0], history.opened)) < 5_000
    assert len(render_final_report(history)) < 50_000


def test_an_entry_is_rendered_once_for_the_same_values_and_kept_with_its_owner() -> None:
    calls = []

    def make(owner: object, other: object) -> str:
        calls.append(other)
        return f"{len(calls)}"

    closed, limits = make_round(2), make_history().limits
    assert render_once(closed, make, closed, limits) == render_once(closed, make, closed, limits) == "1"
    assert render_once(closed, make, closed, make_history().limits) == "2"  # another value, though an equal one
    assert render_once(make_round(2), make, closed, limits) == "3"
    assert closed == make_round(2)
    assert closed.model_dump_json() == make_round(2).model_dump_json()
    assert closed.model_copy().folds == {}


@pytest.mark.parametrize(
    ("lower", "digits", "told"),
    [(0.9996, 3, "0.999x"), (0.996, 2, "0.99x"), (1.25, 2, "1.25x"), (5.36 - 1e-12, 2, "5.36x"), (None, 3, "-")],
)
def test_a_lower_bound_is_rounded_down(lower, digits, told):
    assert times_at_least(lower, digits) == told
