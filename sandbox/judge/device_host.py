"""The process that judges on a card: values, reference and comparison in it, candidates in workers beside it.

`main` imports PyTorch, starts what workers are copies of, and never touches a card. For a question it makes a copy of
itself that holds the card, judges, and ends when nothing was asked for `IDLE_S`: whoever looks at the card between two
commands sees it idle, and what a card's error left behind ends with the copy. Code of a candidate is never loaded here.
"""

import base64
import ctypes
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.graph.errors import WorldError
from ridgeline.graph.judgment import JudgePath, Judgment, TimedCall
from ridgeline.graph.task import Shape, Task
from ridgeline.sandbox.harness.reference_host import receive, send
from ridgeline.sandbox.isolation.workers import (
    WarmProgram,
    WorkerLimits,
    adopt_fork_servers,
    fork_server_of,
    machine_isolation,
)
from ridgeline.sandbox.judge import worker
from ridgeline.sandbox.judge.call_names import CallName
from ridgeline.sandbox.judge.device_process import COMPILED, WARM
from ridgeline.sandbox.judge.freeze import Frozen, freeze_sources
from ridgeline.sandbox.judge.judgment import (
    NOT_ASKED,
    NOT_TIMED,
    NOT_WANTED,
    CandidateJudgment,
    Opener,
    Pairs,
    Tests,
)
from ridgeline.sandbox.judge.lint import LintFinding, find_known_defects
from ridgeline.sandbox.judge.numerics import Tolerance
from ridgeline.sandbox.judge.options import JudgeTimeout, Options, Surroundings, answer_no
from ridgeline.sandbox.judge.provenance import Work, judge_own_work, total_elements
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.session import Session
from ridgeline.sandbox.judge.task_file import load_task, select_sizes
from ridgeline.sandbox.judge.timing import LAST_CALLS, LongRunAnswers, TimingRefused
from ridgeline.sandbox.judge.worker import WorkerMode
from ridgeline.sandbox.store.durable import cache_folder

IDLE_S = 1.0
"""Without a question for so long, the card is given back."""
END_S = 10.0
PR_SET_PDEATHSIG = 1
DEFECT_ELEMENTS = 1 << 20
"""Of a call's arrays, with which a task's own defects are looked for: values are NumPy's there."""
COMPILING_ARRAYS = 6
"""Times a call's arrays that a version takes of the card while it compiles: two places, values, a copy, and its own."""
LEAST_ITEMS = 8
"""Along the axis that is made shorter for it."""
SHORT_WORDS = ("outofmemoryerror", "out of memory", "cublas_status_alloc_failed")
"""In an error's kind or text: the card's memory did not suffice."""
OTHERS_BYTES = 1 << 30
"""As much in the hands of others: what was short may be free soon. A context alone takes half of it."""
SHORT_WAIT_S = 10.0
LOST_WORDS = ("cuda error", "cudaerror", "cublas_status", "cudnn_status", "unspecified launch failure")
"""In an error of PyTorch's: the card, or this process's hold of it, is out of order."""


@dataclass(kw_only=True)
class TaskMemory:
    """What copies hand on: of one task, by version or size. Nothing in it is a value of a call."""

    packed: dict[str, bytes] = field(default_factory=dict)
    tolerances: dict[str, dict[str, Tolerance]] = field(default_factory=dict)
    floors_us: dict[str, float] = field(default_factory=dict)
    terms: dict[str, dict[str, float]] = field(default_factory=dict)
    """By the sizes of all inputs: how many of their elements feed one of each output."""
    clocked: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By size and versions: what the judge's clock said of each process pair, beside what was claimed."""
    shown_us: dict[str, float] = field(default_factory=dict)
    """By size and versions: the claimed gain that calls in a row have shown."""
    defects: tuple[LintFinding, ...] | None = None
    """Of the task itself; None where nobody looked yet."""


class Unjudgeable(Exception):
    """This task is judged with values on the processor; the text says why."""


# Judging, in the copy that holds the card.


