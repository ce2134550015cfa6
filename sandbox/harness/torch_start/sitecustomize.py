"""Records what a Python program runs on its GPU, with the torch.profiler of the program's own torch.

Python imports this module by its name before the program, from a folder put first on PYTHONPATH. When the program has
imported torch the recording begins; when it ends, the trace is written as `trace-<pid>.json` into the folder that
RIDGELINE_TORCH_TRACE names, or `why-<pid>.txt` says why there is none. The program runs as it would without: a
profiler that cannot work costs the trace and nothing else. Needs the standard library and torch.
"""

import atexit
import contextlib
import importlib
import importlib.abc
import importlib.util
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = "RIDGELINE_TORCH_TRACE"
NAME = "sitecustomize"
MOST_BYTES = 512 << 20
"""Of one trace: about a million launches. A longer one is not kept."""
PROCESSES = 8
"""Of one program, that are recorded."""
REFUSED = (ImportError, AttributeError, TypeError, ValueError, RuntimeError, OSError)
"""What a torch without a profiler raises, one that is too old, and one whose card or driver refuses."""


class Watch(importlib.abc.MetaPathFinder):
    """Waits for the import of torch, and has the recording begin after it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """In the process that a profiler looks at: the module's own spec, then the start behind it; None for any other module."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_begin(module: ModuleType) -> None:
            execute(module)
            begin(module, self._folder)

        spec.loader.exec_module = execute_and_begin  # type: ignore[method-assign]
        return spec


def begin(torch: Any, folder: Path) -> None:
    """In the process that a profiler looks at: start recording: the GPU alone where there is one: the host slows it further."""
    if sum(1 for _ in folder.iterdir()) >= PROCESSES:
        return
    try:
        profiler = importlib.import_module("torch.profiler")
        kinds = profiler.ProfilerActivity
        card = bool(torch.cuda.is_available())
        recorder = profiler.profile(activities=[kinds.CUDA if card else kinds.CPU])
        recorder.start()
    except REFUSED as error:
        refuse(folder, f"torch.profiler does not start: {error}")
        return
    atexit.register(finish, torch, recorder, folder, os.getpid())


def finish(torch: Any, recorder: Any, folder: Path, process: int) -> None:
    """In the process that a profiler looks at: wait for the card, stop, write: named only when whole. Nothing in a forked child."""
    if os.getpid() != process:
        return
    part, target = (folder / f"trace-{process}.{ending}" for ending in ("part", "json"))
    try:
        with at_most(MOST_BYTES):
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            recorder.stop()
            recorder.export_chrome_trace(str(part))
        if part.stat().st_size >= MOST_BYTES:
            part.unlink()
            refuse(folder, f"the trace has more than {MOST_BYTES >> 20} MiB: profile fewer calls")
            return
        part.rename(target)
    except REFUSED as error:
        part.unlink(missing_ok=True)
        refuse(folder, f"torch.profiler did not end well: {error}")


@contextlib.contextmanager
def at_most(size: int) -> Iterator[None]:
    """In the process that a profiler looks at: no file grows beyond so many bytes while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    tight = size if soft == resource.RLIM_INFINITY else min(size, soft)
    resource.setrlimit(resource.RLIMIT_FSIZE, (tight, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refuse(folder: Path, why: str) -> None:
    """In the process that a profiler looks at: say why there is no trace; where that cannot be written, the missing file says it."""
    with contextlib.suppress(OSError):
        (folder / f"why-{os.getpid()}.txt").write_text(why[:1000] + "\n", encoding="utf-8")


def make_way() -> None:
    """In the process that a profiler looks at: import the module of this name that the interpreter would have had without us."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    mine = sys.modules.pop(NAME)
    try:
        importlib.import_module(NAME)
    except ModuleNotFoundError as error:
        if error.name != NAME:
            raise
    finally:
        sys.modules.setdefault(NAME, mine)


if __name__ == NAME:
    if folder := os.environ.get(FOLDER):
        sys.meta_path.insert(0, Watch(Path(folder)))
    make_way()
