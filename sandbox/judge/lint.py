"""Finds defects of a task that let wrong kernels pass or right ones fail, before anybody optimizes for it."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Input, Output, Shape, Task, Tensor
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.call_names import REACHES_TRIED
from ridgeline.sandbox.judge.correctness import CallJudge, Constants, truth_of
from ridgeline.sandbox.judge.dtypes import (
    FLOAT8,
    LARGEST,
    SMALLEST,
    Floats,
    Raw,
    from_float64,
    is_float,
    to_float64,
    unit,
)
from ridgeline.sandbox.judge.inputs import (
    MIXES,
    SPIKING,
    axis_lengths,
    change_one_element,
    draw,
    is_integer_like,
    make_probes,
)
from ridgeline.sandbox.judge.numerics import MOST_JUMPING as MOST_JUMPS
from ridgeline.sandbox.judge.numerics import (
    RoundingNoise,
    discontinuous_shares,
    error_limit,
    honest_error,
    local_scale,
    measure_integer_ranges,
    measure_rounding_noise,
)
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.provenance import list_some
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.session import BrokenWorker, Session

Rule = Literal[
    "constant-output",
    "partly-constant",
    "tiny-range",
    "insensitive-input",
    "init-dependent",
    "unrepeatable",
    "wrong-shape",
    "not-finite",
    "narrow-oracle",
    "far-oracle",
    "no-answer",
    "arbitrary-ties",
    "rounding-decides",
    "unknown-work",
    "broken-baseline",
    "too-short",
]
"""Task lint: the filters with which METR and robust-kbench took out a sixth of KernelBench."""


class LintFinding(Value):
    """One defect of a task. A `wrong` one lets a wrong kernel pass or refuses a right one; others weaken the judge."""

    rule: Rule
    wrong: bool
    text: str
    """One line: where, what, mend."""
    about: str | None = None
    """The array that it is about, if it is about one."""


UNREAD = ("insensitive-input", "init-dependent")
NO_EFFECT = (*UNREAD, "constant-output", "partly-constant")


def blocking(task: Task, findings: Sequence[LintFinding]) -> tuple[LintFinding, ...]:
    """The lint findings that make every verdict on this task worthless.

    An input without effect, such as a bias ahead of a normalization, is none of them: a kernel that leaves it out is
    right. It is one if no input that changes from call to call has an effect.
    """
    changing = {tensor.name for tensor in task.inputs if tensor.constness != "const"}
    idle = {finding.about for finding in findings if finding.rule == "insensitive-input"}
    return tuple(finding for finding in findings if finding.wrong and (finding.rule not in UNREAD or changing <= idle))


Opened = Callable[[], AbstractContextManager[Session]]
"""A fresh worker with the version that the task begins with, not yet open."""
OracleAnswer = Mapping[str, NDArray[np.float64]]
DRAWS = 5
VISIBLE = 10.0
"""Values must spread by more than so many tolerances, or a constant passes as the answer."""
MOST_FORGIVEN = 0.05
"""Of the values' size: a rounding to 8 bits may be more, which no constant comes as near to."""
TINY = 0.01
CONSTANT_SHARE = 0.5
SHORT_US = 20.0
"""A call below this is mostly the cost of being called; a gain there says little of the kernel."""
TIMED_CALLS = 5
OTHER_DRAWS = 4
"""Values of an input of which one must change something."""
LARGE_ELEMENTS = 1 << 18
"""Elements of a call from which on it is not asked about again and again."""
INITIAL = {"ones": 1.0, "zeros": 0.0}
"""What parameters begin with in a framework."""


