"""Counters from valgrind's cache and branch simulation: exact, repeatable, and blind to time."""

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit
from ridgeline.graph.values import Named
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.profiles.profilers.cachegrind import Costs, Malformed, parse
from ridgeline.sandbox.profiles.profilers.seen import Seen, Tree, Unavailable
from ridgeline.sandbox.workspace.commands import Commands, tail

TIMEOUT_S = 60
LINE_BYTES = 64
WAYS = 16
TOP = 3
ILLEGAL = ("SIGILL", "Unrecognised instruction", "unhandled instruction bytes")


def look(commands: Commands, tree: Tree) -> Seen | Unavailable:
    """Callgrind (cachegrind's simulator with a call graph), collecting only inside the kernel and what it calls.

    Where the kernel is not named or not found, the whole command, and the notes say so.
    """
    inside = _simulate(commands, tree, tree.kernel)
    if isinstance(inside, Unavailable) or tree.kernel is None or inside.counters[0].value > 0:
        return inside
    whole = _simulate(commands, tree, None)
    if isinstance(whole, Unavailable):
        return whole
    note = f"no function named {tree.kernel!r} was called: counters are those of the whole command"
    return whole.model_copy(update={"notes": (note, *whole.notes), "seconds": inside.seconds + whole.seconds})


def last_level(size: int | None) -> str | None:
    """`--LL=` geometry. Valgrind wants a power of two of sets, so the size is rounded down; None is its own guess."""
    if size is None or size < LINE_BYTES * WAYS:
        return None
    sets = 1 << ((size // (LINE_BYTES * WAYS)).bit_length() - 1)
    return f"{sets * LINE_BYTES * WAYS},{WAYS},{LINE_BYTES}"


def _simulate(commands: Commands, tree: Tree, kernel: str | None) -> Seen | Unavailable:
    geometry = last_level(tree.cache_bytes)
    with fresh_folder() as folder:
        out = folder / "callgrind.out"
        argv = (
            *("valgrind", "--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes"),
            *((f"--LL={geometry}",) if geometry else ()),
            *((f"--toggle-collect={kernel}",) if kernel else ()),
            f"--callgrind-out-file={out}",
            *tree.argv,
        )
        try:
            ended = commands.plain("profile.command", argv, cwd=tree.path, timeout_s=TIMEOUT_S)
        except ProgramMissing:
            return Unavailable(why="valgrind is not installed")
        if not ended.ok:
            return Unavailable(why=_why(ended))
        report = out.read_bytes() if out.is_file() else b""
    try:
        costs = parse(report.decode("utf-8", errors="replace"))
    except Malformed as error:
        return Unavailable(why=f"valgrind: {error}")
    notes = (f"simulated: {_scope(kernel)}; last-level cache {geometry or 'as valgrind guessed it'}", *_top(costs))
    counters = costs.counters() + _per_call(costs, kernel)
    return Seen(counters=counters, notes=notes, report=report, seconds=ended.seconds)


def _why(ended: Exit) -> str:
    if ended.timed_out:
        return f"valgrind: the profile command did not end within {TIMEOUT_S} s under simulation"
    if any(word in ended.output for word in ILLEGAL):
        return (
            "valgrind: stopped at an instruction it does not know (SIGILL; usual with AVX-512): "
            "build with -march=x86-64-v3 to have simulated counters"
        )
    return f"valgrind: exit code {ended.returncode}: {tail(ended.output, 500)}"


def _scope(kernel: str | None) -> str:
    return f"only inside {kernel} and what it calls" if kernel else "the whole command"


def _per_call(costs: Costs, kernel: str | None) -> tuple[Named, ...]:
    calls = costs.called(kernel) if kernel else 0
    if not calls:
        return ()
    instructions = costs.counters()[0].value
    return Named(name="calls", value=calls), Named(name="instructions_per_call", value=instructions / calls)


def _top(costs: Costs) -> tuple[str, ...]:
    """Where the instructions are, when they are in more than one place."""
    total = sum(item.value for item in costs.functions)
    large = [item for item in costs.functions[:TOP] if total and item.value / total >= 0.02]
    if not large:
        return ()
    return (f"instructions by function: {', '.join(f'{i.name} {i.value / total:.0%}' for i in large)}",)
