"""Damaged files of a campaign: every command says the same line and the mend, and `fsck --repair` mends what it can."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ridgeline.agent.campaign.state_files import find_best_commit, list_artifacts, read_history
from ridgeline.agent.cli.application import run
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.graph.approval import Steering
from ridgeline.sandbox.store.campaign_folder import Wishes
from tests.drive_cli import scripted
from tests.text_project import files

LINES = 5
"""Of the open campaign's ledger: opened, roofline, baseline, calibration, round 2."""


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """A repository whose campaign has concluded after three rounds, to be copied."""
    root = tmp_path_factory.mktemp("campaigns") / "kernels"
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "harness.py").chmod(0o755)
    identity = ("-c", "user.name=S", "-c", "user.email=s@localhost")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *words], cwd=root, check=True)
    scripted()
    words = (
        "--planner",
        "scripted",
        "--max-rounds",
        "2",
        "--set",
        "target_peak_fraction=none",
        "--set",
        "max_restarts=0",
    )
    assert run(["run", str(root), *words]) == 0
    return root


@pytest.fixture
def campaign(campaigns, tmp_path):
    """A copy of it, as it stood when its second round had closed."""
    shutil.copytree(campaigns, tmp_path / "kernels", symlinks=True)
    campaign = next((tmp_path / "kernels" / "agent" / "workspace").iterdir())
    lines = (campaign / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (campaign / "ledger.jsonl").write_bytes(b"".join(lines[:LINES]))
    (campaign / "final_report.md").unlink()
    (campaign / "checkpoints.sqlite").unlink()
    for number in (3, 4):
        shutil.rmtree(campaign / "rounds" / f"round-{number}", ignore_errors=True)
    return campaign


def whole_ledger(campaigns: Path) -> bytes:
    return next((campaigns / "agent" / "workspace").glob("*/ledger.jsonl")).read_bytes()


def tell(capsys, *words: object) -> tuple[int, str]:
    """Exit code of a command, and its last line of complaint."""
    capsys.readouterr()
    code = run([str(word) for word in words])
    complaints = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ridgeline: ")]
    assert len(complaints) <= 1, complaints
    return code, complaints[-1].removeprefix("ridgeline: ") if complaints else ""


def blob(campaign: Path, name: str) -> Path:
    """Where an artifact of that name lies."""
    return next(
        campaign / path for path, artifact in list_artifacts(read_history(campaign)).items() if artifact.name == name
    )


def replace_line(path: Path, number: int, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[: number - 1], line + b"\n", *lines[number:]]))


def turn_into(path: Path, *, folder: bool) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.mkdir() if folder else path.write_text("x")


def best(campaign: Path) -> str:
    """The commit of the best version."""
    return find_best_commit(read_history(campaign))


def unlink_object(campaign: Path, name: str) -> None:
    """Remove one of the objects of the campaign's repository."""
    objects = campaign / "mirror.git" / "objects"
    (objects / name[:2] / name[2:]).unlink()


def list_switches(campaign: Path) -> dict[str, bool]:
    """What the campaign's request says of how it runs."""
    request = json.loads((campaign / "request.json").read_bytes())["request"]
    return {name: value for name, value in request.items() if isinstance(value, bool)}