def lint_task(task: Task, reference: Reference, *, opened: Opened | None = None) -> tuple[LintFinding, ...]:
    """Everything found at the smallest public size, and of the baseline at every public size where `opened` is given.

    Raises ReferenceFailed where the reference has no answer, which is worse than any hole.
    """
    smallest, telling = _choose_shapes(task)
    lint = _Lint(task, reference, smallest)
    findings = [*_find_no_effect(lint, telling), *lint.reference_alone(), *lint.oracle_drift()]
    findings += find_no_answers(task, reference, smallest, elements=_element_count(task, smallest))
    findings += [*find_ties(task, reference, telling), *find_rounded_integers(task, reference, telling)]
    findings += [*find_discontinuous(task, reference, telling), *_check_work(task)]
    if opened is not None:
        findings += _check_baseline(task, reference, opened)
    return tuple(dict.fromkeys(findings))


def find_known_defects(task: Task, reference: Reference) -> tuple[LintFinding, ...]:
    """What makes every verdict on a candidate of this task worth nothing: for a look before each judgement.

    Asks the reference alone, some ten times at the smallest public size and up to seven times for each input, and as
    often at a larger one where something has no effect there. Raises ReferenceFailed where it has no answer.
    """
    smallest, telling = _choose_shapes(task)
    lint = _Lint(task, reference, smallest)
    return blocking(task, (*_find_no_effect(lint, telling), *lint.oracle_drift()))


def _choose_shapes(task: Task) -> tuple[Shape, Shape]:
    """Sizes that a task is linted at: the smallest public one, and the largest that may be asked about again and again."""
    smallest = min(task.shapes, key=_size_key(task))
    affordable = (shape for shape in task.shapes if _element_count(task, shape) < LARGE_ELEMENTS)
    return smallest, max(affordable, key=_size_key(task), default=smallest)


def _find_no_effect(lint: "_Lint", telling: Shape) -> Iterator[LintFinding]:
    """The judge lints a task: what its size shows of outputs and inputs.

    That something has no effect must show at `telling` as well: a softmax of one element is 1 whatever that is.
    """
    findings = [*lint.outputs(), *lint.inputs()]
    if telling != lint.shape and any(finding.rule in NO_EFFECT for finding in findings):
        larger = _Lint(lint.task, lint.reference, telling)
        shown = {(finding.rule, finding.about) for finding in (*larger.outputs(), *larger.inputs())}
        findings = [
            finding for finding in findings if finding.rule not in NO_EFFECT or (finding.rule, finding.about) in shown
        ]
    yield from findings


