"""Judges single calls of a candidate, for correctness tests and for timings alike."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import DType, Input, Shape, Task
from ridgeline.sandbox.judge.call_names import NEAR, PROBES, REACHES_TRIED, ConstantNames, ValuesName, draw_near_pairs
from ridgeline.sandbox.judge.dtypes import FLOAT8, LARGEST, SMALLEST, from_float64, is_float, to_float64, unit
from ridgeline.sandbox.judge.inputs import (
    MIXES,
    PARTS,
    SPIKING,
    axis_lengths,
    draw,
    draw_sizes,
    is_integer_like,
    make_probes,
)
from ridgeline.sandbox.judge.numerics import (
    CAREFUL_MOVE_COUNT,
    MOVE_COUNT,
    Fault,
    IntegerRange,
    RoundingNoise,
    compare,
    compare_exact,
    find_discontinuities,
    is_close,
    measure_integer_ranges,
    measure_rounding_noise,
)
from ridgeline.sandbox.judge.options import Options, answer_no, answer_yes
from ridgeline.sandbox.judge.pool import PoisonPool
from ridgeline.sandbox.judge.references import Reference, ReferenceFailed
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall, Session

Arrays = Mapping[str, NDArray[np.generic]]
KeepConstants = Callable[[dict[str, NDArray[np.generic]]], Arrays]
RELAXED_HINT = "; only its rounding is larger: `precision: relaxed` in task.yaml allows that"
RELAXABLE = {"float32", *FLOAT8}
"""Types of outputs that a task's `precision` says something of."""
MOST_FAULT_LINES = 3
"""Of one call that are told."""
LOST_SHARE = 2.0**-10
LOST_UNITS = 16
"""Units of rounding, or share of a result, that the trusted program may be off with outliers in its inputs."""
RANGE_SHARE = 2.0**-16
"""Of a type's range that results with outliers may fill: a product on the way to them may be larger than they are."""
RANGE_SHARE_HALF = 0.25
ROW_PEAK_FACTOR = 4.0
"""Times its row's largest number: the scale of each element where inputs have outliers. Blocked ways of summing and
convolving let an outlier's rounding reach what it is no part of; what is looked for there is wrong by far more."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is right for some inputs, in float64: exactly, and as a trusted program of the same data types has it."""

    inputs: Arrays
    oracle: dict[str, NDArray[np.float64]]
    trusted: dict[str, NDArray[np.float64]]
    lone: bool = False
    """The inputs have outliers, so that a row is judged by its largest number."""
    judged: frozenset[str] | None = None
    """The outputs whose numbers are held against anybody; all where it is None."""
    values: ValuesName | None = None
    """What draws the inputs again, but for constant ones."""

    def judges(self, name: str) -> bool:
        """Whether the judge compares this output, or mutated input."""
        return self.judged is None or name in self.judged


def truth_of(reference: Reference, inputs: Arrays) -> Truth:
    """For the judge: the reference's answers for one call's inputs. Raises ReferenceFailed."""
    return truths_of(reference, [inputs])[0]


def truths_of(reference: Reference, many: Sequence[Arrays]) -> list[Truth]:
    """For the judge: the reference's answers for several calls, in one request. Raises ReferenceFailed."""
    answers = reference.both(many)
    return [
        Truth(inputs=inputs, oracle=answer["oracle"], trusted=answer["trusted"])
        for inputs, answer in zip(many, answers, strict=True)
    ]


def draw_mixes_with_truth(
    bench: "CallJudge", dims: Mapping[str, int], mixes: Sequence[str], *, keep_constants: KeepConstants
) -> list[Truth]:
    """For the judge: as `draw_with_truth` for several mixes, with one question to the reference where none needs gentler values."""
    names = [ValuesName.draw(mix, bench.rng) for mix in mixes]
    draws = [keep_constants(draw(bench.task, dims, name.kind, np.random.default_rng(name.seed))) for name in names]
    try:
        answers = truths_of(bench.reference, draws)
        truths = [replace(truth, values=name) for truth, name in zip(answers, names, strict=True)]
    except ReferenceFailed:  # of one of them: each is asked about alone
        return [draw_with_truth(bench, dims, mix, keep_constants=keep_constants) for mix in mixes]
    return [
        draw_with_truth(bench, dims, mix, keep_constants=keep_constants, initial=truth)
        for mix, truth in zip(mixes, truths, strict=True)
    ]


