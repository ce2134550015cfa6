"""May a build go on: what `bench --fail-on` and `--expect` make of a comparison, and how a CI system is told."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from pydantic import ValidationError

from ridgeline.agent.bench.comparison import (
    Answer,
    CourseOutcome,
    Expected,
    Gate,
    Passing,
    format_signed_percent,
    loss_of,
    percent,
    relation_of,
    verdict_of,
)
from ridgeline.agent.bench.laboratory import About
from ridgeline.agent.bench.request import BenchSettings, Request
from ridgeline.agent.errors import UserError
from ridgeline.graph.stats.sequential import LEAST_PAIRS, Estimate
from ridgeline.graph.values import Engine, Value
from ridgeline.sandbox.store.durable import write_whole

EXIT_CODES: dict[Passing, int] = {"passed": 0, "failed": 1, "undecided": 6}
MOST_MARGIN = 0.5
"""Share above which a margin is a slip: slower:3 for slower:3%."""
FAIL_ON = re.compile(r"slower(?::(?P<number>[0-9.]+)(?P<percent> ?%)?)?")


def read_fail_on(text: str | None, margin: float) -> float | None:
    """The margin of `slower[:margin]` as a share, 0.02 or 2%; `margin` where none is given, None for no text."""
    if text is None:
        return None
    match = FAIL_ON.fullmatch(text.strip())
    try:
        share = float(match["number"]) / (100 if match["percent"] else 1) if match and match["number"] else margin
    except ValueError:
        match = None
    if match is None:
        raise UserError(f"--fail-on: {text!r} is not slower or slower:MARGIN; write for example slower:2%")
    if not 0 < share < MOST_MARGIN:
        raise UserError(f"--fail-on: the margin {share:g} is not a share between 0 and {MOST_MARGIN}; write slower:2%")
    return share


# What was measured here before.


class StoredShape(Value):
    """Medians as they were then, in the unit of the numbers; told and never judged: a machine has fast and slow days."""

    label: str
    a: float
    b: float


class Expectation(Value):
    """One machine's ratio t_A / t_B with its bounds."""

    machine: str
    fingerprint: str
    engine: Engine
    a: str
    b: str
    ratio: float
    lower: float
    upper: float
    alpha: float
    pairs: int
    unit: str
    shapes: tuple[StoredShape, ...]


class Expectations(Value):
    """The file of --expect: an entry for each machine and engine."""

    schema_version: Literal[1] = 1
    expectations: tuple[Expectation, ...] = ()

    def of_machine(self, fingerprint: str, engine: Engine) -> Expectation | None:
        """The stored `--expect` entry whose numbers may be compared with this machine's; None where there is none."""
        same = (each for each in self.expectations if (each.fingerprint, each.engine) == (fingerprint, engine))
        return next(same, None)


def read_expectations(path: Path, *, may_be_missing: bool) -> Expectations:
    """The file of `bench --expect`. Raises UserError for one that is missing or is none."""
    if not path.is_file():
        if may_be_missing and not path.exists():
            return Expectations()
        raise UserError(f"--expect: {path} is no file; write it with --expect {path} --update")
    try:
        return Expectations.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise UserError(
            f"--expect: {path}: {where}: {problem['msg'].lower()}; mend it, or write it anew with --update"
        ) from None


