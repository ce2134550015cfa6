"""Is it the candidate's own work? What it calls, what it leaves undefined, and whether its kernels make the output."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Shape, Task
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.build import COMPILED, apart
from ridgeline.sandbox.judge.dtypes import to_float64
from ridgeline.sandbox.judge.freeze import Frozen
from ridgeline.sandbox.judge.inputs import draw
from ridgeline.sandbox.judge.lost import Lost
from ridgeline.sandbox.judge.made import made
from ridgeline.sandbox.judge.moved import Right, held, moved
from ridgeline.sandbox.judge.operators import Traced, listed, read
from ridgeline.sandbox.judge.options import Answered, no, unverified, yes
from ridgeline.sandbox.judge.pace import CALL_S, SLACK_US, Calls, called, elements, results, rng, slower
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import Broken, Session
from ridgeline.sandbox.judge.symbols import NotALibrary, Taken, kind_of, plain_library, taken
from ridgeline.sandbox.judge.worker import Mode

Opened = Callable[[Mode], AbstractContextManager[Session]]
"""A fresh worker with the candidate in it, not yet open, in that mode."""
Arrays = Mapping[str, NDArray[np.generic]]
MOST_SHAPES = 6
DRAWS = 3
"""Sets of values with which an output must be right."""


class Work(Value):
    """Whose the work is, and how far the candidate's code reaches."""

    answered: Answered
    reaches: tuple[str, ...] = ()
    """What it was seen to load, start or have that could change its own process, the timers of a card among it."""


