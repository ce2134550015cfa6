"""The prompts a planner sends: catalogued by content, rendered as the golden files show, strict about variables."""

import re
import tomllib
from hashlib import sha256
from pathlib import Path

import jinja2
import pytest

from ridgeline.prompts.render import SHIPPED, TEMPLATES, render
from tests.prompt_golden import FOLDER, prompts

ROOT = Path(__file__).parents[2]
CATALOG = tomllib.loads((ROOT / "prompts" / "catalog.toml").read_text(encoding="utf-8"))
RENDERED = prompts()


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_every_version_in_the_catalog_is_what_its_hash_says(name):
    for entry in CATALOG[name]["versions"]:
        kind = CATALOG[name].get("kind", "md")
        data = (TEMPLATES / f"{name}.v{entry['version']}.{kind}.j2").read_bytes()
        assert entry["sha256"] == sha256(data).hexdigest(), "a changed prompt is a new version, with a line of its own"
        assert entry["reason"].endswith(".")
    numbers = [entry["version"] for entry in CATALOG[name]["versions"]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_prompt_that_the_planner_renders_is_in_the_catalog():
    sources = "".join(path.read_text() for path in sorted((ROOT / "agent" / "planner").glob("*.py")))
    templates = "".join(path.read_text() for path in TEMPLATES.glob("*.md.j2"))
    named = set(re.findall(r'"(\w+\.v\d+\.(?:md|toml))"', sources + templates))
    newest = {
        f"{name}.v{table['versions'][-1]['version']}.{table.get('kind', 'md')}" for name, table in CATALOG.items()
    }
    assert named == newest, "older versions stay for the recorded campaigns that cite them"


@pytest.mark.parametrize("name", sorted(RENDERED))
def test_prompts_are_as_they_were(name):
    assert RENDERED[name] == (FOLDER / name).read_text(encoding="utf-8"), "python -m tests.prompt_golden, read the diff"


def test_every_golden_prompt_is_still_made():
    assert {path.name for path in FOLDER.glob("*.golden")} == set(RENDERED)


@pytest.mark.parametrize("name", ["propose.v3", "draft.v3", "repair.v3", "review.v3", "diagnose.v3", "reask.v2"])
def test_a_missing_variable_is_an_error(name):
    with pytest.raises(jinja2.UndefinedError):
        render(f"{name}.md")


def test_what_the_ledger_cites_names_version_and_content():
    assert re.fullmatch(r"propose\.v1\.md@[0-9a-f]{12}", SHIPPED.identity("propose.v1.md"))
    source, _, _ = SHIPPED.environment.loader.get_source(SHIPPED.environment, "propose.v1.md.j2")
    assert SHIPPED.identity("propose.v1.md").endswith(sha256(source.encode()).hexdigest()[:12])
