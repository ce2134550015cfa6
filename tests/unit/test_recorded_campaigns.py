"""Every campaign kept in `evals/campaigns` is whole, cites prompts that are still here, and gives nobody away."""

import json
import re
from pathlib import Path

import pytest

from ridgeline.prompts.render import SHIPPED, TEMPLATES
from ridgeline.sandbox.store.ledger import JsonlLedger, verify

FOLDER = Path(__file__).parents[2] / "evals" / "campaigns"
CAMPAIGNS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
MOST_BYTES = 3_000_000


def test_the_kept_campaigns_are_those_that_the_readme_lists():
    first = (FOLDER / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    listed = re.findall(r"^\| (\w+) \|", first, re.MULTILINE)
    assert sorted(name for name in listed if name != "folder") == CAMPAIGNS


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_its_ledger_is_the_one_that_was_written(name):
    found = verify(FOLDER / name / "ledger.jsonl")
    assert found.ok, found.problem
    assert found.lines >= 4
    stored = {path.name for path in (FOLDER / name / "artifacts").glob("*/*")}
    text = (FOLDER / name / "ledger.jsonl").read_text(encoding="utf-8")
    cited = set(re.findall(r'"sha256":"([0-9a-f]{64})","size"', text)) | {
        sha for sha, _ in re.findall(r'"name":"[^"]+","sha256":"([0-9a-f]{64})","(size)"', text)
    }
    assert cited
    assert cited <= stored
    assert JsonlLedger(FOLDER / name / "ledger.jsonl").lines()


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_prompt_that_it_cites_is_still_here(name):
    text = (FOLDER / name / "ledger.jsonl").read_text(encoding="utf-8")
    cited = set(re.findall(r'"(\w+\.v\d+\.(?:md|toml))@([0-9a-f]{12})"', text))
    assert bool(cited) == ('"kind":"round"' in text), "one that ended with its baseline asked nothing"
    for prompt, digest in cited:
        assert (TEMPLATES / f"{prompt}.j2").is_file(), prompt
        assert SHIPPED.identity(prompt).endswith(f"@{digest}"), prompt


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_it_is_small_and_names_no_folder_of_the_machine(name):
    files = [path for path in (FOLDER / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        said = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(?<![\w.])/(?:root|home|tmp|work)/\w", said), path
    begun = json.loads((FOLDER / name / "request.json").read_text(encoding="utf-8"))
    assert begun["repository"] == f"/kernels/{name}"
