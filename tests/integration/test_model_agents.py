"""Coding agents as models, against stand-in commands that print what the real ones are documented to print."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.agents import COMMANDS, AgentModel
from ridgeline.agent.providers.base import Ask, BudgetSpent, KeyMissing, Message, Unanswerable, Unreachable, WorkPlace
from ridgeline.agent.providers.budget import forecast, open_model
from ridgeline.agent.providers.choice import Choice, Price, choose
from ridgeline.graph.values import Cost
from tests.builders_campaign import make_limits

STAND_IN = """#!{python} -IS
import json, os, sys, time
place = {place!r}
text = sys.stdin.read()
heard = dict(argv=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), files=os.listdir("."), text=text)
with open(place + "/heard.jsonl", "a") as log:
    log.write(json.dumps(heard) + "\\n")
script = json.load(open(place + "/script.json"))
for mark, said in script["answers"]:
    if mark in text:
        break
time.sleep(script["sleep_s"])
sys.stdout.write(said)
sys.stderr.write(script["err"])
sys.exit(script["code"])
"""
QUESTION = Ask(
    purpose="round-2 propose 1",
    messages=(Message(role="system", text="Rules."), Message(role="user", text="Which edit?")),
    answer_schema='{"type":"object"}',
)
KEY = "sk-ant-very-secret-0123456789"


def lines(*events):
    return "".join(json.dumps(event) + "\n" for event in events)


def claude(text="42", **fields):
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 6}
    result = {
        "type": "result", "subtype": "success", "is_error": False, "duration_ms": 1998, "num_turns": 1, "result": text,
        "stop_reason": "end_turn", "session_id": "0e639165", "total_cost_usd": 0.25, "usage": usage,
        "modelUsage": {"claude-opus-4-5": {}}, "permission_denials": [],
    }  # fmt: skip
    return json.dumps({**result, **fields})


def codex(*more, text="42"):
    usage = {"input_tokens": 900, "cached_input_tokens": 500, "output_tokens": 9}
    return lines(
        {"type": "thread.started", "thread_id": "1"},
        {"type": "turn.started"},
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": "**Thinking**"}},
        *more,
        {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": usage},
    )


def gemini(text="42", calls=0):
    tools = {"totalCalls": calls, "byName": {"read_file": {"count": calls, "success": calls}} if calls else {}}
    tokens = {"input": 5, "prompt": 700, "candidates": 9, "total": 720, "cached": 0, "thoughts": 11, "tool": 0}
    stats = {"models": {"gemini-3-pro": {"api": {}, "tokens": tokens}}, "tools": tools, "files": {}}
    return "Loaded cached credentials.\n" + json.dumps({"session_id": "1", "response": text, "stats": stats}, indent=2)


def opencode(*more, text="42"):
    tokens = {"input": 600, "output": 9, "reasoning": 1, "cache": {"read": 50, "write": 40}}
    return lines(
        {"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}},
        *more,
        {"type": "text", "sessionID": "s", "part": {"type": "text", "text": text, "time": {"end": 2}}},
        {"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "cost": 0.125, "tokens": tokens}},
        {"type": "done", "reason": "idle", "rejected": []},
    )


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install("claude", said)` -> what the stand-in hears, as a function."""
    folder = tmp_path / "installed"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{'/usr/bin:/bin'}:{Path(shutil.which('git') or '').parent}")

    def make(program, *answers, code=0, err="", sleep_s=0.0):
        script = {"answers": [*answers[:-1], ["", answers[-1]]], "code": code, "err": err, "sleep_s": sleep_s}
        (folder / "script.json").write_text(json.dumps(script))
        stand_in = folder / "bin" / program
        stand_in.write_text(STAND_IN.format(python=sys.executable, place=str(folder)))
        stand_in.chmod(0o755)
        return lambda: [json.loads(line) for line in (folder / "heard.jsonl").read_text().splitlines()]

    return make


