"""Is it the candidate's own work? What it calls, what it leaves undefined, and whether its kernels make the output."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graph.task import Shape, Task
from graph.values import Value
from sandbox.judge.build import COMPILED, apart
from sandbox.judge.dtypes import is_float, to_float64
from sandbox.judge.freeze import Frozen
from sandbox.judge.inputs import draw, extents
from sandbox.judge.lost import Lost
from sandbox.judge.operators import Traced, listed, read
from sandbox.judge.options import Answered, no, unverified, yes
from sandbox.judge.references import Reference
from sandbox.judge.session import Broken, Sealed, Session
from sandbox.judge.symbols import NotALibrary, Taken, kind_of, plain_library, taken
from sandbox.judge.worker import Mode

Opened = Callable[[Mode], AbstractContextManager[Session]]
"""A fresh worker with the candidate in it, not yet open, in that mode."""
Arrays = Mapping[str, NDArray[np.generic]]
MOST_SHAPES = 6
CALL_S = 120.0
NEAR = 0.1
"""An output within a tenth of the right one, in relative L2, was made: what lies in memory by chance is not."""
WHOLE_SHARE = 0.9
"""Of whole numbers: so many equal ones were made."""


class Work(Value):
    """Whose the work is, and how far the candidate's code reaches."""

    answered: Answered
    reaches: tuple[str, ...] = ()
    """What it was seen to load, start or have that could change its own process, the timers of a card among it."""


def own_work(task: Task, new: Frozen, reference: Reference, *, opened: Opened | None = None) -> Work:
    """Whether the result is made by the candidate's own code. Costs two fresh workers for Python, none for C.

    What a worker tells of itself can only speak against the candidate, or be confirmed by the knock-out, which the
    judge sees. Raises ReferenceFailed.
    """
    if task.language in COMPILED:
        return _compiled(task, new)
    if task.language in ("flydsl", "cutedsl"):
        said = f"launches of {task.language} kernels cannot be traced, nor their kernels knocked out"
        return Work(answered=unverified(said), reaches=("cannot be traced",))

    def fresh(mode: Mode) -> AbstractContextManager[Session]:
        return opened(mode) if opened else _session(task, new, mode)

    return _Python(task=task, reference=reference, opened=fresh).work()


@contextmanager
def _session(task: Task, new: Frozen, mode: Mode) -> Iterator[Session]:
    with Session(task, new.folder) as session:
        session.mode = mode
        yield session


def _compiled(task: Task, new: Frozen) -> Work:
    """By the names that the built library takes from elsewhere; nothing is run."""
    try:
        library = apart(task, new.folder)
    except Lost as lost:
        return Work(answered=unverified(f"it was not built: {lost.detail}"), reaches=("was not built",))
    try:
        return judged(taken(library), device=task.language != "c")
    except NotALibrary as error:
        return Work(answered=unverified(str(error)), reaches=(str(error),))


def judged(found: Taken, *, device: bool) -> Work:
    """What undefined names mean. `device`: its language has a runtime for GPUs, which is not linked into it."""
    kinds: dict[str, list[str]] = {}
    for symbol in found.symbols:
        kinds.setdefault(kind_of(symbol, device=device), []).append(symbol)
    told = {
        "loader": "can load other code",
        "starter": "can have another program work",
        "network": "can have another machine work",
        "unknown": "takes names from elsewhere that are not the C runtime's",
    }
    doubts = tuple(f"{text}: {listed(tuple(kinds[kind]))}" for kind, text in told.items() if kind in kinds)
    if strange := [name for name in found.needed if not plain_library(name, device=device)]:
        doubts = (f"is linked with {listed(tuple(strange))}", *doubts)
    if library := kinds.get("library"):
        return Work(answered=no(f"calls a library's operators: {listed(tuple(library))}"), reaches=doubts)
    if doubts:
        return Work(answered=unverified(*doubts), reaches=doubts)
    return Work(answered=yes(f"takes only the runtime of its language from elsewhere ({len(found.symbols)} names)"))


