"""JSON in the forms in which models send it."""

import pytest

from ridgeline.agent.planner.conversation import Wrong, json_of

GOOD = '{"directions": [{"id": "a", "n": 1}]}'
VALUE = {"directions": [{"id": "a", "n": 1}]}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here it is:\n\n```\n{GOOD}\n```\nHope this helps!",
        f"Sure. {GOOD} Anything else?",
        '{"directions": [{"id": "a", "n": 1,},],}',
        '{"directions": [ // the best\n {"id": "a", /* one */ "n": 1}]}',
        f"<think>maybe {{no}} or [1]</think>{GOOD}",
        f"so I think {{this}}</think>\n{GOOD}",
        f"~~~json\n{GOOD}\n~~~",
        f"I set {{x}} first. {GOOD}",
    ],
)
def test_forgiven(text):
    assert json_of(text) == VALUE


def test_strings_are_left_alone():
    assert json_of('{"a": "x, } // no /* comment */ ```", "b": "line\nbreak",}') == {
        "a": "x, } // no /* comment */ ```",
        "b": "line\nbreak",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("I cannot help with that.", "no JSON object; it begins 'I cannot"),
        ('{"directions": [{"id": "a"', "cannot be read"),
        ('{"ratio": NaN}', "NaN is no number"),
        ('{"a" 1}', "near"),
        ("[" * 100_000, "cannot be read"),
        ("[" * 100_000 + "]" * 100_000, "cannot be read"),
    ],
)
def test_the_complaint_says_what_is_wrong(text, why):
    found = json_of(text)
    assert isinstance(found, Wrong)
    assert why in found.why
    assert len(found.why) < 600
