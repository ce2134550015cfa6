"""Candidates of one round, built and tested side by side before the loop asks about each in its turn.

What was answered is kept for these questions, so that record and tape stay in the order of the candidates, whichever was
ready first. Nothing runs any more when `prepare` returns: nothing is timed beside it.

Which device tests which candidate is known when one is free. A device that is lost is DeviceLost for the question that it
was asked, when the loop asks it; of a further device host, whose loss nothing rests on, others take over.
"""

import contextlib
import os
import queue
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from ridgeline.agent.console import note
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DeviceLost, RidgelineError
from ridgeline.graph.evidence import BuildResult, TestResult
from ridgeline.graph.ports import Builder, Checker
from ridgeline.sandbox.devices.gate import CardGate
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.isolation.commands import has_own_table
from ridgeline.sandbox.workspace.commands import Turn

MOST = 8
"""Candidates of one round at most (`limits.candidates`)."""

USED_MB = 1024
"""Memory that a candidate's build or test is thought to take. One that needs more, and fails beside others, is asked again."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What builds and tests one candidate at a time."""

    builder: Builder
    checker: Checker
    spare: str = ""
    """A name, where others do its work if it is lost; empty where that is the campaign's own device."""


OpenLanes = Callable[[int], contextlib.AbstractContextManager[Sequence[Lane]]]
"""From a number of candidates: the lanes for them, for as long as they are needed. Fewer than two: nothing is prepared."""


class SideBySide:
    """`ports.Preparer`, and the answers that it has."""

    def __init__(self, open_lanes: OpenLanes) -> None:
        self._open_lanes = open_lanes
        self._answers: dict[tuple[str, str, str], object] = {}
        """By method, commit and purpose: a value, or what was raised. Each is given once."""
        self._prepared: set[str] = set()
        self._threads: ThreadPoolExecutor | None = None

    def prepare(self, commits: tuple[str, ...], purposes: tuple[str, ...]) -> None:
        """As `ports.Preparer`. What an earlier call answered stays, of versions that are still among them."""
        self._prepared &= set(commits)
        self._answers = {key: answer for key, answer in self._answers.items() if key[1] in self._prepared}
        waiting = deque(pair for pair in zip(commits, purposes, strict=True) if pair[0] not in self._prepared)
        if len(waiting) < 2:
            return
        with self._open_lanes(len(waiting)) as lanes:
            if len(lanes) > 1:
                self._prepared |= {commit for commit, _ in waiting}
                note(f"side by side, built and tested: {', '.join(purpose for _, purpose in waiting)}")
                self._work(lanes[: len(waiting)], waiting)

    def _work(self, lanes: Sequence[Lane], waiting: deque[tuple[str, str]]) -> None:
        """Until all are done, or one thing broke: then what has not begun never does."""
        # threads that last: what a command or judge has started ends with the thread that started it
        self._threads = self._threads or ThreadPoolExecutor(MOST, thread_name_prefix="candidate")
        endings: list[str] = []
        with stopping.listening(stopping.Stopping(requests=lambda: len(endings))):
            futures = [self._threads.submit(self._serve, lane, waiting) for lane in lanes]
            try:
                wait(futures)
            except BaseException:  # this process shall end: what runs is ended, and waited for
                waiting.clear()
                endings.append("interrupted")
                wait(futures)
                raise
        for future in futures:
            future.result()

    def _serve(self, lane: Lane, waiting: deque[tuple[str, str]]) -> None:
        """In a campaign with lanes: one lane takes the next candidate whenever it is free."""
        while not stopping.reason():
            try:
                commit, purpose = waiting.popleft()
            except IndexError:
                return
            method = "build"
            try:
                build = lane.builder.build(commit)
                self._keep(("build", commit, ""), build)
                method = "check"
                if build.ok and not build.touched:
                    test = lane.checker.check(commit, purpose=purpose)
                    self._keep(("check", commit, purpose), test)
                    note(f"{purpose}: tested in {test.seconds:.0f} s: {test.kind}")
                else:
                    note(f"{purpose}: {'its build changed evaluation files' if build.ok else 'does not build'}")
            except RidgelineError as error:
                if lane.spare and isinstance(error, DeviceLost):
                    note(f"{lane.spare}: lost; other devices do its work in this round")
                    waiting.appendleft((commit, purpose))
                    return
                self._answers[method, commit, purpose if method == "check" else ""] = error
                waiting.clear()

    def _keep(self, key: tuple[str, str, str], answer: BuildResult | TestResult) -> None:
        """Only what is so alone too: what ran out of time, crashed or was tampered with beside others is asked again."""
        if _is_settled(answer):
            self._answers[key] = answer

    def has(self, method: str, commit: str, purpose: str = "") -> bool:
        """Whether there is a value that nobody has taken yet."""
        answer = self._answers.get((method, commit, purpose))
        return answer is not None and not isinstance(answer, Exception)

    def take(self, method: str, commit: str, purpose: str) -> object | None:
        """The answer, once; None where there is none. Raises what was raised."""
        answer = self._answers.pop((method, commit, purpose), None)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _is_settled(answer: BuildResult | TestResult) -> bool:
    match answer:
        case BuildResult():
            ended = answer.exit
            return answer.ok or (not answer.stopped and ended is not None and (ended.returncode or 0) > 0)
        case TestResult():
            return answer.kind in ("pass", "incorrect")


