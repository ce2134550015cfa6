"""Correctness in a fresh process: right, wrong, stuck, broken, or judged by files that were no longer the project's."""

import contextlib
import csv
import io
import math
import operator
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from ridgeline.graph.contract import Argv, Correctness, takes_csv
from ridgeline.graph.evidence import Exit, PrintedLine, TestOutput, TestResult
from ridgeline.graph.finding import KeyTerm, Simulation
from ridgeline.graph.judgment import JudgeFailed, Judgment
from ridgeline.graph.ports import Judge
from ridgeline.sandbox.audit.simulation import simulate
from ridgeline.sandbox.devices.ceilings import interpreter_of
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands, GuardedRun, environment_of, fill, summarize_exit, tail
from ridgeline.sandbox.workspace.globs import matches

Kind = Literal["pass", "incorrect", "timeout", "crash", "tampered"]
CHANGED = "files that no run may change were changed by the test: {}"
EVIDENCE_LINES = 30
"""Lines with a correctness pattern that are quoted before the end of the output."""


class ContractChecker:
    """`ports.Checker`: the contract's test command, judged by its exit code, its numbers and the state of its files."""

    def __init__(self, commands: Commands, builder: ContractBuilder) -> None:
        self._commands = commands
        self._builder = builder

    def check(self, commit: str, *, purpose: str) -> TestResult:
        """Run the focused test of `commit` in its checkout. `purpose` only names the question."""
        contract = self._commands.contract
        if self._commands.judge is not None and contract.task_file:
            return self._ask(self._commands.judge, commit)
        return self._run(commit, "test_command", contract.test_command, contract.timeouts.test_s)

    def suite(self, commit: str) -> TestResult | None:
        """Run the project's full suite, None when the contract has none; it may take as long as a benchmark."""
        contract = self._commands.contract
        if contract.full_test_command is None:
            return None
        timeout_s = max(contract.timeouts.test_s, contract.timeouts.benchmark_s)
        return self._run(commit, "full_test_command", contract.full_test_command, timeout_s)

    def simulate_cache(self, commit: str, key: tuple[KeyTerm, ...]) -> Simulation:
        """In the interpreter of the contract's commands; `unavailable` where no command has one."""
        contract = self._commands.contract
        python = interpreter_of(contract, self._commands.trees.at(commit))
        if python is None:
            return Simulation(method="unavailable", detail="no command of the contract names a Python interpreter")
        return simulate(key, python=python, env=environment_of(contract, self._commands.gate))

    def _ask(self, judge: Judge, commit: str) -> TestResult:
        contract = self._commands.contract
        try:
            tree = self._builder.ensure_built(commit).absolute()
        except BuildBroken as error:
            return _unbuilt(commit, error)
        with self._card(), self._commands.guard((commit,)) as guard:
            began = time.monotonic()
            with self._commands.lend_turn((commit,)):
                answer = judge.check(tree / (contract.task_file or ""), tree, timeout_s=contract.timeouts.test_s)
            seconds = time.monotonic() - began
        if guard.tampered:
            return _result("tampered", commit, CHANGED.format(", ".join(guard.tampered)), seconds)
        return _judge(answer, commit, seconds)

    def _run(self, commit: str, field: str, command: Argv, timeout_s: float) -> TestResult:
        try:
            tree = self._builder.ensure_built(commit)
        except BuildBroken as error:
            return _unbuilt(commit, error)
        with self._commands.place_csv(command, commit=commit, cwd=tree) as path, self._card():
            ran = self._commands.run_guarded(
                field, fill(command, {"csv": str(path)}), commits=(commit,), cwd=tree, timeout_s=timeout_s, csv=path
            )
        data = ran.csv
        kind, detail = self._judge(ran, data, takes_csv(command))
        result = _result(kind, commit, detail, ran.exit.seconds)
        if kind in ("pass", "incorrect"):
            rel_err = read_rel_err(self._commands.contract.correctness, csv_data=data, output=ran.exit.output)
            result = result.model_copy(update={"rel_err": rel_err})
        return result.model_copy(update={"printed": self._read_printed(ran.exit, data)}) if result.passed else result

    def _read_printed(self, exit: Exit, data: bytes | None) -> TestOutput:
        """Only of tests that passed: whether one of them ended early is for whoever knows the original's to say."""
        contract = self._commands.contract
        written = data.decode(errors="replace") if data else ""
        return read_printed(
            exit.output,
            csv=written,
            is_editable=lambda path: matches(path, contract.editable_globs) and not matches(path, contract.protected),
            patterns=contract.correctness.exit_patterns,
        )

    @contextlib.contextmanager
    def _card(self) -> Iterator[None]:
        """The card for a test of the project: on a processor nothing is timed, so nothing is waited for."""
        with contextlib.ExitStack() as card:
            if self._commands.gate is not None:
                with self._commands.turn.lend():
                    card.enter_context(self._commands.gate.hold())
            yield

    def _judge(self, ran: GuardedRun, data: bytes | None, expects_csv: bool) -> tuple[Kind, str]:
        if ran.tampered:
            return "tampered", CHANGED.format(", ".join(ran.tampered))
        if ran.exit.timed_out:
            return "timeout", summarize_exit(ran.exit)
        rule = self._commands.contract.correctness
        if not ran.exit.ok:
            lines = [line for line in ran.exit.output.splitlines() if has(line, rule.exit_patterns)]
            return ("incorrect", _evidence(ran.exit, lines)) if lines else ("crash", summarize_exit(ran.exit))
        if rule.kind == "exit":
            return "pass", tail(ran.exit.output)
        if expects_csv and data is None:
            return "crash", f"the test ended well but wrote no CSV\n{summarize_exit(ran.exit)}"
        try:
            broken = find_broken_rule(rule, csv_data=data, output=ran.exit.output)
        except Unreadable as error:
            return "crash", f"{error}\n{summarize_exit(ran.exit)}"
        return ("incorrect", f"{broken}\n{tail(ran.exit.output)}") if broken else ("pass", tail(ran.exit.output))