def draw_with_truth(
    bench: "CallJudge",
    dims: Mapping[str, int],
    mix: str,
    *,
    keep_constants: KeepConstants,
    initial: Truth | None = None,
) -> Truth:
    """Inputs of a mix, and what is right for them; `keep_constants` puts constant inputs in their place. `initial`: of values that
    go as far as the mix does, where they were drawn before.

    Outliers and empty rows of masks may have no numbers as their results, or none in the task's own types, where
    ordinary values do: that is held against nobody, and gentler ones are drawn. Where ordinary values have none either,
    as where scores are masked with infinity, the operator is one for which "the same infinities" is what is right.
    Where outliers leave only some outputs without numbers, every other time they stay, and the rest is judged alone:
    else one output that overflows would keep large numbers from all others.
    Raises ReferenceFailed where the reference has no answer to ordinary values either.
    """
    bends = mix != MIXES[0] and (mix.endswith(SPIKING) or any(is_integer_like(tensor) for tensor in bench.task.inputs))
    truths: list[Truth] = []
    far_truth: Truth | None = None
    seed = initial.values.seed if initial and initial.values else ValuesName.draw(mix, bench.rng).seed
    for index, reach in enumerate(REACHES_TRIED if bends else REACHES_TRIED[:1]):
        name = ValuesName(kind=mix, seed=seed, index=index)
        try:
            inputs = initial or keep_constants(draw(bench.task, dims, mix, np.random.default_rng(seed), reach=reach))
            truths.append(
                inputs if isinstance(inputs, Truth) else replace(truth_of(bench.reference, inputs), values=name)
            )
        except ReferenceFailed:
            if not bends or not reach:
                raise
            continue
        initial = None
        if not bends:
            return truths[-1]
        clear = list_representable(bench.task, truths[-1])
        if len(clear) == len(_float_names(bench.task)):
            return _spike_reach(bench, dims, far_truth, replace(truths[-1], lone=mix.endswith(SPIKING)))
        if clear and far_truth is None and mix.endswith(SPIKING):
            far_truth = replace(truths[-1], lone=True, judged=clear)
    return _spike_reach(bench, dims, far_truth, replace(truths[-1], lone=True)) if mix.endswith(SPIKING) else truths[0]


def _spike_reach(bench: "CallJudge", dims: Mapping[str, int], far_truth: Truth | None, near_truth: Truth) -> Truth:
    """For the judge: what goes as far as some outputs allow, or what all have numbers for: in turns for each size, first by chance."""
    if far_truth is None:
        return near_truth
    size = tuple(sorted(dims.items()))
    bench.turns[size] = not bench.turns.get(size, bool(bench.rng.integers(2)))
    return far_truth if bench.turns[size] else near_truth


def _float_names(task: Task) -> tuple[str, ...]:
    return tuple(name for name in judged_names(task) if is_float(task.dtype_of(name)))


def list_representable(task: Task, truth: Truth) -> frozenset[str]:
    """The float results that the judge takes by `_is_representable`."""
    return frozenset(name for name in _float_names(task) if _is_representable(task, truth, name))


def judge_again(task: Task, truth: Truth, values: ValuesName) -> Truth:
    """What `draw_with_truth` made of these values: how outliers are judged, and which outputs are."""
    if not values.kind.endswith(SPIKING):
        return truth
    clear = list_representable(task, truth)
    partial = 0 < len(clear) < len(_float_names(task)) and REACHES_TRIED[values.index] > 0
    return replace(truth, lone=True, judged=clear if partial else None)


def _is_representable(task: Task, truth: Truth, name: str) -> bool:
    """For the judge: whether a float result is finite, fits its type, and is not lost in the trusted program's own rounding."""
    dtype, right, usual = task.dtype_of(name), truth.oracle[name], truth.trusted[name]
    if dtype in FLOAT8:  # what is too large for 8 bits is judged like the rest
        right, usual = (np.clip(each, -LARGEST[dtype], LARGEST[dtype]) for each in (right, usual))
    if not (np.isfinite(usual).all() and np.abs(right).max(initial=0.0) <= find_room(dtype)):
        return False
    return _norm(usual - right) <= find_lost_share(dtype) * _norm(right)


