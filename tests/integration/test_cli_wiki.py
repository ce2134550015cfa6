"""A campaign with a wiki: its model reads it, its numbers are checked against it, and a wiki that is gone is said."""

import shutil
from pathlib import Path

import pytest

from tests.knowledge_base import TRITON, write_base
from tests.text_project import files

QUICK = ("--max-rounds", "1", "--set", "looks=1", "--set", "calibration_pairs=2", "--set", "blocks=2")
NOTES = TRITON.replace("[triton]", "[c]").replace("Bank conflicts in Triton", "The speed of a text kernel")


@pytest.fixture
def wiki(tmp_path):
    write_base(tmp_path / "house", **{"backends/c/notes.md": NOTES})
    return tmp_path / "house"


@pytest.mark.slow
def test_a_model_reads_the_wiki_and_the_campaign_is_checked_against_it(cli, make_repository, wiki, tmp_path):
    project = make_repository(files())
    asked = cli("run", project, *QUICK, "--model", "mailbox", "--wiki", wiki, "--json")
    assert asked.code == 3, asked.err
    question = Path(asked.json["request"]).read_text(encoding="utf-8")
    assert "house/backends/c/notes.md:" in question
    campaign = Path(asked.json["dir"])
    readme = campaign / "README.md"
    line = "- bf16_dense: 1000 TFLOPS <- house/hardware/roadrunner-80.md:L15\n"
    readme.write_text(readme.read_text(encoding="utf-8") + f"\n{line}", encoding="utf-8")
    checked = cli("knowledge", "check", campaign)
    assert checked.code == 0, checked.out
    shutil.rmtree(wiki)
    gone = cli("knowledge", "check", campaign)
    assert gone.code == 2
    assert f"{campaign.name}: knowledge.wiki: {wiki}: no such folder" in gone.err
    again = cli("resume", campaign)
    assert again.code == 2
    assert again.err.strip().splitlines()[-1].startswith(f"ridgeline: knowledge.wiki: {wiki}: no such folder")


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_wiki_that_cannot_be_read_is_one_line(cli, make_repository, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    done = cli("run", make_repository(files()), "--wiki", tmp_path / folder)
    assert done.code == 2
    assert done.err.startswith(f"ridgeline: --wiki: {tmp_path / folder}: ")
    assert done.err.count("\n") == 1
