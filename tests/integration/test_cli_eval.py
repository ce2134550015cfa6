"""`ridgeline eval`, as a person uses it: pages out, answers in, a comparison, scores that were written down."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.evals.decisions.contest import gather_points, prompt, situations, try_answer
from ridgeline.evals.decisions.points import decisions

ROOT = Path(__file__).parents[2]
CAMPAIGNS = ROOT / "evals" / "campaigns"
ONE = CAMPAIGNS / "matmul_c_mailbox"
ANSWER = next(one.answer for one in decisions(ONE) if one.kind == "propose" and one.attempt == 1)


def test_pages_are_written_answered_and_compared(cli, tmp_path):
    folder = tmp_path / "answers"
    words = ("eval", ONE, "--prompts", "v3", "careless", "--answers", folder, "--model", "mailbox", "--as", "a person")
    waits = cli(*words)
    assert waits.code == 3
    assert waits.err.count("waits for an answer") == 2
    pages = sorted(folder.glob("requests/*/*.request.md"))
    assert [page.parent.name for page in pages] == ["careless", "v3"]
    bare = json.loads(ANSWER)
    bare["directions"] = [{k: v for k, v in one.items() if k != "citations"} for one in bare["directions"]]
    for page, text in zip(pages, (json.dumps(bare), ANSWER), strict=True):
        page.with_name(page.name.replace(".request.", ".answer.")).write_text(text)
    html = tmp_path / "report.html"
    done = cli(*words, "--html", html, "--json")
    assert done.code == 0, done.err
    told = done.json
    assert [one["model"] for one in told["contestants"]] == ["a person"] * 2
    assert told["contestants"][1]["kinds"]["propose"]["usable"] == 0
    assert told["comparisons"][0]["verdict"] == "no difference shown", "one point shows nothing"
    assert "careless by a person" in html.read_text()
    shutil.rmtree(folder / "requests")
    assert cli("eval", ONE, "--prompts", "v3", "careless", "--answers", folder).code == 0, "answers are kept"


@pytest.mark.parametrize(
    ("words", "said_"),
    [
        (("--prompts", "v3", "nonsense"), "--prompts: 'nonsense'"),
        (("--prompts", "v3", "v2", "--kind", "dream"), "--kind: 'dream'"),
        (("--scores", "none.json"), "none.json: not found"),
        (("--prompts", "v3", "v2", "--answers", "nowhere"), "nowhere: holds no answers"),
    ],
)
def test_what_cannot_be_done_is_one_line(cli, tmp_path, monkeypatch, words, said_):
    monkeypatch.chdir(tmp_path)
    done = cli("eval", ONE, *words)
    assert done.code == 2
    assert said_ in done.err
    assert done.err.count("\n") == 1


def test_scores_are_written_down_and_a_lower_one_is_shown(cli, tmp_path):
    file, nobody = tmp_path / "scores.json", ("--answers", tmp_path / "none")
    assert cli("eval", ONE, "--scores", file, "--write", *nobody).code == 0
    assert cli("eval", ONE, "--scores", file, *nobody).code == 0
    kept = json.loads(file.read_text())
    kept["scores"][0]["scores"]["one_change"] = 1.5
    kept["asked_now"][1] = "propose.v9.md@000000000000"
    file.write_text(json.dumps(kept))
    found = cli("eval", ONE, "--scores", file, *nobody)
    assert found.code == 1
    assert "LOWER: as recorded, propose, one_change: 1.500 -> " in found.out
    assert "other words, not answered yet: propose.v9.md@" in found.out


@pytest.mark.slow
def test_drafted_edits_are_built_and_tested_here():
    asked = gather_points([ONE], [prompt("v3")], ("draft",))[0]
    recorded = next(one.answer for one in decisions(ONE) if one.kind == "draft" and one.attempt == 1)
    good = try_answer(asked.decision, recorded, asked.situation.checks)
    assert (good.compiles, good.correct) == (True, True), good.detail
    path, text = next((path, text) for path, text in asked.decision.sources if path == "kernel.c")
    line = next(line for line in text.splitlines() if "+=" in line)
    for replaced, outcome in ((line.replace("+=", "-="), (True, False)), ("no C at all", (False, False))):
        edit = f"A change.\n\nEDIT {path}\n<<<<<<< SEARCH\n{line}\n=======\n{replaced}\n>>>>>>> REPLACE\n"
        found = try_answer(asked.decision, edit, asked.situation.checks)
        assert (found.compiles, found.correct) == outcome, found.detail
    assert try_answer(asked.decision, "nothing", asked.situation.checks).compiles is None


@pytest.mark.slow
def test_edits_for_a_card_are_compiled_ahead_of_time_and_not_tested():
    point = next(one for one in decisions(CAMPAIGNS / "gemm_gelu_h100") if one.kind == "draft")
    asked = situations(CAMPAIGNS / "gemm_gelu_h100", [prompt("v3")])
    checks = next(one.checks for one in asked if one.point.kind == "draft")
    found = try_answer(point, point.answer, checks)
    assert found.correct is None
    if importlib.util.find_spec("triton") is None:
        assert (found.compiles, "no Triton" in found.detail) == (None, True)
        return
    assert found.compiles, found.detail
    line = next(line for line in dict(checks.texts)["kernel.py"].splitlines() if "tl.dot" in line)
    edit = (
        f"A.\n\nEDIT kernel.py\n<<<<<<< SEARCH\n{line}\n=======\n{line.replace('tl.dot', 'tl.dott')}\n>>>>>>> REPLACE\n"
    )
    broken = try_answer(point, edit, checks)
    assert broken.compiles is False, broken.detail


@pytest.mark.slow
def test_a_model_is_asked_through_inspect(tmp_path):
    """Its runner, its log, our client: what fails has no answer, and nothing is paid for twice."""
    pytest.importorskip("inspect_ai")
    environment = {**os.environ, "INSPECT_CACHE_DIR": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path)}
    argv = (sys.executable, "-m", "tests.inspect_run", str(tmp_path / "logs"))
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["given"] == told["again"] == told["points"] - 1
    assert told["answers"] == [[True, 11, 0.5, "fake/one"]]
    assert len(told["failed"]) == 1
    assert "layernorm_c_mailbox-r004-propose: " in told["failed"][0]
    assert "503" in told["failed"][0]
    assert told["questions right"]
    assert {"usable", "parses", "cites", "hit_at_1"} <= set(told["scores"])
    assert told["asked"] == [told["points"], 1], "only what failed is asked again"
