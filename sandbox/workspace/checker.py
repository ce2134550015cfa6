"""Correctness in a fresh process: right, wrong, stuck, broken, or judged by files that were no longer the project's."""

import contextlib
import tempfile
from pathlib import Path
from typing import Literal

from ridgeline.graph.contract import Argv
from ridgeline.graph.evidence import Exit, Printed, TestResult
from ridgeline.sandbox.judge.options import own_work_said
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands, Ran, fill, said, tail
from ridgeline.sandbox.workspace.correctness import Unreadable, wrong
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.printed import has, printed

Kind = Literal["pass", "incorrect", "timeout", "crash", "tampered"]
EVIDENCE_LINES = 30
"""Lines with a correctness pattern that are quoted before the end of the output."""


class ContractChecker:
    """`ports.Checker`: the contract's test command, judged by its exit code, its numbers and the state of its files."""

    def __init__(self, commands: Commands, builder: ContractBuilder) -> None:
        self._commands = commands
        self._builder = builder

    def check(self, commit: str, *, purpose: str) -> TestResult:
        """The focused test of `commit`. `purpose` only names the question."""
        contract = self._commands.contract
        return self._run(commit, "test_command", contract.test_command, contract.timeouts.test_s)

    def suite(self, commit: str) -> TestResult | None:
        """The project's full suite, None when the contract has none; it may take as long as a benchmark."""
        contract = self._commands.contract
        if contract.full_test_command is None:
            return None
        timeout_s = max(contract.timeouts.test_s, contract.timeouts.benchmark_s)
        return self._run(commit, "full_test_command", contract.full_test_command, timeout_s)

    def _run(self, commit: str, field: str, command: Argv, timeout_s: float) -> TestResult:
        try:
            tree = self._builder.ensure_built(commit)
        except BuildBroken as error:
            seconds = error.result.exit.seconds if error.result.exit else 0.0
            return _result("crash", commit, str(error), seconds)
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / "test.csv"
            with self._card():
                ran = self._commands.guarded(
                    field, fill(command, {"csv": str(path)}), commits=(commit,), cwd=tree, timeout_s=timeout_s
                )
            wanted = any("{csv}" in word for word in command)
            data = path.read_bytes() if path.is_file() else None
        kind, detail = self._judge(ran, data, wanted)
        own_work = own_work_said(ran.exit.output) if self._commands.contract.judged else None
        result = _result(kind, commit, detail, ran.exit.seconds).model_copy(update={"own_work": own_work})
        return result.model_copy(update={"printed": self._printed(ran.exit, data)}) if result.passed else result

    def _printed(self, exit: Exit, data: bytes | None) -> Printed:
        """Only of tests that passed: whether one of them ended early is for whoever knows the original's to say."""
        contract = self._commands.contract
        written = data.decode(errors="replace") if data else ""
        return printed(
            exit.output,
            csv=written,
            own=lambda path: matches(path, contract.editable_globs) and not matches(path, contract.protected),
            patterns=contract.correctness.exit_patterns,
        )

    def _card(self) -> contextlib.AbstractContextManager[object]:
        """A test on a GPU has the card to itself; on a processor nothing is timed, so nothing is waited for."""
        return contextlib.nullcontext() if self._commands.gate is None else self._commands.gate.held()

    def _judge(self, ran: Ran, data: bytes | None, wanted: bool) -> tuple[Kind, str]:
        if ran.tampered:
            return "tampered", f"files that no run may change were changed by the test: {', '.join(ran.tampered)}"
        if ran.exit.timed_out:
            return "timeout", said(ran.exit)
        rule = self._commands.contract.correctness
        if not ran.exit.ok:
            lines = [line for line in ran.exit.output.splitlines() if has(line, rule.exit_patterns)]
            return ("incorrect", _evidence(ran.exit, lines)) if lines else ("crash", said(ran.exit))
        if rule.kind == "exit":
            return "pass", tail(ran.exit.output)
        if wanted and data is None:
            return "crash", f"the test ended well but wrote no CSV\n{said(ran.exit)}"
        try:
            broken = wrong(rule, csv_data=data, output=ran.exit.output)
        except Unreadable as error:
            return "crash", f"{error}\n{said(ran.exit)}"
        return ("incorrect", f"{broken}\n{tail(ran.exit.output)}") if broken else ("pass", tail(ran.exit.output))


def _evidence(exit: Exit, lines: list[str]) -> str:
    quoted = "\n".join(lines[:EVIDENCE_LINES])
    more = f"\n... and {len(lines) - EVIDENCE_LINES} more such lines" if len(lines) > EVIDENCE_LINES else ""
    return tail(f"{quoted}{more}") + f"\n--- {said(exit)}"


def _result(kind: Kind, commit: str, detail: str, seconds: float) -> TestResult:
    return TestResult(passed=kind == "pass", kind=kind, commit=commit, detail=detail, seconds=seconds)
