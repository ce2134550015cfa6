"""What the command line asks of a kernel's file, with what `isa.toml` beside the file adds."""

import ast
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.report import Inspected, inspect, require_known_kind
from ridgeline.sandbox.profiles.isa.tools import is_compiled, is_cute, is_flydsl
from ridgeline.sandbox.profiles.isa.triton import (
    CALL,
    FILE_NAME,
    Call,
    CompileRequest,
    LaunchEntry,
    entries,
    is_jit,
    split_words,
)
from ridgeline.sandbox.profiles.isa.values import KNOWN, NotCompiled, Refusal, Target, UnknownTarget, target_of

# Triton kernels of a file as their definitions read: names and parameters. Nothing of the file is executed.


class Outline(Value):
    """One kernel's name and parameters, in order."""

    name: str
    passed: tuple[str, ...]
    constant: tuple[str, ...]
    """Those marked `tl.constexpr` that have no default."""


def outlines(path: Path) -> tuple[Outline, ...]:
    """The functions at the top of a Python file that `triton.jit` decorates; none where it is not Python."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        _outline(node)
        for node in module.body
        if isinstance(node, ast.FunctionDef) and any(map(is_jit, node.decorator_list))
    )


def _outline(function: ast.FunctionDef) -> Outline:
    """Name and parameters of a Triton kernel; constants that have a default are left out."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    bare = len(parameters) - len(function.args.defaults)
    marked = [
        parameter.annotation is not None and "constexpr" in ast.unparse(parameter.annotation)
        for parameter in parameters
    ]
    return Outline(
        name=function.name,
        passed=tuple(parameter.arg for parameter, constant in zip(parameters, marked, strict=True) if not constant),
        constant=tuple(parameter.arg for at, parameter in enumerate(parameters) if marked[at] and at < bare),
    )


WORDS = ("target", "signature", "constants", "call", "num_warps", "num_stages", "python")
"""Options that a command for one kernel of several repeats."""
EXAMPLE = (
    '--signature "*fp16,*fp16,i32" --constants BLOCK=128 --num-warps 4, or --call "run(fp16[4096,4096])", '
    f"or write one of the two into {FILE_NAME} beside the file"
)


class InspectionRequest(Value):
    """The options of the command, as they were given."""

    file: Path
    kernel: str | None = None
    signature: str | None = None
    constants: str | None = None
    call: str | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    target: str | None = None
    python: str | None = None
    timeout: float
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    std: str | None = None
    flags_from: Path | None = None

    @property
    def interpreter(self) -> str:
        """The Python that compiles for `isa`; Ridgeline's own where none is named. Raises `UserError` for one that is not there."""
        if self.python is None:
            return sys.executable
        program = shutil.which(Path(self.python).expanduser())
        if program is None:
            raise UserError(
                f"--python: {self.python}: no such program; give the path of an interpreter that has Triton"
            )
        return str(Path(program).absolute())  # links are not followed: a virtual environment is where its link is


def resolve_targets(request: InspectionRequest) -> CompileRequest:
    """What `isa` has to compile. Raises `UserError` where the launch is not known or written wrongly."""
    path = _source(request.file)
    if is_compiled(path) or not is_triton(path):
        warps = () if request.num_warps is None else (("num_warps", request.num_warps),)
        return CompileRequest(file=path, kernel=request.kernel, options=warps, flags=compiler_flags(request, path))
    kernel, entry = (
        request.kernel,
        LaunchEntry.model_validate(request.model_dump(include=set(LaunchEntry.model_fields))),
    )
    if entry.signature is None and entry.call is None:
        kernel, file_entry = _from_file(path, request)
        entry = file_entry.model_copy(update=entry.model_dump(exclude_none=True))
    if entry.signature is not None and entry.call is not None:
        raise UserError("--signature: not together with --call; leave one of them out")
    compile_options = {"num_warps": entry.num_warps, "num_stages": entry.num_stages}
    return CompileRequest(
        file=path,
        kernel=kernel,
        signature=split_words(entry.signature or ""),
        constants=_constants(entry.constants or ""),
        call=_call(entry.call) if entry.call is not None else None,
        options=tuple((name, value) for name, value in compile_options.items() if value is not None),
    )


# What CUDA C++ and HIP are compiled with, as the command line or a build says it.

OWN = re.compile(
    r"-c|-S|-v|-MM?D?|-MP|-dc|-rdc=.*|--device-c|-M[FTQ].+|-(?:arch|code|gencode)=.*|--(?:gpu-.*|generate-code|offload-arch)=.*"
)
"""Flags of a build that say what this command says itself: targets, outputs, dependencies."""
OWN_PAIRS = (
    "-o",
    "-MF",
    "-MT",
    "-MQ",
    "-arch",
    "-code",
    "-gencode",
    "--gpu-architecture",
    "--gpu-code",
    "--generate-code",
    "-x",
)
"""The same, where the word behind belongs to it."""
PLACES = ("-I", "-isystem", "-include", "-iquote", "-L")
"""Flags of a path, behind them or in the next word."""


