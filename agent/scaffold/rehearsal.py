"""Rehearse a contract: build, test, benchmark and time the unmodified kernel against itself, for real."""

import math
from collections.abc import Callable, Iterator

from ridgeline.agent.analysis.roofline import confirm_ceilings, measure_device, verdict
from ridgeline.agent.campaign.wiring import describe_load, throwaway_ports, unusable
from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.agent.scaffold.native import find_unoptimized
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Exit, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Ports
from ridgeline.graph.rules.early_end import note_silent_test
from ridgeline.graph.rules.shapes import explain_missing_shapes
from ridgeline.graph.values import Value
from ridgeline.sandbox.workspace.commands import BUILD_LINES, in_a_line

IMPLAUSIBLE = 100
"""Two clocks, a cold and a warm cache, one call and a mean of many differ by less than this factor."""
ROUNDS = 10
"""Rounds that costs are told for where the contract sets no `max_rounds`."""
PAIRS = 2
"""Process pairs of the A/A run: enough for a first idea of the noise, not for a bound."""
Say = Callable[[str], None]


class Expense(Value):
    """What one step of a campaign will take, by what the rehearsal took."""

    step: str
    times: int
    """How often, at most."""
    each_s: float
    minutes: float
    cheaper: str
    """What would make it cheaper."""


class Rehearsal(Value):
    """What `ridgeline check` found out; times in seconds."""

    contract: str
    commit: str
    machine: str
    build_s: float | None
    """None when nothing needs building."""
    test_s: float
    benchmark_s: float
    shapes: tuple[str, ...]
    failing: tuple[str, ...]
    """Shapes whose Check is not PASS."""
    pair_s: float | None
    """One process pair of the comparison; None when the benchmark already failed a shape, or the machine was too busy."""
    noise_percent: tuple[float, ...]
    """Apparent gain of the kernel over itself, per process pair; the truth is 0."""
    minutes_per_round: tuple[float, float]
    """From the earliest decision to the last look, without the planner's time."""
    rounds: int
    """Rounds that `expenses` are for: `max_rounds`, or 10 where there is none."""
    expenses: tuple[Expense, ...]
    """Steps of a campaign of so many rounds without planner and profiler, dearest first."""
    nothing_to_gain: bool
    """Whether a campaign would end before its first round: the kernel stands at its ceiling."""
    warnings: tuple[str, ...]


def rehearse(loaded: LoadedContract, limits: Limits, say: Say) -> Rehearsal:
    """Runs a contract's build, test and benchmark once. Raises `UserError` naming the contract's field that failed."""
    file = loaded.path.name
    with throwaway_ports(loaded) as ports:
        base = ports.workspace.open("none")
        machine = ports.device.machine()
        say("building")
        built = ports.builder.build(base.commit)
        if not built.ok:
            raise UserError(f"{file}: rebuild.command: {_end(built.exit)}; make the unmodified kernel build")
        say("testing")
        test = ports.checker.check(base.commit, purpose="rehearsal")
        if not test.passed:
            raise UserError(
                f"{file}: test_command: the unmodified kernel does not pass ({test.kind}): {_last_line(test.detail)};"
                " a campaign needs a test that passes"
            )
        say("benchmarking all shapes")
        full = _benchmark(ports, base.commit, loaded)
        failing = tuple(row.label for row in full.rows if row.check != "PASS")
        _require_known_shapes(full, loaded)
        left = None if failing else _left(ports, full, loaded, limits)
        say(f"timing the kernel against itself ({PAIRS} process pairs)")
        timed = None if failing else _noise(ports, full, loaded, limits)
        busy = _describe_busy(timed) if isinstance(timed, BenchmarkFailed) else ""
        noise = timed if isinstance(timed, Comparison) else None
        _require_times(full, noise, loaded)
    build_s = built.exit.seconds if built.exit else None
    return Rehearsal(
        contract=str(loaded.path),
        commit=base.commit,
        machine=machine.name,
        build_s=build_s,
        test_s=test.seconds,
        benchmark_s=full.seconds,
        shapes=tuple(row.label for row in full.rows),
        failing=failing,
        pair_s=noise.seconds / PAIRS if noise else None,
        noise_percent=_apparent(noise) if noise else (),
        minutes_per_round=_minutes((build_s or 0.0) + test.seconds + full.seconds, noise, limits),
        rounds=limits.max_rounds or ROUNDS,
        expenses=_list_expenses(build_s or 0.0, test.seconds, full, noise, limits),
        nothing_to_gain=left is not None and left[0],
        warnings=(*([busy] if busy else []), *loaded.warnings, *_advice(loaded, test), *([left[1]] if left else [])),
    )


def _benchmark(ports: Ports, commit: str, loaded: LoadedContract) -> Benchmark:
    full = ports.timer.benchmark(commit, level="full", source="project", shapes=(), repeat=0, purpose="rehearsal")
    if isinstance(full, BenchmarkFailed):
        raise unusable(loaded, full)
    return full


def _require_known_shapes(full: Benchmark, loaded: LoadedContract) -> None:
    """Raises UserErrors, a line for each field of the contract that names shapes which the benchmark does not have."""
    labels = [row.label for row in full.rows]
    contract = loaded.contract
    problems = [
        f"{loaded.path.name}: {field}: {explain_missing_shapes(unknown, labels)}"
        for field in ("target_shapes", "core_shapes", "skew_shapes")
        if (shapes := getattr(contract, field)) != "all"
        and (unknown := [label for label in shapes if label not in labels])
    ]
    if problems:
        raise UserErrors(problems)


