"""`ridgeline profile run`: a contract's program under the best profiler of this machine, on an idle card or a core."""

import re
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ridgeline.agent.campaign.wiring import connect, throwaway_place
from ridgeline.agent.contract_file import LoadedContract, load
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Profile
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit, Profiled
from ridgeline.graph.kernel_profile import Recording, Vendor
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.gate import card_for
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.profiles.profilers.cpu import parse_printed
from ridgeline.sandbox.profiles.profilers.gpu import Only, Session, dump_assembly
from ridgeline.sandbox.profiles.profilers.gpu import record as record_with
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.checkouts import scratch_copy
from ridgeline.sandbox.workspace.commands import BUILD_LINES, fill, in_a_line, itself

WAIT_S = 600.0
PERF_S = 120.0
PERF_HZ = 999
HOT_ROW = re.compile(r"^\s*(\d+\.\d+)%\s+(\d+)\s+(\S+)\s+\[[^\]]*\]\s+(\S.*?)\s*$", re.MULTILINE)
"""A line of `perf report`: share, samples, file, symbol."""
MOST_HOT = 10
FEW_SAMPLES = 100
"""Of fewer, a share of a half is off by five hundredths and more: samples are told instead of shares."""
TASK_US = 2e6
"""Time of a judged kernel's calls, in microseconds: more than what the judge around them takes."""
NOT_COUNTED = "nothing is counted: the judge calls the kernel from Python, whose instructions are not its own"
Say = Callable[[str], None]


class ProfileRun(Value):
    """What was recorded, and what was passed over and why."""

    paths: tuple[Path, ...]
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...]
    assembly: tuple[Path, ...] = ()
    """Files that the compiler left, where only they were wanted."""


def record(
    contract: Path, *, kernel: str | None, out: Path | None, progress: Say, only: Only | None = None
) -> ProfileRun:
    """Run a profiler on the contract's program in a copy of its checkout; recordings are kept in `out`.

    `only`: one kind of evidence. Of `asm` nothing is recorded: the files are the answer.

    Raises `UserError` for a build or a program that fails, or a folder that holds files already.
    """
    loaded = load(contract)
    kind = device_kind(loaded.contract)
    assert kind != "cpu", "a contract of the processor is for record_on_processor"
    pattern = kernel if kernel is not None else _kernel_name(loaded)
    if pattern is not None:
        _expression(pattern)
    vendor: Vendor = kind
    folder = _choose_folder(out, loaded.contract.target_op)
    with card_for(loaded.contract, wait_s=WAIT_S, say=progress) as bound, scratch_copy(loaded.root) as copy:
        environment = {**select_variables(loaded.contract.pass_environment), **bound}
        _build(loaded, copy, environment)
        session = Session(
            program=_program(loaded, folder / "benchmark.csv"),
            cwd=copy,
            out=folder,
            env=environment,
            timeout_s=loaded.contract.timeouts.benchmark_s,
            kernel=pattern,
            only=only,
            progress=progress,
        )
        if only is not None and only != "asm" and vendor != "amd":
            raise UserError(
                f"--{only}-only: is a pass of rocprofv3, and {loaded.path} names a card of NVIDIA; leave it out"
            )
        failed = record_with(session, vendor)
        assembly = dump_assembly(session) if only == "asm" and failed is None else ()
    if failed is not None:
        raise UserError(f"{loaded.path}: {_field(loaded)}: {in_a_line(failed)}; it must run before it can be profiled")
    return ProfileRun(
        paths=tuple(session.paths), recordings=tuple(session.recordings), notes=tuple(session.notes), assembly=assembly
    )


# On the processor.


class Usage(Value):
    """What the kernel of the operating system counted of one run of the program and its children."""

    wall_s: float
    user_s: float
    system_s: float
    faults: int
    """Pages that were not there when they were touched."""
    waits: int
    """How often it gave up the core to wait."""
    preempted: int
    """How often the core was taken from it."""


class HotFunction(Value):
    """Where samples of the program's time fell."""

    share: float
    samples: int
    file: str
    symbol: str


class ProcessorProfile(Value):
    """A contract's program on the processor: what a campaign would read of it, what it used, and where time went."""

    contract: Path
    profiled: Profiled | None
    """Counters; None where the program is mostly not the kernel."""
    usage: Usage
    hot: tuple[HotFunction, ...]
    samples: int
    """Of the whole program, of which those of `hot` are a part."""
    notes: tuple[str, ...]
    paths: tuple[Path, ...]


