"""What this machine has and lacks for Ridgeline's work, and what each missing thing costs."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.idle import Cards, gate_settings, judge, rank_idle, visible_cards
from ridgeline.sandbox.devices.tools import PROGRAMS, is_installed, parse, series, tools_of
from ridgeline.sandbox.devices.values import MIB, CardVerdict, GpuProcess, State, ToolAnswer, Vendor
from ridgeline.sandbox.isolation.commands import has_own_table
from ridgeline.sandbox.isolation.confinement import network_isolation
from ridgeline.sandbox.isolation.leftovers import remove_abandoned_folders
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
    """`ridgeline doctor`: look at this machine; takes a few seconds, and removes only what killed processes of ours left behind."""
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
    yield _torch()
    yield _counters()
    yield from _cards()
    for source in sources():
        yield Finding(name=source.name, found=source.available, detail=source.detail, cost=source.cost)
    yield _isolation()
    yield _processes()
    yield _keys(os.environ.get)
    yield _disk(folder)
    yield _leftovers()


def _tool(tool: Tool) -> Finding:
    """`doctor`'s line on a program: whether it is there and runs."""
    if shutil.which(tool.argv[0]) is None:
        return Finding(name=tool.name, found=False, detail="not on PATH", cost=tool.cost, required=tool.required)
    code, output = _ask(tool.argv)
    headline = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
    works = code == 0
    detail = headline if works else f"exits with {code}: {headline}"
    return Finding(
        name=tool.name, found=works, detail=detail[:160], cost="" if works else tool.cost, required=tool.required
    )


def _torch() -> Finding:
    """`doctor`'s line of PyTorch and Triton in this Python, by what is installed: neither is imported."""
    versions: list[str] = []
    for name in ("torch", "triton"):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    found = any(words.startswith("torch ") for words in versions)
    return Finding(
        name="torch",
        found=found,
        detail=f"{', '.join(versions) or 'not installed'} in {sys.executable}",
        cost="" if found else "no task from PyTorch is made or judged, no Triton kernel runs: pip install 'torch>=2.8'",
    )


def _cards() -> Iterator[Finding]:
    """`doctor`'s line for every GPU, and why a command could or could not have it now."""
    gate = present()
    for card in gate.cards:
        idle = card.state == "idle"
        yield Finding(
            name=f"gpu {card.vendor} {card.index}",
            found=idle,
            detail=f"{card.name or card.id}: {card.state}: {'; '.join(card.reasons)}",
            cost="" if idle else "GPU commands wait until it is idle, or take another card",
        )


def _counters() -> Finding:
    """`doctor`'s line on perf: whether it counts instructions here."""
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
    """`doctor`'s line on isolation: whether candidates run without a network here."""
    strong = network_isolation() == "namespaces"
    visible = "they change their own checkout only, and see neither home nor campaign"
    if not has_own_table():
        visible = "files are as visible to them as to this user"
    return Finding(
        name="sandbox",
        found=strong,
        detail=f"candidates run without a network; {visible}" if strong else "no network namespaces here",
        cost="" if strong else "candidates run with this user's network access",
    )


def _processes() -> Finding:
    """`doctor`'s line on processes: whether commands have a table of their own here."""
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
    return "so does its shared memory" if has_own_table() else "what it leaves in /dev/shm stays there"


def _keys(variable: Callable[[str], str | None]) -> Finding:
    """`doctor`'s line of models that have a key in the environment; `variable` gives the value of a name."""
    names = [name for name in KEYS if variable(name)]
    return Finding(
        name="model keys",
        found=bool(names),
        detail=", ".join(names) if names else "none set",
        cost="" if names else "nothing for planner catalog, which needs no model",
    )


def _leftovers() -> Finding:
    """`doctor`'s line on temporary folders of processes that were killed: removed now, where they are surely ours."""
    removed = remove_abandoned_folders()
    many = f"{len(removed)} folder{'' if len(removed) == 1 else 's'} of ended processes removed from {tempfile.gettempdir()}"
    return Finding(name="leftovers", found=True, detail=many if removed else "none of ended processes", cost="")


def _disk(folder: Path) -> Finding:
    """`doctor`'s line of free space in GB where `folder` lies."""
    free = shutil.disk_usage(folder).free / 1e9
    enough = free >= MIN_FREE_GB
    cost = "" if enough else f"a campaign may stop for lack of space; keep {MIN_FREE_GB:g} GB free"
    return Finding(name="free disk", found=enough, detail=f"{free:.1f} GB at {folder}", cost=cost)


