"""A worker of one thread and the judge that calls it keep to one core, and nothing else of the judge's does."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml

from ridgeline.sandbox.judge import references
from ridgeline.sandbox.judge.options import HERE, Options
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall, Session, keep_to_one_core
from ridgeline.sandbox.judge.task_judge import time_pair
from tests.session_tasks import DIMS, HONEST_C, opened, task, x
from tests.session_tasks import C as SOURCE

TASK = {
    "task": 1,
    "name": "twice",
    "language": "c",
    "source": ["kernel.c"],
    "entry": "twice",
    "inputs": [{"name": "x", "shape": ["n"]}],
    "outputs": [{"name": "y", "shape": ["n"]}],
    "shapes": [{"label": "s", "dims": {"n": 1000}}],
}
CRASHES = SOURCE % ("", "if (x[0] == 1) raise(SIGKILL);")
THREAD = SOURCE % (
    "static void *rest(void *given) { for (;;) pause(); }",
    "static pthread_t thread; if (!thread) pthread_create(&thread, 0, rest, 0);",
)
pytestmark = [
    pytest.mark.usefixtures("whole_machine"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one core to be on"),
]


@contextmanager
def two_workers(folder: Path, text: str = HONEST_C) -> Iterator[tuple[Session, Session]]:
    with ExitStack() as stack:
        sessions = []
        for name in "ab":
            (folder / name).mkdir()
            sessions.append(stack.enter_context(opened(folder / name, text, task())))
        yield sessions[0], sessions[1]


def cores_of(session: Session) -> list[set[int]]:
    """Of each thread of the worker."""
    pid = session._running._pid
    return [os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


def write_task(folder: Path) -> None:
    (folder / "task.yaml").write_text(yaml.safe_dump(TASK, sort_keys=False))
    (folder / "kernel.c").write_text(HONEST_C)
    (folder / "reference.py").write_text("def reference(x):\n    return 2 * x\n")


def time_twice(folder: Path) -> None:
    calls = time_pair(folder / "task.yaml", folder, folder, shapes=(), blocks=2, options=Options(), surroundings=HERE)
    assert isinstance(calls, tuple), calls


def watch_calls(monkeypatch: pytest.MonkeyPatch, seen: list[set[int]]) -> None:
    """Note to which cores the judge keeps whenever it lets a worker run."""
    honest = Session._seal

    def seal(session: Session, *given: object) -> SealedCall:
        seen.append(os.sched_getaffinity(0))
        return honest(session, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "_seal", seal)


def test_both_workers_and_the_judge_are_on_one_core_while_a_call_is_under_way_and_the_judge_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = os.sched_getaffinity(0), list[set[int]]()
    watch_calls(monkeypatch, seen)
    with two_workers(tmp_path, THREAD) as sessions:
        assert keep_to_one_core(task(), sessions)
        for session in sessions:
            assert isinstance(session.call(DIMS, x()), SealedCall)
            assert isinstance(session.ping(), float)
            assert os.sched_getaffinity(0) == before
        (core,) = {frozenset(cores) for session in sessions for cores in cores_of(session)}
        assert [len(cores_of(session)) for session in sessions] == [2, 2], "the thread that came later, too"
    assert len(core) == 1
    assert seen == [core, core]


def test_the_judge_is_where_it_was_after_a_worker_that_ended_and_after_an_error(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with two_workers(tmp_path, CRASHES) as sessions:
        assert keep_to_one_core(task(), sessions)
        with pytest.raises(ValueError, match="x"):
            sessions[0].call(DIMS, {"x": np.zeros(3, np.float32)})
        assert os.sched_getaffinity(0) == before
        assert isinstance(sessions[0].call(DIMS, {"x": np.ones(1000, np.float32)}), BrokenWorker)
        assert os.sched_getaffinity(0) == before
        assert not keep_to_one_core(task(), sessions), "one of them has ended"


def test_a_task_of_more_threads_keeps_to_no_core(tmp_path: Path) -> None:
    with two_workers(tmp_path) as sessions:
        assert not keep_to_one_core(task().model_copy(update={"threads": 2}), sessions)
        assert all(cores == os.sched_getaffinity(0) for session in sessions for cores in cores_of(session))


def test_where_one_worker_may_not_be_moved_neither_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, seen = os.sched_setaffinity, list[set[int]]()
    watch_calls(monkeypatch, seen)
    with two_workers(tmp_path) as sessions:
        others = sessions[1]._running._pid

        def set_affinity(process: int, cores: set[int]) -> None:
            if process == others:
                raise PermissionError
            honest(process, cores)

        monkeypatch.setattr(os, "sched_setaffinity", set_affinity)
        assert not keep_to_one_core(task(), sessions)
        assert all(cores == os.sched_getaffinity(0) for session in sessions for cores in cores_of(session))
        for session in sessions:
            assert isinstance(session.call(DIMS, x()), SealedCall)
    assert seen == [os.sched_getaffinity(0)] * 2


def test_what_the_judge_starts_between_timed_calls_keeps_to_no_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path)
    honest, started, seen = references.Reference._start, list[set[int]](), list[set[int]]()
    watch_calls(monkeypatch, seen)

    def start(reference: references.Reference) -> object:
        started.append(os.sched_getaffinity(0))
        return honest(reference)

    monkeypatch.setattr(references.Reference, "_start", start)
    time_twice(tmp_path)
    assert all(len(cores) == 1 for cores in seen)
    assert started
    assert all(cores == os.sched_getaffinity(0) for cores in started)


def test_empty_calls_of_both_sides_are_made_before_each_pair_of_timed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(tmp_path)
    made: list[tuple[str, int]] = []

    def note(name: str, honest: Callable[..., object]) -> Callable[..., object]:
        def noted(session: Session, *given: object, **named: object) -> object:
            made.append((name, id(session)))
            return honest(session, *given, **named)

        return noted

    monkeypatch.setattr(Session, "call", note("call", Session.call))
    monkeypatch.setattr(Session, "ping", note("ping", Session.ping))
    time_twice(tmp_path)
    rest, beside = made, []
    while any(name == "call" for name, _ in rest):
        pings = next(number for number, (name, _) in enumerate(rest) if name == "call")
        beside.append({session for _, session in rest[:pings]})
        calls = next((number for number, (name, _) in enumerate(rest[pings:]) if name == "ping"), len(rest) - pings)
        rest = rest[pings + calls :]
    assert len(beside) >= 8, "four blocks of two pairs"
    assert all(len(sides) == 2 for sides in beside)


def test_the_process_beside_a_worker_sleeps_while_it_is_stopped_and_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, HONEST_C, task()) as session:
        if session.isolation_level() != "namespaces":
            pytest.skip("workers have no namespaces here")
        parent = Path(f"/proc/{session._running._pid}/stat").read_text().rpartition(") ")[2].split()[1]
        woken_before = count_sleeps(parent)
        for _ in range(500):
            session.ping()
        assert count_sleeps(parent) - woken_before < 100


def count_sleeps(process: str) -> int:
    """How often the process went to sleep so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches")))