@dataclass
class _Lint:
    task: Task
    reference: Reference
    shape: Shape

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        self.samples = [draw(self.task, self.shape.dims, "normal", self.rng) for _ in range(DRAWS)]
        self.answers = [self.reference.oracle(inputs) for inputs in self.samples]
        self.tolerance = {name: self._tolerance(name) for name in self.answers[0]}

    def outputs(self) -> Iterator[LintFinding]:
        """The judge lints a task: findings on a task's outputs: shapes, and whether a constant would do."""
        for tensor in _judged_outputs(self.task):
            lengths = axis_lengths(tensor, self.shape.dims)
            if (got := self.answers[0][tensor.name].shape) != lengths:
                yield LintFinding(
                    rule="wrong-shape",
                    wrong=True,
                    text=f"{tensor.name}: the reference gives {list(got)}, the task says {list(lengths)}; correct one",
                )
                continue
            values = np.stack([answer[tensor.name] for answer in self.answers])
            if not np.isfinite(values).all():
                yield LintFinding(
                    rule="not-finite",
                    wrong=False,
                    text=f"{tensor.name}: is not finite for ordinary inputs; restrict their `values`",
                )
                continue
            yield from self._check_spread(tensor.name, values)

    def _check_spread(self, name: str, values: NDArray[np.float64]) -> Iterator[LintFinding]:
        spread = values.std(axis=0)
        tolerance = self.tolerance[name]
        if float(np.sqrt(np.mean(spread**2))) <= VISIBLE * tolerance:
            text = f"{name}: hardly depends on the inputs (spread {float(spread.max()):.2g}); a constant would pass"
            yield LintFinding(rule="constant-output", wrong=True, text=text, about=name)
        elif spread.size > 1 and (share := float(np.mean(spread <= tolerance))) > CONSTANT_SHARE:
            text = f"{name}: {share:.0%} of its elements are the same for all inputs; judge the others alone"
            yield LintFinding(rule="partly-constant", wrong=False, text=text, about=name)
        if is_float(self.task.dtype_of(name)) and float(np.abs(values).max()) <= TINY:
            text = f"{name}: all values lie within {TINY} of zero, where absolute tolerances hide everything; scale it"
            yield LintFinding(rule="tiny-range", wrong=False, text=text)

    def inputs(self) -> Iterator[LintFinding]:
        """The judge lints a task: each input changed alone must change something; a parameter must not be replaceable by where it began."""
        base = self.samples[0]
        for tensor in self.task.inputs:
            if not any(
                self._check_influence({**base, tensor.name: other_values})
                for other_values in self._draw_other_values(tensor)
            ):
                text = f"{tensor.name}: another one gives the same result; remove it, or mend the reference"
                yield LintFinding(rule="insensitive-input", wrong=True, text=text, about=tensor.name)
            elif tensor.constness == "const" and is_float(tensor.dtype):
                yield from self._initial(tensor)

    def _draw_other_values(self, tensor: Input) -> Iterator[NDArray[np.generic]]:
        """The judge lints a task: other values of that input: of few that it may have, the same is often drawn again."""
        base = self.samples[0]
        for _ in range(OTHER_DRAWS):
            other_values = draw(self.task, self.shape.dims, "normal", self.rng)[tensor.name]
            if np.array_equal(other_values, base[tensor.name]):
                other_values = change_one_element(base, tensor, self.rng)[0][tensor.name]
            yield other_values

    def _initial(self, tensor: Input) -> Iterator[LintFinding]:
        base = self.samples[0]
        for word, value in INITIAL.items():
            begun = from_float64(np.full(base[tensor.name].shape, value), tensor.dtype)
            if not self._check_influence({**base, tensor.name: begun}):
                text = (
                    f"{tensor.name}: {word} in its place give the same result; a kernel that leaves it out would pass"
                )
                yield LintFinding(rule="init-dependent", wrong=True, text=text, about=tensor.name)

    def reference_alone(self) -> Iterator[LintFinding]:
        """The judge lints a task: whether it answers twice alike, in a new process too, and in float64."""
        same_process = self.reference.oracle(self.samples[0])
        self.reference.close()
        new_process = self.reference.oracle(self.samples[0])
        if self._differs(same_process, self.answers[0]) or self._differs(new_process, self.answers[0]):
            yield LintFinding(
                rule="unrepeatable",
                wrong=True,
                text="the reference: other results for the same inputs; take chance out",
            )
        for note in self.reference.notes:
            text = f"the reference: {note}, so the oracle is not exact; define oracle() in float64 beside it"
            yield LintFinding(rule="narrow-oracle", wrong=False, text=text)

    def oracle_drift(self) -> Iterator[LintFinding]:
        """The judge lints a task: whether float64 and the task's own types give one answer."""
        return find_far_oracle(self.task, self.reference, self.samples[0], self.answers[0])

    def _check_influence(self, inputs: Mapping[str, NDArray[np.generic]]) -> bool:
        return self._differs(self.reference.oracle(inputs), self.answers[0])

    def _differs(self, left: OracleAnswer, right: OracleAnswer) -> bool:
        return any(self._differ(left[name], right[name], self.tolerance[name]) for name in right)

    def _differ(self, left: NDArray[np.float64], right: NDArray[np.float64], tolerance: float) -> bool:
        if left.shape != right.shape:
            return True
        both = np.isfinite(left) & np.isfinite(right)
        if bool((np.isfinite(left) != np.isfinite(right)).any()):
            return True
        return bool((np.abs(left - right)[both] > tolerance).any())

    def _tolerance(self, name: str) -> float:
        """What the judge forgives, absolute: for whole numbers nothing."""
        dtype = self.task.dtype_of(name)
        values = self.answers[0][name]
        finite = values[np.isfinite(values)]
        if not is_float(dtype) or finite.size == 0:
            return 0.0
        share = min(error_limit(dtype, self.task.precision).peak * unit(dtype), MOST_FORGIVEN)
        return float(share * np.sqrt(np.mean(finite**2)))