def find_room(dtype: DType) -> float:
    """For the judge: how large results with outliers may be. Of 8 bits all of the type: what is on the way to them is in float32."""
    if dtype in FLOAT8:
        return (1 + unit(dtype) / 2) * LARGEST[dtype]
    room = RANGE_SHARE_HALF if dtype == "float16" else RANGE_SHARE
    return room * min(LARGEST[dtype], LARGEST["float32"])


def find_lost_share(dtype: DType) -> float:
    """For the judge: how far off the trusted program may be with outliers in its inputs, as a share of the result."""
    return max(LOST_SHARE, (1 if dtype in FLOAT8 else LOST_UNITS) * unit(dtype))


def _norm(values: NDArray[np.float64]) -> float:
    """The L2 norm of a judged array, added up here: a library's threads would wait for processors that others have."""
    flat = values.reshape(-1)
    return math.sqrt(float(np.einsum("i,i->", flat, flat)))


def decoy_of(task: Task, truth: Truth) -> dict[str, NDArray[np.generic]]:
    """For the judge: the right answer, as bytes to leave in the outputs of a later call with other inputs."""
    return {tensor.name: from_float64(truth.trusted[tensor.name], tensor.dtype) for tensor in task.outputs}


def judged_names(task: Task) -> tuple[str, ...]:
    """Arrays whose contents after a judged call are compared."""
    return (
        *(tensor.name for tensor in task.outputs),
        *(tensor.name for tensor in task.inputs if tensor.constness == "mutated"),
    )


@dataclass(frozen=True, kw_only=True)
class CallJudge:
    """Judges calls of one task against its reference, with the defences that `options` leave on."""

    task: Task
    reference: Reference
    options: Options
    rng: np.random.Generator
    turns: dict[tuple[tuple[str, int], ...], bool] = field(default_factory=dict)
    """By size: whether `draw_with_truth` last kept outliers that not all outputs have numbers for."""

    def wrong(self, sealed: SealedCall, truth: Truth, *, exact: bool = False) -> tuple[str, ...]:
        """For the judge: everything wrong with one call, one line each; empty when it was right.

        `exact`: where right programs have no freedom, nothing but the exact numbers is right.
        """
        if lines := self.surroundings(sealed):
            return lines
        faults = self._numbers(sealed, truth, exact=exact)[:MOST_FAULT_LINES]
        hint = RELAXED_HINT if faults and self._is_right_if_relaxed(sealed, truth) else ""
        return tuple(describe_fault(fault) + hint for fault in faults)

    def _is_right_if_relaxed(self, sealed: SealedCall, truth: Truth) -> bool:
        """For the judge: whether a task that allows formulas which round more would take it."""
        floats = [self.task.dtype_of(name) for name in judged_names(self.task)]
        if self.task.precision != "strict" or not RELAXABLE & set(floats) or truth.lone:
            return False  # beside an outlier's row what is wrong by half may be small
        relaxed = replace(self, task=self.task.model_copy(update={"precision": "relaxed"}))
        return not relaxed._numbers(sealed, truth, exact=False)

    def surroundings(self, sealed: SealedCall) -> tuple[str, ...]:
        """Read-only inputs that were changed, guard bands that were overwritten, and outputs that changed after the call returned."""
        lines: list[str] = []
        if self.options.has("input_hash"):
            lines += [f"input {name} was changed, which the task does not allow" for name in sealed.inputs_changed]
        if self.options.has("guards"):
            lines += [f"memory beside {name} was overwritten" for name in sealed.guards_broken]
        for name, late in (sealed.late or {}).items():
            if late.tobytes() != sealed.outputs[name].tobytes():
                lines.append(f"output {name} went on changing after the call had returned")
        return tuple(lines)

    def _numbers(self, sealed: SealedCall, truth: Truth, *, exact: bool) -> tuple[Fault, ...]:
        """For the judge: a fault by the trusted program's own error counts where the operator's sensitivity does not excuse it."""
        suspected = self._faults(sealed, truth, {}, exact=exact)
        rounded = any(fault.kind not in ("shape", "exact") for fault in suspected)
        has_integer_fault = any(
            fault.kind == "exact" and not is_float(self.task.dtype_of(fault.output)) for fault in suspected
        )
        if not rounded and not has_integer_fault:
            return suspected
        noise_by_output: dict[str, RoundingNoise | IntegerRange] = dict(self.sensitivity(truth)) if rounded else {}
        if has_integer_fault:
            noise_by_output |= measure_integer_ranges(
                self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle
            )
        faults = self._faults(sealed, truth, noise_by_output, exact=exact)
        if is_close(faults):
            noise_by_output |= self.sensitivity(truth, moves=CAREFUL_MOVE_COUNT)
            faults = self._faults(sealed, truth, noise_by_output, exact=exact)
        if not any(fault.kind in ("relative_l2", "max_norm") for fault in faults):
            return faults
        excused = self._excuse_discontinuities(sealed, truth, faults)
        return faults if excused is None else self._faults(sealed, excused, noise_by_output, exact=exact)

    def _excuse_discontinuities(self, sealed: SealedCall, truth: Truth, faults: Sequence[Fault]) -> Truth | None:
        """For the judge: what is right for a call, either value where a rounding of the inputs makes an element jump between two."""
        names = {fault.output for fault in faults if fault.kind in ("relative_l2", "max_norm")}
        got = {name: to_float64(sealed.outputs[name], self.task.dtype_of(name)) for name in names}
        sides = find_discontinuities(
            self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle, got=got
        )
        if not sides:
            return None
        trusted = {
            name: np.where((side == truth.oracle[name]) | np.isnan(side), truth.trusted[name], side)
            for name, side in sides.items()
        }
        return replace(truth, oracle={**truth.oracle, **sides}, trusted={**truth.trusted, **trusted})

    def sensitivity(self, truth: Truth, *, moves: int = MOVE_COUNT) -> dict[str, RoundingNoise]:
        """For the judge: what rounding does to this operator's outputs at these inputs; some ten questions to the reference."""
        noise_by_output = measure_rounding_noise(
            self.task, truth.inputs, self.reference.oracle, self.rng, exact=truth.oracle, moves=moves
        )
        return (
            {name: _limit_by_row_peak(noise, truth.oracle[name]) for name, noise in noise_by_output.items()}
            if truth.lone
            else noise_by_output
        )

    def _faults(
        self,
        sealed: SealedCall,
        truth: Truth,
        noise_by_output: Mapping[str, RoundingNoise | IntegerRange],
        *,
        exact: bool,
    ) -> tuple[Fault, ...]:
        judged = compare_exact if exact else compare
        return tuple(
            fault
            for name in judged_names(self.task)
            if truth.judges(name)
            for fault in judged(
                sealed.outputs[name],
                truth.oracle[name],
                truth.trusted[name],
                dtype=self.task.dtype_of(name),
                precision=self.task.precision,
                output=name,
                noise=noise_by_output.get(name),
            )
        )


