"""Does an answer fit its form? One clear sentence when it does not."""

import json

import pytest
from pydantic import BaseModel, ConfigDict, Field

from ridgeline.agent.providers.mailbox import problem


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=2)
    size: int | None = None


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: str = Field(pattern="^[a-z]+$")
    items: list[Item] = Field(min_length=1, max_length=3)
    ratio: float = Field(gt=0, le=2)
    flag: bool = False


SCHEMA = Form.model_json_schema()
GOOD = {"kind": "tile", "items": [{"name": "ab"}, {"name": "cd", "size": 3}], "ratio": 1.5, "flag": True}


def test_what_fits():
    assert problem(GOOD, SCHEMA) == ""
    assert problem({"anything": [1]}, {}) == ""
    assert problem(None, {"type": ["string", "null"]}) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "A"}, '$.kind: "A" does not match'),
        ({"kind": 3}, "$.kind: is number, expected string"),
        ({"items": []}, "$.items: has 0 entries, expected at least 1"),
        ({"items": [GOOD["items"][0]] * 4}, "expected at most 3"),
        ({"items": [{"name": "x"}]}, "$.items[0].name: has 1 characters"),
        ({"items": [{"name": "xy", "size": "3"}]}, "$.items[0].size: is string"),
        ({"items": [{"name": "xy", "colour": 1}]}, "unknown field 'colour'"),
        ({"items": [{}]}, "$.items[0]: lacks 'name'"),
        ({"ratio": 0}, "expected more than 0"),
        ({"ratio": 2.5}, "expected at most 2"),
        ({"ratio": True}, "is boolean, expected number"),
        ({"flag": "yes"}, "expected boolean"),
    ],
)
def test_what_does_not_fit(change, said):
    assert said in problem({**GOOD, **change}, SCHEMA)


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        ("x", {"enum": ["a", "b"]}, 'expected one of "a", "b"'),
        ("x", {"const": 1}, "expected 1"),
        (5, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "expected"),
        (5, {"allOf": [{"minimum": 6}]}, "at least 6"),
        ({"a": 1}, {"properties": {"a": False}}, "not allowed"),
        ({"a": 1}, {"additionalProperties": {"type": "string"}}, "$.a: is number"),
    ],
)
def test_other_words_of_the_standard(value, schema, said):
    assert said in problem(value, schema)


def test_depth_is_bounded():
    deep = json.loads("[" * 100 + "]" * 100)
    endless = {"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"}
    assert "nested deeper" in problem(deep, endless)
