"""Every setting decides something: one that no code reads is found here, and numbers in the documents are the code's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.agent.campaign import settings
from ridgeline.agent.errors import UserError
from ridgeline.graph.limits import PRESETS, RETIRED, Limits

ROOT = Path(__file__).parents[2]
PACKAGES = ("graph", "sandbox", "agent")
OBEYING = ("approval.py",)
"""Of the documents, the one that makes a question to a person, with how long it waits and what happens then."""


def read_of_limits(tree: ast.AST) -> Iterator[str]:
    """Names read as `limits.NAME` or `<anything>.limits.NAME`; showing a setting by its name in a text is no reading."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if name.endswith("limits"):
            yield node.attr


def code() -> Iterator[Path]:
    """Production code without what only prints: a page that shows a setting does not obey it."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            printing = "documents" in path.parts and path.name not in OBEYING
            if not printing and "workspace" not in path.parts:
                yield path


@pytest.mark.slow
def test_every_setting_is_read_by_the_code_that_it_names():
    read = {name for path in code() for name in read_of_limits(ast.parse(path.read_text(encoding="utf-8")))}
    assert set(Limits.model_fields) - read == set()


def test_a_setting_that_is_only_shown_is_found():
    shown = ast.parse('GATES = ("margin",)\ntext = f"{other.margin}"\nlimits.margin = 3')
    assert set(read_of_limits(shown)) == set()
    assert set(read_of_limits(ast.parse("known.limits.margin + limits.alpha"))) == {"margin", "alpha"}


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_a_setting_that_was_removed_is_refused_and_older_records_stay_readable(name):
    assert name not in Limits.model_fields
    with pytest.raises(UserError, match=f"--set {name}: {name} was removed"):
        settings.from_assignments([f"{name}=1"])
    older = PRESETS["evidence"].model_dump(mode="json") | {name: 1}
    assert Limits.model_validate(older) == PRESETS["evidence"]


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/contract.md", "docs/compare.md", "docs/measurement.md"])
def test_the_documents_and_the_code_agree_on_the_margin(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    told = re.findall(r"exceeds the margin \(([\d.]+) %\)|`--margin`, ([\d.]+) %", text)
    assert told
    assert {float(one or other) for one, other in told} == {100 * PRESETS["evidence"].margin}