def _limit_by_row_peak(noise: RoundingNoise, exact: NDArray[np.float64]) -> RoundingNoise:
    """The judge's limits for rows with outliers: no element is more certain than its row's largest number is."""
    sizes = np.abs(np.where(np.isfinite(exact), exact, 0.0))
    largest = sizes.max(axis=-1 if sizes.ndim > 1 else None, keepdims=True)
    return replace(noise, spread=np.maximum(noise.spread, ROW_PEAK_FACTOR * largest))


def describe_fault(fault: Fault) -> str:
    """For the judge: one line: output, kind, and the detail, which has measured and allowed error."""
    return f"{fault.output}: {fault.kind}: {fault.detail}"


def describe_element(name: str, place: tuple[int, ...], came: float, right: float, away: float, trusted: float) -> str:
    """For the judge: one element of a replayed call's output that is wrong: what came, what is right, what the trusted program had."""
    numbers = f"came {came:.9g}, right is {right:.9g}, off by {away:.3g}"
    return f"  {name}{list(place)}: {numbers}; the reference in the task's type has {trusted:.9g}"


# Is it correct? Public sizes, sizes nobody has seen, many kinds of values, in secret order, in fresh processes.

Opened = Callable[[], AbstractContextManager[Session]]
"""A fresh worker with the candidate in it."""
LARGE_ELEMENTS = 1 << 21
"""Elements of a call from which on a size is tried with fewer kinds of values: it is judged again when timed."""
SMALL_ELEMENTS = 1 << 20
"""Elements below which a size is tried with those that bend a part twice as often: each hits by chance."""
PARTIAL_MIX_CALLS = 4
"""Calls of a small size for each kind that bends a part, half as many of a larger one."""
FEW_MIXES = 3
"""Kinds of values for a large or an unseen size, and sizes for probes."""
MOST_WRONG_LINES = 6
WORST_ELEMENTS = 5
"""Of each output of a replayed call that are listed."""
PING_SHARE = 0.3
"""Of tests that an empty call comes before."""
TELLING_MIXES = ("normal", "wide", "cancel")
"""Kinds of values for a size that is too large for all of them: together they show most shortcuts."""
SPECIAL_VALUES: Mapping[str, float | None] = {"NaN": math.nan, "infinity": math.inf, "subnormals": None}
"""One of them in one input; None for an input of nothing but subnormal numbers."""
SPECIAL_S = 10.0
"""Seconds that a call with such an input may take."""
KINDS = ("a number", "NaN", "infinity", "-infinity", "zero")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call to be judged."""

    name: str
    shape: Shape
    inputs: Mapping[str, NDArray[np.generic]]
    exact: bool = False
    truth: Truth | None = None
    """What is right, where it was asked for when the values were drawn."""
    values: ValuesName | None = None
    """What draws the inputs again."""


class Constants:
    """Inputs that a task declares constant keep their values for each size in the life of a process."""

    def __init__(self, task: Task) -> None:
        self._names = tuple(tensor.name for tensor in task.inputs if tensor.constness == "const")
        self._by_size: dict[tuple[tuple[str, int], ...], dict[str, NDArray[np.generic]]] = {}
        self.names = ConstantNames(task)
        """Constants are those of the first draw of the first call of a size."""

    def keep(self, shape: Shape, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """Inputs of a judged call with the constant ones as they were first drawn for that size."""
        size = tuple(sorted(shape.dims.items()))
        constants = self._by_size.setdefault(size, {name: inputs[name] for name in self._names})
        return {name: np.ascontiguousarray(array) for name, array in {**inputs, **constants}.items()}


@dataclass(kw_only=True)
class CorrectnessTests:
    """Judges what a session's candidate computes."""

    bench: CallJudge
    calls: int = 0
    """Judged so far."""
    _decoys: dict[str, dict[str, NDArray[np.generic]]] = field(default_factory=dict)
    _poisons: dict[str, PoisonPool] = field(default_factory=dict)
    _first_cases: dict[str, Case] = field(default_factory=dict)
    _consts: "Constants" = field(init=False)

    def __post_init__(self) -> None:
        self.task, self.options, self.rng = self.bench.task, self.bench.options, self.bench.rng
        self._consts = Constants(self.task)

    def check(self, opened: Opened) -> QuestionAnswer:
        """The judge's correctness tests: public sizes in one fresh process, then everything else in another, in secret order."""
        notes: list[str] = []
        for cases in (self._public, self._private):
            self._consts = Constants(self.task)
            with opened() as session:
                if broken := session.open():
                    return answer_no(f"{broken.reason}: {broken.detail}")
                if lines := self._run(session, self._shuffle(cases())):
                    return answer_no(*lines[:MOST_WRONG_LINES])
                if cases == self._private and self.options.has("mixes"):
                    notes += self._describe_special_values(session)
        return answer_yes(f"{self.calls} judged calls in 2 fresh processes", *notes)

    def _describe_special_values(self, session: Session) -> Iterator[str]:
        """What differs from the reference where an input holds NaN, infinity or subnormals; said, and held against nobody.

        An input that has a domain (positive, integers, a range) gets none; nor is anything said where the reference
        has no answer, or where its exact and its trusted answer differ in what is infinite or NaN.
        """
        free = list_free_inputs(self.task)
        shape = min(self.task.shapes, key=lambda shape: element_count(self.task, shape))
        for name, value in SPECIAL_VALUES.items() if free else ():
            tensor = free[int(self.rng.integers(len(free)))]
            if not has_value(tensor.dtype, value):
                continue
            inputs = dict(draw(self.task, shape.dims, MIXES[0], self.rng))
            numbers = to_float64(inputs[tensor.name], tensor.dtype)
            if value is None:
                numbers = np.copysign(find_tiny(tensor.dtype), numbers)
            elif numbers.size:
                numbers.reshape(-1)[int(self.rng.integers(numbers.size))] = value
            inputs = self._consts.keep(shape, {**inputs, tensor.name: from_float64(numbers, tensor.dtype)})
            try:
                truth = truth_of(self.bench.reference, inputs)
            except ReferenceFailed:
                continue
            limit_s = min(SPECIAL_S, self.options.call_s)
            poison = self._poison(shape, truth)
            sealed = session.call(shape.dims, inputs, placement=0, poison=poison, timeout_s=limit_s)
            if isinstance(sealed, BrokenWorker):
                yield f"{name} in {tensor.name}, {shape.label}: {sealed.reason}: {sealed.detail}"
                return
            yield from (f"{name} in {tensor.name}, {shape.label}: {line}" for line in self._tell_apart(sealed, truth))

    def _tell_apart(self, sealed: SealedCall, truth: Truth) -> Iterator[str]:
        """For the judge: where a result is NaN, infinite or zero and the reference's is not, or the reverse, for each float output."""
        for name in judged_names(self.task):
            dtype = self.task.dtype_of(name)
            right, exact = truth.trusted[name], truth.oracle[name]
            if not is_float(dtype) or not np.array_equal(classify_numbers(right), classify_numbers(exact)):
                continue
            kinds, right_kinds = classify_numbers(to_float64(sealed.outputs[name], dtype)), classify_numbers(right)
            if count := int(np.count_nonzero(kinds != right_kinds)):
                at = int(np.argmax((kinds != right_kinds).reshape(-1)))
                yield describe_kinds(name, count, kinds.size, kinds.reshape(-1)[at], right_kinds.reshape(-1)[at])

    def _run(self, session: Session, cases: Sequence[Callable[[], Iterator[Case]]]) -> list[str]:
        """Run the judge's tests; what was wrong; ends with the first case that is."""
        for draw_cases in cases:
            for case in draw_cases():
                name = self._consts.names.mention(case.shape.dims, case.values)
                if lines := self._run_case(session, case):
                    return [f"{case.name} {name}: {line}" for line in lines]
        return []

    def _run_case(self, session: Session, case: Case) -> Sequence[str]:
        if not self.options.has("fresh_values"):  # what a careless harness does: one set of values for each size
            case = self._first_cases.setdefault(case.shape.label, case)
        inputs = self._consts.keep(case.shape, case.inputs)
        truth = case.truth or truth_of(self.bench.reference, inputs)
        placement = int(self.rng.integers(2)) if self.options.has("addresses") else 0
        if self.rng.random() < PING_SHARE:
            session.ping()  # as before timings: what comes with one shall not tell one from the other
        sealed = session.call(
            case.shape.dims,
            inputs,
            placement=placement,
            poison=self._poison(case.shape, truth),
            timeout_s=self.options.call_s,
        )
        self.calls += 1
        if isinstance(sealed, BrokenWorker):
            return [f"{sealed.reason}: {sealed.detail}"]
        self._decoys[case.shape.label] = decoy_of(self.task, truth)
        return self.bench.wrong(sealed, truth, exact=case.exact)

    def _poison(self, shape: Shape, truth: Truth) -> dict[str, NDArray[np.generic]]:
        """Filling of a judged call's outputs without the defence: what a careless harness leaves there, the right answer."""
        if not self.options.has("poison"):
            return decoy_of(self.task, truth)
        if shape.label not in self._poisons:
            self._poisons[shape.label] = PoisonPool(self.task, shape.dims, self.rng)
        return self._poisons[shape.label].draw(self._decoys.get(shape.label))

    def _shuffle(self, cases: Iterator[Callable[[], Iterator[Case]]]) -> list[Callable[[], Iterator[Case]]]:
        case_list = list(cases)
        self.rng.shuffle(case_list)
        return case_list

    def _public(self) -> Iterator[Callable[[], Iterator[Case]]]:
        for shape in self.task.shapes:
            for mix in list_mixes(self.task, shape) if self.options.has("mixes") else MIXES[:1]:
                yield self._drawn_size_cases(shape, mix)

    def _private(self) -> Iterator[Callable[[], Iterator[Case]]]:
        unseen = draw_sizes(self.task, self.rng) if self.options.has("held_out") else ()
        for shape in unseen:
            mixed = [*self._some(MIXES), self._some(PARTS)[0]]
            for mix in mixed if self.options.has("mixes") else MIXES[:1]:
                yield self._drawn_size_cases(shape, mix)
        small = [
            shape for shape in (*self.task.shapes, *unseen) if element_count(self.task, shape) < LARGE_ELEMENTS
        ] or [self.task.shapes[0]]
        for shape in self._some(small):
            if self.options.has("probes"):
                yield self._probe_cases(shape)
            if self.options.has("near_pairs"):
                yield self._near_pair_cases(shape)
        if self.options.has("near_pairs"):  # of the smallest sizes a sample of the values holds them all
            yield self._near_pair_cases(max(small, key=partial(element_count, self.task)))
        for shape in self._some(self.task.shapes):
            yield self._drawn_size_cases(shape, MIXES[0])

    def _drawn_size_cases(self, shape: Shape, mix: str) -> Callable[[], Iterator[Case]]:
        def cases() -> Iterator[Case]:
            truth = draw_with_truth(
                self.bench, shape.dims, mix, keep_constants=lambda inputs: self._consts.keep(shape, inputs)
            )
            name = f"{shape.label}, {mix}"
            yield Case(name=name, shape=shape, inputs=truth.inputs, truth=truth, values=truth.values)

        return cases

    def _probe_cases(self, shape: Shape) -> Callable[[], Iterator[Case]]:
        def cases() -> Iterator[Case]:
            values = ValuesName.draw(PROBES, self.rng)
            for index, probe in enumerate(make_probes(self.task, shape.dims, np.random.default_rng(values.seed))):
                name = f"{shape.label}, probe {probe.name}"
                values = replace(values, index=index)
                yield Case(name=name, shape=shape, inputs=probe.inputs, exact=probe.exact, values=values)

        return cases

    def _near_pair_cases(self, shape: Shape) -> Callable[[], Iterator[Case]]:
        """For the judge: two calls in a row whose inputs differ in one element: an answer found by a sample of the values is wrong."""

        def cases() -> Iterator[Case]:
            values = ValuesName.draw(NEAR, self.rng)
            pairs = draw_near_pairs(self.task, shape.dims, np.random.default_rng(values.seed))
            for index, (changed, inputs) in enumerate(pairs):
                name = f"{shape.label}, {changed or MIXES[0]}"
                yield Case(name=name, shape=shape, inputs=inputs, values=replace(values, index=index))

        return cases

    def _some(self, items: Sequence[T]) -> list[T]:
        picked = self.rng.permutation(len(items))[:FEW_MIXES]
        return [items[int(place)] for place in picked]


