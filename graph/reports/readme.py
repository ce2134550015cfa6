"""`README.md` of the campaign: target, constraints, hardware with sources, roofline, and when it stops."""

from ridgeline.graph.contract import Contract
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Steered
from ridgeline.graph.reports.machine import UNKNOWN, ceiling_lines, noise_lines, shapes
from ridgeline.graph.reports.text import cell, code, command, line
from ridgeline.graph.rules.archive import has_archive
from ridgeline.graph.rules.goal import active_goal, budget_limits, peak_fraction, regression_limit, round_limit
from ridgeline.graph.rules.isa_targets import ISA_TARGETS, IsaTarget
from ridgeline.graph.rules.roofline import stop_conditions
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render


def readme(history: History, *, tool: str) -> str:
    """The campaign's README: its sections and Step 0; what has no registered source reads UNKNOWN."""
    opened, contract, target = history.opened, history.contract, history.opened.target
    return render(
        "readme.v1.md",
        tool=tool,
        target=target,
        machine=opened.machine,
        contract=contract,
        description=line(contract.description) or "none",
        instruction=line(target.instruction) or "none",
        shapes=", ".join(cell(label) for label in target.target_shapes) or "all shapes of the benchmark",
        reference=code(command(contract.test_command)),
        threshold=_threshold(history),
        constraints=describe_constraints(history.contract, history.limits),
        tools=_tools(history),
        specs=_specs(history),
        ceilings=ceiling_lines(history),
        roofline=shapes(history),
        noise=noise_lines(history),
        stops=_stops(history),
        steered=[line(item, 300) for event in history.steered[-1:] for item in describe_steering(event)],
        isa=[_describe_goal(target) for target in ISA_TARGETS[opened.machine.kind]],
        isa_title={"amd": "AMD", "nvidia": "NVIDIA", "cpu": "CPU"}[opened.machine.kind],
    )


def _describe_goal(target: IsaTarget) -> str:
    """For the README: a goal in a line: the number, what it means, and where it holds."""
    where = f", where the kernel is {target.bound} bound" if target.bound else ""
    return f"{target.text}: {target.meaning}{where}"


def _threshold(history: History) -> str:
    """For the README: when the contract calls a result correct, in words."""
    check = history.contract.correctness
    if check.kind == "exit":
        return "the test command exits with 0"
    return f"{check.kind}{f' of column {check.column}' if check.column else ''} {check.op} {check.threshold:g}"


def describe_constraints(contract: Contract, limits: Limits) -> list[str]:
    """For the README: what may be changed and what a campaign holds to, a line each."""
    also = ", ".join(code(glob, 200) for glob in contract.protected)
    header = code(",".join(contract.benchmark_output.columns))
    return [
        f"Editable: {', '.join(code(glob, 200) for glob in contract.editable_globs)}",
        f"Protected: everything else{', also ' + also if also else ''}",
        f"Benchmark command, shapes and amount of work are frozen; CSV header: {header}",
        "Correctness before any performance conclusion; one hypothesis and one change a round",
        _guards(limits),
        "A gain must carry over to a real training step (Rule 11): W2 and W3 are forbidden, W1 is bounded",
        f"Threads: {contract.threads}; memory of a command: {contract.memory_limit_mb} MiB",
    ]


def _guards(limits: Limits) -> str:
    """For the README: what a shape may lose, as the preset's own rule decides it."""
    core = f"core shape that loses {100 * limits.core_shape_regress_limit:g}% or more"
    if limits.preset != "evidence":
        return f"A {core} rejects the round"
    return (
        f"A shape proved slower by more than {100 * limits.shape_guard:g}% rejects the round, at "
        f"{100 * (1 - limits.alpha):g}% confidence over all shapes together, and so does a {core} as measured; "
        f"any other loss of {100 * limits.noise_threshold:g}% or more is kept as a trade-off and named"
    )


def _tools(history: History) -> list[tuple[str, str]]:
    """For the README: (purpose, command) of each command of the contract."""
    contract = history.contract
    tools = (
        ("Test", contract.test_command),
        ("Benchmark", contract.benchmark_command),
        ("Quick validation", contract.quick_command),
        ("Paired timing", contract.paired_command),
        ("Build", contract.rebuild.command),
        ("Format", contract.format_command),
        ("Profile", contract.profile.command if contract.profile else None),
    )
    return [(name, code(command(argv)) if argv else "none") for name, argv in tools]


def _specs(history: History) -> list[str]:
    """For the README: the machine's peaks with their sources, a line each."""
    roof = history.roofline
    if roof is None or not roof.specs:
        return [
            f"compute peak: {UNKNOWN} (no source registered)",
            f"memory bandwidth: {UNKNOWN} (no source registered)",
        ]
    return [spec.text for spec in roof.specs]


def _stops(history: History) -> list[str]:
    """For the README: what the stop check decides by, read from the same place (`ridgeline.graph.rules.goal`)."""
    limits, target = history.limits, history.opened.target
    share, rounds = peak_fraction(limits, target.performance_target), round_limit(limits, target)
    ceilings = history.roofline.ceilings if history.roofline else None
    limits_text = ", ".join(f"{amount:g} {unit}" for amount, unit in budget_limits(limits))
    streak = regression_limit(limits)
    efficiency = f"{100 * share:g}% of the bounding ceiling" if share is not None else "off"
    return [
        *(stop_conditions(ceilings, share) if share is not None else ()),
        "end-to-end latency: median time of one call from the benchmark's time column; recorded, no stop rests on it",
        f"T1 performance target: {_goal(history)}",
        f"T2 hardware efficiency: {efficiency}",
        f"T3 rounds: {rounds if rounds is not None else 'no limit'}",
        "T4 a person asks to stop",
        f"T5 regressions: {f'{streak} consecutive measured regressions' if streak is not None else 'off'}",
        f"T6 no idle device within {limits.gpu_max_wait_s / 60:g} minutes",
        f"T7 budgets: {limits_text or 'none'}",
        "T8 the planner has no further direction",
        *(_evolution_stops(limits) if has_archive(limits) and not limits.endless else ()),
    ]


def _evolution_stops(limits: Limits) -> tuple[str, str]:
    return (
        f"T9 no_improve: {limits.patience} generations without {100 * limits.min_rel_improve:g}%",
        f"T10 budget_exhausted: {limits.max_generations} generations",
    )


def describe_steering(heard: Steered) -> list[str]:
    """For the README: what a person changed while the campaign ran, a line each; what could not be followed says why."""
    followed = [item for item in heard.wish.stops if not any(why.startswith(item) for why in heard.problems)]
    masks = (("masked", heard.wish.masked), ("never masked", heard.wish.unmasked))
    return [
        *(f"stop condition: {item}" for item in followed),
        *(f"not followed: {why}" for why in heard.problems),
        *(f"{word}: {', '.join(f'v{version}' for version in versions)}" for word, versions in masks if versions),
        *(
            f"deep round {number} asked for: {plan or 'no plan'}"
            for number, plan in enumerate(heard.wish.deep, start=1)
        ),
    ]


def _goal(history: History) -> str:
    """For the README: what was asked for, and whether it stops anything."""
    goal = history.opened.target.performance_target
    if goal is None:
        return "none"
    stops = active_goal(history.limits, history.opened.target) is not None
    return cell(goal.text) if stops else f"{cell(goal.text)}, off: the campaign is endless"