def own_work(task: Task, new: Frozen, reference: Reference, *, opened: Opened | None = None) -> Work:
    """Whether the result is made by the candidate's own code. Costs three fresh workers for Python, none for C.

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

    slack_us = SLACK_US["cuda" if opened else "cpu"]
    return _Python(task=task, reference=reference, opened=fresh, slack_us=slack_us).work()


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


@dataclass
class _Seen:
    """Of the run without kernels: arrays that were right all the same, and those that could show it."""

    unharmed: list[str] = field(default_factory=list)
    telling: set[str] = field(default_factory=set)
    harmed: bool = False
    ready: dict[str, str] = field(default_factory=dict)
    """Arrays that a kernel was given ready-made, and which kernel."""
    unread: bool = False
    """What kernels were given could not be read."""


@dataclass(frozen=True, kw_only=True)
class _Python:
    """A candidate in Python: first traced, then with its kernels knocked out, then as it is."""

    task: Task
    reference: Reference
    opened: Opened
    slack_us: float

    def work(self) -> Work:
        """The answer, with what it rests on."""
        found = self._traced()
        if isinstance(found, str):
            return Work(answered=unverified(found), reaches=(found,))
        traced, calls = found
        doubts = tuple(self._doubts(traced, calls))
        answered = self._answered(traced, doubts, calls)
        return Work(answered=self._as_fast(answered, calls) if answered.answer == "yes" else answered, reaches=doubts)

    def _answered(self, traced: Traced, doubts: tuple[str, ...], calls: Calls) -> Answered:
        major, minor = traced.computing(calls.elements, calls.outputs)
        notes = [f"ready-made operators with little to do: {listed(minor)}"] if minor else []
        if major:
            return no(f"ready-made operators compute it: {listed(major)}", *notes)
        if engines := traced.engines():
            return no(f"loads a library of operators: {listed(engines)}")
        kernels = traced.names("kernels")
        if not kernels:
            seen = "no kernel of its own was seen to run" + ("" if minor else ", and no operator either")
            return unverified(*doubts, seen, *notes)
        found = self._knocked_out(f"its own kernels ran: {listed(kernels)}", *notes)
        return unverified(*doubts) if doubts and found.answer != "no" else found

    def _doubts(self, traced: Traced, calls: Calls) -> list[str]:
        told: tuple[tuple[Literal["loads", "starts", "connects", "modules", "oddities"], str], ...] = (
            ("loads", "loads compiled code"),
            ("starts", "starts another program"),
            ("connects", "opens a connection"),
            ("modules", "uses modules that compute or compile"),
            ("oddities", "does what hides work"),
        )
        doubts = [f"{text}: {listed(names)}" for kind, text in told if (names := traced.names(kind))]
        if left := traced.left(calls.elements, calls.outputs):
            doubts.append(f"takes its tensors out of PyTorch: {listed(left)}")
        if foreign := traced.foreign():
            doubts.append(f"calls operators that somebody registered: {listed(foreign)}")
        return doubts

    def _traced(self) -> tuple[Traced, Calls] | str:
        """What was called at every size, or why that is not known."""
        with self.opened("trace") as session:
            if broken := session.open():
                return f"the traced run: {broken.reason}: {broken.detail}"
            calls = called(session, self.task, self._shapes())
            if isinstance(calls, str):
                return f"the traced run, {calls}"
            report = session.report()
        if isinstance(report, Broken):
            return f"the traced run: {report.reason}: {report.detail}"
        traced = read(report)
        return (traced, calls) if traced else "the traced run gave no report that can be read"

    def _as_fast(self, answered: Answered, traced: Calls) -> Answered:
        """What works only while it is traced is slower there than where nobody looks."""
        with self.opened("plain") as session:
            broken = session.open()
            plain = f"{broken.reason}: {broken.detail}" if broken else called(session, self.task, self._shapes())
        if isinstance(plain, str):
            return unverified(*answered.evidence, f"the plain run: {plain}")
        if took := slower(traced, plain, slack_us=self.slack_us):
            return unverified(*answered.evidence, f"it takes much longer where it is traced: {took}")
        return answered

    def _knocked_out(self, *evidence: str) -> Answered:
        """With its kernels replaced by nothing the output must be wrong, else something else made it."""
        seen = _Seen()
        if stopped := self._without(seen):
            return unverified(*evidence, f"the run without them: {stopped.reason}: {stopped.detail}")
        if seen.ready:
            return self._given(seen.ready, *evidence)
        if seen.unread:
            return unverified(*evidence, "the run without them gave no report that can be read")
        if not seen.unharmed:
            if not seen.harmed:
                return unverified(*evidence, "without them the output is right, but a fill or a copy would be, too")
            return yes(*evidence, "without them the output is wrong")
        names = tuple(seen.unharmed)
        if seen.telling <= {*names}:
            return no(f"without its kernels the output is still right: {listed(names)}")
        return unverified(*evidence, f"without them some outputs are still right: {listed(names)}")

    def _without(self, seen: "_Seen") -> Broken | None:
        """The run without its kernels: what ended it. What a candidate raises does not: that is caught there."""
        with self.opened("knockout") as session:
            if broken := session.open():
                return broken
            for shape in self._shapes():
                if stopped := self._looked(session, shape, seen):
                    seen.harmed = True  # what goes on for ever without its kernels needs them
                    return stopped if stopped.reason == "crash" else None
        return None

    def _looked(self, session: Session, shape: Shape, seen: "_Seen") -> Broken | None:
        """What stopped it at that size. An array that is right once may be so by chance, and is asked again."""
        right = self._judged()
        consts: Arrays = {}
        for _ in range(DRAWS):
            inputs = {**draw(self.task, shape.dims, "normal", rng()), **consts}
            consts = {one.name: inputs[one.name] for one in self.task.inputs if one.constness == "const"}
            done = session.call(shape.dims, inputs, timeout_s=CALL_S)
            if isinstance(done, Broken):
                return done
            told = self._told(done.outputs, inputs, session.report(), seen)
            seen.telling |= {name for name, one in told.items() if one is not None}
            seen.harmed = seen.harmed or False in told.values()
            right = [name for name in right if told[name]]
            if not right:
                return None
        seen.unharmed += [name for name in right if name not in seen.unharmed]
        return None

    def _told(self, outputs: Arrays, inputs: Arrays, report: bytes | Broken, seen: "_Seen") -> dict[str, bool | None]:
        """Of each array, whether it was made. What kernels were given ready-made is added to `seen`."""
        oracle = self.reference.oracle(inputs)
        types = {one.name: one.dtype for one in (*self.task.inputs, *self.task.outputs)}
        given = {name: to_float64(array, types[name]) for name, array in inputs.items()}
        arguments = held(report) if isinstance(report, bytes) else None
        seen.unread = seen.unread or arguments is None
        for name in self._judged():
            if by := moved(arguments or (), Right(dtype=types[name], values=oracle[name], given=given)):
                seen.ready[name] = by
        return {
            name: made(
                to_float64(outputs[name], types[name]),
                oracle[name],
                dtype=types[name],
                given=given,
                before=given.get(name),
            )
            for name in self._judged()
        }

    def _given(self, ready: Mapping[str, str], *evidence: str) -> Answered:
        """Its kernels moved what was there already: all of the work, or a part of it."""
        told = (
            f"a kernel is given the output ready-made: {listed(tuple(f'{name} ({by})' for name, by in ready.items()))}"
        )
        wanted, shape = results(self.task), self._shapes()[0]
        if 2 * elements(shape, [one for one in wanted if one.name in ready]) >= elements(shape, wanted):
            return no(told, *evidence)
        return unverified(told, *evidence)

    def _judged(self) -> list[str]:
        return [one.name for one in results(self.task)]

    def _shapes(self) -> tuple[Shape, ...]:
        """The timed sizes first: they are what the claim is about."""
        return tuple(sorted(self.task.shapes, key=lambda shape: not shape.timed)[:MOST_SHAPES])
