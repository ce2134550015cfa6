import os
import shutil
from pathlib import Path

import pytest

from ridgeline.graph.errors import NoSuchBase
from ridgeline.sandbox.workspace.checkouts import Trees
from tests.repositories import applied, fingerprint, git, make_repository, workspace


class Campaign:
    """A workspace with a base and four candidates."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "agent/workspace/c1"
        self.workspace = workspace(root)
        self.base = self.workspace.open("optimize/c1").commit
        self.candidates = [self.candidate(number) for number in range(4)]
        self.trees = Trees(self.workspace)

    def candidate(self, number: int) -> str:
        return applied(self.workspace, self.base, f"int tile = {number};\n", number + 2).commit


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    return Campaign(make_repository(tmp_path / "kernels"))


def test_best_and_candidate_stand_side_by_side(campaign):
    trees, (one, two, three, _) = campaign.trees, campaign.candidates
    best, first = trees.pair(campaign.base, one)
    assert best != first
    trees.mark_built(campaign.base)
    for commit, number in ((two, 1), (three, 2)):
        again, other = trees.pair(campaign.base, commit)
        assert again == best
        assert (best / "kernel.c").read_text() == "int tile = 8;\n"
        assert (other / "kernel.c").read_text() == f"int tile = {number};\n"
        assert trees.built(campaign.base)
        assert not trees.built(commit)
    assert trees.pair(three, three) == (other, other)


def test_a_slot_is_clean_when_it_is_used_again(campaign):
    trees, (one, two, three, four) = campaign.trees, campaign.candidates
    place = trees.at(one)
    (place / "build").mkdir()
    (place / "build/kernel.o").write_text("of the other commit")
    (place / ".gitignore").write_text("build\n")
    (place / "nested").mkdir()
    (place / "nested/.git").mkdir()
    trees.mark_built(one)
    trees.at(two)
    trees.at(three)
    assert trees.at(four) == place
    assert sorted(path.name for path in place.iterdir()) == ["bench.c", "kernel.c", "kernel.flags", "tests"]
    assert not trees.built(four)
    assert not trees.built(one)


def test_a_version_that_was_accepted_needs_no_second_build(campaign):
    trees, workspace = campaign.trees, campaign.workspace
    candidate = campaign.candidates[0]
    place = trees.at(candidate)
    trees.mark_built(candidate)
    tree = workspace.repository().tree(candidate)
    accepted = workspace.accept(parent=campaign.base, tree=tree, message="round-2", at="2026-11-21T10:00:00+00:00")
    assert accepted != candidate
    assert trees.at(accepted) == place
    assert trees.built(accepted)


def test_what_is_built_survives_a_restart(campaign):
    campaign.trees.at(campaign.base)
    campaign.trees.mark_built(campaign.base)
    assert Trees(campaign.workspace).built(campaign.base)


def test_an_unknown_commit_costs_no_slot(campaign):
    campaign.trees.pair(campaign.base, campaign.candidates[0])
    with pytest.raises(NoSuchBase):
        campaign.trees.at("0123456789" * 4)
    campaign.trees.mark_built(campaign.base)
    assert campaign.trees.built(campaign.base)


@pytest.mark.parametrize("damage", ["no .git", "link", "no slot", "bad stamp", "lock", "foreign .git"])
@pytest.mark.slow
def test_a_damaged_slot_is_made_again_and_nothing_else_is_touched(campaign, damage, tmp_path):
    before = fingerprint(campaign.root)
    campaign.trees.at(campaign.base)
    slot = campaign.folder / "trees/a"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep")
    if damage == "no .git":
        (slot / ".git").unlink()
    elif damage == "link":
        shutil.rmtree(slot)
        slot.symlink_to(outside)
    elif damage == "no slot":
        shutil.rmtree(slot)
    elif damage == "bad stamp":
        (slot.parent / "a.stamp").write_text("{")
    elif damage == "lock":
        (campaign.folder / "mirror.git/worktrees/a/index.lock").write_text("")
    else:
        (slot / ".git").write_text(f"gitdir: {campaign.root}/.git\n")
    for commit in (*campaign.candidates, campaign.base):
        assert (campaign.trees.at(commit) / "kernel.c").is_file()
    assert git(slot, "rev-parse", "--absolute-git-dir") == str(campaign.folder / "mirror.git/worktrees/a")
    assert (outside / "precious").read_text() == "keep"
    assert fingerprint(campaign.root) == before


def overwrite(place: Path) -> str:
    stat = (place / "bench.c").stat()
    (place / "bench.c").write_text("THE BENCHMARK\n")
    os.utime(place / "bench.c", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return "bench.c"


def delete(place: Path) -> str:
    (place / "tests/check.c").unlink()
    return "tests/check.c"


def link(place: Path) -> str:
    (place / "bench.c").rename(place / "elsewhere")
    (place / "bench.c").symlink_to("elsewhere")
    return "bench.c"


def link_folder(place: Path) -> str:
    (place / "tests").rename(place / "moved")
    (place / "tests").symlink_to("moved")
    return "tests/check.c"


def folder(place: Path) -> str:
    (place / "bench.c").unlink()
    (place / "bench.c").mkdir()
    (place / "bench.c/x").write_text("x")
    return "bench.c"


def executable(place: Path) -> str:
    (place / "bench.c").chmod(0o755)
    return "bench.c"


@pytest.mark.feature("F099")
@pytest.mark.parametrize("tamper", [overwrite, delete, link, link_folder, folder, executable])
def test_changed_evaluation_files_are_named_and_put_back(campaign, tamper):
    place = campaign.trees.at(campaign.candidates[0])
    assert campaign.trees.restore(campaign.candidates[0]) == ()
    path = tamper(place)
    assert campaign.trees.restore(campaign.candidates[0]) == (path,)
    assert campaign.trees.restore(campaign.candidates[0]) == ()
    assert (place / "bench.c").read_text() == "the benchmark\n"
    assert (place / "tests/check.c").read_text() == "the check\n"
    assert not (place / "tests").is_symlink()


def test_editable_files_and_build_outputs_are_not_evaluation_files(campaign):
    place = campaign.trees.at(campaign.base)
    (place / "kernel.c").write_text("changed\n")
    (place / "kernel.o").write_text("built\n")
    assert campaign.trees.restore(campaign.base) == ()
    assert (place / "kernel.o").exists()
