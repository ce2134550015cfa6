"""The only place that starts a process: no shell, no inherited secrets, a time limit, and no survivors."""

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypedDict, Unpack

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.graph.evidence import Exit
from ridgeline.sandbox.isolation import kill_tree, stopping
from ridgeline.sandbox.isolation.commands import CommandPlan, NotStarted, check_processor, has_own_table, start_command
from ridgeline.sandbox.isolation.confinement import confining_words, death_signal_words, which
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.environment import build_environment
from ridgeline.sandbox.isolation.kill_tree import (
    StartedProcess,
    count_forks,
    end_session,
    processor_time_s,
    sweep,
    wait_for_exit,
)
from ridgeline.sandbox.isolation.rooms import Room, list_command_mounts, scratch_bytes

# Waits for a command in windows, and gives up one that hangs: one that neither prints nor computes.
#
# What spins, or waits for a device by spinning, computes: that ends at its time limit.

Ending = Literal["exited", "late", "hung"]
"""late: its time limit came first."""
IDLE = 0.01
"""Share of a window: a process that used less of one core than this looked at its watch, and did no work."""


@dataclass(frozen=True, kw_only=True)
class HangWatchdog:
    """How long a command may do nothing. With a time limit below `windows * window_s` it never matters."""

    window_s: float
    """Longest wait, in seconds, after which is looked whether anything goes on (limit `poll_max_s`)."""
    windows: int
    """So many in a row without progress are a hang (limit `poll_stuck_windows`)."""

    @property
    def text(self) -> str:
        return f"hung: no output and no work in {self.windows} windows of {self.window_s:g} s"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a command has done so far."""

    printed: int = 0
    """Bytes of its output."""
    worked_s: float = 0.0
    """Processor time of its processes, in seconds."""


def watch(
    exited: Callable[[float], bool],
    *,
    timeout_s: float,
    patience: HangWatchdog | None,
    progress: Callable[[], Progress],
) -> Ending:
    """How a process ended that `exited` waits for, so many seconds at most. Without patience only the limit counts."""
    if patience is None:
        return "exited" if exited(timeout_s) else "late"
    until = time.monotonic() + timeout_s
    before, still = Progress(), 0
    while not exited(min(patience.window_s, until - time.monotonic())):
        if time.monotonic() >= until:
            return "late"
        now = progress()
        progressed = now.printed != before.printed or abs(now.worked_s - before.worked_s) >= IDLE * patience.window_s
        before, still = now, 0 if progressed else still + 1
        if still >= patience.windows:
            return "hung"
    return "exited"


OUTPUT_BYTES = 64_000
PRIVATE = ("home", "tmp")
"""Folders that each process has to itself."""
FILE_MB = 4096
"""Largest file a command may write, its own output included: a runaway print must not fill the disk."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process to start. Times in seconds, sizes in MiB unless the name says bytes."""

    argv: tuple[str, ...]
    cwd: Path
    timeout_s: float
    env: Mapping[str, str] | None = None
    memory_mb: int | None = None
    """Address space of each process (RLIMIT_AS). None where a driver reserves more than it uses, as CUDA does."""
    output_bytes: int = OUTPUT_BYTES
    cpu: int | None = None
    network: bool = False
    field: str = ""
    """The contract's field that the command stands in, for the error when its program is missing."""
    file_mb: int | None = FILE_MB
    stdin: bytes | None = None
    patience: HangWatchdog | None = None
    """How long it may do nothing before its time limit; None: as long as it likes."""
    room: Room | None = None
    """What it sees and may change, for code that nobody has read; None: the machine as this user does."""


class Options(TypedDict, total=False):
    """Keywords of `run`; meanings and defaults are those of `Command`."""

    env: Mapping[str, str] | None
    memory_mb: int | None
    output_bytes: int
    cpu: int | None
    network: bool
    field: str
    stdin: bytes | None
    patience: HangWatchdog | None
    room: Room | None


@dataclass(frozen=True, kw_only=True)
class CapturedOutput:
    """Everything a trusted tool said, unbounded; `returncode` None when it ran out of time."""

    returncode: int | None
    stdout: bytes
    stderr: str


@dataclass(frozen=True, kw_only=True)
class _End:
    """How one process ended."""

    returncode: int | None
    """None when it was killed for time."""
    seconds: float
    """Wall time."""
    cpu_s: float | None
    """Processor time with all that was waited for below it."""


