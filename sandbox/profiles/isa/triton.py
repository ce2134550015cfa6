"""Compiles a Triton kernel ahead of time, for any target, on any machine.

Two processes: one runs the kernel's file, which is hostile until proven otherwise, and gives Triton's IR; the other
compiles that IR and never sees the file. So registers and spills are the compiler's words, not the candidate's.
"""

import ast
import base64
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from ridgeline.graph.errors import install_command
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.tools import Place, disassemble, run_harness
from ridgeline.sandbox.profiles.isa.values import Assembly, CompilerMissing, Count, Layouts, NotCompiled, Target

OPTIONS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "enable_fp_fusion", "allow_flush_denorm", "schedule_hint", "max_num_imprecise_acc",
})  # fmt: skip
"""What a launch may tell the compiler; names of files to link are not among them."""
IR_LIMIT = 16_000_000
SETTING = int | float | bool | str
T = TypeVar("T", bound=Value)


class Call(Value):
    """A call of the file's own function, which is imitated to see what it launches."""

    name: str
    arguments: tuple[str, ...]
    """Each `fp16[4096,4096]` or a plain value."""


class CompileRequest(Value):
    """What to compile: how the kernel is launched, stated (`signature`) or seen (`call`)."""

    file: Path
    kernel: str | None = None
    signature: tuple[str, ...] = ()
    """Triton's words for the parameters that are not constant: `*fp16`, `i32`, `i32:16` (16 divides it), `i32:1`."""
    constants: tuple[tuple[str, str], ...] = ()
    call: Call | None = None
    options: tuple[tuple[str, int], ...] = ()
    """num_warps, num_stages; beside a call they replace what it passes."""
    flags: tuple[str, ...] = ()
    """What CUDA C++ and HIP are compiled with beside the target: include folders, macros, the language's version."""


class _LoweredKernel(Value):
    triton: str = Field(max_length=40)
    kernel: str = Field(max_length=500)
    options: dict[str, SETTING | None]
    signature: str = Field(max_length=20_000)
    notes: tuple[str, ...] = Field((), max_length=20)
    lowered: dict[str, str]
    refused_targets: dict[str, str] = {}
    """Why a target has no IR."""


class _CompiledCode(Value):
    assembly: str
    binary: str
    shared: int
    tensor_columns: int | None = None
    num_warps: int
    num_stages: int | None
    name: str
    ttgir: str = Field("", max_length=IR_LIMIT)


def compiler(request: CompileRequest, targets: Sequence[Target], place: Place) -> Callable[[Target], Assembly]:
    """What compiles a Triton kernel for one of `targets`; `place.folder` receives everything that is written.

    The file runs here, once for all targets; what is returned raises `NotCompiled` where the compiler refuses one.

    Raises:
        CompilerMissing: the interpreter has no Triton.
        NotCompiled: the request does not fit the file, or the file misbehaves.
    """
    lowered = _lower(request, targets, place)
    if request.kernel is not None and lowered.kernel != request.kernel:
        raise NotCompiled("FILE", "answered for another kernel than was asked for")
    return lambda target: _assemble(target, lowered, place)


def _lower(request: CompileRequest, targets: Sequence[Target], place: Place) -> _LoweredKernel:
    payload = {
        "file": str(request.file),
        "kernel": request.kernel,
        "signature": request.signature,
        "constants": dict(request.constants),
        "call": request.call.model_dump() if request.call else None,
        "options": dict(request.options),
        "targets": {target.arch: _words(target) for target in targets},
    }
    answer = run_harness(place, "triton_lower.py", payload)
    refused = answer.get("refused")
    if isinstance(refused, dict):
        raise _refusal(refused)
    lowered = _validate(_LoweredKernel, answer)
    if any(len(text) > IR_LIMIT for text in lowered.lowered.values()):
        raise NotCompiled("FILE", f"its IR is longer than {IR_LIMIT} characters")
    return lowered


def _refusal(refused: dict[object, object]) -> CompilerMissing | NotCompiled:
    """What Triton's child said of a request to compile, which the kernel's file may have written in its place."""
    field, text = str(refused.get("field", "FILE"))[:40], str(refused.get("text", ""))[:500]
    if field == "triton":
        return CompilerMissing(
            f"{text}; {install_command('torch', 'triton')}, or name an interpreter that has them with --python"
        )
    return NotCompiled(field, text, _read_names(refused.get("several")), _read_names(refused.get("launched")))


def _read_names(said: object) -> list[str]:
    return [name for name in said if isinstance(name, str) and name.isidentifier()] if isinstance(said, list) else []


def _assemble(target: Target, lowered: _LoweredKernel, place: Place) -> Assembly:
    if (refusal := lowered.refused_targets.get(target.arch)) is not None:
        raise NotCompiled("FILE", f"does not compile for {target.arch}: {refusal[:500]}")
    options = {name: value for name, value in lowered.options.items() if name in OPTIONS and value is not None}
    asking = {**_words(target), "ttir": lowered.lowered.get(target.arch, ""), "options": options}
    try:
        compiled = _validate(_CompiledCode, run_harness(place, "triton_assemble.py", asking))
    except NotCompiled as error:
        raise NotCompiled("FILE", f"does not compile for {target.arch}: {error.text}") from None
    notes = (f"launch: {lowered.signature}; {compiled.num_warps} warps, {compiled.num_stages} stages", *lowered.notes)
    common = Assembly(
        target=target,
        compiler=f"triton {lowered.triton}",
        assembly=compiled.assembly,
        form="amdgcn" if target.vendor == "amd" else "ptx",
        binary=base64.b64decode(compiled.binary),
        shared_bytes=compiled.shared,
        tensor_columns=compiled.tensor_columns,
        threads=compiled.num_warps * target.wave,
        ttgir=compiled.ttgir,
        layouts=read_layouts(compiled.ttgir) if compiled.ttgir else None,
        kernel=compiled.name,
        notes=notes,
    )
    return common if target.vendor == "amd" else disassemble(common, place)