@dataclass(frozen=True, kw_only=True)
class _Python:
    """A candidate in Python: first traced, then with its kernels knocked out."""

    task: Task
    reference: Reference
    opened: Opened

    def work(self) -> Work:
        """The answer, with what it rests on."""
        traced = self._traced()
        if isinstance(traced, str):
            return Work(answered=unverified(traced), reaches=(traced,))
        doubts = tuple(self._doubts(traced))
        return Work(answered=self._answered(traced, doubts), reaches=doubts)

    def _answered(self, traced: Traced, doubts: tuple[str, ...]) -> Answered:
        elements = sum(self._elements(shape) for shape in self._shapes())
        major, minor = traced.computing(elements)
        notes = [f"ready-made operators with little to do: {listed(minor)}"] if minor else []
        if major:
            return no(f"ready-made operators compute it: {listed(major)}", *notes)
        if engines := traced.engines():
            return no(f"loads a library of operators: {listed(engines)}")
        if doubts:
            return unverified(*doubts)
        kernels = traced.names("kernels")
        if not kernels:
            return unverified("no kernel of its own was seen to run, and no operator either", *notes)
        return self._knocked_out(f"its own kernels ran: {listed(kernels)}", *notes)

    def _doubts(self, traced: Traced) -> list[str]:
        told: tuple[tuple[Literal["loads", "starts", "connects", "modules"], str], ...] = (
            ("loads", "loads compiled code"),
            ("starts", "starts another program"),
            ("connects", "opens a connection"),
            ("modules", "uses modules that compute or compile"),
        )
        doubts = [f"{text}: {listed(names)}" for kind, text in told if (names := traced.names(kind))]
        if foreign := traced.foreign():
            doubts.append(f"calls operators that somebody registered: {listed(foreign)}")
        return doubts

    def _traced(self) -> Traced | str:
        """What was called at every size, or why that is not known."""
        with self.opened("trace") as session:
            if broken := session.open():
                return f"the traced run: {broken.reason}: {broken.detail}"
            for shape in self._shapes():
                inputs = draw(self.task, shape.dims, "normal", self._rng())
                done = session.call(shape.dims, inputs, timeout_s=CALL_S)
                if isinstance(done, Broken):
                    return f"the traced run, {shape.label}: {done.reason}: {done.detail}"
            report = session.report()
        if isinstance(report, Broken):
            return f"the traced run: {report.reason}: {report.detail}"
        return read(report) or "the traced run gave no report that can be read"

    def _knocked_out(self, *evidence: str) -> Answered:
        """With its kernels replaced by nothing the output must be wrong, else something else made it."""
        unharmed: list[str] = []
        with self.opened("knockout") as session:
            if broken := session.open():
                return unverified(*evidence, f"the run without them: {broken.reason}: {broken.detail}")
            for shape in self._shapes():
                inputs = draw(self.task, shape.dims, "normal", self._rng())
                done = session.call(shape.dims, inputs, timeout_s=CALL_S)
                if isinstance(done, Broken):
                    break  # what stops without its kernels needs them
                unharmed += self._still_right(done, inputs)
        if not unharmed:
            return yes(*evidence, "without them the output is wrong")
        names = tuple(dict.fromkeys(unharmed))
        wanted = {*self._judged()}
        if set(names) == wanted:
            return no(f"without its kernels the output is still right: {listed(names)}")
        return unverified(*evidence, f"without them some outputs are still right: {listed(names)}")

    def _still_right(self, done: Sealed, inputs: Arrays) -> list[str]:
        oracle = self.reference.oracle(inputs)
        return [name for name in self._judged() if self._made(name, done.outputs[name], oracle[name], inputs)]

    def _made(self, name: str, got: NDArray[np.generic], right: NDArray[np.float64], inputs: Arrays) -> bool:
        """Whether the array is the result, up to some tenth; of a mutated input, whether the change was made."""
        one = next(one for one in (*self.task.outputs, *self.task.inputs) if one.name == name)
        values = to_float64(got, one.dtype)
        if not is_float(one.dtype):
            return bool(np.mean(values == right) >= WHOLE_SHARE)
        before = to_float64(inputs[name], one.dtype) if name in inputs else np.zeros_like(right)
        where = np.isfinite(right)
        with np.errstate(all="ignore"):
            away = float(np.linalg.norm((values - right)[where]))
            whole = float(np.linalg.norm((right - before)[where]))
        return away <= NEAR * whole and whole > 0

    def _judged(self) -> list[str]:
        outputs = [one.name for one in self.task.outputs]
        return outputs + [one.name for one in self.task.inputs if one.constness == "mutated"]

    def _shapes(self) -> tuple[Shape, ...]:
        """The timed sizes first: they are what the claim is about."""
        return tuple(sorted(self.task.shapes, key=lambda shape: not shape.timed)[:MOST_SHAPES])

    def _elements(self, shape: Shape) -> int:
        arrays = (*self.task.inputs, *self.task.outputs)
        return sum(int(np.prod(extents(one, shape.dims))) for one in arrays)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