def run(argv: Sequence[str], *, cwd: Path, timeout_s: float, **options: Unpack[Options]) -> Exit:
    """Run a command in a process to its end and say what it did.

    Its whole session is killed at `timeout_s` and after it has exited, and also when the caller is interrupted. One
    that hangs by its `patience` is killed sooner, as having run out of time, and its output ends with that.
    Standard output and error come back together, at most `output_bytes` of them, with the elision stated.

    Raises:
        ProgramMissing: the program cannot be started.
        WorldError: the CPU asked for is not one that this process may use.
    """
    command = Command(argv=tuple(argv), cwd=cwd, timeout_s=timeout_s, **options)
    with fresh_folder(*PRIVATE) as private:
        output_file = private / "output"
        with output_file.open("wb") as out:
            ended = _execute(command, private=private, out=out, err=None)
        return Exit(
            argv=command.argv,
            returncode=ended.returncode,
            timed_out=ended.returncode is None,
            seconds=ended.seconds,
            cpu_s=ended.cpu_s,
            output=head_and_tail(output_file, command.output_bytes),
        )


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> CapturedOutput:
    """Run a trusted tool, such as git, whose output is data and must be whole: bytes, not confined, not bounded.

    It is asked to end when this process is killed: else git would go on in a campaign whose lease is free by then.
    Raises ProgramMissing when the tool cannot be started.
    """
    command = Command(argv=tuple(argv), cwd=cwd, timeout_s=timeout_s, env=env, network=True, file_mb=None, stdin=stdin)
    with _memory_file() as out, _memory_file() as err:
        tied = death_signal_words("TERM")  # at which git removes its lock files
        returncode = _execute(command, private=_tool_folder(), out=out, err=err, before=tied).returncode
        out.seek(0)
        err.seek(0)
        return CapturedOutput(returncode=returncode, stdout=out.read(), stderr=err.read().decode(errors="replace"))


@functools.cache
def _tool_folder() -> Path:
    """Home and temporary folder of trusted tools, which leave nothing there; as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in PRIVATE:
        (folder / name).mkdir()
    return folder


@contextlib.contextmanager
def run_beside(
    argv: Sequence[str], *, cwd: Path, output_file: Path, env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a trusted tool that does not end by itself while the block runs; what it prints goes to `output_file`.

    It ends with the block, and with this process if that is killed. Raises ProgramMissing when it cannot be started.
    """
    command = Command(argv=tuple(argv), cwd=cwd, timeout_s=0, env=env, network=True, file_mb=None)
    with tempfile.TemporaryDirectory(prefix="ridgeline-", ignore_cleanup_errors=True) as folder:
        environment = build_environment(Path(folder), mark=secrets.token_hex(16), extra=command.env)
        with output_file.open("wb") as out, Path(os.devnull).open("rb") as nothing:
            tied = death_signal_words("KILL")
            process = _start(command, Path(folder), env=environment, stdin=nothing, out=out, err=None, before=tied)
        try:
            yield
        finally:
            end_session(process, politely=False)


def head_and_tail(path: Path, limit: int) -> str:
    """Head and tail of a process's output, together `limit` bytes, with what is missing between them stated."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= limit:
            return file.read().decode(errors="replace")
        head = file.read(limit // 2)
        file.seek(size - (limit - limit // 2))
        tail = file.read()
    gone = size - limit
    return f"{head.decode(errors='replace')}\n[... {gone} bytes left out ...]\n{tail.decode(errors='replace')}"


def _execute(
    command: Command, *, private: Path, out: BinaryIO, err: BinaryIO | None, before: tuple[str, ...] = ()
) -> _End:
    """A process from its start to its end, with these words `before` it."""
    mark = secrets.token_hex(16)
    environment = build_environment(private, mark=mark, extra=command.env)
    in_table = command.room is not None and has_own_table()
    forks = None if _is_trusted(command) else count_forks()
    earlier_children = kill_tree.children_before() if command.room is not None and not in_table else None
    with _open_stdin(command.stdin) as standard_input:
        began = time.monotonic()
        process = _start(command, private, env=environment, stdin=standard_input, out=out, err=err, before=before)
        how: Ending = "late"
        try:
            how = watch(
                (lambda most_s: wait_for_exit(process, most_s))
                if _is_trusted(command)
                else (lambda most_s: stopping.wait(lambda step_s: wait_for_exit(process, step_s), most_s)),
                timeout_s=command.timeout_s,
                patience=command.patience,
                progress=lambda: Progress(
                    printed=os.fstat(out.fileno()).st_size,
                    worked_s=processor_time_s(mark, ancestor=process.pid, forks=forks),
                ),
            )
            seconds = time.monotonic() - began
        finally:  # reached on Ctrl-C too: nothing that was started may go on by itself
            cpu_s = end_session(process, politely=how != "exited")
            if not (_is_trusted(command) or in_table):  # with a table of its own nothing is left
                sweep(mark, ancestor=process.pid, forks=forks)
            kill_tree.end_since(earlier_children)
    if how == "hung" and command.patience is not None:
        os.write(out.fileno(), f"\n[{command.patience.text}]\n".encode())
    return _End(returncode=process.returncode if how == "exited" else None, seconds=seconds, cpu_s=cpu_s)


@contextlib.contextmanager
def _open_stdin(data: bytes | None) -> Iterator[BinaryIO]:
    """What the process reads: the data, or nothing."""
    if data is None:
        yield _open_null()
        return
    with _memory_file() as file:
        file.write(data)
        file.seek(0)
        yield file


@functools.cache
def _open_null() -> BinaryIO:
    """The null device, opened once: nearly every process is given it."""
    file = Path(os.devnull).open("rb")  # noqa: SIM115
    atexit.register(file.close)
    return file


def _memory_file() -> BinaryIO:
    """A file in memory for a process's output: it is read whole anyway, and no file system has to be tidied up after it."""
    return os.fdopen(os.memfd_create("ridgeline"), "w+b")