def is_on_processor(contract: Path) -> bool:
    """Whether a contract's kernel runs on the processor."""
    return device_kind(load(contract).contract) == "cpu"


def record_on_processor(contract: Path, *, kernel: str | None, out: Path | None, progress: Say) -> ProcessorProfile:
    """Usage, sampled functions and the CPU counters that a campaign reads, of the contract's program: `profile run` without a GPU.

    Raises `UserError` for what does not build or run, or a folder that holds files already.
    """
    declared = load(contract)
    program = _program(declared, "profile-run.csv")
    by_judge = declared.contract.profile is None and declared.contract.judged
    profiled: Profiled | None = None
    paths: tuple[Path, ...] = ()
    with _leave_no_empty(_choose_folder(out, declared.contract.target_op)) as folder:
        with card_for(declared.contract, wait_s=WAIT_S, say=progress), scratch_copy(declared.root) as copy:
            environment = select_variables(declared.contract.pass_environment)
            progress("building, and running the program once")
            _build(declared, copy, environment)
            if by_judge:
                program = _call_often(_run_program(declared, program, copy, environment), program)
            usage = _measure_usage(declared, program, copy, environment)
            progress("sampling with perf")
            hot, samples, notes = _sample(program, copy, environment)
        if not by_judge:
            progress("counting, as a campaign does")
            profiled, paths = _count(declared, program, kernel, folder)
    not_seen = profiled.notes if profiled is not None else (NOT_COUNTED,)
    return ProcessorProfile(
        contract=declared.path,
        profiled=profiled,
        usage=usage,
        hot=hot,
        samples=samples,
        notes=(*notes, *not_seen),
        paths=paths,
    )


@contextmanager
def _leave_no_empty(folder: Path) -> Iterator[Path]:
    """The folder for `profile run`, gone afterwards where nothing was put into it."""
    try:
        yield folder
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()


def _count(
    declared: LoadedContract, program: tuple[str, ...], kernel: str | None, folder: Path
) -> tuple[Profiled, tuple[Path, ...]]:
    """CPU counters of what is checked in, as a campaign's profiler counts them, and the best instrument's own file in the folder."""
    profile = declared.contract.profile
    named = kernel or (profile.kernel if profile is not None else None)
    changed = declared.contract.model_copy(update={"profile": Profile(command=program, kernel=named)})
    loaded = declared.model_copy(update={"contract": changed})
    with throwaway_place(loaded) as place:
        ports = connect(place, loaded.contract, "catalog")
        profiled = ports.profiler.profile(ports.workspace.open("none").commit, purpose="profile run")
        assert profiled is not None, "it was given a command"
        if profiled.report is None:
            return profiled, ()
        kept = folder / profiled.report.name
        kept.write_bytes(ArtifactStore(place.campaign_dir).get(profiled.report))
    return profiled, (kept,)


def _call_often(ended: Exit, program: tuple[str, ...]) -> tuple[str, ...]:
    """The judge's command with so many calls that a profiler sees little else, by the time that it printed."""
    time_us = dict(parse_printed(ended.output)).get("kernel_time_us", TASK_US)
    return (*program, "--calls", str(max(int(TASK_US / time_us), 1)))


def _run_program(loaded: LoadedContract, program: tuple[str, ...], copy: Path, environment: dict[str, str]) -> Exit:
    """Run the program that is to be profiled to its end. Raises `UserError` where it fails."""
    ended = run(
        program, cwd=copy, timeout_s=loaded.contract.timeouts.benchmark_s, env=environment, field=_field(loaded)
    )
    if not ended.ok:
        raise UserError(f"{loaded.path}: {_field(loaded)}: {in_a_line(ended)}; it must run before it can be profiled")
    return ended