def _check_work(task: Task) -> Iterator[LintFinding]:
    for field, weak in (("bytes", "a result faster than memory allows"), ("flops", "the distance to the roofline")):
        if getattr(task, field) is None:
            text = f"{field}: missing, so {weak} is not seen; give a formula over the dimensions"
            yield LintFinding(rule="unknown-work", wrong=False, text=text)


def _check_baseline(task: Task, reference: Reference, opened: Opened) -> Iterator[LintFinding]:
    """The judge lints a task: the version that the task begins with: right at every public size, and long enough to be timed."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    bench = CallJudge(task=task, reference=reference, options=Options(), rng=rng)
    consts = Constants(task)
    with opened() as session:
        broken = session.open()
        for shape in () if broken else task.shapes:
            for mix in ("normal", TIES) if has_integer_output(task) else ("normal",):
                inputs = consts.keep(shape, draw(task, shape.dims, mix, rng))
                fault = _first_fault(bench, session, shape, inputs, mix=mix)
                if isinstance(fault, LintFinding):
                    yield fault
            if isinstance(fault, BrokenWorker):
                broken = fault
                break
            if shape.timed and (hole := _check_duration(session, shape, inputs)):
                yield hole
    if broken:
        text = f"the first version does not work: {broken.reason}: {broken.detail}; mend it first"
        yield LintFinding(rule="broken-baseline", wrong=True, text=text)


def _first_fault(
    bench: CallJudge, session: Session, shape: Shape, inputs: Mapping[str, NDArray[np.generic]], *, mix: str
) -> LintFinding | BrokenWorker | None:
    """What is wrong with a call of the linted task's first version; of values with ties, only what they show of the task."""
    sealed = session.call(shape.dims, inputs)
    if isinstance(sealed, BrokenWorker):
        return sealed
    try:
        truth = truth_of(bench.reference, inputs)
        got = {name: to_float64(sealed.outputs[name], bench.task.dtype_of(name)) for name in truth.oracle}
        if hole := find_arbitrary(bench.task, bench.reference, inputs, got, truth.oracle):
            return hole
    except ReferenceFailed:
        if mix == "normal":
            raise
        return None  # told elsewhere
    if mix == "normal" and (lines := bench.wrong(sealed, truth)):
        text = f"{shape.label}: the first version is wrong: {lines[0]}; mend it first"
        return LintFinding(rule="broken-baseline", wrong=True, text=text)
    return None


def _check_duration(session: Session, shape: Shape, inputs: Mapping[str, NDArray[np.generic]]) -> LintFinding | None:
    """The judge lints a task: a few calls, less an empty one; the machine may be busy, so the shortest counts."""
    times = []
    for _ in range(TIMED_CALLS):
        sealed = session.call(shape.dims, inputs)
        if isinstance(sealed, BrokenWorker):
            return None
        times.append(sealed.wall_us)
    duration_us = min(times) - statistics.median(session.ping() for _ in range(TIMED_CALLS))
    if duration_us >= SHORT_US:
        return None
    text = (
        f"{shape.label}: a call takes {max(duration_us, 0):.0f} us, mostly the cost of being called; time a larger size"
    )
    return LintFinding(rule="too-short", wrong=False, text=text)


def _judged_outputs(task: Task) -> tuple[Tensor, ...]:
    return (*task.outputs, *(tensor for tensor in task.inputs if tensor.constness == "mutated"))


def _size_key(task: Task) -> Callable[[Shape], int]:
    return lambda shape: _element_count(task, shape)


def _element_count(task: Task, shape: Shape) -> int:
    return sum(int(np.prod(axis_lengths(tensor, shape.dims))) for tensor in (*task.inputs, *task.outputs))


# What a reference leaves open: values for which it has no answer, ties, and whole numbers that rounding decides.

