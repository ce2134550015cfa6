"""`ridgeline bisect` on a repository with an injected regression."""

import time

import pytest

from tests.repositories import git, make_repository
from tests.text_project import files


def commit(root, text, message):
    (root / "kernel.txt").write_text(text)
    git(root, "commit", "-qam", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    root = make_repository(tmp_path / "repo", dict(files()))
    (root / "harness.py").chmod(0o755)
    git(root, "commit", "-qam", "executable")
    return root


@pytest.mark.feature("F119")
def test_the_injected_commit_is_found_and_nothing_of_the_repository_changes(cli, repository):
    good = git(repository, "rev-parse", "HEAD")
    commit(repository, "speed 101\n", "a little")
    culprit = commit(repository, "speed 60\n", "slower")
    commit(repository, "no speed at all\n", "broken")
    commit(repository, "speed 61\n", "later")
    before = git(repository, "for-each-ref"), git(repository, "status", "--porcelain")
    said = cli("bisect", repository, good, "--json")
    assert said.code == 0, said.err
    assert said.json["first_bad"] == culprit
    assert said.json["subject"] == "slower"
    assert said.json["suspects"] == [culprit]
    assert said.json["threshold"] == pytest.approx(200 + 0.3 * (122 - 200))
    assert said.json["shown"] is True
    assert said.json["sentence"].startswith("B is slower than A by ")
    assert {len(tried["values"]) for tried in said.json["tried"]} <= {0, 3, 5}
    assert (git(repository, "for-each-ref"), git(repository, "status", "--porcelain")) == before


def test_a_commit_that_a_machine_growing_slower_accuses_is_not_shown(cli, repository):
    harness = (repository / "harness.py").read_text()
    drift = f"    now = speed('.') * 0.9 ** (time.time() - {time.time()})\n"
    harness = harness.replace("    now = speed('.')\n".replace("'", '"'), drift).replace(
        "random, re", "random, re, time"
    )
    (repository / "harness.py").write_text(harness)
    git(repository, "commit", "-qam", "a machine that grows slower")
    good = git(repository, "rev-parse", "HEAD")
    for number in range(3):
        commit(repository, f"speed 100\n# {number}\n", f"comment {number}")
    said = cli("bisect", repository, good)
    assert said.code == 6, said.out + said.err
    assert said.out.startswith("not shown: ")
    assert "side by side with the commit before (A) it (B): " in said.out


@pytest.mark.feature("F119")
@pytest.mark.parametrize(
    ("texts", "words", "complaint"),
    [
        (["speed 100.5\n"], ["HEAD~1"], "is no worse than GOOD's"),
        (["speed 90\n"], ["HEAD", "HEAD~1"], "does not lie before"),
        (["speed 90\n"], ["nowhere"], "git knows no such commit"),
        (["gone\n", "gone 2\n", "gone 3\n", "speed 90\n"], ["HEAD~4"], "do not build or run"),
    ],
)
def test_what_cannot_be_bisected_is_said_in_a_line(cli, repository, texts, words, complaint):
    for number, text in enumerate(texts):
        commit(repository, text, f"commit {number}")
    said = cli("bisect", repository, *words)
    assert said.code == 2
    assert complaint in said.complaint
