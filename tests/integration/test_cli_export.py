"""`ridgeline export-recording`: a campaign that really ran, without the names it was full of, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.text_project import files

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "evals" / "campaigns" / "matmul_c_mailbox"


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_recording_exported_again_is_the_same(cli, tmp_path):
    done = cli("export-recording", KEPT, tmp_path / KEPT.name, "--json")
    assert done.code == 0, done.err
    for name in ("ledger.jsonl", "tape.jsonl", "workspace.jsonl", "model_tape.jsonl", "request.json"):
        assert (tmp_path / KEPT.name / name).read_bytes() == (KEPT / name).read_bytes(), name


def test_a_recording_of_a_judged_task_becomes_a_row_by_one_command(cli, tmp_path):
    judged = Path(shutil.copytree(KEPT, tmp_path / "judged"))
    shutil.copytree(ROOT / "evals/tasks/matmul_c", judged / "task")
    times = {
        "device": "NVIDIA H100 80GB HBM3",
        "types": "fp32",
        "shapes": [{"label": "sq48", "times_us": {"start": 64.0, "eager": 5.0, "compile": 4.0, "ours": 3.2}}],
        "speedup": {"start": 20.0, "eager": 1.5, "compile": 1.25},
        "lower": {"start": 19.0, "eager": 1.4, "compile": 1.2},
        "notes": ["max_autotune is not measured: no time was left after 0 process pairs"],
    }
    (tmp_path / "times.json").write_text(json.dumps(times))
    folders = ("--campaigns", tmp_path / "campaigns", "--rivals", tmp_path / "rivals")
    out = tmp_path / "campaigns/matmul_x"
    done = cli(
        "export-recording", judged, out, "--times", tmp_path / "times.json", *folders[2:], "--note", "stopped early"
    )
    assert done.code == 0, done.err
    assert (out / "task/task.yaml").read_bytes() == (judged / "task/task.yaml").read_bytes()
    assert cli("replay", out).code == 0
    (row,) = cli("results", *folders, "--json").json["rows"]
    assert (row["name"], row["types"], row["lower"]) == ("matmul_x", "fp32", times["lower"])
    assert row["shapes"][0]["times_us"] == times["shapes"][0]["times_us"]
    assert row["shapes"][0]["floor_us"] == pytest.approx(2.242, rel=0.001), "of the recording's own roofline"
    assert row["notes"][:2] == [*times["notes"], "stopped early"]
    assert row["command"] == f"ridgeline demo --task {out}/task --model recorded:{out}"
    page = cli("results", *folders).out
    assert "1.25x, at least 1.20x (compile; max-autotune not timed)" in page


def test_times_that_are_none_are_refused_before_anything_is_written(cli, tmp_path):
    (tmp_path / "times.json").write_text('{"shapes": [{"label": "a", "times_us": {"ours": -1}}]}')
    done = cli("export-recording", KEPT, tmp_path / "out", "--times", tmp_path / "times.json")
    assert done.code == 2
    assert "times.json: shapes.0.times_us.ours: " in done.err
    done = cli("export-recording", KEPT, tmp_path / "out", "--times", tmp_path / "nowhere.json")
    assert "nowhere.json: No such file or directory; give a file" in done.err
    assert not (tmp_path / "out").exists()


def test_any_word_can_be_taken_out_and_the_whole_chain_is_written_anew(cli, tmp_path):
    assert b"EPYC" in everything(KEPT)
    done = cli("export-recording", KEPT, tmp_path / "hidden", "--hide", "EPYC", "--licence", "CC0-1.0", "--json")
    assert done.code == 0, done.err
    assert b"EPYC" not in everything(tmp_path / "hidden")
    card = done.json["card"]
    assert card["licence"] == "CC0-1.0"
    assert dict(card["scrubbed"])["word"] > 0
    assert done.json["bytes"] < 3_000_000
    assert cli("replay", tmp_path / "hidden").code == 0
    theirs, ours = ((folder / "ledger.jsonl").read_bytes() for folder in (KEPT, tmp_path / "hidden"))
    assert theirs != ours


def test_a_folder_that_exists_is_left_alone(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    done = cli("export-recording", KEPT, tmp_path / "mine")
    assert done.code == 2
    assert "exists already" in done.err
    assert not list((tmp_path / "mine").iterdir())


def test_a_key_in_a_question_is_named_with_its_line_and_nothing_is_left(cli, tmp_path):
    copy = Path(shutil.copytree(KEPT, tmp_path / "spoilt"))
    lines = (copy / "model_tape.jsonl").read_text().splitlines(True)
    part = json.loads(lines[2])
    part["text"] += " sk-proj-0123456789abcdef"
    lines[2] = json.dumps(part) + "\n"
    (copy / "model_tape.jsonl").write_text("".join(lines))
    done = cli("export-recording", copy, tmp_path / "out")
    assert done.code == 2
    assert "model_tape.jsonl: line 3: holds a provider's key" in done.err
    assert "0123456789abcdef" not in done.err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A finished campaign of real processes, in a folder that names a person; its kernel is told a path and a name."""
    root = tmp_path_factory.mktemp("home-of-mira") / "kernels"
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.replace("MISMATCH: the", f"MISMATCH in {root}: the"))
    (root / "harness.py").chmod(0o755)
    (root / "task.yaml").write_text(f"# of {root}\nname: text\n")  # as a judged task has; nobody reads it here
    identity = ["-c", "user.name=Mira", "-c", "user.email=mira@corp.example"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    argv = [sys.executable, "-m", "tests.drive", "start", str(root)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (campaign,) = (root / "agent" / "workspace").iterdir()
    return campaign


@pytest.mark.slow
def test_a_campaign_with_repairs_and_rollbacks_is_exported_from_its_own_mirror(cli, ran, tmp_path, monkeypatch):
    before = everything(ran)
    assert str(ran.parents[2]).encode() in (ran / "ledger.jsonl").read_bytes()
    monkeypatch.chdir(ran.parents[2])
    done = cli("export-recording", ran.name, tmp_path / "text", "--json")
    assert done.code == 0, done.err
    assert everything(ran) == before, "the campaign is only read"
    made = everything(tmp_path / "text")
    for word in (str(ran.parents[2]).encode(), b"home-of-mira", b"corp.example"):
        assert word not in made, word
    task = tmp_path / "text/task"
    assert (task / "task.yaml").read_text() == "# of /kernels/text\nname: text\n"
    assert (task / "ridgeline.yaml").is_file()
    card = done.json["card"]
    assert card["concluded"] is True
    assert 0 <= card["kept"] < card["rounds"]
    played = cli("replay", tmp_path / "text", "--json")
    assert played.code == 0
    assert played.json["unused"] == 0
    assert cli("rejudge", tmp_path / "text", "--rule", "evidence").code == 0


@pytest.mark.slow
def test_a_campaign_without_its_mirror_is_refused(cli, ran, tmp_path):
    part = Path(shutil.copytree(ran, tmp_path / "part", ignore=shutil.ignore_patterns("mirror.git", "trees")))
    done = cli("export-recording", part, tmp_path / "out")
    assert done.code == 2
    assert "mirror.git: not found" in done.err