def compiler_flags(request: InspectionRequest, path: Path) -> tuple[str, ...]:
    """Compiler flags in the order given: those of the file first, so that the command line's own win. Raises `UserError`."""
    flags = [] if request.flags_from is None else list(_flags_of_file(request.flags_from, path))
    flags += [f"-I{folder.expanduser().absolute()}" for folder in request.include]
    flags += [f"-D{macro}" for macro in request.define]
    return (*flags, *((f"-std={request.std}",) if request.std else ()))


def _flags_of_file(file: Path, path: Path) -> Iterator[str]:
    """Compiler flags in a text, or those of `path` in a compile_commands.json; without what names targets and outputs."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--flags-from: {file}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    if file.suffix == ".json":
        folder, words = _command_of(file, text, path)
    else:
        lines = (line.split("#")[0] if line.lstrip().startswith("#") else line for line in text.splitlines())
        folder, words = file.absolute().parent, shlex.split(" ".join(lines))
    words = [word for word in words if word != str(path) and Path(folder, word) != path]
    skip = False
    for at, word in enumerate(words):
        if skip or OWN.fullmatch(word):
            skip = False
        elif word in OWN_PAIRS:
            skip = True
        elif at and words[at - 1] == "-include" and not (folder / word).exists():
            yield word  # one that the compiler looks for in its folders of headers
        elif at and words[at - 1] in PLACES:
            yield str(folder / word)
        elif (flag := next((flag for flag in PLACES if word.startswith(flag) and word != flag), None)) is not None:
            yield f"{flag}{folder / word.removeprefix(flag)}"
        else:
            yield word


def _command_of(file: Path, text: str, path: Path) -> tuple[Path, list[str]]:
    """The folder and the words behind the compiler of the command that builds `path`."""
    try:
        commands = json.loads(text)
        found = [entry for entry in commands if Path(entry["directory"], entry["file"]).resolve() == path]
        entry = found[0]
        words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
        return Path(entry["directory"]), [str(word) for word in words[1:]]
    except IndexError:
        raise UserError(f"--flags-from: {file}: no command builds {path}; give the one of its build folder") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"--flags-from: {file}: is no compile_commands.json ({error!r})") from None


def list_kernel_requests(request: InspectionRequest) -> tuple[InspectionRequest, ...]:
    """The request for machine code once for every kernel of a Triton file that `isa.toml` knows; as it is where one is asked for."""
    path = _source(request.file)
    if request.kernel is not None or request.signature is not None or request.call is not None or not is_triton(path):
        return (request,)
    entries, inside = _entries(path), {outline.name for outline in outlines(path)}
    kernels = [
        kernel for kernel in entries if kernel in inside
    ] or entries  # the notes may be of other files here as well
    return tuple(request.model_copy(update={"kernel": kernel}) for kernel in kernels) or (request,)


def is_triton(path: Path) -> bool:
    """Whether a kernel's launch has to be known before its file can be compiled."""
    return path.suffix == ".py" and not is_flydsl(path) and not is_cute(path)


