"""Compiles a Triton kernel ahead of time, for any target, on any machine.

Two processes: one runs the kernel's file, which is hostile until proven otherwise, and gives Triton's IR; the other
compiles that IR and never sees the file. So registers and spills are the compiler's words, not the candidate's.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.child import Place, asked
from ridgeline.sandbox.profiles.isa.errors import CompilerMissing, NotCompiled
from ridgeline.sandbox.profiles.isa.nvidia_tools import disassembled
from ridgeline.sandbox.profiles.isa.values import Assembled, Target

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


class Wanted(Value):
    """What to compile: how the kernel is launched, stated (`signature`) or seen (`call`)."""

    file: Path
    kernel: str | None = None
    signature: tuple[str, ...] = ()
    """Triton's words for the parameters that are not constant: `*fp16`, `i32`, `i32:16` (16 divides it), `i32:1`."""
    constants: tuple[tuple[str, str], ...] = ()
    call: Call | None = None
    options: tuple[tuple[str, int], ...] = ()
    """num_warps, num_stages; beside a call they replace what it passes."""


class _Lowered(Value):
    triton: str = Field(max_length=40)
    kernel: str = Field(max_length=500)
    options: dict[str, SETTING | None]
    signature: str = Field(max_length=20_000)
    notes: tuple[str, ...] = Field((), max_length=20)
    lowered: dict[str, str]


class _Made(Value):
    assembly: str
    binary: str
    shared: int
    num_warps: int
    num_stages: int | None
    name: str


def assemble(wanted: Wanted, targets: Sequence[Target], place: Place) -> tuple[Assembled, ...]:
    """The kernel's code for each target, in their order; `place.folder` receives everything that is written.

    Raises:
        CompilerMissing: the interpreter has no Triton.
        NotCompiled: the request does not fit the file, the file misbehaves, or the compiler refuses.
    """
    lowered = _lowered(wanted, targets, place)
    if wanted.kernel is not None and lowered.kernel != wanted.kernel:
        raise NotCompiled("FILE", "answered for another kernel than was asked for")
    return tuple(_assembled(target, lowered, place) for target in targets)


def _lowered(wanted: Wanted, targets: Sequence[Target], place: Place) -> _Lowered:
    request = {
        "file": str(wanted.file),
        "kernel": wanted.kernel,
        "signature": wanted.signature,
        "constants": dict(wanted.constants),
        "call": wanted.call.model_dump() if wanted.call else None,
        "options": dict(wanted.options),
        "targets": {target.arch: _words(target) for target in targets},
    }
    answer = asked(place, "triton_lower.py", request)
    refused = answer.get("refused")
    if isinstance(refused, dict):
        raise _refusal(refused)
    lowered = _checked(_Lowered, answer)
    if any(len(text) > IR_LIMIT for text in lowered.lowered.values()):
        raise NotCompiled("FILE", f"its IR is longer than {IR_LIMIT} characters")
    return lowered


def _refusal(refused: dict[object, object]) -> CompilerMissing | NotCompiled:
    """What the child said of a request, which the kernel's file may have written in its place."""
    field, text = str(refused.get("field", "FILE"))[:40], str(refused.get("text", ""))[:500]
    if field == "triton":
        return CompilerMissing(
            f"{text}; install Ridgeline's extra `triton`, or name an interpreter that has it with --python"
        )
    told = refused.get("several")
    names = [name for name in told if isinstance(name, str) and name.isidentifier()] if isinstance(told, list) else []
    return NotCompiled(field, text, names)


def _assembled(target: Target, lowered: _Lowered, place: Place) -> Assembled:
    options = {name: value for name, value in lowered.options.items() if name in OPTIONS and value is not None}
    asking = {**_words(target), "ttir": lowered.lowered.get(target.arch, ""), "options": options}
    try:
        made = _checked(_Made, asked(place, "triton_assemble.py", asking))
    except NotCompiled as error:
        raise NotCompiled("FILE", f"does not compile for {target.arch}: {error.text}") from None
    notes = (f"launch: {lowered.signature}; {made.num_warps} warps, {made.num_stages} stages", *lowered.notes)
    common = Assembled(
        target=target,
        compiler=f"triton {lowered.triton}",
        assembly=made.assembly,
        form="amdgcn" if target.vendor == "amd" else "ptx",
        binary=base64.b64decode(made.binary),
        shared_bytes=made.shared,
        threads=made.num_warps * target.wave,
        kernel=made.name,
        notes=notes,
    )
    return common if target.vendor == "amd" else disassembled(common, place)


def _words(target: Target) -> dict[str, str | int]:
    if target.vendor == "amd":
        return {"backend": "hip", "arch": target.arch, "warp_size": target.wave}
    return {"backend": "cuda", "arch": int(target.arch.removeprefix("sm_")), "warp_size": target.wave}


def _checked(kind: type[T], answer: object) -> T:
    try:
        return kind.model_validate(answer)
    except ValidationError:
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it") from None