def _judge(answer: Judgment | JudgeFailed, commit: str, seconds: float) -> TestResult:
    """What the judge says as a project's test result; any judgement that does not pass counts as a wrong result."""
    if isinstance(answer, JudgeFailed):
        return _result("timeout" if answer.reason == "timeout" else "crash", commit, answer.detail, seconds)
    caveat = "" if answer.correct.answer != "yes" or answer.passed else "the result is not the candidate's own work\n"
    detail = caveat + tail("\n".join(answer.lines))
    result = _result("pass" if answer.passed else "incorrect", commit, detail, seconds)
    return result.model_copy(update={"own_work": answer.own_work.answer})


def _unbuilt(commit: str, error: BuildBroken) -> TestResult:
    return _result("crash", commit, str(error), error.result.exit.seconds if error.result.exit else 0.0)


def _evidence(exit: Exit, lines: list[str]) -> str:
    quoted = "\n".join(lines[:EVIDENCE_LINES])
    more = f"\n... and {len(lines) - EVIDENCE_LINES} more such lines" if len(lines) > EVIDENCE_LINES else ""
    return tail(f"{quoted}{more}") + f"\n--- {summarize_exit(exit)}"


def _result(kind: Kind, commit: str, detail: str, seconds: float) -> TestResult:
    return TestResult(passed=kind == "pass", kind=kind, commit=commit, detail=detail, seconds=seconds)


# Reads the number by which a test says how right it is: from the CSV it wrote, or from its output.

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
CUSTOMARY: dict[str, tuple[str, float]] = {"snr": (">", 25.0), "rel_err": ("<", 0.01), "allclose": ("==", 1.0)}
"""Bounds where the contract gives none: SNR in dB above 25, relative error under 1 %."""
TRUTH = {"true": 1.0, "pass": 1.0, "false": 0.0, "fail": 0.0}


class Unreadable(Exception):
    """The test ended well but did not say what it had to say; never a pass."""


def find_broken_rule(rule: Correctness, *, csv_data: bytes | None, output: str) -> str | None:
    """What a number that a project's test printed breaks of its rule, in a sentence; None when every one obeys.

    `csv_data` is the file the test was given as `{csv}`, None when it has no such placeholder or wrote nothing; without
    it, `<column>=<number>` or `<column>: <number>` is looked for in the output. Raises `Unreadable` when there is no
    number to judge.
    """
    op, threshold = _bound(rule)
    column = rule.column or rule.kind
    cells = _in_csv(csv_data, column) if csv_data is not None else _in_output(output, column)
    for place, cell in cells:
        if not obeys(rule, cell):
            return f"{place}: {column} = {cell}, needed {op} {threshold:g}"
    return None