def _measure_usage(loaded: LoadedContract, program: tuple[str, ...], copy: Path, environment: dict[str, str]) -> Usage:
    """Time and memory of one undisturbed run of the program that is profiled."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = _run_program(loaded, program, copy, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Usage(
        wall_s=ended.seconds,
        user_s=after.ru_utime - before.ru_utime,
        system_s=after.ru_stime - before.ru_stime,
        faults=after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
        waits=after.ru_nvcsw - before.ru_nvcsw,
        preempted=after.ru_nivcsw - before.ru_nivcsw,
    )


def _sample(
    command: tuple[str, ...], copy: Path, environment: dict[str, str]
) -> tuple[tuple[HotFunction, ...], int, tuple[str, ...]]:
    """Hot functions by the profiler's samples that fell in them, how many it took, and a line where they are few or none."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-perf-") as folder:
        data = f"{folder}/perf.data"
        try:
            program = shutil.which(command[0], path=environment.get("PATH")) or command[0]  # perf looks elsewhere first
            recording = ("perf", "record", "-q", "-F", str(PERF_HZ), "-o", data, "--", program, *command[1:])
            sampled = run(recording, cwd=copy, timeout_s=PERF_S, env=environment)
        except ProgramMissing:
            return (), 0, ("perf is not installed: no samples say where the time goes",)
        if not sampled.ok:
            return (), 0, (f"perf record is refused here: {in_a_line(sampled)}",)
        order = ("--stdio", "--no-children", "-q", "-F", "overhead,sample,dso,symbol")
        listed = run(("perf", "report", "-i", data, *order), cwd=copy, timeout_s=PERF_S, env=environment)
    hot = tuple(_read_hot(listed.output))
    samples = sum(item.samples for item in hot)
    return hot[:MOST_HOT], samples, _say_few(samples)


def _read_hot(text: str) -> Iterator[HotFunction]:
    for share, samples, file, symbol in HOT_ROW.findall(text):
        yield HotFunction(share=float(share) / 100, samples=int(samples), file=file, symbol=symbol)


def _say_few(samples: int) -> tuple[str, ...]:
    """What so few samples of a profiled program say nothing about; empty where they are enough."""
    if not samples:
        return (f"perf record took no samples: the program ends within {1000 / PERF_HZ:.0f} ms",)
    if samples >= FEW_SAMPLES:
        return ()
    return (
        f"only {samples} samples, one for each {1000 / PERF_HZ:.0f} ms of processor time: shares are rough, and functions one"
        " sample apart are in no order; a program that runs longer (more calls, a larger shape) gives more",
    )


# What both share.


def _kernel_name(loaded: LoadedContract) -> str | None:
    """The contract's own kernel to profile, a plain name."""
    profile = loaded.contract.profile
    return re.escape(profile.kernel) if profile is not None and profile.kernel is not None else None


def _expression(pattern: str) -> None:
    """The pattern of kernels to profile. Raises UserError for one that is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise UserError(f"--kernel: {pattern!r} is no regular expression ({error}); escape its signs") from error


def _field(loaded: LoadedContract) -> str:
    """The contract's field to mend when the profiled program fails."""
    if loaded.contract.profile is not None:
        return "profile.command"
    return loaded.contract.task_file or "benchmark_command"


def _program(loaded: LoadedContract, csv: Path | str) -> tuple[str, ...]:
    """What `profile run` starts: the profile command, one short call; without it a task's first timed size, or the benchmark.

    `csv` is where a benchmark writes its times.
    """
    profile, task_file = loaded.contract.profile, loaded.contract.task_file
    if profile is not None:
        return itself(profile.command)
    if task_file is not None:
        from ridgeline.sandbox.judge.task_file import load_task

        label = next(shape.label for shape in load_task(loaded.root / task_file).task.shapes if shape.timed)
        return itself(("ridgeline", "judge", "profile", task_file, "--shape", label))
    return itself(fill(loaded.contract.benchmark_command, {"csv": str(csv), "shapes": ""}))


def _build(loaded: LoadedContract, copy: Path, environment: dict[str, str]) -> None:
    rebuild = loaded.contract.rebuild
    if not rebuild.required or rebuild.command is None:
        return
    ended = run(
        rebuild.command, cwd=copy, timeout_s=loaded.contract.timeouts.build_s, env=environment, field="rebuild.command"
    )
    if not ended.ok:
        raise UserError(
            f"{loaded.path}: rebuild.command: {in_a_line(ended, last_lines=BUILD_LINES)}; make the unmodified kernel build"
        )


def _choose_folder(out: Path | None, op: str) -> Path:
    """Where `profile run` keeps its recordings: the folder asked for, new or empty; else the first free `profiles/<op>-<n>` here."""
    folder = out
    number = 1
    while folder is None or (out is None and folder.exists()):
        folder, number = Path("profiles") / f"{op}-{number}", number + 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"--out: {folder}: holds files already; name a new folder")
    except OSError as error:
        raise UserError(f"--out: {folder}: {error.strerror}; name a folder that can be made") from error
    return folder.absolute()
