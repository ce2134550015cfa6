"""Makes the library that a worker loads out of frozen C, CUDA or HIP sources, without a network, once per version."""

from collections.abc import Sequence
from pathlib import Path

from ridgeline.graph.task import Task
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.judge.freeze import join
from ridgeline.sandbox.judge.lost import Lost

COMPILED = ("c", "cuda", "hip")
LIBRARY = "candidate.so"
COMPILERS = {"c": "gcc", "cuda": "nvcc", "hip": "hipcc"}
FLAGS = {
    "c": ("-shared", "-fPIC", "-O3"),
    "cuda": ("-shared", "-Xcompiler", "-fPIC", "-O3"),
    "hip": ("-shared", "-fPIC", "-O3"),
}
ARCH = ("-arch", "--gpu-architecture", "-gencode", "--generate-code")
NATIVE = "-arch=native"
"""Code for the card that is here, and for nvcc's oldest where there is none."""
APART = ("-cudart", "shared")
"""Leaves NVIDIA's runtime outside the library: linked in, it hides which of the names it needs the candidate needs."""
HEADERS = (".h", ".hh", ".hpp", ".cuh", ".inc")
CPLUSPLUS = (".cc", ".cpp", ".cxx")
BUILD_S = 300.0
MEMORY_MB = 8192
TOLD = 2000
"""Characters of what the compiler said that are kept; its first error stands at the beginning."""


def built(task: Task, folder: Path, *, timeout_s: float = BUILD_S) -> Path | None:
    """The library of the frozen sources in `folder`, where it then lies; None for a language that needs none.

    Raises:
        Lost: the sources do not compile, or not in time.
        ProgramMissing: the compiler is not here.
    """
    if task.language not in COMPILED:
        return None
    library = folder / LIBRARY
    if not library.exists():
        with fresh_folder("home", "tmp") as place:
            join(folder, LIBRARY, _compiled(task, folder, place, timeout_s=timeout_s))
    return library


def apart(task: Task, folder: Path, *, timeout_s: float = BUILD_S) -> bytes:
    """The library as it is without the runtime of its language in it: only for reading what it takes from elsewhere.

    Raises Lost and ProgramMissing as `built` does.
    """
    if task.language != "cuda":
        library = built(task, folder, timeout_s=timeout_s)
        assert library is not None
        return library.read_bytes()
    with fresh_folder("home", "tmp") as place:
        return _compiled(task, folder, place, APART, timeout_s=timeout_s)


def command(task: Task, folder: Path, library: Path, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The words that compile the sources in `folder` to `library`. The task's flags, then `more`, decide."""
    sources = [name for name in task.source if Path(name).suffix not in HEADERS]
    mixed = task.language == "c" and any(Path(name).suffix in CPLUSPLUS for name in sources)
    compiler = task.build.compiler or ("g++" if mixed else COMPILERS[task.language])
    places = (f"{folder}/{name}" for name in sources)
    native = task.language == "cuda" and not any(flag.startswith(ARCH) for flag in task.build.flags)
    usual = (*FLAGS[task.language], *((NATIVE,) if native else ()))
    return (compiler, *usual, "-o", str(library), *places, *task.build.flags, *more, "-lm")


def _compiled(task: Task, folder: Path, place: Path, more: Sequence[str] = (), *, timeout_s: float) -> bytes:
    library = place / LIBRARY
    memory_mb = MEMORY_MB if task.language == "c" else None
    done = run(
        command(task, folder, library, more),
        cwd=place,
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        field="build.compiler",
    )
    if done.timed_out:
        raise Lost("load", f"it did not compile within {timeout_s:g} s")
    if not done.ok or not library.is_file():
        said = done.output.replace(f"{folder}/", "").strip()
        raise Lost("load", f"it does not compile: {said[:TOLD]}")
    return library.read_bytes()