def _ask(argv: tuple[str, ...]) -> tuple[int | None, str]:
    """Exit code and output of a program that `doctor` tries; one that cannot be started counts as exit code None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = run(argv, cwd=Path(folder), timeout_s=PROBE_S)
        except WorldError as error:
            return None, str(error)
    return result.returncode, result.output


# What `ridgeline gate` and `doctor` say of cards: which are idle, which are not and why.

VENDORS: tuple[Vendor, ...] = ("nvidia", "amd")


class ProcessView(Value):
    pid: int | None
    name: str
    memory_mb: float | None


class CardView(Value):
    """One card. Memory is in units of 1024 * 1024 bytes, as the tools' own MB; None is `not told`."""

    index: int | str | None
    id: str
    """PCI address, else UUID: what its lease is named by."""
    vendor: Vendor
    name: str | None
    state: State
    reasons: tuple[str, ...]
    utilization_pct: float | None
    memory_used_mb: float | None
    memory_total_mb: float | None
    power_w: float | None
    processes: tuple[ProcessView, ...] | None


class GateReport(Value):
    """The one object of `ridgeline gate --json`."""

    vendor: Literal["nvidia", "amd", "nvidia and amd"] | None
    cards: tuple[CardView, ...]
    idle: tuple[int | str | None, ...]
    """Indices, the best first."""
    chosen: int | str | None
    """Index of the card that a command would get now."""
    decision: State
    problem: str = ""
    """What could not be read or asked."""


def report(
    verdicts: Sequence[CardVerdict], *, environment: Mapping[str, str] | None = None, problem: str = ""
) -> GateReport:
    """What `ridgeline gate` prints. `environment`: where the variables stand that leave only some cards to programs."""
    idle = rank_idle(verdicts)
    left = visible_cards([verdict.card for verdict in verdicts], environment or {})
    free = [verdict for verdict in idle if verdict.card in left]
    states = {verdict.state for verdict in verdicts}
    vendors = {verdict.card.vendor for verdict in verdicts}
    return GateReport(
        vendor=next(iter(vendors)) if len(vendors) == 1 else "nvidia and amd" if vendors else None,
        cards=tuple(_view(verdict) for verdict in verdicts),
        idle=tuple(_index(verdict) for verdict in idle),
        chosen=_index(free[0]) if free else None,
        decision="idle" if free else "busy" if "busy" in states else "unknown",
        problem=problem,
    )


def decide_from_files(paths: Sequence[Path]) -> GateReport:
    """`ridgeline gate` from files alone: several queries of one moment, several moments, or both, told apart by content.

    Raises Unreadable for text that is no whole answer of a known tool, UserError for a file that cannot be read.
    """
    readings: list[ToolAnswer] = []
    for path in paths:
        readings += parse(_text(path), str(path))
    settings = gate_settings()
    return report([judge(samples, settings) for samples in series(readings)])


def present(*, samples: int | None = None, interval_s: float | None = None) -> GateReport:
    """`ridgeline gate` from this machine's cards, now; numbers that are not given are the gate's own."""
    settings = gate_settings()
    verdicts: list[CardVerdict] = []
    for vendor in VENDORS:
        if is_installed(vendor):
            cards = Cards(tools_of(vendor), settings=settings)
            verdicts += cards.judge(
                samples=settings.samples if samples is None else samples,
                interval_s=settings.interval_s if interval_s is None else interval_s,
            )
    return report(verdicts, environment=os.environ, problem="" if verdicts else _absence())


def _absence() -> str:
    tools = [name for vendor in VENDORS for name in PROGRAMS[vendor]]
    if any(is_installed(vendor) for vendor in VENDORS):
        return f"none of {', '.join(tools)} tells of a card"
    return f"none of {', '.join(tools)} is on PATH, so no GPU can be known to be idle"


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"--from: {path}: cannot be read ({error.strerror}); give a file of a tool's output") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _view(judged: CardVerdict) -> CardView:
    card = judged.card
    return CardView(
        index=_index(judged),
        id=card.key.removeprefix("gpu-"),
        vendor=card.vendor,
        name=card.name,
        state=judged.state,
        reasons=judged.reasons,
        utilization_pct=card.utilization_pct,
        memory_used_mb=_mb(card.memory_used_bytes),
        memory_total_mb=_mb(card.memory_total_bytes),
        power_w=card.power_w,
        processes=None if card.processes is None else tuple(_process(process) for process in card.processes),
    )


def _process(process: GpuProcess) -> ProcessView:
    return ProcessView(pid=process.pid, name=process.name, memory_mb=_mb(process.bytes))


def _index(judged: CardVerdict) -> int | str | None:
    index = judged.card.index
    return int(index) if index is not None and index.isdigit() else index


def _mb(size: int | None) -> float | None:
    return None if size is None else round(size / MIB, 1)