def describe_kinds(name: str, count: int, size: int, kind: int, right_kind: int) -> str:
    """For the judge: how many elements of an output differ from the reference in kind, with two places in `KINDS` as an example."""
    example = f"such as {KINDS[kind]} for {KINDS[right_kind]}"
    return f"{count} of {size} elements of {name} differ from the reference in kind, {example}"


def find_tiny(dtype: DType) -> float:
    """For the judge: a subnormal number of that float type."""
    return 2.0**-20 if dtype == "float16" else SMALLEST[dtype] / (1 if dtype in FLOAT8 else 4)


def has_value(dtype: DType, value: float | None) -> bool:
    """For the judge: whether a type has that special value: e4m3fn knows no infinity."""
    return value is None or not math.isinf(value) or dtype != "float8_e4m3fn"


def list_free_inputs(task: Task) -> list[Input]:
    """Inputs of a judged call that a special value may be put in: floats without a domain (positive, a range, integers)."""
    usual = (tensor for tensor in task.inputs if tensor.values == "normal" and tensor.constness != "const")
    return [tensor for tensor in usual if is_float(tensor.dtype)]


def classify_numbers(values: NDArray[np.float64]) -> NDArray[np.int8]:
    """Of each judged number its place in `KINDS`."""
    kinds = np.select([np.isnan(values), values == np.inf, values == -np.inf, values == 0], [1, 2, 3, 4], 0)
    return kinds.astype(np.int8)


def list_mixes(task: Task, shape: Shape) -> tuple[str, ...]:
    """For the judge: kinds of values that a public size is tested with, each as often as it is named: the larger it is, the fewer."""
    size = element_count(task, shape)
    if size >= LARGE_ELEMENTS:
        return tuple(mix for mix in MIXES if mix in TELLING_MIXES)
    return *MIXES, *(PARTIAL_MIX_CALLS if size < SMALL_ELEMENTS else PARTIAL_MIX_CALLS // 2) * PARTS


def element_count(task: Task, shape: Shape) -> int:
    """Elements of all inputs and outputs of one judged call."""
    return sum(int(np.prod(axis_lengths(tensor, shape.dims))) for tensor in (*task.inputs, *task.outputs))