@pytest.mark.parametrize(
    ("name", "said", "words", "model", "cost"),
    [
        ("claude/opus", claude(), ["-p", "json", "--tools", "", "--strict-mcp-config", "opus"], "claude-opus-4-5", (1109, 0.25)),
        ("codex", codex(), ["exec", "--json", "read-only", "features.shell_tool=false", "-"], "", (909, None)),
        ("gemini", gemini(), ["json", "plan", "--admin-policy"], "gemini-3-pro", (720, None)),
        ("opencode/x/y", opencode(), ["run", "--format", "json", "ridgeline", "x/y"], "", (700, 0.125)),
    ],
)  # fmt: skip
def test_an_agent_answers_without_tools_and_says_what_it_cost(install, monkeypatch, name, said, words, model, cost):
    program = name.partition("/")[0]
    heard = install(program, said)
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("RIDGELINE_TOKEN", "of-the-server-123")
    monkeypatch.setenv("CLAUDECODE", "1")
    reply = AgentModel(Choice(name=f"agent:{name}")).ask(QUESTION)
    assert (reply.text, reply.truncated) == ("42", False)
    assert reply.model == (f"agent:{name} ({model})" if model else f"agent:{name}")
    assert reply.cost == Cost(tokens=cost[0], dollars=cost[1])
    (call,) = heard()
    assert [word for word in words if word not in call["argv"]] == []
    assert call["files"] == [], "an empty folder, and not the project"
    assert not Path(call["cwd"]).exists(), "and gone afterwards"
    assert "Rules.\n\nWhich edit?" in call["text"]
    assert '{"type":"object"}' in call["text"]
    mine = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}.get(program)
    keys = {variable for variable, value in call["env"].items() if value == KEY}
    assert keys == ({mine} if mine else {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"})
    assert "RIDGELINE_TOKEN" not in call["env"]
    assert "CLAUDECODE" not in call["env"], "an agent inside of an agent refuses to start"
    assert call["env"]["HOME"] == str(Path.home()), "where its user is logged in"


@pytest.mark.parametrize(
    ("name", "said", "options", "words"),
    [
        ("claude", claude("Invalid API key", is_error=True), {"code": 1}, "Invalid API key"),
        ("claude", claude(None, subtype="error_max_turns", result=None), {}, "error_max_turns"),
        ("claude", "", {"code": 1, "err": f"error: unknown option '--tools' {KEY}"}, "exit code 1 and no answer: error: unknown"),
        ("claude", "null", {}, "exit code 0 and no answer"),
        ("claude", claude(" "), {}, "its answer is empty"),
        ("codex", lines({"type": "turn.failed", "error": {"message": "usage limit"}}), {"code": 1}, "usage limit"),
        ("codex", codex({"type": "item.completed", "item": {"type": "command_execution"}}), {}, "used command_execution"),
        ("gemini", "", {"code": 41, "err": 'x\n{\n "error": {"type": "E", "message": "log in", "code": 41}\n}'}, "log in"),
        ("gemini", gemini(calls=1), {}, "used read_file"),
        ("opencode", lines({"type": "error", "error": {"name": "E", "data": {"message": "no model"}}}), {"code": 1}, "no model"),
        ("opencode", opencode({"type": "tool_use", "part": {"tool": "bash", "state": {"status": "completed"}}}), {}, "used bash"),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_and_no_verdict(install, name, said, options, words):
    install(name, said, **options)
    with pytest.raises(Unanswerable) as caught:
        AgentModel(Choice(name=f"agent:{name}")).ask(QUESTION)
    assert words in str(caught.value)
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_agent_that_does_not_end_is_ended(install):
    install("codex", codex(), sleep_s=600)
    with pytest.raises(Unreachable, match="no answer within 0.5 s"):
        AgentModel(Choice(name="agent:codex", total_s=0.5)).ask(QUESTION)


def test_what_cannot_be_asked_is_told_at_once(install):
    install("claude", claude())
    with pytest.raises(KeyMissing, match="no `gemini` in PATH; install it and log in"):
        AgentModel(Choice(name="agent:gemini"))
    with pytest.raises(UserError, match="known are agent:claude, agent:codex, agent:gemini, agent:opencode"):
        AgentModel(Choice(name="agent:rm"))
    with pytest.raises(UserError, match="stands alone"):
        choose("agent:claude", base_url=None, fallbacks=("openai/x",), environment={})
    with pytest.raises(UserError, match="stands alone"):
        choose("openai/x", base_url=None, fallbacks=("agent:claude",), environment={})
    choice = choose("agent:claude", base_url=None, fallbacks=(), environment={"RIDGELINE_BASE_URL": "http://h:1"})
    assert (choice.base_url, choice.planner) == ("", "llm:agent:claude")


def test_a_budget_counts_the_agents_own_instructions_and_a_price_that_was_given(install):
    install("codex", codex(), "{}")
    assert AgentModel(Choice(name="agent:codex")).most(QUESTION).dollars is None
    dear = AgentModel(Choice(name="agent:codex", price=Price(input=10.0, output=100.0))).most(QUESTION)
    assert dear.tokens > 25_000 + QUESTION.max_output_tokens
    assert dear.dollars == pytest.approx((10 * (dear.tokens - 8192) + 100 * 8192) / 1e6)


def test_every_agent_has_a_stand_in_here():
    assert set(COMMANDS) == {"claude", "codex", "gemini", "opencode"}


def test_what_an_agent_answered_is_on_the_tape_and_taken_from_it(install, monkeypatch, tmp_path):
    install("claude", claude(f"the key is {KEY}"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    campaign = tmp_path / "campaign"
    campaign.mkdir()
    model = open_model(Choice(name="agent:claude"), campaign=campaign, limits=make_limits())
    reply = model.ask(QUESTION)
    assert reply.text == "the key is [ANTHROPIC_API_KEY]"
    assert KEY not in (campaign / "model_tape.jsonl").read_text()
    (tmp_path / "installed" / "bin" / "claude").unlink()
    assert model.ask(QUESTION) == reply


def test_a_budget_in_dollars_needs_a_price(install):
    install("claude", claude())
    with pytest.raises(UserError, match="the price of agent:claude is not known"):
        forecast(Choice(name="agent:claude"), make_limits(max_dollars=5.0))
    lines = forecast(Choice(name="agent:claude", price=Price(input=1.0, output=2.0)), make_limits(max_dollars=5.0))
    assert lines[0] == "model agent:claude: at most 1 dollars per million tokens in, 2 out"


@pytest.mark.parametrize(
    ("name", "said", "words", "variable"),
    [
        ("claude", claude(), ["acceptEdits", "Read,Edit,Write,Glob,Grep,Bash(ridgeline deep:*)"], ""),
        ("codex", codex({"type": "item.completed", "item": {"type": "command_execution"}}), ["workspace-write"], ""),
        ("gemini", gemini(calls=2), ["auto_edit", "--admin-policy"], ""),
        ("opencode", opencode(), ["ridgeline"], "OPENCODE_CONFIG_CONTENT"),
    ],
)
def test_in_a_deep_round_an_agent_works_in_the_tree_with_the_tools_of_its_own(
    install, tmp_path, name, said, words, variable
):
    heard = install(name, said)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "kernel.c").touch()
    place = WorkPlace(folder=str(tmp_path / "tree"), desk=str(tmp_path / "desk"), minutes=1, tokens=300_000)
    ask = QUESTION.model_copy(update={"place": place})
    model = AgentModel(Choice(name=f"agent:{name}"))
    assert model.ask(ask).text == "42"
    assert ask.digest == QUESTION.digest, "where it works is no part of what is asked"
    assert model.most(ask).tokens == 300_000 + QUESTION.max_output_tokens
    (call,) = heard()
    assert [word for word in words if word not in call["argv"]] == []
    assert (call["cwd"], call["files"]) == (str(tmp_path / "tree"), ["kernel.c"])
    assert call["env"]["RIDGELINE_DEEP_DESK"] == str(tmp_path / "desk")
    assert shutil.which("ridgeline", path=call["env"]["PATH"])
    assert "You have no tools" not in call["text"]
    if variable:
        permission = json.loads(call["env"][variable])["agent"]["ridgeline"]["permission"]
        assert permission["bash"] == {"*": "deny", "ridgeline deep *": "allow"}
        assert (permission["*"], permission["edit"]) == ("deny", "allow")


def test_an_agent_that_works_for_too_long_ends_the_budget_of_its_round(install, tmp_path):
    install("claude", claude(), sleep_s=30)
    place = WorkPlace(folder=str(tmp_path), desk=str(tmp_path / "desk"), minutes=0.002, tokens=1000)
    with pytest.raises(BudgetSpent, match="budget of the deep round ended: agent:claude was ended after 0.002 minutes"):
        AgentModel(Choice(name="agent:claude")).ask(QUESTION.model_copy(update={"place": place}))
