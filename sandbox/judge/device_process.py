"""Asks the trusted process that judges on a card: whole judgements and process pairs in, verdicts and times out.

It is started once for a command, imports PyTorch and never touches a card itself; a copy of it holds the card while it is
asked, and gives it back when nothing was asked for a second (`device_host.py`). Nothing of PyTorch is imported here.
"""

import atexit
import base64
import contextlib
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ridgeline.graph.errors import WorldError
from ridgeline.graph.judgment import Judgment, TimedCall
from ridgeline.graph.task import Task
from ridgeline.sandbox.isolation.confinement import death_signal_words
from ridgeline.sandbox.isolation.environment import build_environment, card_variables
from ridgeline.sandbox.judge.children import REUSED_MEMORY, SLEEPY_THREADS, Child, ChildLimits, ChildLost
from ridgeline.sandbox.judge.freeze import NotFrozen
from ridgeline.sandbox.judge.options import HERE, JudgeTimeout, Options, Surroundings
from ridgeline.sandbox.judge.references import ReferenceFailed
from ridgeline.sandbox.judge.task_file import TaskError
from ridgeline.sandbox.judge.timing import TimingRefused
from ridgeline.sandbox.store.durable import cache_folder

logger = logging.getLogger(__name__)
NVIDIA = Path("/dev/nvidia0")
"""Its driver can share a card's memory between processes as the judge needs it."""
PROGRAM = "from ridgeline.sandbox.judge.device_host import main; main()"
COMPILED = "compiled"
"""What workers with a version start with: known without a card."""
WARM = "warm"
"""In place of a question, and not answered: what workers of this task need is imported."""
GRACE_S = 60.0
"""After a judgement's time is over it ends between two calls; a card that answers nothing is lost after so much more."""
LONGEST_S = 86_400.0
ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (JudgeTimeout, TaskError, NotFrozen, ReferenceFailed, WorldError)
}
"""What is raised here where it was raised there; another error of the world is a WorldError."""


class CardLost(WorldError):
    """The process that judges on the card ended, hung, or found the card out of order. Never a verdict."""


class Unfit(Exception):
    """This task cannot be judged on the card; the text says why."""