class Judge:
    """The rule of one comparison: what fails it, and when nothing is left to ask."""

    def __init__(self, request: Request, settings: BenchSettings) -> None:
        self._settings, self._file, self._updates = settings, request.expect, request.update
        self._fails_slower = settings.slower_margin is not None
        self._stored = (
            read_expectations(request.expect, may_be_missing=request.update) if request.expect else Expectations()
        )

    def check(self, about: About) -> None:
        """Raises UserError where `bench --expect` could never be told apart from another machine's."""
        if self._file is not None and not about.fingerprint:
            raise UserError(
                "--expect: which card a command ran on is not known; compare commits of a contract with target_gpu"
            )

    def is_settled(self, estimate: Estimate, about: About) -> bool:
        """Whether bench may end for `--fail-on`; a comparison that is to be stored takes all its pairs, so that its bounds are narrow."""
        if self._updates:
            return False
        gate = self._judge(estimate, about)
        if gate is None:
            return verdict_of(estimate) != "undecided"
        if gate.outcome == "failed":
            return True
        if gate.expected is not None and gate.expected.outcome == "undecided" and gate.expected.ratio is not None:
            return False
        return relation_of(estimate, self._settings) != "undecided" if self._fails_slower else True

    def judge(self, outcome: CourseOutcome, about: About) -> Gate | None:
        """Whether a build fails by the whole comparison; None where nothing was to fail."""
        return self._judge(outcome.looks[-1] if outcome.looks else None, about)

    def _judge(self, estimate: Estimate | None, about: About) -> Gate | None:
        mean = self._judge_mean(estimate) if self._fails_slower else None
        expected = self._judge_expected(estimate, about)
        slow = _slow_shapes(estimate) if self._fails_slower else ()
        parts = {mean, expected.outcome if expected else None, "failed" if slow else None} - {None}
        if not parts:
            return None
        outcome: Passing = "failed" if "failed" in parts else "undecided" if "undecided" in parts else "passed"
        margin = self._settings.relation_margin
        said = [_MEAN[mean].format(margin=percent(margin))] if mean else []
        said += [f"slower for sure on {', '.join(slow)}"] if slow else []
        said += [expected.sentence] if expected else []
        return Gate(
            margin=margin,
            outcome=outcome,
            exit_code=EXIT_CODES[outcome],
            sentence="; ".join(said),
            mean=mean,
            slow_shapes=slow,
            expected=expected,
        )

    def store(self, answer: Answer) -> tuple[Path, bytes]:
        """The `--expect` file with this machine's entry made anew. Raises UserError where nothing bounds the ratio."""
        assert self._file is not None, "is asked with --expect"
        if answer.ratio is None or answer.lower is None or answer.upper is None:
            raise UserError(f"--update: {self._file} is left as it is: {answer.sentence}")
        fresh = Expectation(
            **{name: getattr(answer, name) for name in Expectation.model_fields if name != "shapes"},
            shapes=tuple(StoredShape(label=shape.label, a=shape.a, b=shape.b) for shape in answer.shapes),
        )
        others = [
            each
            for each in self._stored.expectations
            if (each.fingerprint, each.engine) != (fresh.fingerprint, fresh.engine)
        ]
        document = Expectations(expectations=(*others, fresh))
        return self._file, document.model_dump_json(indent=2).encode() + b"\n"

    def _judge_mean(self, estimate: Estimate | None) -> Passing:
        if estimate is None or estimate.pairs < LEAST_PAIRS:
            return "undecided"
        if relation_of(estimate, self._settings) == "slower":
            return "failed"
        return "passed" if estimate.lower > -loss_of(estimate, self._settings) else "undecided"

    def _find(self, about: About) -> Expectation | None:
        return self._stored.of_machine(about.fingerprint, about.engine) if about.fingerprint else None

    def _against(self, stored: Expectation, estimate: Estimate) -> Passing:
        """The comparison beside the stored one at their own alphas: failed where the nearest ends are further apart than the margin."""
        loss = loss_of(estimate, self._settings)
        if estimate.upper - math.log(stored.lower) < -loss:
            return "failed"
        return "passed" if estimate.lower - math.log(stored.upper) > -loss else "undecided"

    def _judge_expected(self, estimate: Estimate | None, about: About) -> Expected | None:
        if self._file is None or self._updates:
            return None
        stored = self._find(about)
        if stored is None:
            machines = sorted({f"{each.machine} ({each.engine})" for each in self._stored.expectations})
            known = f"it knows {', '.join(machines)}" if machines else "it is empty"
            sentence = (
                f"{self._file} expects nothing of this machine, {about.machine} ({about.engine}): {known};"
                " another machine's numbers are not compared; --update adds this one"
            )
            return Expected(file=str(self._file), outcome="undecided", sentence=sentence)
        outcome = self._against(stored, estimate) if estimate else "undecided"
        sentence = (
            f"{_EXPECTED[outcome]}: A takes {stored.ratio:.4f} times as long as B there (between {stored.lower:.4f} and"
            f" {stored.upper:.4f}, {stored.pairs} pairs){_ratio_now(estimate)}"
        )
        return Expected(
            file=str(self._file),
            outcome=outcome,
            sentence=sentence,
            ratio=stored.ratio,
            lower=stored.lower,
            upper=stored.upper,
        )


