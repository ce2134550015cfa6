"""What this machine has and lacks for Ridgeline's work, and what each missing thing costs."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.confinement import has_own_memory, has_own_table, network_isolation
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.timing.observation import sources

KEYS = (
    "ANTHROPIC_API_KEY",
    "AZURE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
)
"""Only whether they are set is looked at."""
MIN_FREE_GB = 2.0
PROBE_S = 20.0


class Finding(Value):
    """One thing that was looked for."""

    name: str
    found: bool
    detail: str
    """Version or state; what was seen instead when it is missing."""
    cost: str
    """What does without it; empty when nothing is lost."""
    required: bool = False


class Tool(Value):
    """A program worth having: how to ask its version, and what its absence costs."""

    name: str
    argv: tuple[str, ...]
    cost: str
    required: bool = False


TOOLS = (
    Tool(name="git", argv=("git", "--version"), cost="no campaign: versions are commits", required=True),
    Tool(name="gcc", argv=("gcc", "--version"), cost="no C kernels with gcc, no demo, no measured CPU ceilings"),
    Tool(name="clang", argv=("clang", "--version"), cost="no C kernels built with clang"),
    Tool(name="make", argv=("make", "--version"), cost="no demo; contracts that build with make fail"),
    Tool(name="valgrind", argv=("valgrind", "--version"), cost="no exact instruction counts where perf has none"),
    Tool(name="taskset", argv=("taskset", "--version"), cost="timed commands are not pinned: noisier, more pairs"),
    Tool(
        name="nvidia-smi",
        argv=("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        cost="no NVIDIA GPU can be measured",
    ),
    Tool(
        name="ncu", argv=("ncu", "--version"), cost="no NVIDIA counters: launches by torch's profiler, or timing alone"
    ),
    Tool(name="rocm-smi", argv=("rocm-smi", "--showproductname"), cost="no AMD GPU can be measured"),
    Tool(name="amd-smi", argv=("amd-smi", "version"), cost="AMD device state comes from rocm-smi only"),
    Tool(
        name="rocprofv3",
        argv=("rocprofv3", "--version"),
        cost="no AMD counters or instruction traces: launches by torch's profiler",
    ),
)


def examine(folder: Path) -> tuple[Finding, ...]:
    """Look at everything; takes a few seconds and changes nothing."""
    return tuple(_findings(folder))


def _findings(folder: Path) -> Iterator[Finding]:
    release = platform.python_version()
    yield Finding(
        name="python",
        found=sys.version_info >= (3, 11),
        detail=f"{release} at {sys.executable}",
        cost="" if sys.version_info >= (3, 11) else "Ridgeline needs 3.11",
        required=True,
    )
    for tool in TOOLS:
        yield _tool(tool)
    yield _counters()
    yield from _cards()
    for source in sources():
        yield Finding(name=source.name, found=source.found, detail=source.detail, cost=source.cost)
    yield _isolation()
    yield _processes()
    yield _keys(os.environ.get)
    yield _disk(folder)


def _tool(tool: Tool) -> Finding:
    if shutil.which(tool.argv[0]) is None:
        return Finding(name=tool.name, found=False, detail="not on PATH", cost=tool.cost, required=tool.required)
    code, output = _ask(tool.argv)
    first = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
    works = code == 0
    detail = first if works else f"exits with {code}: {first}"
    return Finding(
        name=tool.name, found=works, detail=detail[:160], cost="" if works else tool.cost, required=tool.required
    )


def _cards() -> Iterator[Finding]:
    """Every GPU, and why a command could or could not have it now."""
    from ridgeline.agent.gate_report import present

    seen = present()
    for card in seen.cards:
        idle = card.state == "idle"
        yield Finding(
            name=f"gpu {card.vendor} {card.index}",
            found=idle,
            detail=f"{card.name or card.id}: {card.state}: {'; '.join(card.reasons)}",
            cost="" if idle else "GPU commands wait until it is idle, or take another card",
        )


def _counters() -> Finding:
    cost = "no hardware counters: instruction counts come from valgrind, 20 to 50 times slower, or not at all"
    if shutil.which("perf") is None:
        return Finding(name="perf counters", found=False, detail="perf is not on PATH", cost=cost)
    code, output = _ask(("perf", "stat", "-x,", "-e", "instructions,cycles", "true"))
    if "<not supported>" in output:
        detail = "perf works, but this machine offers no hardware counters (typical of a virtual machine)"
    elif code != 0 or "<not counted>" in output:
        detail = "perf works, but counters are not permitted (kernel.perf_event_paranoid)"
    else:
        return Finding(name="perf counters", found=True, detail="instructions and cycles are counted", cost="")
    return Finding(name="perf counters", found=False, detail=detail, cost=cost)


def _isolation() -> Finding:
    strong = network_isolation() == "namespaces"
    visible = "files are as visible to them as to this user"
    return Finding(
        name="sandbox",
        found=strong,
        detail=f"candidates run without a network; {visible}" if strong else "no network namespaces here",
        cost="" if strong else "candidates run with this user's network access",
    )


def _processes() -> Finding:
    strong = has_own_table()
    return Finding(
        name="process tables",
        found=strong,
        detail=f"each command sees its own processes only, and they all end with it; {_memory()}"
        if strong
        else "isolation: weak: unshare --pid is missing or not permitted here",
        cost=""
        if strong
        else "commands see this user's processes and their environments; what one leaves behind is adopted and ended",
    )


def _memory() -> str:
    return "so does its shared memory" if has_own_memory() else "what it leaves in /dev/shm stays there"


def _keys(variable: Callable[[str], str | None]) -> Finding:
    found = [name for name in KEYS if variable(name)]
    return Finding(
        name="model keys",
        found=bool(found),
        detail=", ".join(found) if found else "none set",
        cost="" if found else "nothing for planner catalog, which needs no model",
    )


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 1e9
    enough = free >= MIN_FREE_GB
    cost = "" if enough else f"a campaign may stop for lack of space; keep {MIN_FREE_GB:g} GB free"
    return Finding(name="free disk", found=enough, detail=f"{free:.1f} GB at {folder}", cost=cost)


def _ask(argv: tuple[str, ...]) -> tuple[int | None, str]:
    """Exit code and output of a probe; a program that cannot be started counts as exit code None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run(argv, cwd=Path(folder), timeout_s=PROBE_S)
        except WorldError as error:
            return None, str(error)
    return done.returncode, done.output
