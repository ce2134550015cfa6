"""An installed coding agent's command line in place of an API key: `agent:claude`, `agent:codex`, `agent:gemini`, `agent:opencode`.

The agent is asked as any other model: one text in, one text out. It runs in an empty folder, with its tools switched off
by its own flags, and an answer for which it used one all the same is refused. In a deep round it works instead: in the
round's tree, with its own tools for files, and a shell for `ridgeline deep` alone. It logs in as its user does; of this
process's variables it is given those that its vendor names, and no others.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import (
    DESK,
    Ask,
    BudgetSpent,
    KeyMissing,
    Message,
    Reply,
    Unanswerable,
    Unreachable,
    WorkPlace,
    plain,
    redact,
    without_secrets,
)
from ridgeline.agent.providers.choice import AGENT, Choice
from ridgeline.agent.providers.client import LONGEST_TEXT, MILLION
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.values import Cost
from ridgeline.sandbox.isolation.process import CapturedOutput, capture

logger = logging.getLogger(__name__)

SYSTEM = (
    "You answer one question about the optimization of a kernel, in text. You have no tools, no files and no shell:"
    " everything there is stands in the question. Your whole answer is your last message; write nothing before or"
    " after what the question asks for."
)
OWN_TOKENS = 25_000
"""Instructions that an agent's command sends with every question, about; for the budget before one is asked."""
COMMON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables that every agent's command is given: who and where its user is, and how the network is reached."""


class AgentFailure(Exception):
    """What an agent's output says went wrong."""


@dataclass(frozen=True, kw_only=True)
class AgentAnswer:
    """What an agent's output holds. Tokens 0 and dollars None where it does not say."""

    text: str
    tokens: int = 0
    dollars: float | None = None
    model: str = ""
    truncated: bool = False
    tools: tuple[str, ...] = ()
    """Tools that it used for the answer."""


@dataclass(frozen=True, kw_only=True)
class AgentCommand:
    """How one agent is asked, and how its output is read."""

    program: str
    argv: Callable[[Path, str], tuple[str, ...]]
    """The words after the program, for an empty folder and a model; an empty model is the agent's own choice."""
    read: Callable[[CapturedOutput], AgentAnswer]
    """Raises AgentFailure where the output tells of a failure, and ValueError where it is no such output."""
    variables: tuple[str, ...]
    """Beginnings of names of variables that the agent is given beside `COMMON`."""
    settings: Mapping[str, str]
    """Variables that are set for it."""
    login: str
    """What logs its user in."""
    work_argv: Callable[[Path, str], tuple[str, ...]]
    """The same for an agent that works in a deep round: it reads and edits the files that it runs in, and its shell runs
    `ridgeline deep` alone."""
    work_settings: Mapping[str, str]
    """`settings` of one that works."""
    takes_system: bool = False
    """Whether `argv` or `settings` carry SYSTEM; else the question begins with it."""


# Claude Code: one JSON object; `--tools ""` leaves no tool, `--strict-mcp-config` no server of the user's.


def _claude_argv(folder: Path, model: str) -> tuple[str, ...]:
    words = ("-p", "--output-format", "json", "--tools", "", "--strict-mcp-config", "--setting-sources", "user")
    limits = ("--disable-slash-commands", "--no-session-persistence", "--system-prompt", SYSTEM)
    return (*words, *limits, *(("--model", model) if model else ()))


def _claude_work_argv(folder: Path, model: str) -> tuple[str, ...]:
    words = (
        "-p",
        "--output-format",
        "json",
        "--strict-mcp-config",
        "--setting-sources",
        "user",
        "--no-session-persistence",
    )
    tools = "Read,Edit,Write,Glob,Grep"
    limits = (
        "--tools",
        f"{tools},Bash",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        f"{tools},Bash(ridgeline deep:*)",
    )
    return (*words, *limits, *(("--model", model) if model else ()))


