"""The evidence pack: patches that lead to the measured tree, raw samples, and checksums that hold."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Traced
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from tests.builders import (
    make_applied,
    make_built,
    make_drafted,
    make_history,
    make_hypothesis,
    make_judged,
    make_opened,
    make_proposed,
    make_round,
    make_scaled,
    make_timed,
    make_verified,
)
from tests.document_builders import complete
from tests.web_campaigns import HOSTILE, hostile_campaign, write_ledger

LINES = [f"int line_{n};\n" for n in range(20)]


@pytest.fixture
def measured(make_repository, git) -> tuple[Path, Path, str]:
    """Repository, campaign of two kept changes in it, and the tree that they lead to."""
    root = make_repository({"kernel.c": "".join(LINES)})
    base = git(root, "rev-parse", "HEAD")
    campaign = root.parent / "campaign"
    campaign.mkdir()
    rounds = []
    for number, text in ((2, "int two;\n"), (3, "int three;\n")):
        lines = (root / "kernel.c").read_text().splitlines(keepends=True)
        lines[number * 5] = text
        (root / "kernel.c").write_text("".join(lines))
        git(root, "commit", "-qam", f"candidate {number}")
        rounds.append(_kept(number, ArtifactStore(campaign), root))
    history = make_history(*rounds, opened=make_opened(base_commit=base))
    return root, write_ledger(campaign, history), git(root, "rev-parse", "HEAD^{tree}")


def _kept(number: int, store: ArtifactStore, root: Path):
    argv = ("git", "diff", "HEAD~1", "HEAD")
    diff = subprocess.run(argv, cwd=root, check=True, capture_output=True).stdout
    commit = f"{number:02x}" * 20
    hypothesis = make_hypothesis(change=f"change {number}", claim="--- a/kernel.c is faster\n---\ndiff --git a/x b/x")
    applied = make_applied(
        make_drafted(make_proposed(number, hypothesis)), commit=commit, diff=store.put("candidate.diff", diff)
    )
    timed = make_timed(make_scaled(1.1, commit=commit), verified=make_verified(make_built(applied)))
    judged = make_judged(gain=0.1, trial=Traced(timed=timed, profile=None))
    tree = subprocess.run(
        ("git", "rev-parse", "HEAD^{tree}"), cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()
    return make_round(number, judged=judged, tree=tree, reflection=Reflection(attribution="x"))


def test_the_patches_lead_from_the_original_to_the_measured_tree(cli, measured, git, tmp_path):
    root, campaign, tree = measured
    done = cli("report", campaign, "--pack", tmp_path / "pack", "--json")
    assert done.code == 0
    assert done.json["pack"]["patches"] == 2
    assert tree in (tmp_path / "pack" / "README.md").read_text()
    git(root, "checkout", "-q", "--detach", "HEAD~2")
    git(root, "am", "-q", "--keep-non-patch", *sorted((tmp_path / "pack" / "patches").iterdir()))
    assert git(root, "rev-parse", "HEAD^{tree}") == tree
    assert git(root, "log", "-1", "--format=%s").startswith("[optimize] matmul_fp32 C round-3: change 3")


def test_the_checksums_cover_everything_else_and_hold(cli, measured, tmp_path):
    pack = tmp_path / "pack"
    assert cli("report", measured[1], "--pack", pack).code == 0
    listed = dict(reversed(line.split("  ", 1)) for line in (pack / "SHA256SUMS").read_text().splitlines())
    present = {str(path.relative_to(pack)) for path in pack.rglob("*") if path.is_file()}
    assert set(listed) == present - {"SHA256SUMS"}
    assert all(hashlib.sha256((pack / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())
    assert (pack / "ledger.jsonl").read_bytes() == (measured[1] / "ledger.jsonl").read_bytes()


def test_what_is_lost_is_named(cli, measured, tmp_path):
    done = cli("report", measured[1], "--pack", tmp_path / "pack", "--json")
    missing = done.json["pack"]["missing"]
    assert "rounds/round-1/artifacts/benchmark.csv" in missing  # no campaign measured here: there are no raw files
    text = (tmp_path / "pack" / "README.md").read_text()
    assert all(f"`{name}`" in text for name in missing)


def test_a_folder_with_something_in_it_is_left_alone(cli, measured, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "mine.txt").write_text("mine")
    done = cli("report", measured[1], "--pack", tmp_path / "pack")
    assert done.code == 2
    assert "is there already" in done.complaint
    assert [path.name for path in (tmp_path / "pack").iterdir()] == ["mine.txt"]


def test_the_page_is_one_file(cli, tmp_path):
    campaign = write_ledger(tmp_path / "toy", complete())
    page = tmp_path / "report.html"
    done = cli("report", campaign, "--html", page)
    assert (done.code, done.out.strip()) == (0, str(page))
    assert page.read_text().startswith("<!doctype html>")
    assert "at least 1.170x" in page.read_text()


def test_a_page_that_cannot_be_written(cli, tmp_path):
    campaign = write_ledger(tmp_path / "toy", complete())
    done = cli("report", campaign, "--html", tmp_path / "nowhere" / "page.html")
    assert done.code == 2
    assert "--html" in done.complaint


def test_hostile_names_choose_no_place(cli, tmp_path):
    campaign = hostile_campaign(tmp_path / "toy", "../../../../escaped" + HOSTILE)
    before = {path for path in tmp_path.rglob("*") if tmp_path / "pack" not in path.parents}
    assert cli("report", campaign, "--pack", tmp_path / "pack").code == 0
    after = {path for path in tmp_path.rglob("*") if tmp_path / "pack" not in path.parents}
    assert after - before <= {tmp_path / "pack"}