@dataclass(kw_only=True)
class DeviceJudgment(CandidateJudgment):
    """Judges a candidate with everything but the candidate in this process, on the device."""

    device: "DeviceSetting"

    @property
    def path(self) -> JudgePath:
        """The judge on a card: on the card."""
        return "card"

    def bench(self, rng: np.random.Generator) -> Any:
        """The judge of its calls, whose secrets come from `rng`."""
        values = import_module("ridgeline.sandbox.judge.device_values")
        judging = import_module("ridgeline.sandbox.judge.device_judge")
        chance = values.Chance.draw(self.device.place, rng)
        return judging.DeviceCallJudge(
            task=self.task,
            reference=self.device.reference,
            options=self.options,
            chance=chance,
            terms=self.device.learned.terms,
        )

    def judge(self) -> Judgment:
        """The judge on a card: as everywhere; a version that leaves the card no memory is wrong."""
        try:
            return super().judge()
        except WorldError as error:
            return self._make_judgment(answer_no(self._blame(error)), NOT_TIMED, NOT_ASKED, calls=0)

    def judge_correctness(self) -> Judgment:
        """The judge on a card: the same without timing."""
        try:
            return super().judge_correctness()
        except WorldError as error:
            return self._make_judgment(answer_no(self._blame(error)), NOT_WANTED, NOT_ASKED, calls=0)

    def time_pair(self, shapes: Sequence[Shape], blocks: int) -> list[TimedCall] | TimingRefused:
        """The judge on a card: as everywhere; a version that leaves the card no memory is refused."""
        try:
            return super().time_pair(shapes, blocks)
        except WorldError as error:
            return TimingRefused(side="b", detail=self._blame(error))

    def _blame(self, error: WorldError) -> str:
        """The judge on a card: what the judged version did to bring the error about; raises it where somebody else did."""
        if getattr(error, "sources", None) != self.new.folder:
            raise error
        return str(getattr(error, "detail", error))

    def opener(self, version: Frozen) -> Opener:
        """The judge on a card: fresh workers with that version, which start with what it had compiled."""
        opened: Opener = self.device.compiled.opener(_name_version(version), lambda: self._session(version))
        return opened

    def replay(self, call: str) -> list[str]:
        """The judge on a card: what is wrong with the call of that name, made again. Raises ValueError for a name that is none."""
        replay_call = import_module("ridgeline.sandbox.judge.device_judge").replay_call
        name = CallName.parse(call, self.task)
        bench = self.bench(np.random.default_rng(name.values.seed))  # what rounding does is measured alike each time
        return list(replay_call(bench, name, self.opener(self.new)))

    def compile_all(self, folders: Sequence[Path]) -> list[dict[str, Any]]:
        """The judge on a card: have versions compile at the same time, while nothing is timed: seconds, and why one failed.

        One after the other where the card has no room for all their arrays. Raises NotFrozen.
        """
        with ExitStack() as stack:
            versions = [stack.enter_context(freeze_sources(self.task, folder)) for folder in folders]
            sessions = import_module("ridgeline.sandbox.judge.device_session")
            most_bytes = max((sessions.array_bytes(self.task, shape.dims) for shape in self.task.shapes), default=0)
            needed = len(versions) * COMPILING_ARRAYS * most_bytes
            many = len(versions) if needed < self.device.reference.free_bytes() else 1
            with ThreadPoolExecutor(max(many, 1)) as threads:
                return list(threads.map(self._compile, versions))

    def _compile(self, version: Frozen) -> dict[str, Any]:
        began = time.monotonic()
        left_s = self.surroundings.until - began
        broken = self.device.compiled.compile(
            _name_version(version),
            lambda: self._session(version),
            call_s=max(1.0, min(self.options.call_s, left_s / worker.FIRST_CALL_TIMES)),
        )
        failure = f"{broken.reason}: {broken.detail}" if broken else ""
        return {"seconds": time.monotonic() - began, "failure": failure}

    def _session(self, version: Frozen) -> Any:
        sessions = import_module("ridgeline.sandbox.judge.device_session")
        return sessions.DeviceSession(
            self.task,
            version.folder,
            memory=self.device.memory,
            chance=self.device.chance,
            device=self.options.device,
            surroundings=self.surroundings,
        )

    def _own_work(self, long_run: LongRunAnswers[Any] | None = None) -> Work:
        """The judge on a card: with values on the device. Each of its processes starts with what the version had compiled."""
        if not self.options.has("own_work"):
            return super()._own_work(long_run)
        if self.device.place == "cuda":
            import_module("torch").cuda.empty_cache()  # of the card, what the tests had
        module = import_module("ridgeline.sandbox.judge.device_provenance")
        setting = self.device
        values = module.DeviceWorkCalls(self.task, setting.reference, setting.chance)
        plain = long_run.pace if long_run is not None and long_run.pace.least_us else None
        return judge_own_work(
            self.task, self.new, self.reference, opened=self._open_marked, values=values, plain=plain, card=True
        )

    @contextmanager
    def _open_marked(self, mode: WorkerMode) -> Iterator[Session]:
        """The judge on a card: a worker that notes, or whose kernels do nothing, with arrays at one place."""
        with self.opener(self.new)() as session:
            session.mode, session.placements = mode, 1
            yield session

    def _tests(self, bench: Any) -> Tests:
        tests: Tests = import_module("ridgeline.sandbox.judge.device_judge").DeviceTests(bench=bench)
        return tests

    def _pairs(self, bench: Any) -> Pairs:
        learned = self.device.learned
        timing = import_module("ridgeline.sandbox.judge.device_timing")
        old, new = _name_version(self.old), _name_version(self.new)
        pairs: Pairs = timing.DevicePairs(
            bench=bench,
            versions=(old, new),
            is_one_version=old == new,
            _tolerances=learned.tolerances,
            _floors_us=learned.floors_us,
            _clocked=learned.clocked,
            _shown_us=learned.shown_us,
        )
        return pairs

    def _long_run(self, bench: Any, pairs: Any, *, share: float) -> LongRunAnswers[Any]:
        options = self.options
        timing = import_module("ridgeline.sandbox.judge.device_timing")
        run: LongRunAnswers[Any] = timing.DeviceLongRun(
            pairs=pairs,
            bench=bench,
            most_calls=round(share * options.long_calls) if options.has("long_run") else 0,
            most_s=share * options.long_s,
            last_sealed=LAST_CALLS if share == 1 else 1,
        )
        return run