def _read_claude(output: CapturedOutput) -> AgentAnswer:
    document = json.loads(output.stdout)
    if isinstance(document, list):  # with `verbose` in its settings: every message, the result last
        document = next((item for item in reversed(document) if item.get("type") == "result"), {})
    if document.get("type") != "result":
        raise ValueError("no result")
    text = document.get("result")
    if document.get("is_error") or not isinstance(text, str):
        raise AgentFailure(str(text or document.get("errors") or document.get("subtype") or "an error"))
    usage = document.get("usage") or {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return AgentAnswer(
        text=text,
        tokens=sum(_count(usage, name) for name in names),
        dollars=_read_dollars(document.get("total_cost_usd")),
        model=", ".join(document.get("modelUsage") or ()),
        truncated=document.get("stop_reason") == "max_tokens",
    )


# Codex: events, one JSON object a line; its shell is switched off, and the sandbox lets nothing be written.


def _codex_argv(folder: Path, model: str) -> tuple[str, ...]:
    words = ("exec", "--json", "--sandbox", "read-only", "--skip-git-repo-check", "--ephemeral", "--color", "never")
    without = (
        "--ignore-user-config",
        "--ignore-rules",
        "-c",
        "features.shell_tool=false",
        "-c",
        'web_search="disabled"',
    )
    return (*words, *without, *(("--model", model) if model else ()), "-")


def _codex_work_argv(folder: Path, model: str) -> tuple[str, ...]:
    words = (
        "exec",
        "--json",
        "--sandbox",
        "workspace-write",
        "--skip-git-repo-check",
        "--ephemeral",
        "--color",
        "never",
    )
    without = ("--ignore-user-config", "--ignore-rules", "-c", 'web_search="disabled"')
    return (*words, *without, *(("--model", model) if model else ()), "-")


SPOKEN = frozenset({"agent_message", "reasoning", "plan", "todo_list", "error"})
"""Items of Codex that are no use of a tool."""


def _read_codex(output: CapturedOutput) -> AgentAnswer:
    text, tokens, failure, failed = "", 0, "", False
    tools: list[str] = []
    for event in _events(output.stdout):
        item: dict[str, Any] = event.get("item") or {}
        match event.get("type"), item.get("type"):
            case "item.completed", "agent_message":
                text = str(item.get("text") or "")
            case "item.completed", kind if kind not in SPOKEN:
                tools.append(str(kind))
            case "turn.completed", _:
                usage = event.get("usage") or {}
                tokens += _count(usage, "input_tokens") + _count(usage, "output_tokens")  # cached ones are among them
            case "turn.failed", _:
                failure, failed = str((event.get("error") or {}).get("message") or "the turn failed"), True
            case "error", _:
                failure = failure or str(event.get("message") or "an error")
    if failure and (failed or not text):  # an error alone may be a connection that came back
        raise AgentFailure(failure)
    return AgentAnswer(text=text, tokens=tokens, tools=tuple(tools))


# Gemini CLI: one JSON object, an error as one on standard error; a policy denies every tool, and plan mode writing.

POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'


WORK_POLICY = """
[[rule]]
toolName = "run_shell_command"
commandPrefix = "ridgeline deep"
decision = "allow"
priority = 999

[[rule]]
toolName = ["read_file", "read_many_files", "list_directory", "glob", "grep_search", "search_file_content", "write_file", "replace"]
decision = "allow"
priority = 998

[[rule]]
toolName = "*"
decision = "deny"
priority = 997
"""


def _gemini_argv(folder: Path, model: str) -> tuple[str, ...]:
    return _gemini_words(folder, model, mode="plan", rules=POLICY)


def _gemini_work_argv(folder: Path, model: str) -> tuple[str, ...]:
    return _gemini_words(folder, model, mode="auto_edit", rules=WORK_POLICY)


def _gemini_words(folder: Path, model: str, *, mode: str, rules: str) -> tuple[str, ...]:
    """The command line of Gemini CLI, with the rules of what it may use in a file of their own."""
    policy = folder / "policy.toml"
    policy.write_text(rules, encoding="utf-8")
    words = ("--output-format", "json", "--approval-mode", mode, "--admin-policy", str(policy), "--extensions", "none")
    return (*words, *(("--model", model) if model else ()))


def _read_gemini(output: CapturedOutput) -> AgentAnswer:
    document = _last_object(output.stdout.decode(errors="replace")) or _last_object(output.stderr)
    if document is None:
        raise ValueError("no JSON object")
    if error := document.get("error"):
        raise AgentFailure(str(error.get("message") if isinstance(error, dict) else error))
    if not isinstance(document.get("response"), str):
        raise ValueError("no response")
    stats = document.get("stats") or {}
    models = stats.get("models") or {}
    by_name = (stats.get("tools") or {}).get("byName") or {}
    return AgentAnswer(
        text=document["response"],
        tokens=sum(_count(entry.get("tokens") or {}, "total") for entry in models.values()),
        model=", ".join(models),
        tools=tuple(name for name, entry in by_name.items() if _count(entry, "success")),
    )


# OpenCode: events, one JSON object a line; an agent of our own may do nothing.

OPENCODE_CONFIG = {
    "share": "disabled",
    "autoupdate": False,
    "permission": {"*": "deny"},
    "agent": {"ridgeline": {"mode": "primary", "prompt": SYSTEM, "permission": {"*": "deny"}}},
}


WORK_PERMISSION = {
    "*": "deny",
    **dict.fromkeys(("read", "edit", "glob", "grep", "list"), "allow"),
    "bash": {"*": "deny", "ridgeline deep *": "allow"},
}
OPENCODE_WORK_CONFIG = {
    "share": "disabled",
    "autoupdate": False,
    "permission": WORK_PERMISSION,
    "agent": {"ridgeline": {"mode": "primary", "permission": WORK_PERMISSION}},
}


def _opencode_argv(folder: Path, model: str) -> tuple[str, ...]:
    return ("run", "--format", "json", "--agent", "ridgeline", *(("--model", model) if model else ()))


def _read_opencode(output: CapturedOutput) -> AgentAnswer:
    texts: list[str] = []
    tools: list[str] = []
    tokens, dollars, reason = 0, 0.0, ""
    for event in _events(output.stdout):
        part: dict[str, Any] = event.get("part") or {}
        match event.get("type"):
            case "text":
                texts.append(str(part.get("text") or ""))
            case "tool_use" if (part.get("state") or {}).get("status") == "completed":
                tools.append(str(part.get("tool")))
            case "step_finish":
                spent = part.get("tokens") or {}
                cache = spent.get("cache") or {}
                tokens += sum(_count(spent, name) for name in ("input", "output", "reasoning"))
                tokens += _count(cache, "read") + _count(cache, "write")
                dollars += _read_dollars(part.get("cost")) or 0.0
                reason = str(part.get("reason") or "")
            case "error":
                error = event.get("error") or {}
                raise AgentFailure(str((error.get("data") or {}).get("message") or error.get("name") or "an error"))
    return AgentAnswer(
        text="\n".join(texts),
        tokens=tokens,
        dollars=dollars or None,  # 0 also where the price is unknown
        tools=tuple(tools),
        truncated=reason == "length",
    )


COMMANDS = {
    "claude": AgentCommand(
        program="claude",
        argv=_claude_argv,
        work_argv=_claude_work_argv,
        read=_read_claude,
        variables=("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_REGION"),
        settings={},
        work_settings={},
        login="`claude` and its /login",
        takes_system=True,
    ),
    "codex": AgentCommand(
        program="codex",
        argv=_codex_argv,
        work_argv=_codex_work_argv,
        read=_read_codex,
        variables=("OPENAI_", "CODEX_"),
        settings={},
        work_settings={},
        login="`codex login`",
    ),
    "gemini": AgentCommand(
        program="gemini",
        argv=_gemini_argv,
        work_argv=_gemini_work_argv,
        read=_read_gemini,
        variables=("GEMINI_", "GOOGLE_"),
        settings={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        work_settings={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        login="`gemini` and its /auth",
    ),
    "opencode": AgentCommand(
        program="opencode",
        argv=_opencode_argv,
        work_argv=_opencode_argv,
        read=_read_opencode,
        variables=(
            "OPENCODE_",
            "OPENAI_",
            "ANTHROPIC_",
            "GEMINI_",
            "GOOGLE_",
            "AWS_",
            "AZURE_",
            "OPENROUTER_",
            "GROQ_",
        ),
        settings={"OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE_CONFIG)},
        work_settings={"OPENCODE_CONFIG_CONTENT": json.dumps(OPENCODE_WORK_CONFIG)},
        login="`opencode auth login`",
        takes_system=True,
    ),
}
"""By the name after `agent:`; flags and outputs as documented in November 2026: docs/agents.md names the pages."""


class AgentModel:
    """One agent. Raises UserError for one that is not known, and KeyMissing where its command is not installed."""

    tools = False

    def __init__(self, choice: Choice) -> None:
        self.name = choice.name
        agent, _, self._model = choice.name.removeprefix(AGENT).partition("/")
        if agent not in COMMANDS:
            known = ", ".join(AGENT + name for name in COMMANDS)
            raise UserError(f"--model {plain(self.name, limit=80)}: names no agent that is known; known are {known}")
        self._command = COMMANDS[agent]
        self._price = choice.price
        self._limit_s = choice.total_s
        program = shutil.which(self._command.program)
        if program is None:
            raise KeyMissing(
                f"--model {self.name}: no `{self._command.program}` in PATH; install it and log in by {self._command.login}"
            )
        self._program = str(Path(program).absolute())

    def count(self, text: str) -> int:
        """Tokens of a question to a coding agent, about; needs no network."""
        return estimate_tokens(text)

    def most(self, ask: Ask) -> Cost:
        """An upper estimate of a coding agent's cost, with its own instructions; dollars only by a price that a person gave."""
        input_tokens = self.count(_write_question(ask, system=SYSTEM)) + OWN_TOKENS
        if ask.place is not None:
            input_tokens = max(input_tokens, ask.place.tokens)
        return Cost(
            tokens=input_tokens + ask.max_output_tokens, dollars=self._cost(input_tokens, ask.max_output_tokens)
        )

    def ask(self, ask: Ask) -> Reply:
        """Ask a coding agent. Raises KeyMissing, Unreachable and Unanswerable, each with one line; BudgetSpent where it took too long."""
        takes_system = self._command.takes_system or ask.place is not None
        question = _write_question(ask, system="" if takes_system else SYSTEM)
        with tempfile.TemporaryDirectory(prefix="ridgeline-", ignore_cleanup_errors=True) as folder:
            empty = Path(folder) / "empty"
            empty.mkdir()
            make_argv = self._command.argv if ask.place is None else self._command.work_argv
            argv = (self._program, *make_argv(Path(folder), self._model))
            try:
                output = capture(
                    argv,
                    cwd=Path(ask.place.folder) if ask.place else empty,
                    timeout_s=60 * ask.place.minutes if ask.place else self._limit_s,
                    env=self._environment(ask.place),
                    stdin=question.encode(),
                )
            except ProgramMissing as error:
                raise KeyMissing(f"--model {self.name}: {error}") from None
        if ask.place is not None and output.returncode is None:
            raise BudgetSpent(
                f"budget of the deep round ended: {self.name} was ended after {ask.place.minutes:g} minutes"
            )
        answer = self._read(output)
        if answer.tools and ask.place is None:
            raise Unanswerable(
                f"--model {self.name}: used {', '.join(dict.fromkeys(answer.tools))} for its answer, and no tool is allowed;"
                " switch it off in the agent's own settings"
            )
        text = plain(without_secrets(answer.text[:LONGEST_TEXT]), limit=LONGEST_TEXT)
        tokens = answer.tokens or self.count(question) + self.count(text)
        dollars = self._cost(self.count(question), self.count(text)) if answer.dollars is None else answer.dollars
        served = plain(without_secrets(answer.model), limit=120)
        return Reply(
            text=text,
            truncated=answer.truncated or len(answer.text) > LONGEST_TEXT,
            model=f"{self.name} ({served})" if served else self.name,
            cost=Cost(tokens=tokens, dollars=dollars),
        )

    def _read(self, output: CapturedOutput) -> AgentAnswer:
        """A coding agent's answer. Raises Unreachable after the time limit, Unanswerable for a failure or no answer."""
        who = f"--model {self.name}"
        if output.returncode is None:
            raise Unreachable(f"{who}: no answer within {self._limit_s:g} s; its process was ended")
        try:
            answer = self._command.read(output)
        except AgentFailure as failure:
            raise Unanswerable(f"{who}: {redact(str(failure))}") from None
        except (ValueError, TypeError, AttributeError):  # of another shape than documented
            last_words = redact(output.stderr[-2_000:]) or redact(output.stdout[-2_000:].decode(errors="replace"))
            raise Unanswerable(
                f"{who}: `{self._command.program}` left with exit code {output.returncode} and no answer:"
                f" {last_words or 'it printed nothing'}"
            ) from None
        if output.returncode != 0 or not answer.text.strip():
            last_words = redact(output.stderr[-2_000:]) or "its answer is empty"
            raise Unanswerable(
                f"{who}: `{self._command.program}` left with exit code {output.returncode}: {last_words}"
            )
        return answer

    def _environment(self, place: WorkPlace | None) -> dict[str, str]:
        """What the agent's command is told of this process: where its user is, and its vendor's own variables.

        One that works also finds the command `ridgeline`, and by that this campaign.
        """
        beside = Path(sys.executable).absolute().parent
        work = {"PATH": f"{os.environ.get('PATH', '')}:{beside}", DESK: place.desk} if place else {}
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if name in COMMON or name.startswith(("LC_", *self._command.variables))
            },
            **(self._command.work_settings if place else self._command.settings),
            **work,
            "NO_COLOR": "1",
        }

    def _cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """Dollars of a coding agent's answer by the price that a person gave; None without one."""
        if self._price is None:
            return None
        return (self._price.input * input_tokens + self._price.output * output_tokens) / MILLION


def _write_question(ask: Ask, *, system: str) -> str:
    """The conversation with a model as one text for a coding agent, the form of the answer at its end; `system`: what it begins with."""
    parts = [*([system] if system else []), *(_write_message(message) for message in ask.messages)]
    if ask.answer_schema:
        parts.append(f"The answer is one JSON object, alone, that fits this JSON Schema:\n{ask.answer_schema}")
    return "\n\n".join(parts) + "\n"


def _write_message(message: Message) -> str:
    """One message for a coding agent; what the model itself said before stands between marks."""
    return (
        message.text
        if message.role != "assistant"
        else f"[You answered before:]\n{message.text}\n[End of that answer.]"
    )


def _events(output: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects, one a line, that a coding agent's program printed. Raises ValueError where there is none."""
    empty = True
    for line in output.decode(errors="replace").splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            if isinstance(event, dict):
                empty = False
                yield event
    if empty:
        raise ValueError("no events")


def _last_object(text: str) -> dict[str, Any] | None:
    """The JSON object at the end of a coding agent's output, whatever stands before it; None where there is none."""
    decoder = json.JSONDecoder()
    for at, line in _line_starts(text):
        if line.startswith("{"):
            try:
                value, end = decoder.raw_decode(text, at)
            except ValueError:
                continue
            if isinstance(value, dict) and not text[end:].strip():
                return value
    return None


def _line_starts(text: str) -> Iterator[tuple[int, str]]:
    """Where each line of a coding agent's output begins, and the line."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, line
        at += len(line)


def _count(usage: Mapping[str, Any], name: str) -> int:
    """A token count out of a coding agent's output; 0 where it is missing or no number."""
    number = usage.get(name, 0)
    return max(0, number) if isinstance(number, int) and not isinstance(number, bool) else 0


def _read_dollars(value: Any) -> float | None:
    """A cost that a coding agent states; None for what is no number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
