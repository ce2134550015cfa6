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
        ({"kind": "A"}, "$.kind: 'A' does not match"),
        ({"kind": 3}, "$.kind: 3 is not of type 'string'"),
        ({"items": []}, "$.items: [] should be non-empty"),
        ({"items": [GOOD["items"][0]] * 4}, "is too long"),
        ({"items": [{"name": "x"}]}, "$.items[0].name: 'x' is too short"),
        ({"items": [{"name": "xy", "size": "3"}]}, "$.items[0].size: '3' is not of type"),
        ({"items": [{"name": "xy", "colour": 1}]}, "('colour' was unexpected); known are name, size"),
        ({"items": [{}]}, "$.items[0]: 'name' is a required property"),
        ({"ratio": 0}, "0 is less than or equal to the minimum of 0"),
        ({"ratio": 2.5}, "2.5 is greater than the maximum of 2"),
        ({"ratio": True}, "True is not of type 'number'"),
        ({"flag": "yes"}, "'yes' is not of type 'boolean'"),
    ],
)
def test_what_does_not_fit(change, said):
    assert said in problem({**GOOD, **change}, SCHEMA)


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        ("x", {"enum": ["a", "b"]}, "'x' is not one of ['a', 'b']"),
        ("x", {"const": 1}, "1 was expected"),
        (5, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "5 is not"),
        (5, {"allOf": [{"minimum": 6}]}, "5 is less than the minimum of 6"),
        ({"a": 1}, {"properties": {"a": False}}, "False schema does not allow 1"),
        ({"a": 1}, {"additionalProperties": {"type": "string"}}, "$.a: 1 is not of type"),
    ],
)
def test_other_words_of_the_standard(value, schema, said):
    assert said in problem(value, schema)


def test_a_long_value_is_named_by_its_beginning():
    said = problem({**GOOD, "flag": "y" * 5000}, SCHEMA)
    assert said.endswith("... is not of type 'boolean'")
    assert len(said) < 200


def test_depth_is_bounded():
    deep = json.loads("[" * 100 + "]" * 100)
    endless = {"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"}
    assert "nested deeper" in problem(deep, endless)
