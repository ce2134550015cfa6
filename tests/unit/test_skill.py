"""The skill for coding agents: every command in it exists and parses, and it lies where agents look."""

import re
import shlex
from importlib.resources import files

import pytest
import typer
import yaml

from ridgeline.agent.cli.application import application
from ridgeline.agent.cli.skill import PLACES

TEXT = (files("ridgeline.agent") / "skills" / "ridgeline" / "SKILL.md").read_text()
FENCED = [line for block in re.findall(r"^```\n(.*?)^```", TEXT, re.M | re.S) for line in block.splitlines()]
INLINE = re.findall(r"`(ridgeline [^`]+)`", TEXT)


def parse(words):
    """As the command line would, without doing anything. Raises typer's error for what does not parse."""
    command = typer.main.get_command(application())
    context = command.make_context("ridgeline", list(words), resilient_parsing=True)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
        leaf = not hasattr(command, "commands")
        context = command.make_context(name, list(words), parent=context, resilient_parsing=not leaf)
    return context.params


def test_front_matter_is_what_agents_read():
    _, front, _ = TEXT.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == "ridgeline", "the folder's name, lower case"
    assert 100 < len(fields["description"]) <= 1024
    assert len(TEXT.split()) < 900, "few words: an agent reads all of it"


@pytest.mark.parametrize("line", dict.fromkeys([*FENCED, *INLINE]))
def test_every_command_exists_and_parses(line):
    program, *words = shlex.split(line)
    assert program == "ridgeline"
    assert parse(words) is not None


def test_a_command_that_does_not_exist_would_be_seen():
    with pytest.raises(KeyError):
        parse(["judge", "candidates", "task.yaml"])
    with pytest.raises(typer.TyperException):
        parse(["run", ".", "--modell", "mailbox"])
    with pytest.raises(typer.TyperException):
        parse(["run", ".", "--max-rounds", "many"])


def test_it_is_printed_and_installed_where_agents_look(cli, tmp_path):
    assert cli("skill").out == cli("skill", "--print").out == TEXT
    done = cli("skill", "install", "--to", tmp_path, "--json")
    paths = [tmp_path / place / "ridgeline" / "SKILL.md" for place in PLACES]
    assert done.json == {"installed": [str(path) for path in paths]}
    assert [path.read_text() for path in paths] == [TEXT, TEXT]
    paths[0].write_text(TEXT.replace("Ridgeline measures", "an older one"))
    assert cli("skill", "install", "--to", tmp_path).code == 0
    assert paths[0].read_text() == TEXT


def test_nothing_of_somebody_else_is_overwritten(cli, tmp_path):
    path = tmp_path / PLACES[1] / "ridgeline" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: other\n---\nmine")
    refused = cli("skill", "install", "--to", tmp_path)
    assert (refused.code, "is not a skill of Ridgeline" in refused.complaint) == (2, True)
    assert not (tmp_path / PLACES[0]).exists()
    assert "no such folder" in cli("skill", "install", "--to", tmp_path / "nowhere").complaint
