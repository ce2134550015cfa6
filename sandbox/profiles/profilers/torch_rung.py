"""The rung below hardware counters: a Python program once more, recorded by the torch.profiler of its own torch."""

from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from ridgeline.sandbox.profiles.readers import torch_trace
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.workspace.commands import itself

START = "torch_start"
"""The folder of harness/ whose start-up module records; that module says what it writes."""
FOLDER = "RIDGELINE_TORCH_TRACE"
PATH = "PYTHONPATH"
SHEBANG = 200
"""Bytes in which a script names its interpreter."""
SLOWER = 3
"""Of the plain program's time limit: writing a long trace takes longer than recording it."""


def is_python(program: Sequence[str], cwd: Path) -> bool:
    """Whether the command starts Python: by the interpreter's name, a script's ending, or a script's first line."""
    first = program[0]
    names = (PurePosixPath(word).name for word in program[:3])  # `env python3 x.py` and `timeout 5 python3 x.py`
    if any(name.startswith("python") or name.endswith(".py") for name in names) or itself(tuple(program)) != program:
        return True
    script = cwd / first
    if "/" not in first or not script.is_file():
        return False
    with script.open("rb") as stream:
        line = stream.read(SHEBANG).split(b"\n", 1)[0]
    return line.startswith(b"#!") and b"python" in line


def recorded_by(program: Sequence[str], out: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The same command with our start-up module before the program's own modules; traces go to `out`."""
    with as_file(files("ridgeline.sandbox") / "harness" / START) as start:
        path = ":".join((str(start), *filter(None, (env.get(PATH),))))
    return ("env", f"{FOLDER}={out}", f"{PATH}={path}", *itself(tuple(program)))


def traces(out: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Traces with work of a GPU, and why there are none or why one was left out."""
    kept, why = [], []
    for path in sorted(out.glob("trace-*.json")):
        try:
            torch_trace.read(path)
        except RecordingError as error:
            why.append(str(error).removeprefix(f"{out}/"))
        else:
            kept.append(path)
    why += [path.read_text(encoding="utf-8").strip() for path in sorted(out.glob("why-*.txt"))]
    if not kept and not why:
        why.append("nothing in it imported torch, or it ended without Python's exit handlers")
    return tuple(kept), tuple(f"torch profiler: {text}" for text in dict.fromkeys(why))
