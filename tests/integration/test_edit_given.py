"""A person's edit is built by a real compiler and tested when it is given; a real campaign measures it and asks again."""

import json
import re
import threading
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.folders import history
from ridgeline.graph.briefing import Briefing, Draft, Proposal
from ridgeline.graph.trial import find_proposal
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.devices.lease import lease
from tests.repositories import git
from tests.repositories import make_repository as made
from tests.text_project import HARNESS, files
from tests.world import ScriptedPlanner

pytestmark = pytest.mark.slow
BROKEN = "int speed(void) { return nowhere; } /* speed 150 */\n"
WRONG = "int speed(void) { return 150; } /* speed 150, wrong */\n"
BETTER = "int speed(void) { return 150; } /* speed 150 */\n"
WORSE = "int speed(void) { return 80; } /* speed 80 */\n"
MEASURED = r"measured \+(?:19|20)\.\d% \(at least"
LIMITS = ("looks=1,2,3,4,5,6", "calibration_pairs=2", "blocks=2", "final_pairs=3", "approval_hours=0")


class OneIdea(ScriptedPlanner):
    """Proposes a kernel that is a fifth faster."""

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        text = "int speed(void) { return 120; } /* speed 120 */\n"
        return Draft(edits=(FileEdit(path="kernel.c", text=text),), explanation="it is faster")


@pytest.fixture
def campaign(cli, tmp_path, monkeypatch) -> Path:
    """One that asks about its measured change: `int speed(void)` of a real C file, built with gcc."""
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: OneIdea("any"))
    project = dict(files())
    del project["kernel.txt"]
    contract = yaml.safe_load(project["ridgeline.yaml"])
    contract["kernel_source"] = ["kernel.c"]
    contract["rebuild"] = {"required": True, "command": "gcc -c kernel.c -o kernel.o"}
    contract["scoring"]["engine"] = "event"  # its times are made up: how busy this machine is says nothing of them
    project |= {
        "ridgeline.yaml": yaml.safe_dump(contract),
        "kernel.c": "int speed(void) { return 100; } /* speed 100 */\n",
        "harness.py": HARNESS.replace("kernel.txt", "kernel.c"),
        ".gitignore": "kernel.o\n",
    }
    repository = made(tmp_path / "kernels", project)
    (repository / "harness.py").chmod(0o755)
    git(repository, "commit", "-qam", "runs")
    words = [word for limit in LIMITS for word in ("--set", limit)]
    asked = cli("run", repository, "--planner", "scripted", "--approve", "change", "--max-rounds", "1", *words)
    assert asked.code == 3, asked.err
    (kept,) = (repository / "agent" / "workspace").glob("*/request.json")
    return kept.parent


def give(cli, campaign: Path, folder: Path, text: str, **more: object):
    """The answer of `ridgeline approve --edit` for that text of the kernel."""
    folder.mkdir(exist_ok=True)
    (folder / "kernel.c").write_text(text)
    return cli("approve", campaign, "--edit", folder / "kernel.c", "--by", "Ada", "--reason", "wider", **more)


def open_keys(cli, campaign: Path) -> list[str]:
    return [one["request"]["key"] for one in cli("queue", campaign, "--json").json["waiting"]]


def test_an_edit_that_does_not_build_or_is_wrong_is_refused_and_the_question_stays_open(cli, campaign, tmp_path):
    (key,) = open_keys(cli, campaign)
    broken = give(cli, campaign, tmp_path / "edit", BROKEN)
    assert broken.code == 2
    assert "--edit: the build failed: kernel.c:1:" in broken.err
    assert "error: 'nowhere' undeclared" in broken.err.replace("\u2018", "'").replace("\u2019", "'")
    assert "the question stays open" in broken.err
    wrong = give(cli, campaign, tmp_path / "edit", WRONG)
    assert wrong.code == 2
    assert "--edit: its results are wrong" in wrong.err
    assert "MISMATCH: the kernel says so" in wrong.err
    assert open_keys(cli, campaign) == [key]
    assert cli("approve", campaign, "--yes", "--resume").code == 0
    (kept,) = history(campaign).rounds
    assert (kept.accepted, kept.judged.verdict.reason) == (True, "faster"), "a typo cost nothing"