class DeviceProcess(Child):
    """The process, by the pipes of a `Child`. It has no limits: drivers reserve more than they use."""

    def __init__(self) -> None:
        """Raises ChildLost."""
        super().__init__(Path(__file__), ChildLimits(card=True))

    def _popen(self, host: Path, limits: ChildLimits, private: Path, ends: tuple[int, int]) -> subprocess.Popen[bytes]:
        paths = [path for path in sys.path if path and Path(path).is_dir()]
        variables = {**SLEEPY_THREADS, **REUSED_MEMORY, **card_variables(), "PYTHONPATH": os.pathsep.join(paths)}
        if kept := cache_folder("compiled"):
            variables["RIDGELINE_CACHE"] = str(kept.parent)
        with self._output_path.open("wb") as out:
            return subprocess.Popen(
                (*death_signal_words("KILL"), limits.python, "-P", "-c", PROGRAM, *map(str, ends)),
                cwd=private,
                env=build_environment(private, mark=secrets.token_hex(16), extra=variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=ends,
                start_new_session=True,
            )


Key = tuple[int, int]
_processes: dict[Key, DeviceProcess] = {}
"""By this process's id, as a copy of it starts its own, and by `using_number`."""
_asking: dict[Key, threading.RLock] = {}
_thread = threading.local()


@contextlib.contextmanager
def using_number(number: int) -> Iterator[None]:
    """The judge on a card: what this thread asks in the block goes to the process of that number: several cards at once."""
    _thread.number = number
    try:
        yield
    finally:
        _thread.number = 0


def _key() -> Key:
    """The judge on a card: of the process that this thread asks."""
    return os.getpid(), getattr(_thread, "number", 0)


def _lock(key: Key) -> threading.RLock:
    return _asking.setdefault(key, threading.RLock())


@atexit.register
def close_device_process() -> None:
    """The judge on a card: end it, and those of other numbers; the next question starts another."""
    for key in [key for key in list(_processes) if key[0] == os.getpid()]:
        with _lock(key):
            if (process := _processes.pop(key, None)) is not None:
                process.close()


def start_device_process() -> None:
    """The judge on a card: have it import PyTorch while something else is done. It is there for all later questions. Raises CardLost."""
    key = _key()
    with _lock(key):
        if key in _processes:
            return
        try:
            _processes[key] = DeviceProcess()
        except ChildLost as lost:
            raise CardLost(f"the process that judges on the card does not start: {lost}") from None


def is_judged_on_card(task: Task, options: Options) -> bool:
    """The judge on a card: whether to ask there first: a card of NVIDIA, PyTorch in this interpreter, and nobody against it."""
    device = options.with_device(task).device
    return options.device_path and device == "cuda" and NVIDIA.exists() and find_spec("torch") is not None


def warm_up(task_file: Path, task: Task, options: Options, environment: Mapping[str, str]) -> None:
    """The judge on a card: at a command's start: have the process begin with its imports where it will be asked, and with
    those of workers with this environment. What fails fails again, and is told, when it is asked.
    """
    if not is_judged_on_card(task, options):
        return
    words = {"question": WARM, "task_file": str(task_file.resolve()), "options": options.model_dump(mode="json")}
    with _lock(key := _key()):
        start_device_process()
        try:
            _processes[key].ask([json.dumps({**words, "environment": dict(environment)}).encode()], timeout_s=GRACE_S)
        except ChildLost:
            _processes.pop(key, None)


def ask_judgment(
    question: str,
    task_file: Path,
    *,
    candidate: Path | None,
    against: Path | None,
    options: Options,
    surroundings: Surroundings = HERE,
) -> Judgment:
    """`judge` for all three questions, `test` without timing. Raises what judging raises, CardLost, and Unfit."""
    answer = _ask(question, task_file, candidate, against, options, surroundings)
    return Judgment.model_validate(answer["judgment"])


def ask_defects(task_file: Path, options: Options) -> tuple[dict[str, Any], ...]:
    """Findings of `lint.find_known_defects`, by their fields. Raises as `ask_judgment`."""
    answer = _ask("defects", task_file, None, None, options, HERE)
    return tuple(answer["defects"])


def ask_pair(
    task_file: Path,
    a: Path,
    b: Path,
    *,
    shapes: Sequence[str],
    blocks: int,
    options: Options,
    surroundings: Surroundings,
) -> list[TimedCall] | TimingRefused:
    """One process pair of two folders. Raises as `ask_judgment`."""
    answer = _ask("pair", task_file, b, a, options, surroundings, shapes=list(shapes), blocks=blocks)
    if "refused" in answer:
        return TimingRefused(**answer["refused"])
    return [TimedCall(**call) for call in answer["calls"]]


def read_compiled(task_file: Path, version: Path, options: Options) -> bytes:
    """The judge on a card: what its workers with that version start with; nothing before it was asked about it.

    Raises CardLost, and what a task or version that cannot be read raises.
    """
    if _key() not in _processes:
        return b""
    answer = _ask(COMPILED, task_file, version, None, options, HERE)
    return base64.b64decode(answer["packed"])


@dataclass(frozen=True, kw_only=True)
class CompiledVersion:
    """How compiling a version went, in a process of its own and before anything was timed."""

    seconds: float
    failure: str
    """Empty where it went well."""


def ask_replay(
    task_file: Path, call: str, *, candidate: Path | None, options: Options, surroundings: Surroundings
) -> tuple[str, ...]:
    """What is wrong with one call that is made again, by its name. Raises ValueError where there is none, and as `ask_judgment`."""
    answer = _ask("replay", task_file, candidate, candidate, options, surroundings, call=call)
    if "unknown" in answer:
        raise ValueError(answer["unknown"])
    return tuple(answer["lines"])


def ask_compiled(
    task_file: Path, folders: Sequence[Path], *, options: Options, surroundings: Surroundings
) -> tuple[CompiledVersion, ...]:
    """The judge on a card: have versions compile at the same time; their later processes start with it. Raises as `ask_judgment`."""
    versions = [str(folder.resolve()) for folder in folders]
    answer = _ask("compile", task_file, None, None, options, surroundings, versions=versions)
    return tuple(CompiledVersion(**each) for each in answer["compiled"])


def _ask(
    question: str,
    task_file: Path,
    candidate: Path | None,
    against: Path | None,
    options: Options,
    surroundings: Surroundings,
    **more: Any,
) -> Mapping[str, Any]:
    surroundings.check_time()
    left_s = min(surroundings.until - time.monotonic(), LONGEST_S)
    words = {
        "question": question,
        "task_file": str(task_file.resolve()),
        "candidate": str(candidate.resolve()) if candidate else None,
        "against": str(against.resolve()) if against else None,
        "options": options.model_dump(mode="json"),
        "environment": dict(surroundings.environment),
        "until": time.monotonic() + left_s,
        **more,
    }
    with _lock(key := _key()):
        start_device_process()
        try:
            answer = _processes[key].ask([json.dumps(words).encode()], timeout_s=left_s + GRACE_S)
            body: dict[str, Any] = json.loads(answer.message())
            if body.get("dead") and (tail := _processes[key].read_tail()):
                body["error"][1] += f": {tail}"
        except ChildLost as lost:
            _processes.pop(key, None)
            raise CardLost(f"the process that judges on the card was lost: {lost}") from None
    if "unfit" in body:
        logger.info("%s: judged with values on the processor: %s", task_file, body["unfit"])
        raise Unfit(body["unfit"])
    if "error" in body:
        kind, text = body["error"]
        error = ERRORS.get(kind, CardLost if kind in ("CardLost", "OutOfMemoryError") else WorldError)(text)
        if isinstance(error, WorldError):
            error.exit_code = body["exit_code"]
        raise error
    return body
