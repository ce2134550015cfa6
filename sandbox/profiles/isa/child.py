"""Starts the programs of `harness` and reads their answers, which are data from code that nobody has read."""

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ridgeline.graph.evidence import Exit
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.environment import passed
from ridgeline.sandbox.isolation.process import OUTPUT_BYTES, run
from ridgeline.sandbox.profiles.isa.errors import NotCompiled

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


def asked(place: Place, script: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a program of `harness`.

    Raises:
        NotCompiled: it ran out of time, died, or gave no answer.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-isa-") as folder:  # one process's cache is no input of another
        own = place.model_copy(update={"folder": Path(folder)})
        question, answer = own.folder / "request.json", own.folder / "answer.json"
        question.write_text(json.dumps(request), encoding="utf-8")
        with as_file(files("ridgeline.sandbox") / "harness" / script) as program:
            argv = (own.python, "-P", "-B", str(program), str(question), str(answer))
            ended = started(own, argv)
        if not ended.ok:
            raise NotCompiled("FILE", told(ended, own))
        return _read(answer)


def started(
    place: Place, argv: tuple[str, ...], *, extra: Mapping[str, str] | None = None, output_bytes: int = OUTPUT_BYTES
) -> Exit:
    """A compiler's process: bounded in time, memory and output, without network and without the user's secrets."""
    cache = place.folder / "cache"
    cache.mkdir(exist_ok=True)
    own = {
        "TRITON_CACHE_DIR": str(cache),
        "TRITON_DEFAULT_FP_FUSION": "1",  # as Triton up to 3.9 does where nobody says otherwise
        "OMP_NUM_THREADS": "1",
    }
    env = {**passed(PASSED), **own, **(extra or {})}
    return run(
        argv, cwd=place.folder, timeout_s=place.timeout_s, env=env, memory_mb=MEMORY_MB, output_bytes=output_bytes
    )


def told(ended: Exit, place: Place) -> str:
    """Why a process gave nothing, in one line: its last words."""
    if ended.timed_out:
        return f"was still running after {place.timeout_s:g} s and was ended; allow more with --timeout"
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    last = lines[-1][-WORDS:] if lines else "it said nothing"
    return f"ended with exit code {ended.returncode}: {last}"


def contents(path: Path, limit: int = ANSWER_LIMIT) -> bytes:
    """A plain file of bounded size, links not followed. Raises `NotCompiled` for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise NotCompiled("FILE", f"gave no answer ({error.strerror})") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise NotCompiled("FILE", f"its answer is no plain file of at most {limit} bytes")
        return file.read(limit)


def _read(path: Path) -> dict[str, Any]:
    try:
        answer = json.loads(contents(path))
    except (ValueError, RecursionError):
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it") from None
    if not isinstance(answer, dict):
        raise NotCompiled("FILE", "its answer cannot be read; the file meddled with it")
    return answer
