"""Compiles CUDA C++ and HIP to code, and runs FlyDSL files in their compile-only mode, where those tools are."""

import shutil
from pathlib import Path

from ridgeline.sandbox.profiles.isa.child import Place, contents, started, told
from ridgeline.sandbox.profiles.isa.errors import CompilerMissing, NotCompiled
from ridgeline.sandbox.profiles.isa.nvidia_tools import disassembled
from ridgeline.sandbox.profiles.isa.values import Assembled, Target

CUDA_SUFFIXES = (".cu",)
HIP_SUFFIXES = (".hip", ".cpp", ".cc")
FLYDSL_TARGETS = ("gfx942", "gfx950")


def cuda(path: Path, kernel: str | None, target: Target, place: Place) -> Assembled:
    """CUDA C++ through nvcc. Raises `CompilerMissing`, `NotCompiled`."""
    program = shutil.which("nvcc")
    if program is None:
        raise CompilerMissing(f"{path.name}: needs nvcc, which is not on this machine; install the CUDA toolkit")
    if target.vendor != "nvidia":
        raise NotCompiled("--target", f"{path.name} is CUDA C++, which cannot be compiled for {target.arch}")
    made = place.folder / f"{target.arch}.out"
    arch = f"{target.arch}a" if target.arch in ("sm_90", "sm_100") else target.arch
    argv = (program, "-O3", "-lineinfo", f"-arch={arch}", "-cubin", "-o", str(made), str(path))
    ended = started(place, argv)
    if not ended.ok:
        raise NotCompiled(path.name, f"nvcc for {target.arch} {told(ended, place)}")
    given = Assembled(target=target, compiler=_version(program, place), binary=contents(made), kernel=kernel)
    return disassembled(given, place)


def hip(path: Path, kernel: str | None, target: Target, place: Place) -> Assembled:
    """HIP through hipcc. Raises `CompilerMissing`, `NotCompiled`."""
    program = shutil.which("hipcc")
    if program is None:
        raise CompilerMissing(f"{path.name}: needs hipcc, which is not on this machine; install ROCm")
    if target.vendor != "amd":
        raise NotCompiled("--target", f"{path.name} is HIP, which is not compiled for {target.arch} here")
    made = place.folder / f"{target.arch}.s"
    flags = ("-O3", "-g1", f"--offload-arch={target.arch}", "--offload-device-only", "-S")
    ended = started(place, (program, *flags, "-o", str(made), str(path)))
    if not ended.ok:
        raise NotCompiled(path.name, f"hipcc for {target.arch} {told(ended, place)}")
    text = contents(made).decode("utf-8", errors="replace")
    return Assembled(target=target, compiler=_version(program, place), assembly=text, form="amdgcn", kernel=kernel)


def is_flydsl(path: Path) -> bool:
    """Whether a Python file builds its kernel with FlyDSL."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return any(line.split()[:2] in (["import", "flydsl"], ["from", "flydsl"]) for line in text.splitlines()) or (
        "from flydsl." in text or "import flydsl." in text
    )


def flydsl(path: Path, kernel: str | None, target: Target, place: Place) -> Assembled:
    """The last ISA that the file dumps when it is run as a script in compile-only mode (tensors on the CPU).

    Raises `CompilerMissing`, `NotCompiled`.
    """
    name = _installed(path, place)
    if target.arch not in FLYDSL_TARGETS:
        raise NotCompiled("--target", f"FlyDSL compiles for {' and '.join(FLYDSL_TARGETS)}, not for {target.arch}")
    dumps = place.folder / f"{target.arch}.dumps"
    dumps.mkdir()
    extra = {
        "COMPILE_ONLY": "1",
        "ARCH": target.arch,
        "FLYDSL_DUMP_IR": "1",
        "FLYDSL_DUMP_DIR": str(dumps),
        "FLYDSL_RUNTIME_CACHE_DIR": str(place.folder / f"{target.arch}.cache"),
    }
    ended = started(place, (place.python, "-B", str(path)), extra=extra)
    found = sorted(dumps.rglob("*final_isa.s"))
    wanted = [dump for dump in found if kernel is None or f".amdhsa_kernel {kernel}" in _text(dump)]
    if not wanted and found:
        raise NotCompiled("--kernel", f"{path.name} gives no kernel {kernel!r} for {target.arch}")
    if not wanted and any(dumps.rglob("*")):
        raise CompilerMissing(f"{path.name}: FlyDSL dumped no final ISA; it needs ld.lld at $ROCM_PATH/llvm/bin/ld.lld")
    if not wanted:
        raise NotCompiled(path.name, "launched no FlyDSL kernel when it was run" if ended.ok else told(ended, place))
    return Assembled(target=target, compiler=name, assembly=_text(wanted[-1]), form="amdgcn", kernel=kernel)


def _text(path: Path) -> str:
    return contents(path).decode("utf-8", errors="replace")


def _installed(path: Path, place: Place) -> str:
    ask = "import importlib.metadata as m; print(m.version('flydsl'))"
    ended = started(place, (place.python, "-c", ask))
    if not ended.ok:
        raise CompilerMissing(
            f"{path.name}: needs FlyDSL, which {place.python} has not; install flydsl, or use --python"
        )
    return f"flydsl {ended.output.strip()}"


def _version(program: str, place: Place) -> str:
    said = started(place, (program, "--version")).output.splitlines()
    line = next((line.strip() for line in said if "release" in line or "version" in line), "version unknown")
    return f"{Path(program).name}: {line[:120]}"
