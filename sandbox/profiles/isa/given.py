"""Takes code that is compiled already: assembly text, PTX, SASS listings, code objects of both vendors."""

import re
from collections.abc import Sequence
from pathlib import Path

from ridgeline.sandbox.profiles.isa import amdgcn, elf, nvidia
from ridgeline.sandbox.profiles.isa.child import Place
from ridgeline.sandbox.profiles.isa.errors import NotCompiled
from ridgeline.sandbox.profiles.isa.naming import NotReadable, named
from ridgeline.sandbox.profiles.isa.nvidia_tools import disassembled
from ridgeline.sandbox.profiles.isa.targets import UnknownTarget, target_of
from ridgeline.sandbox.profiles.isa.values import Assembled, Resources, Target

LIMIT = 64 * 1024 * 1024
SUFFIXES = (".amdgcn", ".s", ".ptx", ".sass", ".hsaco", ".co", ".cubin", ".o")


def is_compiled(path: Path) -> bool:
    """Whether the name says that the file holds compiled code."""
    return path.suffix.lower() in SUFFIXES


def taken(path: Path, kernel: str | None, targets: Sequence[Target], place: Place) -> Assembled:
    """The code in a file. `targets` is needed only where the file does not say what it is for.

    Raises:
        NotCompiled: it is no code of a known kind, or made for another target than asked for.
    """
    if path.stat().st_size > LIMIT:
        raise NotCompiled(path.name, f"is larger than {LIMIT} bytes")
    data = path.read_bytes()
    try:
        found = _binary(path, data, kernel, place) if data.startswith(elf.MAGIC) else _text(path, data, kernel, targets)
    except NotReadable as error:
        raise NotCompiled(path.name, str(error), error.several) from None
    except UnknownTarget as error:
        raise NotCompiled(path.name, str(error)) from None
    if targets and found.target not in targets:
        listed = ", ".join(target.arch for target in targets)
        raise NotCompiled("--target", f"{path.name} was compiled for {found.target.arch}, not for {listed}")
    return found


def _text(path: Path, data: bytes, kernel: str | None, targets: Sequence[Target]) -> Assembled:
    text = data.decode("utf-8", errors="replace")
    from_file = {"compiler": f"as given in {path.name}", "assembly": text, "kernel": kernel}
    if amdgcn.kernels(text):
        target = _target(amdgcn.architecture(text), targets, path)
        return Assembled.model_validate({**from_file, "target": target, "form": "amdgcn"})
    target = _target(nvidia.architecture(text), targets, path)
    form = "ptx" if ".entry" in text and ".version" in text else "sass"
    return Assembled.model_validate({**from_file, "target": target, "form": form})


def _binary(path: Path, data: bytes, kernel: str | None, place: Place) -> Assembled:
    match elf.machine(data):
        case elf.AMDGPU:
            return _amd(path, data, kernel)
        case elf.CUDA:
            flags = int.from_bytes(data[48:52], "little")
            target = target_of(f"sm_{_sm(flags)}")
            given = Assembled(target=target, compiler=f"as given in {path.name}", binary=data, kernel=kernel)
            return disassembled(given, place)
        case _:
            raise NotCompiled(path.name, "is no code object of a GPU")


def _sm(flags: int) -> int:
    """The architecture is in the low byte, and in the second of files made by CUDA 13."""
    low, high = flags & 0xFF, flags >> 8 & 0xFF
    return low if f"sm_{low}" in ("sm_80", "sm_90", "sm_100") else high


def _amd(path: Path, data: bytes, kernel: str | None) -> Assembled:
    told = elf.metadata(data)
    kernels = told.get("amdhsa.kernels")
    entries = [entry for entry in (kernels if isinstance(kernels, list) else []) if isinstance(entry, dict)]
    names = {str(entry.get(".name")): entry for entry in entries}
    name = named(tuple(names), kernel)
    resources: Resources = amdgcn.from_metadata(amdgcn.numbers_of(names[name]), {})
    return Assembled(
        target=target_of(_arch(str(told.get("amdhsa.target", "")))),
        compiler=f"as given in {path.name}",
        kernel=name,
        resources=resources,
        notes=("a code object: resources only; give the assembly text (.amdgcn) for its instructions",),
    )


def _arch(triple: str) -> str:
    """Compilers write amdgcn-amd-amdhsa--gfx942 or amdgpu9.42-amd-amdhsa-unknown-gfx942, features behind a colon."""
    found = re.search(r"gfx[0-9a-f]+", triple)
    return found[0] if found else triple


def _target(arch: str | None, targets: Sequence[Target], path: Path) -> Target:
    if arch is not None:
        return target_of(arch)
    if len(targets) == 1:
        return targets[0]
    raise NotCompiled("--target", f"{path.name} does not say what it is for; give one target")