def _require_times(full: Benchmark, noise: Comparison | None, loaded: LoadedContract) -> None:
    """Raises UserError where the column of times says what the pairs of the same kernel contradict by far."""
    column = loaded.contract.scoring.time_ms
    if column is None or noise is None or loaded.contract.paired_command is None:
        return
    paired_us = {shape.label: shape.best_us for shape in noise.shapes}
    for row in full.rows:
        value = row.metric(column)
        us = paired_us.get(row.label)
        if us and not us / IMPLAUSIBLE < 1e3 * value < us * IMPLAUSIBLE:
            raise UserError(
                f"{loaded.path.name}: scoring.time_ms: column {column!r} says {value:g} ms for {row.label}, where"
                f" paired_command took {us / 1e3:.3g} ms; name the time of one call in milliseconds, or leave it out"
            )


def _noise(ports: Ports, full: Benchmark, loaded: LoadedContract, limits: Limits) -> Comparison | BenchmarkFailed:
    """The kernel against itself; BenchmarkFailed where only other processes were in the way. Raises UserError."""
    shapes = tuple(row.label for row in full.rows)
    compared = ports.timer.compare(
        best=full.commit,
        candidate=full.commit,
        shapes=shapes,
        first_pair=0,
        pairs=PAIRS,
        blocks=limits.blocks,
        purpose="rehearsal",
    )
    if isinstance(compared, BenchmarkFailed) and compared.reason != "unstable":
        raise unusable(loaded, compared)
    return compared


def _describe_busy(failed: BenchmarkFailed) -> str:
    """That the machine and not the contract was in the way, who kept it busy, and what a campaign makes of that."""
    return (
        f"noise: not measured, {' '.join(failed.detail.split())}; {describe_load()}. Build, test and benchmark"
        " are right: a campaign may begin, waits for the machine to rest, and keeps nothing that it could not time"
    )


def _left(ports: Ports, full: Benchmark, loaded: LoadedContract, limits: Limits) -> tuple[bool, str] | None:
    """Whether a rehearsed contract has nothing to gain, and what to say; None where it has no formulas to say it by."""
    contract = loaded.contract
    if contract.work.flops is None and contract.work.bytes is None:
        return None
    from ridgeline.graph.rules.headroom import compute_headroom

    device, _ = confirm_ceilings(ports, loaded, limits, rows=full.rows, basis=measure_device(ports, loaded))
    return verdict(compute_headroom(full.rows, contract, device), contract, limits)


def _apparent(compared: Comparison) -> tuple[float, ...]:
    """Of a rehearsal, per process pair: mean over shapes of the mean log-ratio, as per cent."""
    gains = []
    for pair in range(min(len(shape.pairs) for shape in compared.shapes)):
        means = [sum(shape.pairs[pair]) / len(shape.pairs[pair]) for shape in compared.shapes]
        gains.append(100 * (math.exp(sum(means) / len(means)) - 1))
    return tuple(gains)


def _minutes(fixed_s: float, noise: Comparison | None, limits: Limits) -> tuple[float, float]:
    each = noise.seconds / PAIRS if noise else 0.0
    return ((fixed_s + limits.looks[0] * each) / 60, (fixed_s + limits.looks[-1] * each) / 60)


def _list_expenses(
    build_s: float, test_s: float, full: Benchmark, noise: Comparison | None, limits: Limits
) -> tuple[Expense, ...]:
    """Each step of a campaign at its most, dearest first: seconds of this rehearsal times how often it comes."""
    rounds, pair_s = limits.max_rounds or ROUNDS, noise.seconds / PAIRS if noise else 0.0
    shapes, looks = len(full.rows), limits.looks[-1]
    calibrations = limits.calibration_pairs if limits.preset == "evidence" else 0
    if pair_s:
        calibrations = min(calibrations, math.ceil(limits.calibration_minutes * 60 / pair_s))
    has_several = shapes > 1  # the only one cannot be left out
    blocks = f"fewer blocks than {limits.blocks} (`limits.blocks`)"
    fewer = f"time fewer than {shapes} shapes (`target_shapes`), or {blocks}" if has_several else blocks
    steps = (
        ("build", 1 + rounds, build_s, "let rebuild.command compile only what changed"),
        ("test", 2 + rounds, test_s, "test only this kernel in test_command; the suite belongs into full_test_command"),
        (
            "benchmark",
            5 + rounds,
            full.seconds,
            "let quick_command run fewer repetitions" + (f", or fewer than {shapes} shapes" if has_several else ""),
        ),
        ("calibration", calibrations, pair_s, f"fewer calibration pairs (`limits.calibration_pairs`), or {fewer}"),
        ("pairs of rounds", rounds * looks, pair_s, f"{fewer}, or fewer looks than {looks} (`limits.looks`)"),
        ("final pairs", limits.final_pairs, pair_s, f"fewer final pairs (`limits.final_pairs`), or {fewer}"),
    )
    expenses = [
        Expense(step=step, times=times, each_s=each_s, minutes=times * each_s / 60, cheaper=cheaper)
        for step, times, each_s, cheaper in steps
        if times * each_s > 0
    ]
    return tuple(sorted(expenses, key=lambda expense: -expense.minutes))


def _advice(loaded: LoadedContract, test: TestResult) -> Iterator[str]:
    if remark := note_silent_test(test.printed):
        yield f"test_command: {remark}"
    if unoptimized := find_unoptimized(loaded.contract.rebuild.command or (), loaded.root):
        yield unoptimized
    if loaded.contract.paired_command is None:
        yield "paired_command: not given; runs of two processes are compared, which needs more of them"
    if loaded.contract.work.flops is None and loaded.contract.work.bytes is None:
        yield "work: not given; no roofline, and no bound on what can still be gained"


def _end(exit: Exit | None) -> str:
    if exit is None:
        return "no build command ran"
    return in_a_line(exit, BUILD_LINES)


def _last_line(text: str) -> str:
    """The most telling line of a rehearsed program's output: its last one that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"