_MEAN: dict[Passing, str] = {
    "failed": "B is slower by more than {margin} for sure",
    "passed": "B is not slower by more than {margin}",
    "undecided": "not shown whether B is slower by more than {margin}",
}
_EXPECTED: dict[Passing, str] = {
    "failed": "B is slower against A than was stored of this machine",
    "passed": "B is as fast against A as was stored of this machine, or faster",
    "undecided": "not shown whether B is as fast against A as was stored of this machine",
}


def _slow_shapes(estimate: Estimate | None) -> tuple[str, ...]:
    """Shapes of a compared kernel that are slower for sure by more than the margin, where there are several."""
    if estimate is None or len(estimate.shapes) < 2 or estimate.pairs < LEAST_PAIRS:
        return ()
    return tuple(shape.label for shape in estimate.shapes if shape.slower)


def _ratio_now(estimate: Estimate | None) -> str:
    return f", and {math.exp(estimate.theta):.4f} times now" if estimate else ""


# How a CI system is told.


def read_annotate(text: str | None) -> str | None:
    """The file of `--annotate github:FILE`, empty for `github` alone; None where nothing is to be annotated."""
    if text is None:
        return None
    system, _, file = text.partition(":")
    if system != "github":
        raise UserError(f"--annotate: {text!r} is not github or github:FILE; GitLab reads --junit FILE")
    return file


def annotations(answer: Answer, gate: Gate, file: str, changed: tuple[str, ...]) -> Iterator[str]:
    """Lines by which GitHub Actions shows a comparison beside a pull request: at the file that was named, else at each changed one."""
    level = {"failed": "error", "undecided": "warning", "passed": "notice"}[gate.outcome]
    message = f"{gate.sentence}. {answer.sentence}"
    files = changed if gate.outcome == "failed" and not file else ()
    for path in files or (file,):
        place = f"file={_property(path)}," if path else ""
        yield f"::{level} {place}title=ridgeline bench::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


Case = Passing | Literal["not shown"]
"""Of a shape that measures slower without being shown to be: neither passed nor failed."""


def write_junit(path: Path, answer: Answer, gate: Gate) -> None:
    """The comparison as one JUnit suite: each shape where there are several, and what was expected. Raises what writing raises."""
    cases: list[tuple[str, Case, str]] = []
    if gate.mean:
        cases.append((f"B is not slower than A by more than {percent(gate.margin)}", gate.mean, answer.sentence))
    for shape in answer.shapes if gate.mean and len(answer.shapes) > 1 else ():
        said = f"B against A: {format_signed_percent(shape.ratio - 1)}"
        open_end: Case = "not shown" if shape.ratio < 1 - gate.margin else "passed"
        cases.append((f"shape {shape.label}", "failed" if shape.label in gate.slow_shapes else open_end, said))
    if gate.expected:
        cases.append((f"as {gate.expected.file} expects", gate.expected.outcome, gate.expected.sentence))
    suite = ElementTree.Element(
        "testsuite",
        name="ridgeline bench",
        tests=str(len(cases)),
        failures=str(sum(outcome == "failed" for _, outcome, _ in cases)),
        errors=str(sum(outcome == "undecided" for _, outcome, _ in cases)),
        skipped=str(sum(outcome == "not shown" for _, outcome, _ in cases)),
        time=f"{answer.seconds:.3f}",
    )
    for name, outcome, said in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="ridgeline.bench", name=name)
        if outcome == "not shown":
            ElementTree.SubElement(case, "skipped", message=f"{said}, slower by more than the margin, not shown to be")
        elif outcome != "passed":
            tag = "failure" if outcome == "failed" else "error"
            ElementTree.SubElement(case, tag, type=outcome, message=said).text = "\n".join(answer.notes)
        ElementTree.SubElement(case, "system-out").text = said
    write_whole(path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")
