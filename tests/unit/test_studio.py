"""`langgraph.json`: what LangGraph Studio opens is the compiled graph."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.graph.loop.build import build_loop

ROOT = Path(__file__).resolve().parents[2]


def named():
    """The graphs that the file names, made as Studio makes them."""
    declared = json.loads((ROOT / "langgraph.json").read_text())
    assert declared["dependencies"] == ["."]
    for name, entry in declared["graphs"].items():
        path, _, attribute = entry["path"].partition(":")
        assert (ROOT / path).is_file()
        yield name, getattr(import_module(path.removeprefix("./").removesuffix(".py").replace("/", ".")), attribute)()


def test_studio_opens_the_compiled_graph():
    ((name, shown),) = named()
    assert name == shown.name == "ridgeline"
    ours, theirs = build_loop().get_graph(), shown.get_graph()
    assert set(theirs.nodes) == set(ours.nodes)
    assert theirs.edges == ours.edges


def test_what_a_campaign_needs_has_a_form_that_studio_can_ask_for_and_running_says_what_to_do_instead():
    ((_, shown),) = named()
    assert json.loads(json.dumps(shown.get_context_jsonschema()))["properties"] == {}
    with pytest.raises(UserError, match="run a campaign with `ridgeline run`"):
        shown.invoke({"schema": 1}, context={})