def _words(target: Target) -> dict[str, str | int]:
    if target.vendor == "amd":
        return {"backend": "hip", "arch": target.arch, "warp_size": target.wave}
    return {"backend": "cuda", "arch": int(target.arch.removeprefix("sm_")), "warp_size": target.wave}


def _validate(kind: type[T], answer: object) -> T:
    try:
        return kind.model_validate(answer)
    except ValidationError:
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it") from None


# What the GPU IR says of layouts, of the ways between them, and of the pipeline.

LAYOUT = re.compile(r"^(#\w+) = (#(?:ttg|ttng|amdg)\.\w+<.*>)$", re.MULTILINE)
OPERATION = re.compile(
    r"(?<![!#\"\w.])("
    r"ttg\.(?:convert_layout|local_\w+|async_\w+|barrier|warp_specialize)|amdg\.\w+|amdgpu\.\w+|"
    r"ttng\.(?:async_\w+|tmem_\w+|warp_group_dot\w*|tc_gen5_\w+|wait_barrier)|"
    r"tt\.(?:dot\w*|load|store|descriptor_\w+|reduce|atomic_\w+))\b"
)
FLAT = re.compile(r"swizzled_shared<\{[^}]*maxPhase = 1\b[^}]*order = \[\d+, |nvmma_shared<\{swizzlingByteWidth = 0\b")
"""Shared layouts of two axes and more whose rows all begin in the same bank."""


def read_layouts(ttgir: str) -> Layouts:
    """Machine code: layouts that are defined, operations that move data or wait, and shared layouts that nothing swizzles."""
    defined = [(match[1], match[2]) for match in LAYOUT.finditer(ttgir) if "shared_memory" not in match[2]]
    counts = Counter(match[1] for match in OPERATION.finditer(ttgir))
    return Layouts(
        names=tuple(f"{name} = {layout}" for name, layout in defined),
        operations=tuple(Count(name=name, count=count) for name, count in sorted(counts.items())),
        unswizzled=tuple(f"{name} = {layout}" for name, layout in defined if FLAT.search(layout)),
    )


# What `isa.toml` beside a kernel's file says of its launches.

FILE_NAME = "isa.toml"
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
COMMA = re.compile(r",(?![^\[]*\])")


class LaunchEntry(Value):
    """One kernel's entry, in the words of the command line."""

    signature: str | None = None
    constants: str | None = None
    call: str | None = None
    num_warps: int | None = None
    num_stages: int | None = None


def entries(file: Path) -> Mapping[str, LaunchEntry]:
    """What the `isa.toml` beside a Triton file says, by kernel; nothing without one.

    Raises `NotCompiled` for one that cannot be read, and for an entry that says what it may not.
    """
    path = file.parent / FILE_NAME
    if not path.is_file():
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotCompiled(FILE_NAME, f"{error}; correct the file") from None
    return {name: _entry(name, entry) for name, entry in document.items()}


def read_request(file: Path, kernel: str | None) -> CompileRequest | None:
    """What to compile of a Triton file by its `isa.toml`; None where that does not know the kernel.

    Without a kernel the only one that is known. Raises `NotCompiled` as `entries` does, and for a call or constants
    that cannot be read.
    """
    by_kernel = entries(file)
    name = kernel if kernel is not None else next(iter(by_kernel), "")
    if name not in by_kernel or (kernel is None and len(by_kernel) > 1):
        return None
    entry = by_kernel[name]
    launch_options = (("num_warps", entry.num_warps), ("num_stages", entry.num_stages))
    return CompileRequest(
        file=file,
        kernel=name,
        signature=split_words(entry.signature or ""),
        constants=_constants(entry.constants or ""),
        call=_call(entry.call) if entry.call is not None else None,
        options=tuple((option, value) for option, value in launch_options if value is not None),
    )


def split_words(text: str) -> tuple[str, ...]:
    """Machine code: words of an `isa.toml` between commas; those inside brackets separate nothing."""
    return tuple(word.strip() for word in COMMA.split(text) if word.strip())


def _entry(name: str, entry: object) -> LaunchEntry:
    try:
        return LaunchEntry.model_validate(entry)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join((name, *(str(part) for part in detail["loc"])))
        raise NotCompiled(FILE_NAME, f"{field}: {detail['msg'].lower()}; see the shipped tasks") from None


def _constants(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.partition("=") for word in split_words(text)]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise NotCompiled(FILE_NAME, f"constants: {wrong[0]!r} is not NAME=VALUE")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _call(text: str) -> Call:
    match = CALL.fullmatch(text)
    if match is None:
        raise NotCompiled(FILE_NAME, f"call: {text!r} is no call, for example run(fp16[4096,4096], 8)")
    return Call(name=match[1], arguments=split_words(match[2]))


def is_jit(decorator: ast.expr) -> bool:
    """Whether a decorator is `jit` of Triton or Gluon, with options or without."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] == "jit"
