"""Starts the programs of `harness` and reads their answers, which are data from code that nobody has read."""

import importlib.util
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ridgeline.graph.evidence import Exit
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import OUTPUT_BYTES, run
from ridgeline.sandbox.profiles.isa import amdgcn, nvidia
from ridgeline.sandbox.profiles.isa.values import (
    NVIDIA,
    OWN_FEATURES,
    Assembly,
    CompilerMissing,
    NotCompiled,
    NotReadable,
    Resources,
    Target,
    UnknownTarget,
    choose_kernel,
    target_of,
)
from ridgeline.sandbox.profiles.readers.names import display

ANSWER_LIMIT = 64 * 1024 * 1024
"""Bytes; the largest kernels seen give under 4 MB."""
MEMORY_MB = 24 * 1024
"""Address space, of which torch and LLVM reserve much more than they use."""
WORDS = 300
PASSED = ("LD_LIBRARY_PATH", "PYTHONPATH", "ROCM_PATH", "CUDA_HOME")


class Place(Value):
    """Where and how long compilers may run."""

    python: str
    """Interpreter that has the compiler's packages."""
    folder: Path
    """An empty folder for everything they write, their caches too."""
    timeout_s: float
    """Of one process."""


def run_harness(place: Place, script: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Machine code: the answer of a program of `harness`.

    Raises:
        NotCompiled: it ran out of time, died, or gave no answer.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-isa-") as folder:  # one process's cache is no input of another
        child_place = place.model_copy(update={"folder": Path(folder)})
        question, answer = child_place.folder / "request.json", child_place.folder / "answer.json"
        question.write_text(json.dumps(request), encoding="utf-8")
        with as_file(files("ridgeline.sandbox") / "harness" / script) as program:
            argv = (child_place.python, "-P", "-B", str(program), str(question), str(answer))
            process = run_tool(child_place, argv)
        if not process.ok:
            raise NotCompiled("FILE", explain_failure(process, child_place))
        return _read_json(answer)


def run_tool(
    place: Place, argv: tuple[str, ...], *, extra: Mapping[str, str] | None = None, output_bytes: int = OUTPUT_BYTES
) -> Exit:
    """A compiler's process: bounded in time, memory and output, without network and without the user's secrets."""
    cache = place.folder / "cache"
    cache.mkdir(exist_ok=True)
    defaults = {
        "TRITON_CACHE_DIR": str(cache),
        "TRITON_DEFAULT_FP_FUSION": "1",  # as Triton up to 3.9 does where nobody says otherwise
        "OMP_NUM_THREADS": "1",
    }
    env = {**select_variables(PASSED), **defaults, **(extra or {})}
    return run(
        argv, cwd=place.folder, timeout_s=place.timeout_s, env=env, memory_mb=MEMORY_MB, output_bytes=output_bytes
    )


def explain_failure(process: Exit, place: Place) -> str:
    """Why a compiler's process gave nothing, in one line: its last words."""
    if process.timed_out:
        return f"was still running after {place.timeout_s:g} s and was ended; allow more with --timeout"
    lines = [line.strip() for line in process.output.splitlines() if line.strip()]
    final_line = lines[-1][-WORDS:] if lines else "it said nothing"
    return f"ended with exit code {process.returncode}: {final_line}"


FAULT = re.compile(r"\berror\b|\bfatal\b", re.IGNORECASE)
COUNTED = re.compile(r"^\d+ errors? (?:detected|generated)")
FAULTS = 3


def explain_refusal(process: Exit, place: Place) -> str:
    """What a compiler said was wrong: its first errors, which stand before the line that counts them."""
    lines = [line.strip() for line in process.output.splitlines()]
    faults = [line for line in lines if FAULT.search(line) and not COUNTED.match(line)]
    if process.timed_out or not faults:
        return explain_failure(process, place)
    return f"ended with exit code {process.returncode}: {'; '.join(faults[:FAULTS])[: 2 * WORDS]}"


def contents(path: Path, limit: int = ANSWER_LIMIT) -> bytes:
    """A plain file of a compiler's, of bounded size, links not followed. Raises `NotCompiled` for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise NotCompiled("FILE", f"gave no answer ({error.strerror})") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise NotCompiled("FILE", f"its answer is no plain file of at most {limit} bytes")
        return file.read(limit)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        answer = json.loads(contents(path))
    except (ValueError, RecursionError):
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it") from None
    if not isinstance(answer, dict):
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it")
    return answer


# Compiles CUDA C++ and HIP to code, and runs FlyDSL files in their compile-only mode, where those tools are.

CUDA_SUFFIXES = (".cu",)
HIP_SUFFIXES = (".hip", ".cpp", ".cc")
FLYDSL_TARGETS = ("gfx942", "gfx950")


def cuda(path: Path, kernel: str | None, target: Target, place: Place, flags: Sequence[str] = ()) -> Assembly:
    """CUDA C++ through nvcc, with what else it is to be compiled with. Raises `CompilerMissing`, `NotCompiled`."""
    program = shutil.which("nvcc")
    if program is None:
        raise CompilerMissing(f"{path.name}: needs nvcc, which is not on this machine; install the CUDA toolkit")
    if target.vendor != "nvidia":
        raise NotCompiled("--target", f"{path.name} is CUDA C++, which cannot be compiled for {target.arch}")
    output = place.folder / f"{target.arch}.out"
    argv = (
        program,
        "-O3",
        "-lineinfo",
        *flags,
        f"-arch={_name_features(target)}",
        "-cubin",
        "-o",
        str(output),
        str(path),
    )
    process = run_tool(place, argv)
    if not process.ok:
        raise NotCompiled(path.name, f"nvcc for {target.arch} {explain_refusal(process, place)}")
    assembled = Assembly(target=target, compiler=_version(program, place), binary=contents(output), kernel=kernel)
    return disassemble(assembled, place)


def _name_features(target: Target) -> str:
    """Machine code: the architecture with the letter of its own features, where it has such."""
    return f"{target.arch}a" if target.arch in OWN_FEATURES else target.arch


CLANGS = ("hipcc", "amdclang++", "clang++")
"""What compiles HIP, the first that is here: ROCm's own, and any clang with AMD's target, which needs ROCm's headers."""


def hip(path: Path, kernel: str | None, target: Target, place: Place, flags: Sequence[str] = ()) -> Assembly:
    """HIP through hipcc or clang. Raises `CompilerMissing`, `NotCompiled`."""
    program = next(filter(None, map(shutil.which, CLANGS)), None)
    if program is None:
        raise CompilerMissing(f"{path.name}: needs hipcc, amdclang++ or clang++, none of which is here; install ROCm")
    if target.vendor != "amd":
        raise NotCompiled("--target", f"{path.name} is HIP, which is not compiled for {target.arch} here")
    output = place.folder / f"{target.arch}.s"
    name = Path(program).name
    own = ("-O3", "-g1", *(() if name == "hipcc" else ("-x", "hip")), *flags)
    argv = (program, *own, f"--offload-arch={target.arch}", "--offload-device-only", "-S", "-o", str(output), str(path))
    process = run_tool(place, argv)
    if not process.ok:
        raise NotCompiled(path.name, f"{name} for {target.arch} {explain_refusal(process, place)}")
    text = contents(output).decode("utf-8", errors="replace")
    assembled = Assembly(target=target, compiler=_version(program, place), assembly=text, form="amdgcn", kernel=kernel)
    return name_kernel(assembled, amdgcn.kernels(text), place)


CUTE = re.compile(r"^\s*(?:import cutlass\.cute\b|from cutlass import .*\bcute\b|from cutlass\.cute\b)", re.MULTILINE)


def is_cute(path: Path) -> bool:
    """Whether a Python file builds its kernel with CuTe DSL."""
    return CUTE.search(path.read_text(encoding="utf-8", errors="replace")) is not None


def cute(path: Path, kernel: str | None, target: Target, place: Place) -> Assembly:
    """What `cute.compile` makes when the file is run as a script; a launch that then finds no GPU is no fault.

    Raises `CompilerMissing`, `NotCompiled`.
    """
    name = _find_installed(path, place, "CuTe DSL", "nvidia-cutlass-dsl")
    if target.vendor != "nvidia":
        raise NotCompiled("--target", f"CuTe DSL compiles for NVIDIA, not for {target.arch}")
    dumps = place.folder / f"{target.arch}.dumps"
    dumps.mkdir()
    extra = {
        "CUTE_DSL_ARCH": _name_features(target),
        "CUTE_DSL_DUMP_DIR": str(dumps),
        "CUTE_DSL_KEEP_PTX": "1",
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    process = run_tool(place, (place.python, "-B", str(path)), extra=extra)
    cubins, listings = (sorted(dumps.rglob(f"*.{suffix}")) for suffix in ("cubin", "ptx"))
    if not cubins and not listings:
        why = "compiled no kernel when it was run: call cute.compile with fake tensors below `__main__`"
        raise NotCompiled(path.name, why if process.ok else f"for {target.arch} {explain_refusal(process, place)}")
    if len(cubins or listings) > 1 and kernel is None:
        dumped = [entry for listing in listings for entry in nvidia.entries(_text(listing))]
        raise NotCompiled("--kernel", f"{path.name} compiles several: {', '.join(dumped)}; name one", dumped)
    chosen = [at for at, listing in enumerate(listings) if kernel in (None, *nvidia.entries(_text(listing)))]
    if not chosen:
        raise NotCompiled("--kernel", f"{path.name} gives no kernel {kernel!r} for {target.arch}")
    text = _text(listings[chosen[0]])
    columns = nvidia.tensor_columns(text)
    if not cubins:
        return Assembly(target=target, compiler=name, assembly=text, form="ptx", kernel=kernel, tensor_columns=columns)
    binary = contents(cubins[chosen[0]])
    assembled = Assembly(target=target, compiler=name, binary=binary, kernel=kernel, tensor_columns=columns)
    compiled = disassemble(assembled, place)
    return compiled if compiled.assembly else compiled.model_copy(update={"assembly": text, "form": "ptx"})


def is_flydsl(path: Path) -> bool:
    """Whether a Python file builds its kernel with FlyDSL."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return any(line.split()[:2] in (["import", "flydsl"], ["from", "flydsl"]) for line in text.splitlines()) or (
        "from flydsl." in text or "import flydsl." in text
    )


def flydsl(path: Path, kernel: str | None, target: Target, place: Place) -> Assembly:
    """The last ISA that the file dumps when it is run as a script in compile-only mode (tensors on the CPU).

    Raises `CompilerMissing`, `NotCompiled`.
    """
    name = _find_installed(path, place, "FlyDSL", "flydsl")
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
    process = run_tool(place, (place.python, "-B", str(path)), extra=extra)
    isa_dumps = sorted(dumps.rglob("*final_isa.s"))
    kernel_dumps = [dump for dump in isa_dumps if kernel is None or f".amdhsa_kernel {kernel}" in _text(dump)]
    if not kernel_dumps and isa_dumps:
        raise NotCompiled("--kernel", f"{path.name} gives no kernel {kernel!r} for {target.arch}")
    if not kernel_dumps and any(dumps.rglob("*")):
        raise CompilerMissing(f"{path.name}: FlyDSL dumped no final ISA; it needs ld.lld at $ROCM_PATH/llvm/bin/ld.lld")
    if not kernel_dumps:
        raise NotCompiled(
            path.name, "launched no FlyDSL kernel when it was run" if process.ok else explain_failure(process, place)
        )
    return Assembly(target=target, compiler=name, assembly=_text(kernel_dumps[-1]), form="amdgcn", kernel=kernel)


def _text(path: Path) -> str:
    return contents(path).decode("utf-8", errors="replace")


def _find_installed(path: Path, place: Place, words: str, package: str) -> str:
    """The package's name and version. Raises `CompilerMissing`."""
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    process = run_tool(place, (place.python, "-c", ask))
    if not process.ok:
        raise CompilerMissing(
            f"{path.name}: needs {words}, which {place.python} has not; install {package}, or use --python"
        )
    return f"{package} {process.output.strip()}"


def _version(program: str, place: Place) -> str:
    lines = run_tool(place, (program, "--version")).output.splitlines()
    line = next((line.strip() for line in lines if "release" in line or "version" in line), "version unknown")
    return f"{Path(program).name}: {line[:120]}"


# NVIDIA's disassembler and resource report: from the path, or from inside an installed Triton.

USAGE = re.compile(r"Function\s+(\S+?):\s*\n\s*REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")
RESERVED = 1024
COUNTS_RESERVED = ("sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
"""Here the report counts the system's own KiB as the kernel's: kernels without shared memory show 1024."""
OUTPUT_LIMIT = 32 * 1024 * 1024


def disassemble(assembled: Assembly, place: Place) -> Assembly:
    """A kernel's code with SASS and what its code object says of resources, where the tools are; else with a note."""
    if not assembled.binary:
        return assembled
    cubin = place.folder / f"{assembled.target.arch}.cubin"
    cubin.write_bytes(assembled.binary)
    text = _sass(cubin, place)
    assembled = name_kernel(assembled, nvidia.sections(text or ""), place)
    resources = _usage(cubin, assembled.kernel, place)
    notes = (
        ()
        if text
        else ("nvdisasm not found or failed: no SASS, so spills are not known; install CUDA, or triton for --python",)
    )
    live = _live(cubin, assembled.kernel, place) if text and assembled.kernel else ()
    update = {"resources": resources, "live": live, "notes": (*assembled.notes, *notes)}
    return assembled.model_copy(update={**update, "assembly": text, "form": "sass"} if text else update)


def list_tools(name: str, place: Place) -> tuple[str, ...]:
    """Where a CUDA tool is: on the path, in the toolkit, in the Triton of the interpreter that compiles.

    Triton's wheel brings its own. The first that knows the target answers: a toolkit may be older than the code.
    """
    places = [shutil.which(name)]
    places += [f"{root}/bin/{name}" for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]
    if folder := _triton_folder(place):
        places.append(str(folder / "backends" / "nvidia" / "bin" / name))
    return tuple(dict.fromkeys(path for path in places if path and Path(path).is_file()))


ASK_TRITON = (
    "import importlib.util as u; s = u.find_spec('triton'); print('triton at', s.origin if s and s.origin else '')"
)


def _triton_folder(place: Place) -> Path | None:
    """The installed Triton of the interpreter that compiles, which need not be the one that runs this."""
    if place.python == sys.executable:
        spec = importlib.util.find_spec("triton")
        return Path(spec.origin).parent if spec is not None and spec.origin else None
    process = run_tool(place, (place.python, "-c", ASK_TRITON))
    origin = next((line.partition("triton at ")[2] for line in process.output.splitlines() if "triton at " in line), "")
    return Path(origin).parent if process.ok and origin else None


def _sass(cubin: Path, place: Place) -> str | None:
    for program in list_tools("nvdisasm", place):
        for flags in (("-c", "-gi"), ("-c",)):  # -gi: source lines, refused where the code has none
            process = run_tool(place, (program, *flags, str(cubin)), output_bytes=OUTPUT_LIMIT)
            if process.ok and len(process.output) < OUTPUT_LIMIT:
                return process.output
    return None


LIVE = re.compile(r"/\*([0-9a-f]{4,})\*/.*//\s*\|\s*(\d*)\s*\|")
"""An instruction's offset, and how many of its general registers live, in the first column behind it."""


def _live(cubin: Path, kernel: str, place: Place) -> tuple[tuple[int, int], ...]:
    """Offsets of a kernel's instructions with their live registers; nothing where no tool counts them."""
    for program in list_tools("nvdisasm", place):
        argv = (program, "-c", "-plr", "-lrm", "count", str(cubin))
        process = run_tool(place, argv, output_bytes=OUTPUT_LIMIT)
        if process.ok and len(process.output) < OUTPUT_LIMIT:
            lines = nvidia.lines_of(process.output, kernel)
            counts = [match for line in lines if (match := LIVE.search(line))]
            return tuple((int(match[1], 16), int(match[2] or 0)) for match in counts)
    return ()


FILTERS = (("cu++filt",), ("llvm-cxxfilt",), ("c++filt", "-r"))
"""What turns mangled names into those of the source, the first that is here; -r: however deep templates nest."""
AT_ONCE = 200
"""Names that one call of them is given."""


def name_kernel(assembled: Assembly, names: Sequence[str], place: Place) -> Assembly:
    """Compiled code with the kernel that is meant, and its name in the source; `kernel` may be a part of that, `tile<33, float>`.

    Raises `NotCompiled` where that part is in no name, or in several.
    """
    sources = _demangle(names, place)
    asked = assembled.kernel
    try:
        asked = choose_kernel(names, asked)
    except NotReadable:
        fitting = [name for name in names if asked and _squeeze(asked) in _squeeze(sources.get(name, name))]
        if sources and asked and len(fitting) != 1:
            listed = ", ".join(display(sources.get(name, name)) for name in fitting or names)
            raise NotCompiled("--kernel", f"{asked!r} is in {len(fitting)} names; those: {listed}") from None
        asked = fitting[0] if fitting else asked
    return assembled.model_copy(update={"kernel": asked, "plain": sources.get(asked or "", "")})


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _demangle(names: Sequence[str], place: Place) -> dict[str, str]:
    """Machine code: names of a kernel's source by mangled ones; only those that were mangled, and none where no tool is here."""
    program = next((words for words in FILTERS if shutil.which(words[0])), ())
    mangled = [name for name in names if name.startswith("_Z")]
    sources: dict[str, str] = {}
    for at in range(0, len(mangled) if program else 0, AT_ONCE):
        some = mangled[at : at + AT_ONCE]
        lines = run_tool(place, (*program, *some)).output.splitlines()
        sources |= dict(zip(some, lines, strict=False)) if len(lines) == len(some) else {}
    return sources


def _usage(cubin: Path, kernel: str | None, place: Place) -> Resources | None:
    usages: dict[str, re.Match[str]] = {}
    for program in list_tools("cuobjdump", place):
        process = run_tool(place, (program, "--dump-resource-usage", str(cubin)))
        usages = usages or ({m[1]: m for m in USAGE.finditer(process.output)} if process.ok else {})
    try:
        _, registers, stack, shared, _ = usages[choose_kernel(tuple(usages), kernel)].groups()
    except NotReadable:
        return None
    lds_bytes = int(shared) - (RESERVED if int(shared) >= RESERVED and cubin.stem in COUNTS_RESERVED else 0)
    return Resources(arch_vgpr=int(registers), scratch_bytes=int(stack), lds_bytes=lds_bytes)


# Takes code that is compiled already: assembly text, PTX, SASS listings, code objects of both vendors.

LIMIT = 64 * 1024 * 1024
SUFFIXES = (".amdgcn", ".s", ".ptx", ".sass", ".hsaco", ".co", ".cubin", ".o")


def is_compiled(path: Path) -> bool:
    """Whether the name says that the file holds compiled code."""
    return path.suffix.lower() in SUFFIXES


def read_compiled(path: Path, kernel: str | None, targets: Sequence[Target], place: Place) -> Assembly:
    """Machine code: the code in a file. `targets` is needed only where the file does not say what it is for.

    Raises:
        NotCompiled: it is no code of a known kind, or made for another target than asked for.
    """
    if path.stat().st_size > LIMIT:
        raise NotCompiled(path.name, f"is larger than {LIMIT} bytes")
    data = path.read_bytes()
    try:
        assembled = (
            _binary(path, data, kernel, place)
            if data.startswith(amdgcn.MAGIC)
            else _compiled_text(path, data, kernel, targets)
        )
    except NotReadable as error:
        raise NotCompiled(path.name, str(error), error.several) from None
    except UnknownTarget as error:
        raise NotCompiled(path.name, str(error)) from None
    if targets and assembled.target not in targets:
        listed = ", ".join(target.arch for target in targets)
        raise NotCompiled("--target", f"{path.name} was compiled for {assembled.target.arch}, not for {listed}")
    return assembled


def _compiled_text(path: Path, data: bytes, kernel: str | None, targets: Sequence[Target]) -> Assembly:
    text = data.decode("utf-8", errors="replace")
    from_file = {"compiler": f"as given in {path.name}", "assembly": text, "kernel": kernel}
    if amdgcn.kernels(text):
        target = _target(amdgcn.architecture(text), targets, path)
        return Assembly.model_validate({**from_file, "target": target, "form": "amdgcn"})
    target = _target(nvidia.architecture(text), targets, path)
    form = "ptx" if ".entry" in text and ".version" in text else "sass"
    return Assembly.model_validate({**from_file, "target": target, "form": form})


def _binary(path: Path, data: bytes, kernel: str | None, place: Place) -> Assembly:
    match amdgcn.machine(data):
        case amdgcn.AMDGPU:
            return _amd(path, data, kernel)
        case amdgcn.CUDA:
            flags = int.from_bytes(data[48:52], "little")
            target = target_of(f"sm_{_sm(flags)}")
            assembled = Assembly(target=target, compiler=f"as given in {path.name}", binary=data, kernel=kernel)
            return disassemble(assembled, place)
        case _:
            raise NotCompiled(path.name, "is no code object of a GPU")


def _sm(flags: int) -> int:
    """Architecture of a compiled NVIDIA file: in the low byte, and in the second of files made by CUDA 13."""
    low, high = flags & 0xFF, flags >> 8 & 0xFF
    return low if f"sm_{low}" in NVIDIA else high


def _amd(path: Path, data: bytes, kernel: str | None) -> Assembly:
    metadata = amdgcn.metadata(data)
    kernels = metadata.get("amdhsa.kernels")
    entries = [entry for entry in (kernels if isinstance(kernels, list) else []) if isinstance(entry, dict)]
    names = {str(entry.get(".name")): entry for entry in entries}
    name = choose_kernel(tuple(names), kernel)
    resources: Resources = amdgcn.from_metadata(amdgcn.numbers_of(names[name]), {})
    return Assembly(
        target=target_of(_arch(str(metadata.get("amdhsa.target", "")))),
        compiler=f"as given in {path.name}",
        kernel=name,
        resources=resources,
        notes=("a code object: resources only; give the assembly text (.amdgcn) for its instructions",),
    )


def _arch(triple: str) -> str:
    """The AMD architecture as compilers write it: amdgcn-amd-amdhsa--gfx942 or amdgpu9.42-amd-amdhsa-unknown-gfx942."""
    match = re.search(r"gfx[0-9a-f]+", triple)
    return match[0] if match else triple


def _target(arch: str | None, targets: Sequence[Target], path: Path) -> Target:
    if arch is not None:
        return target_of(arch)
    if len(targets) == 1:
        return targets[0]
    raise NotCompiled("--target", f"{path.name} does not say what it is for; give one target")
