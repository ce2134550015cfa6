"""Judges single calls, and tests a candidate, with values, oracle and comparison on the card: see `correctness.py`.

What is drawn, in which order and what is right is decided as there; only where arrays lie is other. Needs PyTorch.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.graph.task import Shape, Task
from ridgeline.sandbox.judge import device_numerics, numerics
from ridgeline.sandbox.judge.call_names import NEAR, PROBES, REACHES_TRIED, TIMED, CallName, ConstantNames, ValuesName
from ridgeline.sandbox.judge.correctness import (
    FEW_MIXES,
    LARGE_ELEMENTS,
    MOST_FAULT_LINES,
    MOST_WRONG_LINES,
    PING_SHARE,
    RELAXABLE,
    RELAXED_HINT,
    ROW_PEAK_FACTOR,
    SPECIAL_S,
    SPECIAL_VALUES,
    WORST_ELEMENTS,
    describe_element,
    describe_fault,
    describe_kinds,
    element_count,
    find_lost_share,
    find_room,
    find_tiny,
    has_value,
    judged_names,
    list_free_inputs,
    list_mixes,
)
from ridgeline.sandbox.judge.device_numerics import Noise, Range
from ridgeline.sandbox.judge.device_reference import DeviceReference, Part
from ridgeline.sandbox.judge.device_session import DeviceSealed, DeviceSession, plan_memory
from ridgeline.sandbox.judge.device_values import Chance, draw, draw_near_pairs, draw_ordinary, make_probes, to_type
from ridgeline.sandbox.judge.dtypes import FLOAT8, LARGEST, is_float
from ridgeline.sandbox.judge.inputs import MIXES, PARTS, SPIKING, draw_sizes, is_integer_like
from ridgeline.sandbox.judge.numerics import Fault, Tolerance
from ridgeline.sandbox.judge.options import Options, answer_no, answer_yes
from ridgeline.sandbox.judge.references import ReferenceFailed
from ridgeline.sandbox.judge.session import BrokenWorker
from ridgeline.sandbox.judge.shared_buffers import buffer_specs

torch: Any = import_module("torch")
TERMS_COUNTED = 3
"""How often terms are counted for inputs of some sizes: the most counts, for what is changed may lie under a mask."""
BENDING_ARRAYS = 5
"""Arrays as large as the inputs that drawing an unusual kind of values takes."""
Tensor = Any
Tensors = Mapping[str, Any]
Opened = Callable[[], DeviceSession]
"""A fresh worker with the candidate in it, not opened yet."""


@dataclass(kw_only=True)
class DeviceTruth:
    """What is right for some inputs; asked in parts where the whole is too large, and then anew each time."""

    dims: Mapping[str, int]
    inputs: Tensors
    reference: DeviceReference
    lone: bool = False
    """The inputs have outliers, so that a row is judged by its largest number."""
    judged: frozenset[str] | None = None
    """The outputs whose numbers are held against anybody; all where it is None."""
    values: ValuesName | None = None
    """What draws the inputs again, but for constant ones; None where nothing does."""
    _single_part: Part | None = None

    def parts(self) -> Iterator[Part]:
        """The judge on a card: raises ReferenceFailed."""
        if self._single_part is not None:
            yield self._single_part
            return
        for part in self.reference.parts(self.inputs, self.dims):
            if not part.count:
                self._single_part = part
            yield part

    def judges(self, name: str) -> bool:
        """The judge on a card: whether this output, or mutated input, is compared."""
        return self.judged is None or name in self.judged


@dataclass(frozen=True, kw_only=True)
class DeviceCallJudge:
    """Judges calls of one task against its reference, with the defences that `options` leave on."""

    task: Task
    reference: DeviceReference
    options: Options
    chance: Chance
    turns: dict[tuple[tuple[str, int], ...], bool] = field(default_factory=dict)
    terms: dict[str, dict[str, float]] = field(default_factory=dict)
    """By the sizes of all inputs: how many of their elements feed one of each output, the most of `TERMS_COUNTED` counts."""

    @property
    def rng(self) -> np.random.Generator:
        """Where the judge's own decisions come from."""
        return self.chance.places

    def truth_of(self, inputs: Tensors, dims: Mapping[str, int], values: ValuesName | None = None) -> DeviceTruth:
        """The judge on a card: what is right for these inputs, asked when it is needed."""
        return DeviceTruth(dims=dims, inputs=inputs, reference=self.reference, values=values)

    def draw_timed(self, dims: Mapping[str, int], constants: dict[str, Tensor]) -> DeviceTruth:
        """The judge on a card: new ordinary values; constant inputs as they are in `constants`, where they are kept from the first."""
        values = ValuesName.draw(TIMED, self.rng)
        inputs = draw_ordinary(self.task, dims, self.chance.seed_anew(values.seed), constants)
        if not constants:
            constants.update({name: inputs[name] for name in self._list_constants()})
        return self.truth_of(inputs, dims, values)

    def draw_again(self, name: CallName) -> Iterator[tuple[DeviceTruth, bool]]:
        """The judge on a card: the call of that name, behind those made just before it on purpose: what is right, and whether only the
        exact numbers are. Raises ValueError where there is no such call."""
        constants: dict[str, Tensor] = {}
        if names := self._list_constants():
            if name.const is None:
                raise ValueError(f"the task has constant inputs ({', '.join(names)}), and the call does not say which")
            first, _ = next(self._draw_named(name.dims, name.const, {}))
            constants = {each: first[each] for each in names}
        kept = {} if name.values == name.const else constants  # the first timed call of its process draws them itself
        for inputs, exact in self._draw_named(name.dims, name.values, kept):
            yield self._judge_again(self.truth_of({**inputs, **constants}, name.dims, name.values)), exact

    def _draw_named(
        self, dims: Mapping[str, int], values: ValuesName, constants: Tensors
    ) -> Iterator[tuple[Tensors, bool]]:
        """The judge on a card: inputs of that name, behind those before it, and whether only exact results are right. Raises ValueError."""
        chance = self.chance.seed_anew(values.seed)
        if values.kind == TIMED:
            yield draw_ordinary(self.task, dims, chance, constants), False
        elif values.kind in (PROBES, NEAR):
            series = list(islice(self._draw_series(dims, values, constants), values.index + 1))
            if values.index >= len(series):
                raise ValueError(f"there are {len(series)} calls of kind {values.kind}, none of number {values.index}")
            yield from series
        elif values.index >= len(REACHES_TRIED):
            raise ValueError(f"values are drawn at most {len(REACHES_TRIED)} times")
        else:
            inputs = self._draw(dims, values)
            if inputs is None:
                raise ValueError("the card has too little memory free to draw its values again")
            yield inputs, False

    def _draw_series(
        self, dims: Mapping[str, int], first: ValuesName, constants: Tensors
    ) -> Iterator[tuple[Tensors, bool]]:
        """The judge on a card: inputs of all probes or all calls that differ in one element, and whether only exact results are right."""
        if first.kind == PROBES:
            for probe in make_probes(self.task, dims, np.random.default_rng(first.seed), self.reference.device):
                yield probe.inputs, probe.exact
            return
        for _, inputs in draw_near_pairs(self.task, dims, self.chance.seed_anew(first.seed), constants):
            yield inputs, False

    def _judge_again(self, truth: DeviceTruth) -> DeviceTruth:
        """The judge on a card: what `draw_with_truth` made of these values: `correctness.judge_again`."""
        if truth.values is None or not truth.values.kind.endswith(SPIKING):
            return truth
        floats = [name for name in judged_names(self.task) if is_float(self.task.dtype_of(name))]
        clear = self._find_representable(truth, floats)
        is_partial = 0 < len(clear) < len(floats) and REACHES_TRIED[truth.values.index] > 0
        return replace(truth, lone=True, judged=clear if is_partial else None)

    def _list_constants(self) -> list[str]:
        """The judge on a card: inputs that stay the same in a process."""
        return [tensor.name for tensor in self.task.inputs if tensor.constness == "const"]

    def draw_with_truth(
        self, dims: Mapping[str, int], mix: str, keep_constants: Callable[[dict[str, Tensor]], Tensors]
    ) -> DeviceTruth:
        """The judge on a card: inputs of a mix for which the reference has numbers, and what is right: `correctness.draw_with_truth`."""
        bends = mix != MIXES[0] and (mix.endswith(SPIKING) or any(map(is_integer_like, self.task.inputs)))
        floats = [name for name in judged_names(self.task) if is_float(self.task.dtype_of(name))]
        first_truth: DeviceTruth | None = None
        last_truth: DeviceTruth | None = None
        far_truth: DeviceTruth | None = None
        seed = ValuesName.draw(mix, self.rng).seed
        for index in range(len(REACHES_TRIED) if bends else 1):
            reach, values = REACHES_TRIED[index], ValuesName(kind=mix, seed=seed, index=index)
            inputs = self._draw(dims, values)
            truth = (
                self.truth_of(keep_constants(self._draw_partly(dims, mix, reach)), dims)
                if inputs is None
                else self.truth_of(keep_constants(inputs), dims, values)
            )
            try:
                clear = frozenset(floats) if not bends else self._find_representable(truth, floats)
            except ReferenceFailed:
                if not bends or not reach:
                    raise
                continue
            if not bends:
                return truth
            first_truth, last_truth = first_truth or truth, truth
            if len(clear) == len(floats):
                return self._alternate(dims, far_truth, replace(truth, lone=mix.endswith(SPIKING)))
            if clear and far_truth is None and mix.endswith(SPIKING):
                far_truth = replace(truth, lone=True, judged=clear)
        assert first_truth is not None
        assert last_truth is not None
        return (
            self._alternate(dims, far_truth, replace(last_truth, lone=True)) if mix.endswith(SPIKING) else first_truth
        )

    def _draw(self, dims: Mapping[str, int], values: ValuesName) -> dict[str, Tensor] | None:
        """The judge on a card: inputs of that name; None where memory is too short for unusual ones."""
        if values.kind != MIXES[0] and BENDING_ARRAYS * self._count_bytes(dims) > self.reference.free_bytes():
            return None
        chance = self.chance.seed_anew(values.seed)
        return draw(self.task, dims, values.kind, chance, reach=REACHES_TRIED[values.index])

    def _count_bytes(self, dims: Mapping[str, int]) -> int:
        """The judge on a card: of a call's inputs."""
        return sum(spec.nbytes for spec in buffer_specs(self.task, dims) if spec.constness is not None)

    def _draw_partly(self, dims: Mapping[str, int], mix: str, reach: float) -> dict[str, Tensor]:
        """The judge on a card: ordinary inputs with some items of the mix at a secret place. How many hangs on free memory, so no name
        draws them again."""
        nbytes, axis = self._count_bytes(dims), self.reference.part_axis(dims)
        usual = draw(self.task, dims, MIXES[0], self.chance)
        if axis is None:
            return usual
        count = max(1, dims[axis] * self.reference.free_bytes() // (2 * BENDING_ARRAYS * nbytes))
        start = int(self.rng.integers(dims[axis] - count + 1))
        slab = draw(self.task, {**dims, axis: count}, mix, self.chance, reach=reach)
        for tensor in self.task.inputs:
            if axis in tensor.shape:
                usual[tensor.name].narrow(tensor.shape.index(axis), start, count).copy_(slab[tensor.name])
        return {**slab, **{tensor.name: usual[tensor.name] for tensor in self.task.inputs if axis in tensor.shape}}

    def _alternate(
        self, dims: Mapping[str, int], far_truth: DeviceTruth | None, near_truth: DeviceTruth
    ) -> DeviceTruth:
        """The judge on a card: what goes as far as some outputs allow, or what all have numbers for, in turns."""
        if far_truth is None:
            return near_truth
        size = tuple(sorted(dims.items()))
        self.turns[size] = not self.turns.get(size, bool(self.rng.integers(2)))
        return far_truth if self.turns[size] else near_truth

    def _find_representable(self, truth: DeviceTruth, names: Sequence[str]) -> frozenset[str]:
        """The judge on a card: float outputs that are finite, fit their type, and are not lost in the trusted program's own rounding."""
        clear = set(names)
        for part in truth.parts():
            clear = {name for name in clear if self._is_representable(part, name)}
        return frozenset(clear)

    def _is_representable(self, part: Part, name: str) -> bool:
        dtype, right, usual = self.task.dtype_of(name), part.oracle[name], part.trusted[name]
        if dtype in FLOAT8:  # what is too large for 8 bits is judged like the rest
            right, usual = (each.clamp(-LARGEST[dtype], LARGEST[dtype]) for each in (right, usual))
        if not right.numel() or not bool(torch.isfinite(usual).all() & (right.abs().max() <= find_room(dtype))):
            return False
        away, size = torch.linalg.vector_norm(usual - right), torch.linalg.vector_norm(right)
        return bool(away <= find_lost_share(dtype) * size)

    def wrong(self, sealed: DeviceSealed, truth: DeviceTruth, *, exact: bool = False) -> tuple[str, ...]:
        """The judge on a card: everything wrong with one call, one line each; empty when it was right. Raises ReferenceFailed."""
        return self.find_wrong({"": sealed}, truth, exact=exact).get("", ())

    def find_wrong(
        self, calls: Mapping[str, DeviceSealed], truth: DeviceTruth, *, exact: bool = False
    ) -> dict[str, tuple[str, ...]]:
        """The judge on a card: what is wrong with each of some calls with the same values, without those that were right.

        What is right, and what rounding does to it, is asked once for all of them. Raises ReferenceFailed.
        """
        wrong = {name: lines for name, sealed in calls.items() if (lines := self.surroundings(sealed))}
        if len(wrong) == len(calls):
            return wrong
        for part in truth.parts():
            allowance = _Allowance(bench=self, part=part, truth=truth)
            for name in calls.keys() - wrong.keys():
                outputs = self.reference.stretch_of(calls[name].outputs, part)
                if faults := self._numbers(outputs, allowance, exact=exact):
                    place = f" (of items {part.start} to {part.start + part.count - 1})" if part.count else ""
                    hint = RELAXED_HINT if self._is_right_if_relaxed(outputs, part, truth) else ""
                    wrong[name] = tuple(f"{describe_fault(fault)}{place}{hint}" for fault in faults[:MOST_FAULT_LINES])
            if len(wrong) == len(calls):
                break
        return wrong

    def _is_right_if_relaxed(self, outputs: Tensors, part: Part, truth: DeviceTruth) -> bool:
        """The judge on a card: whether a task that allows formulas which round more would take it."""
        floats = [self.task.dtype_of(name) for name in judged_names(self.task)]
        if self.task.precision != "strict" or not RELAXABLE & set(floats) or truth.lone:
            return False  # beside an outlier's row what is wrong by half may be small
        relaxed = replace(self, task=self.task.model_copy(update={"precision": "relaxed"}))
        return not relaxed._numbers(outputs, _Allowance(bench=relaxed, part=part, truth=truth), exact=False)

    def surroundings(self, sealed: DeviceSealed) -> tuple[str, ...]:
        """The judge on a card: inputs that were changed, guard bands that were overwritten, outputs that changed after the call."""
        lines: list[str] = []
        if self.options.has("input_hash"):
            lines += [f"input {name} was changed, which the task does not allow" for name in sealed.inputs_changed]
        if self.options.has("guards"):
            lines += [f"memory beside {name} was overwritten" for name in sealed.guards_broken]
        lines += [f"output {name} went on changing after the call had returned" for name in sealed.changed_late]
        return tuple(lines)

    def _numbers(self, outputs: Tensors, allowance: "_Allowance", *, exact: bool) -> tuple[Fault, ...]:
        """The judge on a card: a fault by the trusted program's own error counts where the operator's sensitivity does not excuse it."""
        part, truth = allowance.part, allowance.truth
        if not exact and self._is_rounding(outputs, allowance):
            return ()
        suspected = self._faults(outputs, part, truth, {}, exact=exact)
        rounded = any(fault.kind not in ("shape", "exact") for fault in suspected)
        integers = any(fault.kind == "exact" and not is_float(self.task.dtype_of(fault.output)) for fault in suspected)
        if not rounded and not integers:
            return suspected
        noise: dict[str, Noise | Range] = dict(allowance.noise) if rounded else {}
        noise |= allowance.ranges if integers else {}
        faults = self._faults(outputs, part, truth, noise, exact=exact)
        if numerics.is_close(faults) and not allowance.is_careful:
            noise = {name: each for name, each in noise.items() if isinstance(each, Range)}
            noise |= allowance.measure_again()
            faults = self._faults(outputs, part, truth, noise, exact=exact)
        if not any(fault.kind in ("relative_l2", "max_norm") for fault in faults):
            return faults
        excused = self._excuse_discontinuities(outputs, part, faults)
        return faults if excused is None else self._faults(outputs, excused, truth, noise, exact=exact)

    def _is_rounding(self, outputs: Tensors, allowance: "_Allowance") -> bool:
        """The judge on a card: whether float outputs are right, as few passes tell; no where anything else is to be looked at."""
        part = allowance.part
        for name in (name for name in judged_names(self.task) if allowance.truth.judges(name)):
            dtype, oracle = self.task.dtype_of(name), part.oracle[name]
            if not is_float(dtype) or outputs[name].shape != oracle.shape or not oracle.numel():
                return False
            is_right = partial(
                device_numerics.is_plainly_right,
                outputs[name].double(),
                oracle,
                part.trusted[name],
                dtype=dtype,
                precision=self.task.precision,
            )
            if is_right():
                continue
            if not device_numerics.has_room(oracle, dtype) or not is_right(noise=allowance.noise.get(name)):
                return False
        return True

    def _excuse_discontinuities(self, outputs: Tensors, part: Part, faults: Sequence[Fault]) -> Part | None:
        """The judge on a card: the same, with either value right where a rounding of the inputs makes an element jump between two."""
        names = {fault.output for fault in faults if fault.kind in ("relative_l2", "max_norm")}
        sides = device_numerics.find_discontinuities(
            self.task,
            part.inputs,
            self.reference.oracle,
            self.chance.elements,
            exact=part.oracle,
            got={name: outputs[name].double() for name in names},
        )
        if not sides:
            return None
        trusted = {
            name: torch.where((side == part.oracle[name]) | side.isnan(), part.trusted[name], side)
            for name, side in sides.items()
        }
        return replace(part, oracle={**part.oracle, **sides}, trusted={**part.trusted, **trusted})

    def sensitivity(self, part: Part, *, lone: bool = False, moves: int = numerics.MOVE_COUNT) -> dict[str, Noise]:
        """The judge on a card: what rounding does to this operator's outputs at these inputs; some ten questions to the reference."""
        noise = device_numerics.measure_rounding_noise(
            self.task,
            part.inputs,
            self.reference.oracle,
            self.chance.elements,
            self.rng,
            exact=part.oracle,
            terms=self._count_terms(part.inputs),
            moves=moves,
        )
        if lone:
            for name, each in noise.items():
                right = part.oracle[name]
                sizes = torch.where(torch.isfinite(right), right, 0.0).abs()
                largest = sizes.amax(dim=-1, keepdim=True) if sizes.ndim > 1 else sizes.max()
                each.spread = torch.maximum(each.spread, ROW_PEAK_FACTOR * largest)
        return noise

    def _count_terms(self, inputs: Tensors) -> dict[str, float]:
        """The judge on a card: the most that was counted for inputs of these sizes; what values they have does not count.

        By chance of its own, so that a call that is made again is judged by the same numbers whether terms were known or not.
        """
        sizes = {tensor.name: tuple(inputs[tensor.name].shape) for tensor in self.task.inputs}
        if (key := str(sizes)) not in self.terms:
            oracle, axis = self.reference.oracle, self.reference.known_axis
            chances = [self.chance.seed_anew(crc32(f"{key} {number}".encode())) for number in range(TERMS_COUNTED)]
            counted = [
                device_numerics.count_terms(self.task, sizes, oracle, chance.elements, chance.places, axis=axis)
                for chance in chances
            ]
            self.terms[key] = {name: max(each[name] for each in counted) for name in counted[0]}
        return self.terms[key]

    def learn_tolerances(self, truth: DeviceTruth) -> dict[str, Tolerance]:
        """The judge on a card: by how much two right outputs of that size may differ: the least that any part of this call says."""
        learned: dict[str, Tolerance] = {}
        for part in truth.parts():
            noise = self.sensitivity(part)
            for name in judged_names(self.task):
                tolerance = device_numerics.derive_tolerance(
                    part.oracle[name],
                    part.trusted[name],
                    dtype=self.task.dtype_of(name),
                    precision=self.task.precision,
                    noise=noise.get(name),
                )
                if name not in learned or tolerance.peak_amount < learned[name].peak_amount:
                    learned[name] = tolerance
            break  # one part says it: all are of one distribution
        return learned

    def decoy_of(self, truth: DeviceTruth) -> dict[str, Tensor]:
        """The judge on a card: the right answer, to leave in the outputs of a later call with other inputs; a part may do."""
        return {
            tensor.name: to_type(part.trusted[tensor.name], tensor.dtype)
            for part in truth.parts()
            if not part.count
            for tensor in self.task.outputs
        }

    def _faults(
        self, outputs: Tensors, part: Part, truth: DeviceTruth, noise: Mapping[str, Noise | Range], *, exact: bool
    ) -> tuple[Fault, ...]:
        judged = device_numerics.compare_exact if exact else device_numerics.compare
        return tuple(
            fault
            for name in judged_names(self.task)
            if truth.judges(name)
            for fault in judged(
                outputs[name],
                part.oracle[name],
                part.trusted[name],
                dtype=self.task.dtype_of(name),
                precision=self.task.precision,
                output=name,
                noise=noise.get(name),
            )
        )


@dataclass
class _Allowance:
    """What rounding may do to one part of what is right, measured when the first of its calls needs it."""

    bench: DeviceCallJudge
    part: Part
    truth: DeviceTruth
    moves: int = numerics.MOVE_COUNT

    @cached_property
    def noise(self) -> dict[str, Noise]:
        """The judge on a card: of float outputs."""
        return self.bench.sensitivity(self.part, lone=self.truth.lone, moves=self.moves)

    def measure_again(self) -> dict[str, Noise]:
        """The judge on a card: the same by more moves, for what would be refused by little; in place of the first, which takes memory."""
        self.moves = numerics.CAREFUL_MOVE_COUNT
        self.__dict__.pop("noise", None)
        return self.noise

    @property
    def is_careful(self) -> bool:
        """The judge on a card: whether that was done."""
        return self.moves > numerics.MOVE_COUNT

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The judge on a card: of whole numbers."""
        bench, part = self.bench, self.part
        return device_numerics.measure_integer_ranges(
            bench.task, part.inputs, bench.reference.oracle, bench.chance.elements, exact=part.oracle
        )


def _tell_apart(task: Task, outputs: Tensors, part: Part) -> Iterator[str]:
    """The judge on a card: where a result is NaN, infinite or zero and the reference's is not, or the reverse, for each float output."""
    for name in judged_names(task):
        right = _classify_numbers(part.trusted[name])
        if not is_float(task.dtype_of(name)) or not torch.equal(right, _classify_numbers(part.oracle[name])):
            continue
        kinds = _classify_numbers(outputs[name])
        differ = (kinds != right).reshape(-1)
        if count := int(torch.count_nonzero(differ)):
            at = int(differ.to(torch.uint8).argmax())
            yield describe_kinds(name, count, differ.numel(), int(kinds.reshape(-1)[at]), int(right.reshape(-1)[at]))


def _classify_numbers(values: Tensor) -> Tensor:
    """The judge on a card: of each number its place in `correctness.KINDS`."""
    kinds, values = torch.zeros(values.shape, dtype=torch.uint8, device=values.device), values.double()
    for place, found in enumerate((values.isnan(), values == math.inf, values == -math.inf, values == 0), 1):
        kinds[found] = place
    return kinds


def replay_call(bench: DeviceCallJudge, name: CallName, opened: Opened) -> Iterator[str]:
    """The judge on a card: what is wrong with the call of that name when a fresh process makes it, at each place of its arrays.

    Raises ValueError where there is no such call, and ReferenceFailed.
    """
    reference = bench.reference
    plan = plan_memory(
        bench.task, name.dims, oracle_bytes=reference.least_bytes(name.dims), free_bytes=reference.free_bytes()
    )
    with opened() as session:
        session.placements = plan.placements
        if broken := session.open():
            yield f"{broken.reason}: {broken.detail}"
            return
        for placement in range(plan.placements):
            for truth, exact in bench.draw_again(name):
                sealed = session.call_device(
                    name.dims,
                    truth.inputs,
                    placement=placement,
                    decoy=None,
                    late=True,
                    timeout_s=bench.options.call_s,
                )
                if isinstance(sealed, BrokenWorker):
                    yield f"{sealed.reason}: {sealed.detail}"
                    return
                if lines := bench.wrong(sealed, truth, exact=exact):
                    yield from lines
                    yield from _list_worst(bench, sealed, truth)
                    return


def _list_worst(bench: DeviceCallJudge, sealed: DeviceSealed, truth: DeviceTruth) -> Iterator[str]:
    """The judge on a card: the worst elements of each output of a replayed call, of the first part that has any."""
    for part in truth.parts():
        outputs, lines = bench.reference.stretch_of(sealed.outputs, part), []
        for name in judged_names(bench.task):
            came, right = outputs[name].double(), part.oracle[name]
            if came.shape != right.shape or not right.numel():
                continue
            same = (came == right) | (came.isnan() & right.isnan())
            away = torch.where(same, 0.0, (came - right).abs().nan_to_num(nan=math.inf)).reshape(-1)
            trusted = part.trusted[name].reshape(-1)
            for flat in away.topk(min(WORST_ELEMENTS, away.numel())).indices.tolist():
                if away[flat] > 0:
                    place = tuple(int(index) for index in np.unravel_index(flat, tuple(right.shape)))
                    numbers = (float(each.reshape(-1)[flat]) for each in (came, right, away, trusted))
                    lines.append(describe_element(name, place, *numbers))
        if lines:
            yield from lines
            return


# Is it correct? The same tests as `correctness.CorrectnessTests` makes.


@dataclass(frozen=True, kw_only=True)
class DeviceCase:
    """One call to be judged."""

    name: str
    shape: Shape
    truth: DeviceTruth
    exact: bool = False


Cases = Callable[[], Iterator[DeviceCase]]


@dataclass(kw_only=True)
class DeviceTests:
    """Judges what a session's candidate computes."""

    bench: DeviceCallJudge
    calls: int = 0
    """Judged so far."""
    _decoys: dict[str, Tensors] = field(default_factory=dict)
    _constants: dict[tuple[tuple[str, int], ...], Tensors] = field(default_factory=dict)
    _names: ConstantNames = field(init=False)

    def check(self, opened: Opened) -> QuestionAnswer:
        """The judge on a card: public sizes in one fresh process, then everything else in another, each in secret order."""
        notes: list[str] = []
        for list_cases in (self._public, self._private):
            self._constants, self._decoys, self._names = {}, {}, ConstantNames(self.bench.task, card=True)
            with opened() as session:
                if broken := session.open():
                    return answer_no(f"{broken.reason}: {broken.detail}")
                if lines := self._run(session, list(list_cases())):
                    return answer_no(*lines[:MOST_WRONG_LINES])
                if list_cases == self._private and self.bench.options.has("mixes"):
                    notes += self._describe_special_values(session)
        return answer_yes(f"{self.calls} judged calls in 2 fresh processes", *notes)

    def _describe_special_values(self, session: DeviceSession) -> Iterator[str]:
        """The judge on a card: what differs where an input holds NaN, infinity or subnormals: said, and held against nobody."""
        bench, free = self.bench, list_free_inputs(self.bench.task)
        shape = min(bench.task.shapes, key=partial(element_count, bench.task))
        for name, value in SPECIAL_VALUES.items() if free else ():
            tensor = free[int(bench.rng.integers(len(free)))]
            if not has_value(tensor.dtype, value):
                continue
            inputs = self._keep(shape, draw(bench.task, shape.dims, MIXES[0], bench.chance))
            numbers = inputs[tensor.name].clone()
            if value is None:
                sizes = torch.full_like(numbers, find_tiny(tensor.dtype), dtype=torch.float64)
                numbers = to_type(torch.copysign(sizes, numbers.double()), tensor.dtype)
            elif numbers.numel():
                numbers.reshape(-1)[int(bench.rng.integers(numbers.numel()))] = value
            truth = bench.truth_of({**inputs, tensor.name: numbers}, shape.dims)
            try:
                parts = list(truth.parts())
            except ReferenceFailed:
                continue
            limit_s = min(SPECIAL_S, bench.options.call_s)
            sealed = session.call_device(shape.dims, truth.inputs, placement=0, decoy=None, timeout_s=limit_s)
            where = f"{name} in {tensor.name}, {shape.label}"
            if isinstance(sealed, BrokenWorker):
                yield f"{where}: {sealed.reason}: {sealed.detail}"
                return
            for part in parts:
                outputs = bench.reference.stretch_of(sealed.outputs, part)
                yield from (f"{where}: {line}" for line in _tell_apart(bench.task, outputs, part))

    def _run(self, session: DeviceSession, groups: list[Cases]) -> list[str]:
        """The judge on a card: what was wrong; ends with the first case that is."""
        for place in self.bench.rng.permutation(len(groups)):
            for case in groups[int(place)]():
                name = " ".join((case.name, self._names.mention(case.shape.dims, case.truth.values))).strip()
                if lines := self._run_case(session, case):
                    return [f"{name}: {line}" for line in lines]
        return []

    def _run_case(self, session: DeviceSession, case: DeviceCase) -> Sequence[str]:
        if self.bench.rng.random() < PING_SHARE:
            session.ping()
        sealed = session.call_device(
            case.shape.dims,
            case.truth.inputs,
            placement=int(self.bench.rng.integers(2)),
            decoy=self._decoys.get(case.shape.label),
            late=True,
            timeout_s=self.bench.options.call_s,
        )
        self.calls += 1
        if isinstance(sealed, BrokenWorker):
            return [f"{sealed.reason}: {sealed.detail}"]
        lines = self.bench.wrong(sealed, case.truth, exact=case.exact)
        self._decoys[case.shape.label] = {
            tensor.name: sealed.outputs[tensor.name] for tensor in self.bench.task.outputs
        }
        return lines

    def _public(self) -> Iterator[Cases]:
        for shape in self.bench.task.shapes:
            for mix in list_mixes(self.bench.task, shape):
                yield self._draw_cases(shape, mix)

    def _private(self) -> Iterator[Cases]:
        task = self.bench.task
        unseen = draw_sizes(task, self.bench.rng)
        for shape in unseen:
            for mix in (*self._some(MIXES), self._some(PARTS)[0]):
                yield self._draw_cases(shape, mix)
        small = [shape for shape in (*task.shapes, *unseen) if element_count(task, shape) < LARGE_ELEMENTS]
        small = small or [task.shapes[0]]
        for shape in self._some(small):
            yield self._probes(shape)
            yield self._near_pairs(shape)
        yield self._near_pairs(max(small, key=partial(element_count, task)))
        for shape in self._some(task.shapes):
            yield self._draw_cases(shape, MIXES[0])

    def _draw_cases(self, shape: Shape, mix: str) -> Cases:
        def cases() -> Iterator[DeviceCase]:
            truth = self.bench.draw_with_truth(shape.dims, mix, lambda inputs: self._keep(shape, inputs))
            yield DeviceCase(name=f"{shape.label}, {mix}", shape=shape, truth=truth)

        return cases

    def _probes(self, shape: Shape) -> Cases:
        def cases() -> Iterator[DeviceCase]:
            first = ValuesName.draw(PROBES, self.bench.rng)
            rng, device = np.random.default_rng(first.seed), self.bench.reference.device
            for index, probe in enumerate(make_probes(self.bench.task, shape.dims, rng, device)):
                values = replace(first, index=index)
                truth = self.bench.truth_of(self._keep(shape, probe.inputs), shape.dims, values)
                yield DeviceCase(name=f"{shape.label}, probe {probe.name}", shape=shape, truth=truth, exact=probe.exact)

        return cases

    def _near_pairs(self, shape: Shape) -> Cases:
        """The judge on a card: two calls in a row whose inputs differ in one element."""

        def cases() -> Iterator[DeviceCase]:
            first, size = ValuesName.draw(NEAR, self.bench.rng), tuple(sorted(shape.dims.items()))
            chance, constants = self.bench.chance.seed_anew(first.seed), self._constants.get(size, {})
            for index, (changed, inputs) in enumerate(draw_near_pairs(self.bench.task, shape.dims, chance, constants)):
                truth = self.bench.truth_of(self._keep(shape, inputs), shape.dims, replace(first, index=index))
                yield DeviceCase(name=f"{shape.label}, {changed or MIXES[0]}", shape=shape, truth=truth)

        return cases

    def _keep(self, shape: Shape, inputs: Tensors) -> dict[str, Tensor]:
        """The judge on a card: the inputs with the constant ones as they were first drawn for that size."""
        names = [tensor.name for tensor in self.bench.task.inputs if tensor.constness == "const"]
        size = tuple(sorted(shape.dims.items()))
        constants = self._constants.setdefault(size, {name: inputs[name] for name in names})
        return {**inputs, **constants}

    def _some(self, items: Sequence[Any]) -> list[Any]:
        picked = self.bench.rng.permutation(len(items))[:FEW_MIXES]
        return [items[int(place)] for place in picked]
