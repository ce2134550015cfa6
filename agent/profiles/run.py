"""`ridgeline profile run`: a contract's program under the best profiler of this machine, on an idle card."""

import re
from collections.abc import Callable
from pathlib import Path

from ridgeline.agent.contract_file import LoadedContract, load
from ridgeline.agent.errors import UserError
from ridgeline.graph.kernel_profile import Recording, Vendor
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.gate import card_for
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.profiles.profilers.gpu import Only, Session, dump_assembly
from ridgeline.sandbox.profiles.profilers.gpu import record as record_with
from ridgeline.sandbox.workspace.checkouts import scratch_copy
from ridgeline.sandbox.workspace.commands import BUILD_LINES, fill, in_a_line

WAIT_S = 600.0
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
    """Profile the contract's program in a copy of its checkout; recordings are kept in `out`.

    `only`: one kind of evidence. Of `asm` nothing is recorded: the files are the answer.

    Raises `UserError` for a contract of the processor, a build or a program that fails, or a folder that holds files
    already.
    """
    loaded = load(contract)
    kind = device_kind(loaded.contract)
    if kind == "cpu":
        raise UserError(
            f"{loaded.path}: target_gpu: this is a contract of the processor, whose counters campaigns read themselves;"
            " name a GPU to profile a kernel on it"
        )
    pattern = kernel if kernel is not None else _kernel_name(loaded)
    if pattern is not None:
        _expression(pattern)
    vendor: Vendor = kind
    folder = _choose_folder(out, loaded.contract.target_op)
    with card_for(loaded.contract, wait_s=WAIT_S, say=progress) as bound, scratch_copy(loaded.root) as copy:
        environment = {**select_variables(loaded.contract.pass_environment), **bound}
        _build(loaded, copy, environment)
        session = Session(
            program=_program(loaded, folder),
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


def _kernel_name(loaded: LoadedContract) -> str | None:
    """The contract's own kernel, a plain name."""
    profile = loaded.contract.profile
    return re.escape(profile.kernel) if profile is not None and profile.kernel is not None else None


def _expression(pattern: str) -> None:
    """Raises UserError for a pattern that is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise UserError(f"--kernel: {pattern!r} is no regular expression ({error}); escape its signs") from error


def _field(loaded: LoadedContract) -> str:
    return "profile.command" if loaded.contract.profile is not None else "benchmark_command"


def _program(loaded: LoadedContract, folder: Path) -> tuple[str, ...]:
    """The profile command, one short representative call; without it the benchmark over every shape."""
    profile = loaded.contract.profile
    if profile is not None:
        return profile.command
    return fill(loaded.contract.benchmark_command, {"csv": str(folder / "benchmark.csv"), "shapes": ""})


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
    """The folder asked for, new or empty; else the first free `profiles/<op>-<n>` here."""
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