def command(request: InspectionRequest, kernel: str, **more: str) -> str:
    """The `ridgeline isa` command for one kernel of a file, with the options that were given and `more`."""
    arguments = {name: value for name in WORDS if (value := getattr(request, name)) is not None} | more
    options = [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(("ridgeline", "isa", str(request.file), "--kernel", kernel, *options))


def targets(request: InspectionRequest) -> tuple[Target, ...]:
    """The GPU targets in the order given, each once. Compiled files name their own. Raises `UserError`."""
    if request.target is None:
        if is_compiled(request.file):
            return ()
        raise UserError(f"--target: missing; for example --target gfx942,sm_90 (known are {', '.join(KNOWN)})")
    try:
        return tuple(dict.fromkeys(target_of(name) for name in split_words(request.target)))
    except UnknownTarget as error:
        raise UserError(f"--target: {error}") from None


def _source(path: Path) -> Path:
    """The kernel's file; a folder with a contract stands for its first kernel source."""
    if path.is_dir():
        from ridgeline.agent.contract_file import load

        loaded = load(path)
        sources = [loaded.root / name for name in loaded.contract.kernel_source]
        path = next((source for source in sources if source.is_file()), path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; give a kernel's source, its compiled code, or a folder with a contract")
    return path.resolve()


def _from_file(path: Path, request: InspectionRequest) -> tuple[str, LaunchEntry]:
    """The entry of a kernel in `isa.toml`, the only one where no kernel is named."""
    notes, kernel = path.parent / FILE_NAME, request.kernel
    if not notes.is_file():
        raise UserError(
            f"--signature: missing, and {notes} is not there either; give {EXAMPLE}{_commands(path, request)}"
        )
    entries = _entries(path)
    if kernel is None and len(entries) == 1:
        return next(iter(entries.items()))
    if kernel is None or kernel not in entries:
        raise UserError(f"--kernel: {notes} knows {', '.join(entries) or 'none'}; name one, or give {EXAMPLE}")
    return kernel, entries[kernel]


def _entries(path: Path) -> Mapping[str, LaunchEntry]:
    try:
        return entries(path)
    except NotCompiled as error:
        raise UserError(f"{path.parent / FILE_NAME}: {error.text}") from None


def _commands(path: Path, request: InspectionRequest) -> str:
    """An `isa` command for each kernel of a file whose launches nobody noted, a type to be put for every parameter's name."""
    typed = [
        command(request, outline.name, signature=",".join(outline.passed), **_preset(outline))
        for outline in outlines(path)
        if request.kernel in (None, outline.name)
    ]
    return f". Put a type for each name in: {'; or '.join(typed)}" if typed else ""


def _preset(outline: Outline) -> dict[str, str]:
    """For `isa`: placeholders for the constants that a launch must give."""
    return {"constants": ",".join(f"{name}=VALUE" for name in outline.constant)} if outline.constant else {}


def _constants(text: str) -> tuple[tuple[str, str], ...]:
    """(name, value) of each `--const` NAME=VALUE. Raises UserError for another word."""
    constants = []
    for word in split_words(text):
        name, equals, value = word.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UserError(f"--constants: {word!r} is not NAME=VALUE; for example --constants BLOCK=128,EVEN=true")
        constants.append((name.strip(), value.strip()))
    return tuple(constants)


def _call(text: str) -> Call:
    """Name and arguments of a kernel's launch NAME(...). Raises UserError for another text."""
    match = CALL.fullmatch(text)
    if match is None:
        raise UserError(f'--call: {text!r} is no call; for example --call "run(fp16[4096,4096], 8)"')
    return Call(name=match[1], arguments=split_words(match[2]))


# Every kernel of a file: inspected one by one where it is known how they are launched, else listed with commands.

MOST = 32
"""Kernels of one file that are reported without being asked for by name."""


def inspect_kernels(request: InspectionRequest) -> tuple[Inspected, ...]:
    """Each kernel's registers, spills and instructions for every target, out of its code; the kernel that is named, or all.

    A kernel of several that is refused loses no other: it has refusals and no inspection.

    Raises:
        UserError: what was given does not say how the file's kernels are launched; names the commands that would.
        NotCompiled, CompilerMissing: as `inspect`, where nothing is left to tell.
    """
    kernels = list_kernel_requests(request)
    inspected = tuple(one for single in kernels for one in _split(single, alone=len(kernels) == 1))
    if not any(one.inspections for one in inspected):
        refusal = inspected[0].refused[0]
        raise NotCompiled(refusal.kernel or request.file.name, refusal.why)
    return inspected


def _split(request: InspectionRequest, *, alone: bool) -> Iterator[Inspected]:
    """One kernel of a file that `isa` was asked for, or all that the file turns out to hold."""
    try:
        inspected = _inspect_kernel(request, alone=alone)
    except NotCompiled as error:
        if not error.several or len(error.several) > MOST:
            raise
        if request.call is None and is_triton(resolve_targets(request).file):
            raise UserError(_list_kernels(request, error.several)) from None
        names = error.several
    else:
        yield inspected
        return
    for name in names:
        yield _inspect_kernel(request.model_copy(update={"kernel": name}), alone=False)


def _inspect_kernel(request: InspectionRequest, *, alone: bool) -> Inspected:
    what = resolve_targets(request)
    require_known_kind(what.file)
    chosen = targets(request.model_copy(update={"file": what.file}))
    try:
        inspected = inspect(what, chosen, python=request.interpreter, timeout_s=request.timeout)
    except NotCompiled as error:
        if alone or error.several:
            raise
        why = f"{error.field}: {error.text}"
        refused = tuple(Refusal(target=target.arch, why=why, kernel=request.kernel or "") for target in chosen)
        return Inspected(inspections=(), refused=refused or (Refusal(target="", why=why, kernel=request.kernel or ""),))
    names = [refusal.model_copy(update={"kernel": request.kernel or ""}) for refusal in inspected.refused]
    return inspected.model_copy(update={"refused": tuple(names)})


def _list_kernels(request: InspectionRequest, names: Sequence[str]) -> str:
    commands = "; or ".join(command(request, name) for name in names)
    return f"--kernel: {request.file.name} has {len(names)} kernels, and one signature fits one of them. Run {commands}"
