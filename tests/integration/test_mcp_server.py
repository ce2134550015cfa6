"""`ridgeline mcp` over real pipes, driven by the client of the package itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

import anyio
import mcp

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.graph.approval import ApprovalRequest
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests import builders, text_project

pytestmark = pytest.mark.slow
SECRET = "a-secret-of-the-environment"
READING = {"status", "parse_bench_csv", "queue", "report", "audit", "knowledge", "job"}
WRITING = {"approve", "answer", "init", "check", "start", "resume", "stop", "bench", "judge", "profile", "isa"}


@pytest.fixture
def campaign(make_repository) -> Path:
    folder = make_repository({"kernel.c": "int x;\n"}) / "agent" / "workspace" / "toy_c_cpu_20261121"
    folder.mkdir(parents=True)
    history = builders.make_history(builders.make_round(2))
    ledger = JsonlLedger(folder / "ledger.jsonl")
    for body in (history.opened, history.roofline, history.baseline, *history.rounds):
        if body is not None:
            ledger.append(body)
    request = ApprovalRequest(
        key="round-2-change-0123456789ab", gate="change", round=2, campaign=folder.name, title=f"unroll {SECRET}",
        asked_at="2026-11-21T10:00:00+00:00",
    )  # fmt: skip
    ApprovalFiles(folder).decision(request)
    return folder


def session(folder: Path, *options: str, calls=()):
    """Names of the tools, and what each call gave."""
    argv = ["-m", "ridgeline", "mcp", *options]
    server = mcp.StdioServerParameters(
        command=sys.executable, args=argv, cwd=folder, env={"PYTHONPATH": str(Path.cwd()), "MY_TOKEN": SECRET}
    )

    async def talk():
        with anyio.fail_after(120):
            async with mcp.Client(server) as client:
                tools = (await client.list_tools()).tools
                return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(talk)


def test_an_agent_looks_decides_and_is_told_its_mistakes(campaign):
    name, key = campaign.name, "round-2-change-0123456789ab"
    decision = {"campaign": name, "key": key, "choice": "approve", "by": "Ada"}
    calls = [
        ("status", {}),
        ("status", {"campaign": name}),
        ("queue", {"campaign": str(campaign)}),
        ("report", {"campaign": name}),
        ("approve", {**decision, "key": "another"}),
        ("approve", decision),
        ("approve", decision),
        ("status", {"campaign": "../../../.."}),
        ("answer", {"campaign": name}),
        ("nothing", {}),
    ]
    tools, said = session(campaign.parents[2], calls=calls)
    assert {tool.name for tool in tools} == READING | WRITING
    assert {tool.name for tool in tools if not tool.annotations.read_only_hint} == WRITING
    for tool in tools:
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
    assert [one.is_error for one in said] == [False, False, False, False, True, False, True, True, True, True]
    assert said[0].structured_content["campaigns"][0]["campaign"] == said[1].structured_content["campaign"]
    assert "unroll [MY_TOKEN]" in said[2].structured_content["text"]
    assert said[3].structured_content["text"].startswith("#")
    for one in said:
        assert SECRET not in one.content[0].text
        assert one.is_error is False or "\n" not in one.content[0].text
    assert ApprovalFiles(campaign).waiting() == ()


def test_read_only_in_a_folder_that_is_allowed(campaign, tmp_path):
    tools, said = session(
        tmp_path, "--read-only", str(campaign.parents[2]), calls=[("queue", {}), ("approve", {"campaign": "x"})]
    )
    assert {tool.name for tool in tools} == READING
    assert [one.is_error for one in said] == [False, True]
    assert len(ApprovalFiles(campaign).waiting()) == 1


def test_a_campaign_from_its_start_to_its_report(make_repository):
    """Started, asked, stopped, resumed and reported by tools alone; nothing outside of the folder can be named."""
    project = make_repository(text_project.files())
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "ridgeline", "mcp"], cwd=project,
        env={"PYTHONPATH": str(Path.cwd()), "RIDGELINE_CACHE": os.environ["RIDGELINE_CACHE"], "RIDGELINE_QUIET_S": "0"},
    )  # fmt: skip

    async def talk():
        with anyio.fail_after(500):
            async with mcp.Client(server) as client:

                async def ended(said):
                    while not said.is_error and said.structured_content["state"] == "running":
                        await anyio.sleep(0.2)
                        said = await client.call_tool("job", {"job": said.structured_content["job"]})
                    return said

                async def call(name, **arguments):
                    return await ended(await client.call_tool(name, arguments))

                asked = await call("start", contract=".", max_rounds=1)
                campaign = asked.structured_content["dir"]
                request = await client.call_tool("answer", {"campaign": campaign})
                stop = await call("stop", campaign=campaign)
                concluded = await call("resume", campaign=campaign)
                report = await client.call_tool("report", {"campaign": campaign})
                audit = await call("audit", path="kernel.txt")
                facts = await call("knowledge", product="H100 SXM", metric="hbm_bandwidth")
                refused = [await client.call_tool(name, arguments) for name, arguments in NOT_ALLOWED]
                return asked, request, stop, concluded, report, audit, facts, refused

    asked, request, stop, concluded, report, audit, facts, refused = anyio.run(talk)
    assert (asked.structured_content["exit_code"], asked.structured_content["result"]["status"]) == (3, "waiting")
    assert "round-2 propose 1" in request.structured_content["purpose"]
    assert stop.structured_content["result"]["stop_requested"] is True
    assert concluded.structured_content["result"]["status"] == "concluded"
    assert report.structured_content["text"].startswith("#")
    assert audit.structured_content["result"]["findings"] == []
    assert "hbm_bandwidth" in str(facts.structured_content["result"])
    for said, (name, arguments) in zip(refused, NOT_ALLOWED, strict=True):
        assert said.is_error, (name, arguments)
        assert "\n" not in said.content[0].text
        assert len(said.content[0].text) < 400


NOT_ALLOWED = [
    ("start", {"contract": "/etc"}),
    ("start", {"contract": ".", "model": "openai/x"}),
    ("start", {"contract": ".", "base_url": "http://elsewhere"}),
    ("start", {"contract": ".", "max_rounds": 0}),
    ("start", {"contract": "kernel.txt"}),
    ("init", {"path": "../x.c", "function": "f"}),
    ("init", {"path": ".", "function": "--task=x"}),
    ("init", {"path": ".", "function": "f", "shapes": ["--task=x"]}),
    ("check", {"contract": "/etc"}),
    ("resume", {"campaign": "../.."}),
    ("bench", {"a": "cmd:touch /tmp/x", "b": "HEAD"}),
    ("bench", {"a": "--raw=/tmp/x", "b": "HEAD"}),
    ("bench", {"a": "/etc", "b": "/usr", "kind": "folder"}),
    ("judge", {"task": "../task.yaml"}),
    ("judge", {"task": "kernel.txt", "without": ["seccomp"]}),
    ("audit", {"path": "/etc/passwd"}),
    ("profile", {}),
    ("profile", {"paths": ["../x"]}),
    ("isa", {"file": "kernel.txt", "target": "--html=/tmp/x"}),
    ("knowledge", {"query": "--wiki=/"}),
    ("job", {"job": "run-77"}),
]


def test_noise_on_the_pipe_and_its_end(campaign):
    """What is no message is answered or left out, never run; the server leaves when its input ends."""
    lines = b"{\n[]\nnull\n\xff\xfe\n" + b'{"jsonrpc":"2.0","id":1,"method":"../../etc"}\n' + b"x" * 200_000 + b"\n"
    done = subprocess.run(
        (sys.executable, "-m", "ridgeline", "mcp", str(campaign.parents[2])),
        input=lines, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    assert all(line.startswith(b"{") for line in done.stdout.splitlines())


def test_a_folder_that_is_none_is_one_line(cli, tmp_path):
    done = cli("mcp", tmp_path / "nowhere")
    assert done.code == 2
    assert done.complaint.endswith("no such folder; give a repository or a folder of campaigns")