class TensorReference(Reference):
    """The reference in this process, for what asks it with arrays of NumPy."""

    def __init__(self, task: Task, folder: Path, device: Any, place: str) -> None:
        super().__init__(task, folder)
        self._device_reference, self._place = device, place
        self._framework = "torch"

    def _ask(self, questions: Any, many: Any) -> Any:
        """The judge on a card: by the tensors of the same values. Raises ReferenceFailed."""
        values = import_module("ridgeline.sandbox.judge.device_values")
        dtype_of = self._task.dtype_of
        answers = []
        for inputs in many:
            tensors = {name: values.from_storage(array, dtype_of(name), self._place) for name, array in inputs.items()}
            by_question = {question: getattr(self._device_reference, question)(tensors) for question in questions}
            answers.append(
                {
                    question: {name: tensor.cpu().numpy() for name, tensor in arrays.items()}
                    for question, arrays in by_question.items()
                }
            )
        self.notes = self._device_reference.notes
        return answers


class DeviceSetting:
    """One task on the device: its reference, where segments are made, and what was learned of it."""

    def __init__(self, task: Task, folder: Path, place: str, learned: TaskMemory) -> None:
        """Raises Unjudgeable, ReferenceFailed and WorldError."""
        sessions = import_module("ridgeline.sandbox.judge.device_session")
        references = import_module("ridgeline.sandbox.judge.device_reference")
        values = import_module("ridgeline.sandbox.judge.device_values")
        if place == "cuda" and import_module("torch").version.cuda is None:
            raise Unjudgeable("this PyTorch is not made for cards of NVIDIA")
        self.task, self.place, self.learned = task, place, learned
        self.chance = values.Chance.draw(place, np.random.default_rng())
        self.reference = references.DeviceReference(task, folder, place)
        if not self.reference.on_tensors:
            raise Unjudgeable("its reference computes with NumPy")
        self.memory = sessions.open_memory(place)
        # where a candidate is shut in weakly it could write there, and give another version slow code
        kept = cache_folder("compiled") if machine_isolation().level == "namespaces" else None
        files = sessions.PackFolder(folder=kept, place=_describe_compilers(task, place))
        self.compiled = sessions.CompiledCode(task=task, chance=self.chance, files=files, _packed=learned.packed)

    def find_defects(self, folder: Path) -> tuple[LintFinding, ...]:
        """The judge on a card: holes of the task that its reference shows, with few items of an axis along which they are independent.

        Raises ReferenceFailed where it has no answer. Once for a task: it is asked before each judgement.
        """
        if self.learned.defects is None:
            task = self.task
            shapes = tuple(self._shrink(shape) for shape in task.shapes)
            reference = TensorReference(task, folder, self.reference, self.place)
            self.learned.defects = find_known_defects(task.model_copy(update={"shapes": shapes}), reference)
        return self.learned.defects

    def _shrink(self, shape: Shape) -> Shape:
        """The judge on a card: the size with as many items as make `DEFECT_ELEMENTS`: what is found does not hang on how many there are."""
        elements = total_elements(shape, (*self.task.inputs, *self.task.outputs))
        axis = self.reference.part_axis(shape.dims) if elements > DEFECT_ELEMENTS else None
        if axis is None:
            return shape
        items = max(LEAST_ITEMS, shape.dims[axis] * DEFECT_ELEMENTS // elements)
        return shape.model_copy(update={"dims": {**shape.dims, axis: min(items, shape.dims[axis])}})

    @contextmanager
    def judgment(self, words: Mapping[str, Any], folder: Path, options: Options) -> Iterator[DeviceJudgment]:
        """The judge of the two versions that the words name. Raises NotFrozen."""
        surroundings = Surroundings(environment=words["environment"], until=words["until"])
        with (
            freeze_sources(self.task, Path(words["candidate"] or folder)) as new,
            freeze_sources(self.task, Path(words["against"] or folder)) as old,
        ):
            yield DeviceJudgment(
                task=self.task,
                reference=TensorReference(self.task, folder, self.reference, self.place),
                new=new,
                old=old,
                options=options,
                surroundings=surroundings,
                device=self,
            )


def _describe_compilers(task: Task, place: str) -> str:
    """The judge on a card: all but a version's sources that decides what it compiles: the task, the card, and the PyTorch that compiles."""
    torch = import_module("torch")
    card = torch.cuda.get_device_properties(0) if place == "cuda" else None
    name = [card.name, card.major, card.minor] if card else []
    return json.dumps([task.model_dump_json(), place, name, sys.version, torch.__version__])


def _name_task(task: Task, folder: Path, place: str) -> str:
    """The judge on a card: all of a task that decides what is learned of it."""
    return f"{place} {task.model_dump_json()}{(folder / task.reference).read_text(errors='replace')}"


def _name_version(version: Frozen) -> str:
    return json.dumps(dict(version.sha256), sort_keys=True)


class Holder:
    """Answers questions with the card in hand."""

    def __init__(self, learned: dict[str, TaskMemory]) -> None:
        self.learned = learned
        self._settings: dict[str, DeviceSetting] = {}

    def answer(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """The judge on a card: the answer, or why there is none."""
        try:
            return self._judge(words)
        except Unjudgeable as error:
            return {"unfit": str(error)}
        except (JudgeTimeout, WorldError) as error:
            if any(base.__name__ == "CardShort" for base in type(error).__mro__):
                return _describe_short(error)
            kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in KNOWN), "WorldError")
            return {"error": [kind, str(error)], "exit_code": getattr(error, "exit_code", 5)}
        except FLAWS as error:
            if any(words in f"{type(error).__name__} {error}".lower() for words in SHORT_WORDS):
                return _describe_short(error)
            return {"error": ["CardLost", _describe_card_error(error)], "exit_code": 5}

    def _judge(self, words: Mapping[str, Any]) -> dict[str, Any]:
        task, folder = load_task(Path(words["task_file"]))
        options = Options.model_validate(words["options"]).with_device(task)
        setting = self._setting(task, folder, options)
        if words["question"] == "defects":
            return {"defects": [finding.model_dump(mode="json") for finding in setting.find_defects(folder)]}
        with setting.judgment(words, folder, options) as judgment:
            match words["question"]:
                case "judge":
                    return {"judgment": judgment.judge().model_dump(mode="json")}
                case "test":
                    return {"judgment": judgment.judge_correctness().model_dump(mode="json")}
                case "replay":
                    try:
                        return {"lines": judgment.replay(words["call"])}
                    except ValueError as error:
                        return {"unknown": str(error)}
                case "compile":
                    return {"compiled": judgment.compile_all([Path(each) for each in words["versions"]])}
                case _:
                    calls = judgment.time_pair(select_sizes(task, words["shapes"]), words["blocks"])
                    if isinstance(calls, TimingRefused):
                        return {"refused": asdict(calls)}
                    return {"calls": [asdict(call) for call in calls]}

    def _setting(self, task: Task, folder: Path, options: Options) -> DeviceSetting:
        """The judge on a card: of one task at a time: another one's tensors are let go."""
        place = "cuda" if options.device == "cuda" else "cpu"
        name = _name_task(task, folder, place)
        key = f"{folder} {name}"
        if key not in self._settings:
            self._settings.clear()
            learned = self.learned.setdefault(name, TaskMemory())
            self._settings[key] = DeviceSetting(task, folder, place, learned)
        return self._settings[key]