TIES = "structure"
"""The mix whose rows hold equal values."""
FAR_OFF = "offset"
"""The mix of large numbers that differ little: many are near what they are compared with."""
REPETITIONS = 8
"""Draws of it: what it bends, and how, is a matter of chance."""
ROLLED_BY = 3
"""Elements by which an input is rolled: places in it must follow."""
SMALL_ELEMENTS = 1 << 20
"""Elements of a call from which on each mix is tried once."""
PATIENCE_S = 60.0
"""For all kinds of values together."""
MOST_UNJUDGED = 0.5
"""Share of the whole numbers that may hang on rounding, and so go unjudged, before the task judges nothing."""
Arrays = Mapping[str, Raw]


def find_no_answers(task: Task, reference: Reference, shape: Shape, *, elements: int) -> Iterator[LintFinding]:
    """Kinds of values and probes for which the reference fails: the first of them would end a judgement."""
    failed: dict[str, str] = {}
    until = time.monotonic() + PATIENCE_S
    kinds = [*_draw_kinds(task, shape, often=elements < SMALL_ELEMENTS)]
    for number, (kind, tried) in enumerate(kinds):
        if time.monotonic() > until:
            text = (
                f"the reference: {number} of {len(kinds)} kinds of values took {PATIENCE_S:.0f} s; add a smaller size"
            )
            yield LintFinding(rule="no-answer", wrong=False, text=text)
            break
        failure = ""
        for inputs in tried():
            if not (failure := _reference_failure(reference, inputs)):
                break
        if failure:
            failed.setdefault(kind, failure)
    if failed:
        text = (
            f"the reference: has no answer for {list_some(tuple(failed))} ({next(iter(failed.values()))}), which would end"
            " every judgement; have it make what it needs of any values (of a matrix: a @ a.T + (1 + (a * a).max()) * I), or"
            " declare `values` for which it has one"
        )
        yield LintFinding(rule="no-answer", wrong=True, text=text)


def _draw_kinds(task: Task, shape: Shape, *, often: bool) -> Iterator[tuple[str, Callable[[], Iterator[Arrays]]]]:
    """Kinds of values that a task is linted with, each with inputs of which the judge takes the first that have an answer."""
    rng = np.random.default_rng()
    bends = any(is_integer_like(tensor) for tensor in task.inputs)

    def milder(mix: str) -> Iterator[Arrays]:
        for reach in REACHES_TRIED if bends or mix == SPIKING else REACHES_TRIED[:1]:
            yield draw(task, shape.dims, mix, rng, reach=reach)

    for mix in (*MIXES, *((TIES,) * (REPETITIONS - 1) if often else ())):
        yield f"{mix} values", partial(milder, mix)
    for probe in make_probes(task, shape.dims, rng):
        yield f"probe {probe.name}", partial(iter, (probe.inputs,))


def find_rounded_integers(task: Task, reference: Reference, shape: Shape) -> Iterator[LintFinding]:
    """The judge lints a task: whole numbers that change when an input moves by less than its type can tell."""
    integer_outputs = _is_integer_output(task)
    if not integer_outputs:
        return
    rng = np.random.default_rng()
    inputs = draw(task, shape.dims, MIXES[0], rng)
    exact = reference.oracle(inputs)
    trusted = reference.trusted(inputs)
    ranges = measure_integer_ranges(task, inputs, reference.oracle, rng, exact=exact)
    for name in (output.name for output in integer_outputs):
        open_ = exact[name] != trusted[name]
        if name in ranges:
            open_ |= ranges[name].low != ranges[name].high
        share = float(np.mean(open_))
        if share > MOST_UNJUDGED:
            text = f"{name}: rounding decides {share:.0%} of it, which cannot be judged; judge what it is made from"
            yield LintFinding(rule="rounding-decides", wrong=True, text=text)
        elif share:
            text = f"{name}: rounding decides {share:.2%} of it at {shape.label}: there, every value it may take passes"
            yield LintFinding(rule="rounding-decides", wrong=False, text=text)