def _start(
    command: Command,
    private: Path,
    *,
    env: Mapping[str, str],
    stdin: BinaryIO,
    out: BinaryIO,
    err: BinaryIO | None,
    before: tuple[str, ...] = (),
) -> StartedProcess:
    """Start a process, in its room if it has one, with these words `before` it. Raises ProgramMissing and WorldError."""
    argv = (*before, *_prepare_argv(command, env))
    try:
        if command.room is not None:
            streams = stdin.fileno(), out.fileno(), (err or out).fileno()
            return start_command(_plan(command, command.room, private, argv, env), streams)
        return _start_unconfined(argv, command.cwd, env=env, stdin=stdin, out=out, err=err)
    except (NotStarted, FileNotFoundError, PermissionError, NotADirectoryError) as error:
        if not command.cwd.is_dir():
            raise WorldError(f"{command.cwd}: is not a folder a command can run in") from error
        raise ProgramMissing(
            command.argv[0], field=command.field, why=f"cannot be started ({error.strerror})"
        ) from None
    except OSError as error:  # an empty script or a file of another architecture
        raise ProgramMissing(
            command.argv[0], field=command.field, why=f"cannot be started ({error.strerror})"
        ) from None


def _start_unconfined(
    argv: tuple[str, ...],
    cwd: Path,
    *,
    env: Mapping[str, str],
    stdin: BinaryIO,
    out: BinaryIO,
    err: BinaryIO | None,
) -> "subprocess.Popen[bytes]":
    return kill_tree.start_child(
        lambda: subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=out,
            stderr=err if err is not None else subprocess.STDOUT,
            start_new_session=True,
        )
    )


def _plan(command: Command, room: Room, private: Path, argv: tuple[str, ...], env: Mapping[str, str]) -> CommandPlan:
    return CommandPlan(
        argv=argv,
        cwd=command.cwd,
        environment=env,
        mounts=list_command_mounts(
            room,
            own_folders=tuple(private / name for name in PRIVATE),
            argv=argv,
            environment=env,
            passed=command.env or {},
        ),
        scratch_bytes=scratch_bytes(),
        memory_mb=command.memory_mb,
        file_mb=command.file_mb,
        cpu=check_processor(command.cpu),
        network="loopback" if command.network else "none",
    )


def _prepare_argv(command: Command, env: Mapping[str, str]) -> tuple[str, ...]:
    """The command with its program resolved and everything that confines it in front."""
    word = command.argv[0]
    name = str(command.cwd / word) if "/" in word and not word.startswith("/") else word
    program = which(name, env["PATH"]) if "/" not in word else shutil.which(name, path=env["PATH"])
    if program is None:
        why = "is not executable" if "/" in word and Path(name).exists() else "not found"
        raise ProgramMissing(word, field=command.field, why=why)
    words: tuple[str, ...] = ()
    if command.room is None:
        words = confining_words(
            memory_mb=command.memory_mb, file_mb=command.file_mb, cpu=command.cpu, network=command.network
        )
    # without wrappers the name is kept as written: some programs look at how they were called
    return (*words, program if program.startswith("/") else str(Path(program).absolute()), *command.argv[1:])


def _is_trusted(command: Command) -> bool:
    return command.file_mb is None


# A process of ours that outlives its starter: `ridgeline resume` on behalf of a page, and nothing of a project.


def launch_detached(
    argv: Sequence[str], *, cwd: Path, log: Path, output: Path | None = None, without: Sequence[str] = ()
) -> "subprocess.Popen[bytes]":
    """Start a process in a session of its own, with this one's environment and both outputs at the end of `log`.

    Where there is an `output`, standard output goes there instead.

    It is this program again, so it is told what this process was told, but for the variables named in `without`.
    Signals for the starter's terminal do not reach it. Raises ProgramMissing where it cannot be started, and OSError
    where the log cannot be written.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without}
    with log.open("ab") as err, (output or log).open("ab") as out:
        try:
            return subprocess.Popen(
                tuple(argv),
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramMissing(argv[0], why=f"cannot be started ({error.strerror})") from None