def read_rel_err(rule: Correctness, *, csv_data: bytes | None, output: str) -> float | None:
    """The largest relative error that a test told, as `rel_err` or by an SNR in dB: 10^(-SNR/20). None for none.

    It only reports: a test that says nothing readable of it is judged by its own rule all the same.
    """
    columns = [(rule.column or rule.kind, rule.kind == "snr")] if rule.kind in ("rel_err", "snr") else []
    for column, is_snr in (*columns, ("rel_err", False)):
        try:
            cells = _in_csv(csv_data, column) if csv_data is not None else _in_output(output, column)
        except Unreadable:
            continue
        values = [value for _, cell in cells if math.isfinite(value := _value(cell))]
        errors = [_error_of_snr(value) for value in values] if is_snr else values
        if errors:
            return max(errors)
    return None


def _error_of_snr(snr_db: float) -> float:
    """||out - ref|| / ||ref|| from 10 log10(||ref||^2 / ||out - ref||^2)."""
    return math.pow(10.0, -snr_db / 20.0)


def obeys(rule: Correctness, cell: str) -> bool:
    """Whether one number that a project's test printed is within the contract's bound."""
    op, threshold = _bound(rule)
    value = _value(cell)
    return not math.isnan(value) and COMPARE[op](value, threshold)


def _bound(rule: Correctness) -> tuple[str, float]:
    explicit = rule.model_fields_set & {"op", "threshold"}
    if not explicit and rule.kind in CUSTOMARY:
        return CUSTOMARY[rule.kind]
    return rule.op, rule.threshold


def _in_csv(data: bytes, column: str) -> list[tuple[str, str]]:
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
    except UnicodeDecodeError as error:
        raise Unreadable(f"the test's CSV is not UTF-8: byte {error.start}") from error
    if not rows:
        raise Unreadable("the test's CSV has no rows")
    if column not in rows[0]:
        raise Unreadable(f"the test's CSV has no column {column!r}")
    return [(f"row {number}", row[column] or "") for number, row in enumerate(rows, start=1)]


def _in_output(output: str, column: str) -> list[tuple[str, str]]:
    pattern = rf"(?<!\w){re.escape(column)}\s*[=:]\s*([^\s,;]+)"
    cells = re.findall(pattern, output)
    if not cells:
        raise Unreadable(f"the test printed no {column}=<number> and wrote no CSV")
    return [(f"occurrence {number}", cell) for number, cell in enumerate(cells, start=1)]


def _value(cell: str) -> float:
    """A number that a project's test printed; NaN for what is none: it obeys no rule."""
    try:
        return TRUTH[cell.lower()] if cell.lower() in TRUTH else float(cell)
    except ValueError:
        return math.nan


# What a test prints every time: its lines without the numbers, times, addresses and paths that change from run to run.
#
# A test that ends early with exit code 0 looks like one that passed. What it did not print any more gives it away.

MOST = 300
"""Different lines that are kept, the last ones: what an early end takes away stands at the end."""
LONGEST = 160
"""Characters of a line that are kept."""
LEFT_OUT = re.compile(r"\[\.\.\. \d+ bytes left out \.\.\.\]")
"""What stands in an output that was too long to keep."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLACES = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?/[^\s:,;'\"()\[\]<>]+|\btmp[\w-]*(?:[A-Z0-9_]|\d)[\w-]*")
"""Whole paths, and names as `tempfile` makes them."""
CODES = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,})\b")
"""Addresses, digests and identifiers."""
LONG_TIMES = re.compile(r"\s\(\d+:\d\d:\d\d\)")
"""Added to times of more than a minute."""
NUMBERS = re.compile(
    r"(?<![A-Za-z_])[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s?(?:[num\u00b5\u03bc]?s|min|h)\b)?"
    r"|\d+|(?<!\w)[-+]?(?:nan|inf|infinity)\b",
    re.IGNORECASE,
)
RUNS = re.compile(r"([^\w\s#])\1+")
"""Rules and bars, as long as the numbers beside them leave room for."""
COMMANDS = re.compile(
    r"(?:\S*/)?(?:[\w-]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|ar|ld|ranlib|rustc|cython|cmake|ninja)(?:-[\d.]+)?\s"
    r"|make(?:\[\d+\])?:|\[\s*\d+(?:%|/\d+)\]\s+(?:Building|Built|Linking|Compiling|Generating|Scanning|Copying)"
)
"""What a build says: which files it names is the candidate's to change."""
WARNING = re.compile(r"warning|deprecat|\bnote:", re.IGNORECASE)
CONTEXT = re.compile(r"\s*\d*\s*\|")
"""The source beside a compiler's warning."""
FILE = re.compile(r"(?:[\w.+-]+/)*[\w.+-]+\.[A-Za-z]\w*")
FAILED = re.compile(r"(?<![\d.])[1-9]\d*\s+(?:tests?\s+)?(?:failed|failures?)\b", re.IGNORECASE)
"""How runners of tests count what failed."""
NONE_FAILED = re.compile(r"(?<![\d.])0+\s+(?:\w+\s+)?fail|\bfail\w*\s*[:=]\s*0+(?![\d.])", re.IGNORECASE)


