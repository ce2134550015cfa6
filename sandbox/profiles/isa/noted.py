"""What `isa.toml` beside a kernel's file says of its launches."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.errors import NotCompiled
from ridgeline.sandbox.profiles.isa.triton import Call, Wanted

FILE_NAME = "isa.toml"
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
COMMA = re.compile(r",(?![^\[]*\])")


class Noted(Value):
    """One kernel's entry, in the words of the command line."""

    signature: str | None = None
    constants: str | None = None
    call: str | None = None
    num_warps: int | None = None
    num_stages: int | None = None


def entries(file: Path) -> Mapping[str, Noted]:
    """What the `isa.toml` beside `file` says, by kernel; nothing without one.

    Raises `NotCompiled` for one that cannot be read, and for an entry that says what it may not.
    """
    path = file.parent / FILE_NAME
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotCompiled(FILE_NAME, f"{error}; correct the file") from None
    return {name: _entry(name, entry) for name, entry in found.items()}


def wanted(file: Path, kernel: str | None) -> Wanted | None:
    """What to compile of a Triton file by its `isa.toml`; None where that does not know the kernel.

    Without a kernel the only one that is known. Raises `NotCompiled` as `entries` does, and for a call or constants
    that cannot be read.
    """
    known = entries(file)
    name = kernel if kernel is not None else next(iter(known), "")
    if name not in known or (kernel is None and len(known) > 1):
        return None
    told = known[name]
    own = (("num_warps", told.num_warps), ("num_stages", told.num_stages))
    return Wanted(
        file=file,
        kernel=name,
        signature=listed(told.signature or ""),
        constants=_constants(told.constants or ""),
        call=_call(told.call) if told.call is not None else None,
        options=tuple((option, value) for option, value in own if value is not None),
    )


def listed(text: str) -> tuple[str, ...]:
    """Words between commas; those inside brackets separate nothing."""
    return tuple(word.strip() for word in COMMA.split(text) if word.strip())


def _entry(name: str, entry: object) -> Noted:
    try:
        return Noted.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join((name, *(str(part) for part in first["loc"])))
        raise NotCompiled(FILE_NAME, f"{field}: {first['msg'].lower()}; see the shipped tasks") from None


def _constants(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [word.partition("=") for word in listed(text)]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise NotCompiled(FILE_NAME, f"constants: {wrong[0]!r} is not NAME=VALUE")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _call(text: str) -> Call:
    found = CALL.fullmatch(text)
    if found is None:
        raise NotCompiled(FILE_NAME, f"call: {text!r} is no call, for example run(fp16[4096,4096], 8)")
    return Call(name=found[1], arguments=listed(found[2]))