def find_discontinuous(task: Task, reference: Reference, shape: Shape) -> Iterator[LintFinding]:
    """The judge lints a task: float outputs of which elements jump when an input moves by less than its type can tell: those of many do."""
    most: dict[str, float] = {}
    rng = np.random.default_rng()
    for mix in (MIXES[0], FAR_OFF):
        inputs = draw(task, shape.dims, mix, rng)
        try:
            shares = discontinuous_shares(task, inputs, reference.oracle, rng, exact=reference.oracle(inputs))
        except ReferenceFailed:
            continue  # told elsewhere
        most = {name: max(share, most.get(name, 0.0)) for name, share in shares.items()}
    for name, share in most.items():
        text = f"{name}: rounding decides {share:.2%} of it at {shape.label}: there, what lies on either side passes"
        if share > MOST_JUMPS:
            text = (
                f"{name}: rounding decides {share:.2%} of it at {shape.label}, more than the {MOST_JUMPS:.0%} that are "
                "excused, so right kernels may be refused; judge what it is made from"
            )
        if share:
            yield LintFinding(rule="rounding-decides", wrong=False, text=text)


def find_ties(task: Task, reference: Reference, shape: Shape) -> Iterator[LintFinding]:
    """The judge lints a task: places named among equal elements: in float64 the reference names others than in the task's own types."""
    rng = np.random.default_rng()
    for inputs in (draw(task, shape.dims, mix, rng) for mix in (MIXES[0], TIES, TIES) if has_integer_output(task)):
        try:
            exact, trusted = reference.oracle(inputs), reference.trusted(inputs)
        except ReferenceFailed:
            continue  # told elsewhere
        if hole := find_arbitrary(task, reference, inputs, trusted, exact):
            yield hole
            return


def find_arbitrary(
    task: Task, reference: Reference, inputs: Arrays, got: Mapping[str, Floats], right: Mapping[str, Floats]
) -> LintFinding | None:
    """The judge lints a task: the task's hole where two answers differ only in which of some equal elements they name."""
    for name, tensor in ((output.name, tensor) for output in _is_integer_output(task) for tensor in task.inputs):
        values = to_float64(inputs[tensor.name], tensor.dtype)
        axis = _axis_of_equal_elements(got[name], right[name], values)
        if axis is None:
            continue
        there = np.take_along_axis(values, _as_indices(right[name], values.shape, axis), axis)
        if there.min() == there.max():
            continue  # anything names those
        turned = {**inputs, tensor.name: np.ascontiguousarray(np.roll(inputs[tensor.name], ROLLED_BY, axis))}
        try:
            rolled_answer = reference.oracle(turned)[name]
        except ReferenceFailed:
            continue
        if _names_elements(rolled_answer, np.roll(values, ROLLED_BY, axis), axis, there):
            text = (
                f"{name}: is a place among equal elements of {tensor.name}, and which of them is left open, so right"
                " kernels are refused; have the reference take the first (stable=True), or leave the place out"
            )
            return LintFinding(rule="arbitrary-ties", wrong=True, text=text)
    return None


def has_integer_output(task: Task) -> bool:
    """The judge lints a task: whether it has an output of whole numbers."""
    return bool(_is_integer_output(task))


def _axis_of_equal_elements(got: Floats, right: Floats, values: Floats) -> int | None:
    """The axis of `values` along which both are places, if they differ, and name equal elements wherever they do."""
    if got.shape != right.shape or not (got != right).any():
        return None
    for axis in range(values.ndim):
        places = _as_indices(right, values.shape, axis)
        if (
            places.size
            and _names_elements(right, values, axis, None)
            and _names_elements(got, values, axis, np.take_along_axis(values, places, axis))
        ):
            return axis
    return None


def _names_elements(indices: Floats, values: Floats, axis: int, there: Floats | None) -> bool:
    """For linting: whether numbers are places along that axis, and those of the elements `there`."""
    places = _as_indices(indices, values.shape, axis)
    if not places.size or places.min() < 0 or places.max() >= values.shape[axis]:
        return False
    return there is None or np.array_equal(np.take_along_axis(values, places, axis), there)