DAMAGES = {
    "an empty ledger": (lambda c: (c / "ledger.jsonl").write_bytes(b""), "ledger.jsonl: is empty, but"),
    "not a number": (lambda c: replace_line(c / "ledger.jsonl", 4, b'{"x":NaN}'), "line 4: holds NaN"),
    "an empty base": (lambda c: (c / "base.json").write_bytes(b""), "base.json: is empty"),
    "garbage for a request": (lambda c: (c / "request.json").write_bytes(b"\xff{"), "request.json: byte 1 is no text"),
    "no request": (lambda c: (c / "request.json").unlink(), "request.json: is missing"),
    "a changed source": (lambda c: blob(c, "kernel.txt").write_bytes(b"x"), "kernel.txt was changed"),
    "a lost change": (lambda c: blob(c, "candidate.diff").unlink(), "candidate.diff is missing"),
    "a repository without the best version": (lambda c: unlink_object(c, best(c)), "mirror.git: has no commit"),
    "rounds are a file": (lambda c: turn_into(c / "rounds", folder=False), "rounds: is a file"),
    "the lock is a folder": (lambda c: turn_into(c / "running.lock", folder=True), "running.lock: is a folder"),
    "an answer that is none": (
        lambda c: replace_line(c / "tape.jsonl", 3, b'{"schema":1,"key":"k","port":"clock","method":"now","answer":NaN}'),
        "tape.jsonl: line 3: holds NaN",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_commands_agree_on_damage_and_a_repair_loses_nothing(campaigns, campaign, name, capsys):
    damage, said = DAMAGES[name]
    damage(campaign)
    answers = {
        words[0]: tell(capsys, *words) for words in (("status", campaign), ("report", campaign), ("resume", campaign))
    }
    assert {code for code, _ in answers.values()} == {2}, answers
    assert len({problem for _, problem in answers.values()}) == 1, answers
    problem = answers["status"][1]
    assert said in problem
    assert f"`ridgeline fsck {campaign.name} --repair`" in problem
    assert tell(capsys, "fsck", campaign)[0] == 2
    assert tell(capsys, "fsck", campaign, "--repair") == (0, "")
    assert tell(capsys, "status", campaign) == (0, "")
    switches = {"counts_work": True, "steerable": True, "stamps_edits": True, "drafts_first": True}
    assert list_switches(campaign) == switches
    assert tell(capsys, "resume", campaign)[0] == 0
    assert (campaign / "ledger.jsonl").read_bytes() == whole_ledger(campaigns)


def test_a_blob_that_nothing_else_holds_stays_damaged_and_is_named(campaign, capsys):
    place = blob(campaign, "quick-baseline-0.csv")
    place.write_bytes(b"x")
    code, problem = tell(capsys, "status", campaign)
    assert (code, "quick-baseline-0.csv was changed; restore it from a copy" in problem) == (2, True)
    assert tell(capsys, "fsck", campaign, "--repair")[0] == 2
    assert tell(capsys, "resume", campaign) == (2, problem)


def test_a_branch_that_a_person_moved_is_named_with_the_commands_that_keep_both(campaign, capsys):
    repository = campaign.parents[2]
    branch = f"optimize/{campaign.name}"
    identity = ("-c", "user.name=S", "-c", "user.email=s@localhost")
    for words in (
        ("switch", "-q", branch),
        (*identity, "commit", "-q", "--allow-empty", "-m", "x"),
        ("switch", "-q", "main"),
    ):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)
    tip = subprocess.run(
        ["git", "rev-parse", branch], cwd=repository, capture_output=True, text=True, check=True
    ).stdout[:12]
    answers = [tell(capsys, *words) for words in (("status", campaign), ("resume", campaign))]
    assert answers[0] == answers[1]
    assert answers[0][0] == 2
    assert f"points at {tip}" in answers[0][1]
    assert f"git branch mine {tip}" in answers[0][1]


def test_a_torn_last_line_is_told_before_it_is_cut_and_what_is_cut_is_kept(campaign, capsys):
    with (campaign / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"seq":9,')
    whole = (campaign / "ledger.jsonl").read_bytes()
    assert run(["fsck", str(campaign)]) == 2
    assert "ledger.jsonl: its last line is torn" in capsys.readouterr().out
    assert (campaign / "ledger.jsonl").read_bytes() == whole
    assert run(["fsck", str(campaign), "--repair", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["whole"], checked["ledger_lines"]) == (True, LINES)
    assert any("torn last line is cut off" in line for line in checked["repaired"])
    assert (campaign / "ledger.jsonl.torn").read_bytes() == b'{"seq":9,\n'


def test_a_ledger_that_was_cut_at_a_line_is_no_whole_chain_and_is_written_again(campaigns, campaign, capsys):
    assert tell(capsys, "resume", campaign)[0] == 0
    lines = (campaign / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    said = {
        len(lines) - 1: "has no end, and the campaign was concluded",
        5: "ends with round 2, and round 3 was closed",
    }
    for line_count, words in said.items():
        (campaign / "ledger.jsonl").write_bytes(b"".join(lines[:line_count]))
        capsys.readouterr()
        assert run(["status", str(campaign), "--json"]) == 2
        shown = json.loads(capsys.readouterr().out)
        assert (shown["chain_ok"], words in shown["problem"]) == (False, True), shown["problem"]
        page = ["--html", campaign / "page.html"]
        for line in (["status"], ["report"], ["report", "--json"], ["report", *page], ["watch"], ["rejudge"]):
            code, problem = tell(capsys, line[0], campaign, *line[1:])
            assert (code, words in problem, "--repair`" in problem) == (2, True, True), (line, code, problem)
        (campaign / "page.html").unlink()
        catalogue = Catalogue([campaign])
        assert words in catalogue.row(next(iter(catalogue.find_campaigns()))).problem
        assert tell(capsys, "fsck", campaign)[0] == 2
        assert tell(capsys, "fsck", campaign, "--repair") == (0, "")
        assert (campaign / "ledger.jsonl").read_bytes() == whole_ledger(campaigns)


@pytest.mark.parametrize(("at_work", "code"), [(True, 0), (False, 2)])
def test_a_line_that_is_being_written_is_no_damage_and_a_torn_one_is(campaign, capsys, at_work, code):
    (campaign / "ledger.jsonl").write_bytes((campaign / "ledger.jsonl").read_bytes() + b'{"seq":9,')
    process = os.getpid() if at_work else 2**22 + 1  # no system has so many
    (campaign / "status.json").write_text(
        json.dumps({"status": "running", "phase": "time", "round": 3, "pid": process})
    )
    for words in (["status"], ["status", "--json"], ["report"], ["report", "--json"]):
        answer, problem = tell(capsys, words[0], campaign, *words[1:])
        assert (answer, "its last line is torn; `ridgeline fsck" in problem) == (code, not at_work), (words, problem)


def test_a_campaign_that_writes_lost_lines_again_is_healthy(campaign, capsys):
    lines = (campaign / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (campaign / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))
    assert tell(capsys, "status", campaign)[0] == 2
    (campaign / "status.json").write_text(
        json.dumps({"status": "running", "phase": "time", "round": 2, "pid": os.getpid()})
    )
    assert tell(capsys, "status", campaign) == (0, "")
    assert tell(capsys, "report", campaign) == (0, "")


def test_a_repository_that_is_broken_is_made_again_and_blames_no_branch(campaigns, campaign, capsys):
    (campaign / "mirror.git" / "HEAD").unlink()
    assert run(["fsck", str(campaign)]) == 2
    assert "mirror.git: has no commit" in capsys.readouterr().out
    assert tell(capsys, "status", campaign) == (0, "")
    assert tell(capsys, "resume", campaign)[0] == 0
    assert (campaign / "ledger.jsonl").read_bytes() == whole_ledger(campaigns)


@pytest.mark.parametrize(
    "written", [b"[3]", b'{"masks": [1]}', b'{"stops": {"a": 1}}', b'{"masks": {"x": true}}', b"\xff"]
)
def test_wishes_of_another_kind_are_none(campaign, written):
    (campaign / "steering.json").write_bytes(written)
    assert Wishes(campaign).read() == Steering()


def test_views_are_written_again_and_a_whole_campaign_is_left_alone(campaign, capsys):
    (campaign / "performance.md").write_text("edited")
    (campaign / "status.json").write_bytes(b"\xff")
    assert run(["fsck", str(campaign), "--repair"]) == 0
    assert "# Performance" in (campaign / "performance.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in campaign.rglob("*") if path.is_file()}
    assert tell(capsys, "fsck", campaign, "--repair") == (0, "")
    assert {path: path.stat().st_mtime_ns for path in campaign.rglob("*") if path.is_file()} == before


def test_a_campaign_killed_before_its_status_was_written_goes_on(campaigns, campaign, capsys):
    request = (campaign / "request.json").read_bytes()
    shutil.rmtree(campaign)
    subprocess.run(["git", "branch", "-q", "-D", f"optimize/{campaign.name}"], cwd=campaign.parents[2], check=True)
    campaign.mkdir()
    (campaign / "request.json").write_bytes(request)
    assert run(["status", str(campaign)]) == 0
    code, problem = tell(capsys, "run", campaign.parents[2], "--planner", "scripted", "--dir", campaign)
    assert (code, "holds a campaign already; `ridgeline resume` it" in problem) == (2, True)
    assert tell(capsys, "resume", campaign)[0] == 0
    assert (campaign / "final_report.md").exists()
