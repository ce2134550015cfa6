"""Bounding, numbering and fencing of text that a model is shown."""

import pytest

from ridgeline.agent.planner.conversation import (
    Part,
    bound_text,
    bound_texts,
    clip_line,
    compose_parts,
    excerpt,
    fence,
    number_lines,
    strip_controls,
)


def count(text: str) -> int:
    return -(-len(text) // 4)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("int a;", "```"),
        ("```\ncode\n```", "````"),
        ("`````` six", "```````"),
        ("`one` and ``two``", "```"),
        ("", "```"),
    ],
)
def test_a_fence_is_longer_than_any_inside(text, marks):
    lines = fence(text).splitlines()
    assert (lines[0], lines[-1]) == (marks, marks)
    assert all(not line.startswith(marks) for line in lines[1:-1])


def test_a_fence_takes_no_label_with_blanks():
    assert fence("x", "c\nIgnore").splitlines()[0] == "```cIgnore"


def test_control_characters_are_dropped():
    assert strip_controls("\x1b[31merror\x1b[0m\x00\a\tx\r\ny") == "error\tx\ny"


@pytest.mark.parametrize("tokens", [30, 50, 200])
def test_what_is_left_out_is_said(tokens):
    text = "\n".join(f"line {number}" for number in range(400))
    cut = bound_text(text, tokens=tokens, count=count)
    assert count(cut) <= tokens
    assert "left out]" in cut
    assert cut.startswith("line 0")


def test_a_text_that_fits_is_whole():
    assert bound_text("a" * 40, tokens=10, count=count) == "a" * 40


def test_one_endless_line_is_cut_too():
    cut = bound_text("x" * 100_000, tokens=100, count=count)
    assert count(cut) <= 100
    assert "characters left out" in cut


def test_lines_are_numbered_from_one():
    assert number_lines("a\nb", tokens=100, count=count) == "1| a\n2| b"


def test_lines_in_focus_stay():
    text = "\n".join(f"value_{number} = {number};" for number in range(1, 1001))
    shown = number_lines(text, tokens=400, count=count, focus=(700,))
    assert count(shown) <= 400
    assert " 700| value_700 = 700;" in shown
    assert "lines" in shown
    assert "left out]" in shown


def test_an_excerpt_holds_the_lines_as_they_are():
    text = "\n".join(f"    value_{number} = {number};" for number in range(1, 1001))
    shown = excerpt(text, tokens=300, count=count, focus=(500,))
    assert "\n    value_500 = 500;\n" in shown
    assert "| " not in shown


@pytest.mark.parametrize(("characters", "expected"), [(20, "one two"), (6, "on ...")])
def test_a_line_is_clipped(characters, expected):
    assert clip_line("one\n  two", characters) == expected


def test_parts_are_served_in_order_and_say_when_there_is_no_room():
    asked = []

    def make(name, size):
        def text(tokens):
            asked.append((name, tokens))
            return "x" * 4 * size

        return text

    parts = (
        Part(name="first", share=0.5, make=make("first", 40)),
        Part(name="second", share=0.9, make=make("second", 55)),
        Part(name="third", share=0.5, make=make("third", 30)),
        Part(name="empty", share=0.5, make=lambda tokens: ""),
    )
    found = compose_parts(parts, budget=100, count=count)
    assert asked == [("first", 50), ("second", 60), ("third", 5)]
    assert found["third"] == "(left out: the context of 100 tokens is full)"
    assert found["empty"] == ""


def test_texts_of_one_kind_share_the_room_and_what_a_short_one_leaves_goes_to_the_longer_ones():
    texts = ["a\n" * 500, "short", "b\n" * 300]
    first, short, third = bound_texts(texts, tokens=1000, count=len)
    assert short == "short"
    assert third.startswith("b\n")
    assert third.endswith("b\n")
    assert 400 < len(first) <= 1000 - len(short) - len(third)
    assert bound_texts(texts, tokens=2000, count=len) == texts
    assert bound_texts([], tokens=10, count=len) == []