FLAWS = (RuntimeError, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""RuntimeError of PyTorch: what a card's memory or the card itself is short of. The others: a flaw here, which is told."""
KNOWN = frozenset({"JudgeTimeout", "TaskError", "NotFrozen", "ReferenceFailed", "WorldError"})


def _describe_short(error: Exception) -> dict[str, Any]:
    """The judge on a card: the answer where its memory did not suffice: who holds how much, and what helps.

    `others_bytes`: what neither is free nor this process's: its workers have ended by now.
    """
    text, others_bytes, memory = " ".join(str(error).split())[:400], 0, ""
    cuda = import_module("torch").cuda
    if cuda.is_available() and cuda.is_initialized():
        free_bytes, total_bytes = cuda.mem_get_info()
        others_bytes = max(0, total_bytes - free_bytes - cuda.memory_reserved())
        memory = (
            f"; of its {total_bytes / 1e9:.1f} GB {free_bytes / 1e9:.1f} are free now, "
            f"others hold {others_bytes / 1e9:.1f}"
        )
    if not isinstance(error, WorldError):
        text = f"the judge ran out of the card's memory: {text}; free the card, or declare smaller sizes (shapes in task.yaml)"
    return {"error": ["CardShort", f"{text}{memory}"], "exit_code": 5, "others_bytes": others_bytes}


def _describe_card_error(error: BaseException) -> str:
    """The judge on a card: one line that says whose fault it is not, and what helps."""
    text = " ".join(str(error).split())[:400]
    if any(words in text.lower() for words in LOST_WORDS):
        return (
            f"the card was lost while judging: {text}; judge again, and run `ridgeline doctor` where that does not help"
        )
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"judging on the card failed at {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {text}"


def _hold(line: Any, learned: dict[str, TaskMemory], environment: Mapping[str, str]) -> None:
    """The judge on a card: the copy: answer what comes, hand on what was learned, end when nothing comes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(environment)
    adopt_fork_servers()
    holder, code = Holder(learned), 1
    try:
        while (words := _receive_question(line)) is not None:
            line.send(("begun", None, None))
            line.send(("done", holder.answer(words), holder.learned))
        code = 0
    finally:
        if code and (error := sys.exc_info()[1]) is not None:
            traceback.print_exc()
            with suppress(OSError):
                line.send(("lost", _describe_card_error(error), None))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what the process that it was copied from has started is not ended by this


def _receive_question(line: Any) -> Any:
    """The judge on a card: the next one, for its copy; None where nothing comes any more."""
    with suppress(EOFError, OSError):
        return line.recv() if line.poll(IDLE_S) else None
    return None


# The process that is asked, and imports.


class Host:
    """Makes copies that hold the card, one at a time, and keeps what they learned."""

    def __init__(self) -> None:
        self._learned: dict[str, TaskMemory] = {}
        self._copy: Any = None
        self._line: Any = None
        self._environment: dict[str, str] = {}
        self._warming: list[threading.Thread] = []
        self._context = multiprocessing.get_context("fork")

    def answer(self, words: dict[str, Any]) -> dict[str, Any]:
        """The judge on a card: the copy's answer; once more where the card's memory was short while others held some of it."""
        answer = self._ask_copy(words)
        if answer.get("others_bytes", 0) < OTHERS_BYTES or time.monotonic() + SHORT_WAIT_S > words["until"]:
            return answer
        time.sleep(SHORT_WAIT_S)
        again = self._ask_copy(words)
        if "others_bytes" in again:
            kind, text = again["error"]
            again["error"] = [kind, f"{text}; so it was {SHORT_WAIT_S:g} s before, too"]
        return again

    def find_compiled(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """The judge on a card: what workers with the version start with, in base 64; nothing where none was started."""
        packed = b""
        with suppress(WorldError, OSError):
            task, folder = load_task(Path(words["task_file"]))
            options = Options.model_validate(words["options"]).with_device(task)
            memory = self._learned.get(_name_task(task, folder, "cuda" if options.device == "cuda" else "cpu"))
            with freeze_sources(task, Path(words["candidate"])) as version:
                packed = memory.packed.get(_name_version(version), b"") if memory else b""
        return {"packed": base64.b64encode(packed).decode()}

    def _ask_copy(self, words: dict[str, Any]) -> dict[str, Any]:
        """The judge on a card: from the copy that holds the card already, or from a new one where that has given it back."""
        if self._environment != words["environment"]:
            self._end()
        self._environment = dict(words["environment"])
        for _ in range(2):
            if self._copy is None:
                import_module("torch")
                for thread in self._warming:
                    thread.join()
                self._begin()
            try:
                self._line.send(words)
                self._line.recv()
            except (EOFError, OSError):
                self._end()  # it had just given the card back
                continue
            try:
                kind, answer, learned = self._line.recv()
            except (EOFError, OSError):
                self._copy.join(END_S)
                code = self._copy.exitcode
                self._end()
                end = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with {code}"
                return {"error": ["CardLost", f"the process that holds the card {end}"], "exit_code": 5, "dead": True}
            if kind == "lost":
                self._end()
                return {"error": ["CardLost", answer], "exit_code": 5}
            self._learned = learned
            if "error" in answer and answer["error"][0] in ("CardLost", "CardShort"):
                self._end()
            return dict(answer)
        return {"error": ["CardLost", "no process that holds the card comes about"], "exit_code": 5}

    def warm_up(self, words: Mapping[str, Any]) -> None:
        """The judge on a card: begin with what this task's workers are copies of. What fails shows in the workers."""

        def start() -> None:
            try:
                task, folder = load_task(Path(words["task_file"]))
                options = Options.model_validate(words["options"]).with_device(task)
            except (WorldError, ValueError):
                return
            loading = worker.LoadRequest(
                task=task,
                sources=folder,
                framework="torch",
                device="cuda" if options.device == "cuda" else "cpu",
                cpu=None,
                limits=WorkerLimits(),
                environment=words["environment"],
            )
            warm = WarmProgram(modules=worker._warm_modules(loading), paths=worker._package_folders(), script=("",))
            machine_isolation()
            fork_server_of(warm, worker._worker_settings(loading))

        self._warming = [thread for thread in self._warming if thread.is_alive()]
        self._warming.append(threading.Thread(target=start))
        self._warming[-1].start()

    def _begin(self) -> None:
        self._line, theirs = self._context.Pipe()
        arguments = (theirs, self._learned, self._environment)
        self._copy = self._context.Process(target=_hold, args=arguments, daemon=False)
        self._copy.start()
        theirs.close()

    def _end(self) -> None:
        if self._copy is not None:
            self._line.close()
            self._copy.join(END_S)
            if self._copy.is_alive():
                self._copy.kill()
                self._copy.join()
        self._copy = self._line = None


def _import_all() -> None:
    """The judge on a card: once for all copies, what each would import."""
    import_module("torch")
    with suppress(ImportError):
        import_module("triton")  # PyTorch asks for it when a card is first used
    for name in ("session", "reference", "judge", "timing", "provenance"):
        import_module(f"ridgeline.sandbox.judge.device_{name}")


def main() -> None:
    """The judge on a card: answers until the other side closes."""
    stream: BufferedReader = os.fdopen(int(sys.argv[1]), "rb")
    out = os.fdopen(int(sys.argv[2]), "wb")
    importing = threading.Thread(target=_import_all)
    importing.start()
    host = Host()
    while (body := receive(stream)) is not None:
        words = json.loads(body)
        host.warm_up(words)
        if words["question"] == WARM:
            continue
        importing.join()
        answer = host.find_compiled(words) if words["question"] == COMPILED else host.answer(words)
        send(out, json.dumps(answer).encode())
        out.flush()
    host._end()