def read_printed(output: str, *, csv: str, is_editable: Callable[[str], bool], patterns: tuple[str, ...]) -> TestOutput:
    """The lines of a project's test and of the CSV it wrote, masked and counted, in the order of their last place.

    Left out is what depends on the candidate's own text and not on how far the test came: builds, warnings and lines
    that name a file which is the candidate's to change (`is_editable`). `patterns`: words that complain, from the contract.
    """
    counts = Counter[PrintedLine]()
    for line in (*_say(output), *csv.splitlines()):
        if text := _mask(line, is_editable):
            printed_line = PrintedLine(line=text, complains=_complains(line, patterns))
            count = counts.pop(printed_line, 0)  # put back at the end: the order is that of the last time
            counts[printed_line] = count + 1
    cut = len(counts) > MOST or LEFT_OUT.search(output) is not None
    latest = list(counts.items())[-MOST:]
    return TestOutput(
        lines=tuple(printed_line.model_copy(update={"times": times}) for printed_line, times in latest), cut=cut
    )


def _say(output: str) -> Iterator[str]:
    """Lines of a project's test as a terminal shows them in the end, without warnings and the source quoted below them."""
    quoting, summary = False, False
    for raw in ESCAPES.sub("", output).split("\n"):
        line = raw.rstrip("\r").rsplit("\r", 1)[-1]
        if "warnings summary" in line:  # pytest's, up to its last line
            summary = True
        if summary:
            summary = "docs.pytest.org" not in line
        elif WARNING.search(line) and not FAILED.search(line) and " passed" not in line:
            quoting = True
        elif quoting and (line.startswith((" ", "\t")) or CONTEXT.match(line)):
            continue
        else:
            quoting = False
            yield line


def _mask(line: str, is_editable: Callable[[str], bool]) -> str:
    """A line of a project's test without what changes; empty where nothing is left that a run could be known by."""
    if COMMANDS.match(line.lstrip()) or LEFT_OUT.search(line) or _names(line, is_editable):
        return ""
    short = re.sub(r",?\s*\d+ warnings?", "", line[: 4 * LONGEST])
    for mask, sign in ((LONG_TIMES, ""), (PLACES, "<path>"), (CODES, "#"), (NUMBERS, "#"), (RUNS, r"\1")):
        short = mask.sub(sign, short)
    short = " ".join(short.split())[:LONGEST]
    return short if any(letter.isalnum() or letter == "#" for letter in short) else ""


def _names(line: str, is_editable: Callable[[str], bool]) -> bool:
    """Whether a line of a project's test speaks of a file that the candidate may change: `src/kernel.c:12`, `(kern/op.py)`."""
    words = (word.strip("'\"`();,").split(":")[0] for word in line.split() if "." in word)
    return any(is_editable(word) for word in words if FILE.fullmatch(word))


def _complains(line: str, patterns: tuple[str, ...]) -> bool:
    return bool(FAILED.search(line)) or (has(line, patterns) and not NONE_FAILED.search(line))


def has(line: str, patterns: tuple[str, ...]) -> bool:
    """Whether a project's test printed the pattern; in lower case any case is meant: FAIL, but not `failed to open`."""
    return any(word in (line.lower() if word.islower() else line) for word in patterns)
