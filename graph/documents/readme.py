"""`README.md` of the campaign: target, constraints, hardware with sources, roofline, and when it stops."""

from graph.documents.noise import noise_lines
from graph.documents.text import cell, code, command, line, quantity, table
from graph.policy.roofline import bound_of, ridge, stop_conditions
from graph.record import ShapeRoof
from graph.standing import History
from prompts.render import render

UNKNOWN = "UNKNOWN"
ISA_TARGETS = {
    "amd": (
        "share of buffer_load_dwordx4 among global loads rises",
        "share of ds_read_b128 and ds_write_b128 among LDS accesses rises",
        "vgpr_spill_count == 0, no scratch_load and no scratch_store",
        "SQ_LDS_BANK_CONFLICT below its target",
        "mfma_busy and valu_busy rise toward their targets",
        "memory-dependency share of stalls below its target",
        "active wavefronts per CU at their target",
        "mean s_waitcnt stall cycles below their target",
    ),
    "nvidia": (
        "memory throughput (SOL) rises",
        "L2 hit rate rises",
        "Tensor Core utilization rises",
        "shares of the stall reasons fall",
        "share of TMA and cp.async.bulk among loads rises",
        "shared-memory conflict rate falls",
    ),
    "cpu": (
        "instructions for one call fall",
        "d1_misses and ll_misses fall",
        "branch_misses fall",
        "vectorized_loops rise, missed_vectorizations fall",
    ),
}
"""Rules 4.6, and the counters that a CPU can show."""


def readme(history: History, *, tool: str) -> str:
    """Sections of rules 4.6 and Step 0; what has no registered source reads UNKNOWN."""
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
        constraints=_constraints(history),
        tools=_tools(history),
        specs=_specs(history),
        ceilings=_ceilings(history),
        roofline=_roofline(history),
        noise=noise_lines(history),
        stops=_stops(history),
        isa=ISA_TARGETS[opened.machine.kind],
        isa_title={"amd": "AMD", "nvidia": "NVIDIA", "cpu": "CPU"}[opened.machine.kind],
    )


def _threshold(history: History) -> str:
    check = history.contract.correctness
    if check.kind == "exit":
        return "the test command exits with 0"
    return f"{check.kind}{f' of column {check.column}' if check.column else ''} {check.op} {check.threshold:g}"


def _constraints(history: History) -> list[str]:
    contract, limits = history.contract, history.limits
    also = ", ".join(code(glob, 200) for glob in contract.protected)
    header = code(",".join(contract.benchmark_output.columns))
    return [
        f"Editable: {', '.join(code(glob, 200) for glob in contract.editable_globs)}",
        f"Protected: everything else{', also ' + also if also else ''}",
        f"Benchmark command, shapes and amount of work are frozen; CSV header: {header}",
        "Correctness before any performance conclusion; one hypothesis and one change a round",
        f"A core shape that loses {100 * limits.core_shape_regress_limit:g}% or more rejects the round",
        "A gain must carry over to a real training step (Rule 11): W2 and W3 are forbidden, W1 is bounded",
        f"Threads: {contract.threads}; memory of a command: {contract.memory_limit_mb} MiB",
    ]


def _tools(history: History) -> list[tuple[str, str]]:
    contract = history.contract
    named = (
        ("Test", contract.test_command),
        ("Benchmark", contract.benchmark_command),
        ("Quick validation", contract.quick_command),
        ("Paired timing", contract.paired_command),
        ("Build", contract.rebuild.command),
        ("Format", contract.format_command),
        ("Profile", contract.profile.command if contract.profile else None),
    )
    return [(name, code(command(argv)) if argv else "none") for name, argv in named]


def _specs(history: History) -> list[str]:
    roof = history.roofline
    if roof is None or not roof.specs:
        return [
            f"compute peak: {UNKNOWN} (no source registered)",
            f"memory bandwidth: {UNKNOWN} (no source registered)",
        ]
    return [spec.text for spec in roof.specs]


def _bound(history: History) -> str:
    """Of the shapes together, once the baseline has placed them under the ceilings."""
    bound = bound_of(history.baseline.shapes) if history.baseline else "unknown"
    return UNKNOWN if bound == "unknown" else f"{bound}-bound"


def _ceilings(history: History) -> list[str]:
    roof = history.roofline
    ceilings = roof.ceilings if roof else None
    peak, copy = (ceilings.flops_gflops, ceilings.copy_gbps) if ceilings else (None, None)
    point = f"{ridge(peak, copy):.4g} FLOP/byte" if peak and copy else UNKNOWN
    return [
        f"Bound: {_bound(history)}",
        f"Ridge point: {point}",
        f"Method: {line(ceilings.method) if ceilings else UNKNOWN}",
        *([f"Note: {line(roof.note)}"] if roof and roof.note else []),
    ]


def _roofline(history: History) -> str:
    baseline, roof = history.baseline, history.roofline
    shapes: tuple[ShapeRoof, ...] = (roof.shapes if roof else ()) or (baseline.shapes if baseline else ())
    if not shapes:
        return f"Per shape: {UNKNOWN} (no work formula, or the baseline has not run)."
    rows = ((cell(s.label), *map(quantity, (s.flops, s.bytes, s.intensity, s.floor_us)), s.bound) for s in shapes)
    return table(("Shape", "FLOP", "bytes", "FLOP/byte", "floor us", "bound"), rows)


def _stops(history: History) -> list[str]:
    limits, target = history.limits, history.opened.target
    goal = target.performance_target
    rounds = target.max_iterations or limits.max_rounds
    share = limits.target_peak_fraction
    found = stop_conditions(history.roofline.ceilings if history.roofline else None, share) if share else ()
    budgets = (("minutes", limits.max_minutes), ("dollars", limits.max_dollars), ("tokens", limits.max_tokens))
    asked = ", ".join(f"{value:g} {name}" for name, value in budgets if value is not None)
    streak = f"{limits.max_consecutive_regressions} consecutive measured regressions"
    return [
        *found,
        "end-to-end latency: median time of one call from the benchmark's time column; recorded, no stop rests on it",
        f"T1 performance target: {cell(goal.text) if goal else 'none'}",
        f"T2 hardware efficiency: {f'{100 * share:g}% of the bounding ceiling' if share else 'off'}",
        f"T3 rounds: {rounds if rounds else 'no limit'}",
        "T4 a person asks to stop",
        f"T5 regressions: {streak if limits.regression_stop else 'off'}",
        f"T6 no idle device within {limits.gpu_max_wait_s / 60:g} minutes",
        f"T7 budgets: {asked or 'none'}",
        "T8 the planner has no further direction",
    ]