def test_an_edit_is_built_once_measured_asked_about_again_and_kept_beside_the_original(cli, campaign, tmp_path):
    assert give(cli, campaign, tmp_path / "edit", BETTER).code == 0
    tape = (campaign / "tape.jsonl").read_text()
    tested = tape.count("round-3")
    assert tested, "the test of the edit is on the campaign's tape"
    assert cli("resume", campaign).code == 3, "the person is asked again"
    (one,) = cli("queue", campaign, "--json").json["waiting"]
    assert [(option["round"], option["author"]) for option in one["request"]["options"]] == [(2, ""), (3, "Ada")]
    page = Path(one["page"]).read_text()
    assert "## Side by side" in page
    assert "## Change of round 2, the planner's own" in page
    assert "## Change of round 3, edited by Ada" in page
    undecided = cli("approve", campaign, "--yes")
    assert undecided.code == 2
    assert "several changes were measured; choose --round 2 or --round 3" in undecided.err
    assert "7: may not be kept" in cli("approve", campaign, "--yes", "--round", "7").err
    assert cli("approve", campaign, "--yes", "--round", "3", "--by", "Ada", "--resume").code == 0
    lines = (campaign / "tape.jsonl").read_text().splitlines()
    assert sum('"port":"checker","method":"check"' in line and "round-3" in line for line in lines) == 1
    model, person = history(campaign).rounds
    assert (model.judged.verdict.reason, person.accepted, person.author) == ("replaced", True, "Ada")
    repository = campaign.parents[2]
    log = git(repository, "log", "--format=%s", f"main..optimize/{campaign.name}")
    assert "round-3: Ada's edit of round 2 (wider)" in log
    report = cli("report", campaign).out
    assert re.search(MEASURED, report)
    assert "replaced by an edit of Ada (round 3)" in report
    memory = json.loads((campaign / "memory" / "v1.json").read_text())
    assert memory["optimization"]["performance_validated"] == "YES"
    assert memory["pitfalls_and_fixes"] == []
    assert "Ineffective direction" not in (campaign / "logs" / "optimize.md").read_text()
    (tips,) = (campaign.parents[1] / "historical_experience").rglob("*.md")
    assert re.search(MEASURED, tips.read_text())
    assert "did not help" not in tips.read_text()
    assert cli("export-recording", campaign, tmp_path / "recording").code == 0
    replayed = cli("replay", tmp_path / "recording")
    assert replayed.code == 0, replayed.err


def test_of_a_slower_edit_the_measured_original_is_what_can_be_approved(cli, campaign, tmp_path):
    assert give(cli, campaign, tmp_path / "edit", WORSE).code == 0
    assert cli("resume", campaign).code == 3
    assert cli("approve", campaign, "--yes", "--resume").code == 0
    model, person = history(campaign).rounds
    assert (model.accepted, person.accepted) == (True, False)
    for name in ("memory/v2.json", "logs/optimize.md", "final_report.md", "rounds/round-3/summary.md"):
        text = (campaign / name).read_text()
        assert "Ada's edit of round 2 (wider) did not help" in text
        assert f"{find_proposal(model.judged).hypothesis.change} did not help" not in text, "what it edits did"


def test_an_edit_waits_for_the_process_that_works_on_the_campaign(cli, campaign, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.campaign.decisions.PATIENCE_S", 0.2)
    with lease("running", wait_s=0, folder=campaign):
        refused = give(cli, campaign, tmp_path / "edit", BETTER)
    assert refused.code == 4
    assert "holds the lease" in refused.err
    assert len(open_keys(cli, campaign)) == 1


def test_whoever_approves_while_an_edit_is_built_comes_first(cli, campaign, tmp_path, monkeypatch):
    from ridgeline.agent.campaign import decisions
    from ridgeline.agent.campaign.decisions import Answer, find_question, store_decision

    real, began, go = decisions.try_edit, threading.Event(), threading.Event()

    def slow(*about: object) -> None:
        real(*about)
        began.set()
        go.wait(30)

    def approve() -> None:
        began.wait(30)
        store_decision(campaign, find_question(campaign, None), Answer(yes=True, by="Bela"))
        go.set()

    monkeypatch.setattr(decisions, "try_edit", slow)
    other = threading.Thread(target=approve)
    other.start()
    late = give(cli, campaign, tmp_path / "edit", BETTER)
    other.join()
    assert late.code == 2
    assert "was decided already: approve by Bela" in late.err
    assert "edit by Ada" in late.err


def test_a_typo_in_a_phones_text_field_is_told_on_the_page_and_costs_nothing(cli, campaign):
    pytest.importorskip("fastapi")
    from urllib.parse import urlencode

    from ridgeline.agent.web.catalogue import Catalogue
    from ridgeline.agent.web.gatekeeper import Access
    from ridgeline.agent.web.server import application
    from tests.web_calls import TOKEN, call

    web = application((campaign,), Access(token=TOKEN))
    (name,) = Catalogue((campaign,)).find_campaigns()
    (key,) = open_keys(cli, campaign)
    headers = (
        ("host", "127.0.0.1:8765"),
        ("origin", "http://127.0.0.1:8765"),
        ("content-type", "application/x-www-form-urlencoded"),
    )

    def post(question: str, **form: str):
        body = [urlencode({"by": "Ada", **form}).encode()]
        return call(web, f"/queue/{name}/{question}", method="POST", headers=headers, body=body)

    typo = post(key, action="edit", **{"file-0": BROKEN})
    assert typo.status == 400
    assert "the build failed: kernel.c:1:" in typo.text
    assert open_keys(cli, campaign) == [key]
    assert post(key, action="edit", **{"file-0": BETTER}).status == 303
    assert cli("resume", campaign).code == 3
    (again,) = open_keys(cli, campaign)
    page = call(web, f"/queue/{name}/{again}").text
    assert "Approve round 2, the planner&#39;s own" in page
    assert "Approve round 3, edited by Ada" in page
    assert "+int speed(void) { return 120; }" in page
    assert "+int speed(void) { return 150; }" in page
    assert post(again, action="approve").status == 400, "which of them?"
    assert post(again, action="approve", round="2").status == 303
    assert cli("resume", campaign).code == 0
    assert [closed.accepted for closed in history(campaign).rounds] == [True, False]