def _as_indices(indices: Floats, shape: tuple[int, ...], axis: int) -> NDArray[np.int64]:
    """For linting: places as indices along that axis, where the other axes are those of `shape`; else nothing."""
    other_axes = shape[:axis] + shape[axis + 1 :]
    if indices.shape == other_axes:
        return np.expand_dims(indices, axis).astype(np.int64)
    if indices.ndim == len(shape) and indices.shape[:axis] + indices.shape[axis + 1 :] == other_axes:
        return indices.astype(np.int64)
    return np.zeros(0, np.int64)


def _reference_failure(reference: Reference, inputs: Arrays) -> str:
    """The judge lints a task: what the reference says of inputs for which it has no answer; nothing where it has one."""
    try:
        reference.both([inputs])
    except ReferenceFailed as failed:
        return str(failed).removesuffix("; correct the reference")
    return ""


def _is_integer_output(task: Task) -> list[Output]:
    return [output for output in task.outputs if not is_float(output.dtype)]


# A reference that answers otherwise in float64 than in the task's types, which forgives errors of any size.
#
# Such as one that makes its weights or its state by chance, anew for each type.

FAR_UNITS = 1e3
"""Units of rounding, for half of all elements: what rounding does where an operator is hard to compute is less."""
FAR_SHARE = 0.1
"""Of an element's size: the same for types that have few units in it."""
FAR_ROUNDINGS = 3.0
"""Units that are never far: of 8 bits one rounding alone is more than `FAR_SHARE`, as an output of few elements shows."""
FAR_SENSITIVITY = 64.0
"""In units of the operator's own sensitivity, once that is measured: honest programs hardly use up one."""


def find_far_oracle(
    task: Task, reference: Reference, inputs: Mapping[str, Raw], exact: Mapping[str, Floats]
) -> Iterator[LintFinding]:
    """The judge lints a task: outputs whose two answers differ beyond reason; `exact` is the oracle's. Raises ReferenceFailed."""
    usual = reference.trusted(inputs)
    far_outputs = [
        name
        for name in exact
        if _units_off(task, name, exact[name], usual[name], None) > _far_limit(task, name, FAR_UNITS)
    ]
    noise_by_output = (
        measure_rounding_noise(task, inputs, reference.oracle, np.random.default_rng(), exact=exact)
        if far_outputs
        else {}
    )
    for name in far_outputs:
        units = _units_off(task, name, exact[name], usual[name], noise_by_output[name])
        if units > _far_limit(task, name, FAR_SENSITIVITY):
            text = (
                f"{name}: the reference's answers in float64 and in the task's types are {units:.2g} units of rounding "
                "apart, so that nothing would be wrong; have it hold the same numbers in both, and take chance out"
            )
            yield LintFinding(rule="far-oracle", wrong=True, text=text)


def _far_limit(task: Task, name: str, units: float) -> float:
    dtype = task.dtype_of(name)
    return max(FAR_ROUNDINGS, min(units, FAR_SHARE / unit(dtype))) if is_float(dtype) else units


def _units_off(task: Task, name: str, exact: Floats, usual: Floats, noise: RoundingNoise | None) -> float:
    """The judge lints a task: units of rounding by which half of the reference's elements, or more, are off; 0 for whole numbers."""
    dtype = task.dtype_of(name)
    if not is_float(dtype) or exact.shape != usual.shape:
        return 0.0
    if dtype in FLOAT8:  # the type's end is no distance
        exact = np.clip(exact, -LARGEST[dtype], LARGEST[dtype])
    both = np.isfinite(exact) & np.isfinite(usual)
    if not both.any():
        return 0.0
    unit_error = honest_error(
        np.broadcast_to(local_scale(exact), exact.shape), noise, dtype=dtype, precision=task.precision
    )
    return float(np.median(np.abs(usual[both] - exact[both]) / (unit_error + SMALLEST[dtype])[both]))
