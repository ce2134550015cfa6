"""The tools of the MCP server, without a client: what they tell, what they refuse, and that every answer is bounded."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.progress import show_pair
from ridgeline.agent.errors import UserError
from ridgeline.agent.mcp import desk
from ridgeline.agent.mcp.desk import Desk, Roots
from ridgeline.agent.mcp.server import MOST_JOBS, Commands, Jobs, offers, outcome, wait_before
from ridgeline.agent.providers.base import Ask, Message
from ridgeline.agent.providers.mailbox import Mailbox
from ridgeline.graph.approval import ApprovalRequest
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests import builders

KEY = "round-2-change-0123456789ab"
NAME = "toy_c_cpu_20261121"


def make(root: Path, name: str = NAME) -> Path:
    """A campaign with a baseline and two rounds, in a repository at `root`."""
    (root / ".git").mkdir(parents=True, exist_ok=True)
    folder = root / "agent" / "workspace" / name
    folder.mkdir(parents=True)
    history = builders.make_history(builders.make_round(2), builders.make_round(3))
    ledger = JsonlLedger(folder / "ledger.jsonl")
    for body in (history.opened, history.roofline, history.baseline, *history.rounds):
        if body is not None:
            ledger.append(body)
    return folder


def ask_a_person(folder: Path, key: str = KEY, title: str = "unroll by four") -> None:
    request = ApprovalRequest(
        key=key, gate="change", round=2, campaign=folder.name, title=title, asked_at="2026-11-21T10:00:00+00:00"
    )
    ApprovalFiles(folder).decision(request)


def ask_the_mailbox(folder: Path, text: str = "What would be faster?") -> None:
    Mailbox(folder).post(Ask(purpose="round-4 propose 1", messages=(Message(role="user", text=text),)))


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "repository"


@pytest.fixture
def campaign(root) -> Path:
    return make(root)


@pytest.fixture
def jobs():
    all_jobs = Jobs()
    yield all_jobs
    all_jobs.close()


@pytest.fixture
def call(root, jobs):
    """`call("status", campaign=...)` -> what the tool told; an error is the text that the client gets."""

    def ask(tool: str, *, read_only: bool = False, **arguments):
        roots = Roots([root])
        said = outcome(offers(Desk(roots), Commands(roots, jobs), read_only=read_only), tool, arguments)
        text = said.content[0].text
        if said.is_error:
            assert "\n" not in text
            return text
        assert json.loads(text) == said.structured_content
        return said.structured_content

    return ask


def test_a_campaign_by_its_name_its_folder_and_below_an_allowed_folder(call, campaign, root):
    found = [call("status", campaign=str(name)) for name in (NAME, campaign, campaign.relative_to(root))]
    assert found[0] == found[1] == found[2]
    assert (found[0]["campaign"], found[0]["chain_ok"], found[0]["round"]) != ("", False, 0)
    assert found[0]["dir"] == str(campaign)


def test_the_list_of_campaigns_is_bounded_and_a_damaged_one_hides_no_other(call, campaign, root, monkeypatch):
    damaged = make(root, "damaged")
    (damaged / "mailbox").mkdir()
    (damaged / "mailbox" / "001.request.json").write_text("{")
    (damaged / "status.json").write_text('{"status": "waiting"}')
    found = call("status")
    assert {Path(one["dir"]).name for one in found["campaigns"]} == {NAME, "damaged"}
    assert ["not JSON any more" in one["problem"] for one in found["campaigns"] if one["dir"] == str(damaged)] == [True]
    monkeypatch.setattr(desk, "MOST", 1)
    found = call("status")
    assert (len(found["campaigns"]), found["left_out"]) == (1, 1)


def outside(tmp_path: Path, root: Path) -> list[str]:
    """Names of campaigns that are not in the allowed folder, and of things that are none."""
    elsewhere = make(tmp_path / "elsewhere", "secret_campaign")
    link = root / "agent" / "workspace" / "link"
    link.symlink_to(elsewhere)
    circle = root / "agent" / "workspace" / "circle"
    circle.symlink_to(circle)
    relative = os.path.relpath(elsewhere, root)
    return [
        str(elsewhere), relative, f"{root}/../elsewhere/agent/workspace/secret_campaign", "link", str(link),
        "agent/workspace/link", "circle", str(circle), "secret_campaign", "..", "/", ".", "agent", "agent/workspace",
        f"{NAME}/../../../../elsewhere", "~", "$HOME", "x" * 900, "a/" * 400, "file:///etc", "\N{SNOWMAN}", "\ud800",
    ]  # fmt: skip


@pytest.mark.parametrize("tool", ["status", "report", "queue", "parse_bench_csv", "approve", "answer"])
def test_no_campaign_outside_of_the_allowed_folders_is_ever_named(call, campaign, root, tmp_path, tool):
    needed = {
        "parse_bench_csv": {"text": "x"},
        "approve": {"key": KEY, "choice": "approve", "by": "Ada"},
        "answer": {"text": "x", "number": 1, "by": "Ada"},
    }
    for named in outside(tmp_path, root):
        said = call(tool, campaign=named, **needed.get(tool, {}))
        assert isinstance(said, str), named
        assert any(words in said for words in ("no campaign in the", "File name too long", "valid string")), (
            named,
            said,
        )
    assert "secret_campaign" not in json.dumps(call("status"))


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("nothing", {}, "nothing: no such tool; known: status, parse_bench_csv"),
        ("status", {"campaign": "a\x00b"}, "campaign: String should match"),
        ("status", {"campaign": "a\nb"}, "campaign: String should match"),
        ("status", {"campaign": "x" * 1_001}, "campaign: String should have at most"),
        ("status", {"campaign": ["x"]}, "campaign: Input should be a valid string"),
        ("status", {"folder": "x"}, "folder: Extra inputs are not permitted"),
        ("status", {"campaign": "nowhere"}, "nowhere: no campaign in the allowed folders"),
        ("report", {}, "campaign: Field required"),
        ("report", {"campaign": NAME, "offset": -1}, "offset: Input should be greater"),
        ("queue", {"campaign": NAME, "key": "other"}, "asks nothing called other"),
        ("approve", {"campaign": NAME, "choice": "approve", "by": "Ada"}, "key: Field required"),
        ("approve", {"campaign": NAME, "key": KEY, "choice": "edit", "by": "Ada"}, "choice: Input should be"),
        ("approve", {"campaign": NAME, "key": KEY, "choice": "approve", "by": ""}, "by: String should have"),
        ("approve", {"campaign": NAME, "key": KEY, "choice": "reject", "by": "A"}, "reason: needed to reject"),
        ("approve", {"campaign": NAME, "key": KEY, "choice": "defer", "by": "A", "reason": " "}, "reason: needed"),
        ("approve", {"campaign": NAME, "key": "../x", "choice": "approve", "by": "A"}, "asks nothing called ../x"),
        ("answer", {"campaign": NAME, "text": "x", "by": "Ada"}, "number: the open request is 1"),
        ("answer", {"campaign": NAME, "text": "x", "by": "Ada", "number": 2}, "number: the open request is 1"),
        ("answer", {"campaign": NAME, "text": "x", "number": 1}, "by: say who"),
        ("answer", {"campaign": NAME, "text": " \n", "number": 1, "by": "Ada"}, "text: is empty"),
        ("parse_bench_csv", {"campaign": NAME}, "give one of `file` and `text`"),
        ("parse_bench_csv", {"campaign": NAME, "file": "a", "text": "b"}, "give one of `file` and `text`"),
        ("parse_bench_csv", {"campaign": NAME, "text": "label\n"}, "schema_drift: header differs"),
        ("parse_bench_csv", {"campaign": NAME, "file": "../../../../../etc/passwd"}, "no such file"),
        ("parse_bench_csv", {"campaign": NAME, "file": "/etc/passwd"}, "no such file"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(call, campaign, tool, arguments, words):
    ask_a_person(campaign)
    ask_the_mailbox(campaign)
    before = {path: path.read_bytes() for path in campaign.rglob("*") if path.is_file()}
    said = call(tool, **arguments)
    assert isinstance(said, str)
    assert words in said
    assert {path: path.read_bytes() for path in campaign.rglob("*") if path.is_file()} == before


def csv_of(campaign: Path, *rows: str) -> str:
    from ridgeline.agent.campaign.folders import history

    return "\n".join([",".join(history(campaign).contract.benchmark_output.columns), *rows]) + "\n"


def test_a_benchmarks_csv_is_read_as_the_campaign_reads_it(call, campaign):
    from ridgeline.agent.campaign.folders import history

    columns = history(campaign).contract.benchmark_output.columns
    good = ",".join({"label": "small", "Check": "PASS"}.get(name, "2.0") for name in columns)
    found = call("parse_bench_csv", campaign=NAME, text=csv_of(campaign, good))
    assert [row["label"] for row in found["rows"]] == ["small"]
    assert (list(found["score"].values()), found["problem"]) == ([pytest.approx(2.0)], "")
    (campaign / "rounds").mkdir()
    (campaign / "rounds" / "bench.csv").write_text(csv_of(campaign, good.replace("PASS", "FAIL")))
    failed = call("parse_bench_csv", campaign=NAME, file="rounds/bench.csv")
    assert (failed["score"], failed["problem"]) == ({}, "no score: small did not pass")
    assert "not_a_number" in call("parse_bench_csv", campaign=NAME, text=csv_of(campaign, good.replace("2.0", "nan")))
    big = campaign / "rounds" / "big.csv"
    with big.open("wb") as file:
        file.truncate(5_000_000)
    assert "is larger than" in call("parse_bench_csv", campaign=NAME, file="rounds/big.csv")


def test_what_waits_its_evidence_and_a_decision(call, campaign):
    assert call("queue") == {"waiting": [], "left_out": 0, "decided": []}
    assert call("queue", campaign=NAME) == {"waiting": [], "decided": []}
    ask_a_person(campaign)
    (one,) = call("queue")["waiting"]
    assert (one["campaign"], one["key"], one["gate"], one["round"]) == (NAME, KEY, "change", 2)
    evidence = call("queue", campaign=NAME)
    assert evidence["key"] == KEY
    assert "unroll by four" in evidence["text"]
    assert evidence["next_offset"] is None
    deferred = call("approve", campaign=NAME, key=KEY, choice="defer", by="Ada", reason="after lunch")
    assert (deferred["choice"], deferred["next"]) == ("defer", "")
    assert call("queue")["waiting"][0]["deferred"]["reason"] == "after lunch"
    done = call("approve", campaign=NAME, key=KEY, choice="reject", by="Ada\u202e", reason="tried in June")
    assert done["next"] == "go on with the tool `resume`"
    kept = json.loads((campaign / "approvals" / f"{KEY}.decision.json").read_text())
    assert (kept["choice"], kept["by"], kept["reason"]) == ("reject", "Ada (mcp)", "tried in June")
    late = call("approve", campaign=NAME, key=KEY, choice="approve", by="Eve")
    assert "was decided already: reject by Ada (mcp)" in late
    (decided,) = call("queue")["decided"]
    assert (decided["key"], decided["choice"], decided["by"]) == (KEY, "reject", "Ada (mcp)")
    assert "go on with the tool `resume`" in decided["told"]
    assert call("status", campaign=NAME)["status"] == "decided"


def test_the_mailbox_is_read_in_parts_and_answered_once(call, campaign, monkeypatch):
    assert "has asked nothing" in call("answer", campaign=NAME)
    ask_the_mailbox(campaign, "line of the question\n" * 500)
    monkeypatch.setattr(desk, "PART", 3_000)
    first = call("answer", campaign=NAME)
    assert (first["number"], first["purpose"], len(first["text"])) == (1, "round-4 propose 1", 3_000)
    text, at = first["text"], first["next_offset"]
    while at is not None:
        part = call("answer", campaign=NAME, offset=at)
        text, at = text + part["text"], part["next_offset"]
    page = (campaign / "mailbox" / "001.request.md").read_text()
    assert "run `ridgeline answer CAMPAIGN FILE`" in page
    assert (
        "Write your answer as plain text, and nothing else, as `text` of the tool `answer`, with `number` and" in text
    )
    assert "ridgeline answer" not in text
    assert "line of the question\n" * 500 in text
    stored = call("answer", campaign=NAME, number=1, text="unroll it", by="an agent")
    assert (stored["stored"], stored["next"]) == (True, "go on with the tool `resume`")
    assert "request.json: not found" in stored["problem"], "what keeps it from going on is told, the answer is stored"
    kept = json.loads((campaign / "mailbox" / "001.answer.json").read_text())
    assert (kept["text"], kept["author"]) == ("unroll it", "an agent (mcp)")
    assert "is answered already" in call("answer", campaign=NAME, number=1, text="no", by="Eve")


def test_a_page_that_leads_out_of_the_campaign_is_not_read(call, campaign, tmp_path):
    ask_a_person(campaign)
    page = campaign / "approvals" / f"{KEY}.md"
    page.unlink()
    (tmp_path / "private").write_text("private words")
    page.symlink_to(tmp_path / "private")
    assert "no such file" in call("queue", campaign=NAME)


def test_the_report_comes_in_parts_and_without_keys(call, campaign, monkeypatch):
    whole = call("report", campaign=NAME)
    assert whole["next_offset"] is None
    monkeypatch.setattr(desk, "PART", 100)
    part = call("report", campaign=NAME)
    assert (len(part["text"]), part["next_offset"], part["characters"]) == (100, 100, whole["characters"])
    monkeypatch.setenv("SOME_API_KEY", whole["text"][95:105])
    cut = [call("report", campaign=NAME, offset=offset)["text"] for offset in (0, 100)]
    assert "[SOME_API_KEY]" in "".join(cut), "not even one that lies across two parts is given away"
    assert whole["text"][95:105] not in "".join(cut)


def test_who_may_only_read_cannot_write(call, campaign):
    ask_a_person(campaign)
    said = call("approve", read_only=True, campaign=NAME, key=KEY, choice="approve", by="Ada")
    assert said == "approve: no such tool; known: status, parse_bench_csv, queue, report, audit, knowledge, job"


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        Roots([tmp_path / "nowhere"])


def test_a_job_runs_until_it_is_ended_or_the_server_is(tmp_path):
    jobs = Jobs((sys.executable, "-IS", "-c", "import time; time.sleep(600)"), wait_s=0.0)
    about = {"campaign": "x"}
    said = jobs.start(["bench"], cwd=tmp_path, about=about)
    assert (said["state"], said["campaign"], said["job"]) == ("running", "x", "bench-1")
    ended = jobs.find("bench-1")
    ended.end()
    ended.process.wait(60)
    with pytest.raises(UserError, match="bench-1: ended with exit code -15 and no result"):
        ended.describe()
    for _ in range(MOST_JOBS):
        jobs.start(["bench"], cwd=tmp_path)
    with pytest.raises(UserError, match="jobs are running"):
        jobs.start(["bench"], cwd=tmp_path)
    with pytest.raises(UserError, match="started no such job; known: bench-1"):
        jobs.find("run-9")
    abandoned = jobs.find("bench-2")
    jobs.close()
    assert abandoned.process.wait(60) == -15


def test_a_job_is_waited_for_until_it_ends_or_the_seconds_are_over(root, campaign):
    jobs = Jobs((sys.executable, "-IS", "-c", "print(1)"), wait_s=0.0)
    by_name = offers(Desk(Roots([root])), Commands(Roots([root]), jobs), read_only=False)
    jobs.start(["audit"], cwd=root)
    wait_before(by_name, "job", {"job": "audit-1", "wait_s": 50})
    assert jobs.find("audit-1").describe()["state"] == "ended"
    wait_before(by_name, "job", {"job": "audit-9", "wait_s": 50})
    assert "started no such job" in outcome(by_name, "job", {"job": "audit-9", "wait_s": 50}).content[0].text
    assert "wait_s: Input should be less" in outcome(by_name, "job", {"job": "audit-1", "wait_s": 51}).content[0].text
    jobs.close()


def test_a_campaign_is_waited_for_while_it_runs(root, campaign):
    by_name = offers(Desk(Roots([root])), Commands(Roots([root]), Jobs()), read_only=True)
    asked = {"campaign": NAME, "wait_s": 50}
    with subprocess.Popen((sys.executable, "-IS", "-c", "input()"), stdin=subprocess.PIPE) as worker:
        (campaign / "status.json").write_text(json.dumps({"status": "running", "pid": worker.pid}))
        wait_before(by_name, "status", {**asked, "wait_s": 0.1})
        assert outcome(by_name, "status", asked).structured_content["status"] == "running"
        ending = threading.Timer(0.2, lambda: (worker.kill(), worker.wait()))
        ending.start()
        wait_before(by_name, "status", asked)
        ending.join()
    assert outcome(by_name, "status", asked).structured_content["status"] == "interrupted"


def test_a_campaign_outlives_the_server_and_a_long_result_comes_in_parts(tmp_path):
    long = "import sys, time; time.sleep(600 * ('run' in sys.argv)); print('[' + '1,' * 30000 + '1]')"
    jobs = Jobs((sys.executable, "-IS", "-c", long), wait_s=60.0)
    said = jobs.start(["audit"], cwd=tmp_path)
    assert (said["state"], said["exit_code"], said["next_offset"]) == ("ended", 0, desk.PART)
    rest = jobs.find("audit-1").describe(said["next_offset"])
    assert json.loads(said["text"] + rest["text"]) == [1] * 30001
    campaigns = Jobs((sys.executable, "-IS", "-c", long), wait_s=0.0)
    campaigns.start(["run"], cwd=tmp_path, ends_with_server=False)
    job = campaigns.find("run-1")
    campaigns.close()
    assert job.running
    job.end()
    assert job.process.wait(60) == -15


def test_a_contract_is_made_and_tried_by_tools(call, root, git):
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "src" / "twice.c").write_text("void twice(int *x, int n) { for (int i = 0; i < n; i++) x[i] *= 2; }\n")
    assert "the tool `init` writes one of a function (path, function)" in call("start", contract=".")
    made = wait_for(call, call("init", path="src/twice.c", function="twice", shapes=["n=4096"]))
    assert (made["exit_code"], made["result"]["timed"], made["result"]["problem"]) == (0, ["n4096"], "")
    assert made["result"]["contract"] == str(root / "ridgeline.yaml")
    again = call("init", path="src", function="twice")
    assert "exists already; edit it, or move it away first" in (
        again if isinstance(again, str) else wait_for(call, again)
    )
    checked = wait_for(call, call("check", contract=".", static=True))
    assert (checked["exit_code"], checked["result"]["ok"]) == (0, True)
    assert "path: /etc: no such file or folder in the allowed" in call("init", path="/etc", function="f")


def test_a_function_of_a_repository_outside_is_refused(call, root, git):
    git(root.parent, "init", "-q")
    root.mkdir()
    (root / "twice.c").write_text("void twice(int *x, int n) { x[n - 1] = 0; }\n")
    assert "path: its repository is not in the allowed folders" in call("init", path="twice.c", function="twice")


def test_which_pair_is_measured_stands_in_status_and_job(root, campaign):
    roots, silent = Roots([root]), Jobs((sys.executable, "-IS", "-c", "import time; time.sleep(600)"), wait_s=0.0)
    now = {"status": "running", "phase": "measure", "round": 4, "detail": "unroll", "pid": os.getpid(), "updated": 1.0}
    (campaign / "status.json").write_text(json.dumps(now))
    show_pair(campaign, "pair 3 of 15")
    tools = offers(Desk(roots), Commands(roots, silent), read_only=False)
    detail = outcome(tools, "status", {"campaign": NAME}).structured_content["detail"]
    assert detail.startswith("unroll (pair 3 of 15, since 20")
    job = silent.start(["run"], cwd=root, about={"dir": str(campaign)})["job"]
    said = outcome(tools, "job", {"job": job}).structured_content
    assert (said["now"]["phase"], said["now"]["round"], said["now"]["detail"]) == ("measure", 4, detail)
    silent.close()
    (campaign / "status.json").write_text(json.dumps({**now, "pid": os.getppid()}))
    show_pair(campaign, "pair 4 of 15")
    assert "pair" not in json.loads((campaign / "status.json").read_text()), "of another process: left as it is"


def wait_for(call, said):
    """The answer of a job once it has ended; an error as its line."""
    while not isinstance(said, str) and said["state"] == "running":
        said = call("job", job=said["job"])
    return said