Port = TypeVar("Port", Builder, Checker)


def prepare_port(port: Port, side_by_side: SideBySide) -> Port:
    """A campaign's builder or checker which gives what was prepared side by side."""
    return PreparedPort(port, side_by_side)


class PreparedPort:
    """A builder or checker that gives what was prepared, and asks for the rest."""

    def __init__(self, inner: Any, side_by_side: SideBySide) -> None:
        self._inner, self._side_by_side = inner, side_by_side

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)
        if method not in ("build", "check"):
            return call

        def ask(commit: str, *, purpose: str = "") -> Any:
            answer = self._side_by_side.take(method, commit, purpose)
            if answer is not None:
                return answer
            return call(commit, purpose=purpose) if method == "check" else call(commit)

        return ask


# On this machine: threads that take turns on the checkouts, and as many tests at a time as there are cards.


class TakesTurns:
    """A port that works on the checkouts as one thread of several."""

    def __init__(self, inner: Any, turn: Turn) -> None:
        self._inner, self._turn = inner, turn

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)

        def ask(*args: Any, **named: Any) -> Any:
            with self._turn.take():
                return call(*args, **named)

        return ask


class FreeDevice:
    """A checker that asks whichever of several is free."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._free: queue.SimpleQueue[Checker] = queue.SimpleQueue()
        for checker in checkers:
            self._free.put(checker)

    def __getattr__(self, method: str) -> Any:
        def ask(*args: Any, **named: Any) -> Any:
            checker = self._free.get()
            try:
                return getattr(checker, method)(*args, **named)
            finally:
                self._free.put(checker)

        return ask


class LocalLanes:
    """Lanes of this machine."""

    def __init__(
        self,
        contract: Contract,
        *,
        turn: Turn,
        builder: Builder,
        checker: Checker,
        gate: CardGate | None,
        make_gate: Callable[[], CardGate | None],
        make_checker: Callable[[CardGate | None, int], Checker],
    ) -> None:
        """`checker`: the campaign's own, with `gate`; `make_checker`: one for another gate, by its number from 1 on."""
        self._contract, self._turn, self._builder, self._checker = contract, turn, builder, checker
        self._gate, self._make_gate, self._make_checker = gate, make_gate, make_checker
        self._cards: list[tuple[CardGate, Checker]] = []

    @contextlib.contextmanager
    def open(self, count: int) -> Iterator[Sequence[Lane]]:
        """None where commands share one table of processes: what one leaves behind could not be told from another's."""
        width = min(count, count_side_by_side(self._contract))
        if width < 2 or not has_own_table():
            yield ()
            return
        checkers = self._list_checkers(width)
        tester: Any = FreeDevice([TakesTurns(checker, self._turn) for checker in checkers])
        builder: Any = TakesTurns(self._builder, self._turn)
        yield [Lane(builder=builder, checker=tester)] * width
        for gate, _ in self._cards:
            if self._gate is not None:
                self._gate.note_use(gate)

    def _list_checkers(self, width: int) -> Sequence[Checker]:
        """One for each card; the campaign's own where there is one card, and as many as wanted on a processor."""
        if self._gate is None:
            return [self._checker] * width
        cards = min(self._gate.count_cards(), width)
        if cards < 2:
            return [self._checker]
        while len(self._cards) < cards:
            gate = self._make_gate()
            assert gate is not None
            self._cards.append((gate, self._make_checker(gate, len(self._cards) + 1)))
        return [checker for _, checker in self._cards[:cards]]


def count_side_by_side(contract: Contract) -> int:
    """How many candidates may be built and tested at a time: what cores and memory are there for."""
    cores = len(os.sched_getaffinity(0)) // contract.threads
    room = psutil.virtual_memory().available // (min(USED_MB, contract.memory_limit_mb) << 20)
    return max(1, min(MOST, cores, room))
