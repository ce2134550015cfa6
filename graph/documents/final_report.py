"""`final_report.md`: what a kernel engineer reads in the morning."""

from ridgeline.graph.documents import conclusion, figures
from ridgeline.graph.documents.noise import noise_lines
from ridgeline.graph.documents.roofline import against
from ridgeline.graph.documents.text import cell, command, line, minute, table
from ridgeline.graph.evidence import TestResult
from ridgeline.graph.rules.early_end import note_silent_test
from ridgeline.graph.rules.history import accepted_rounds, rolled_back_rounds
from ridgeline.graph.rules.result import overfit_in_lineage
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render


def report(history: History) -> str:
    """The final report; before the end it says at its top that it is not final."""
    opened, ended = history.opened, history.concluded
    return render(
        "final_report.v1.md",
        target=opened.target,
        opened=opened,
        ended=ended,
        time=minute(ended.closed_at) if ended else minute(_latest(history)),
        reason=line(ended.stop_reason) if ended else "",
        satisfied=conclusion.satisfied(ended) if ended else "",
        rounds=len(history.rounds),
        first=conclusion.first(history),
        versus=conclusion.versus_text(history),
        accepted=len(accepted_rounds(history)),
        rolled_back=len(rolled_back_rounds(history)),
        effective=conclusion.effective(history),
        ineffective=conclusion.ineffective(history),
        predictions=conclusion.predictions(history),
        next_steps=conclusion.next_steps(history),
        audit=conclusion.audit(history),
        overfit=[f"round-{number}" for number in overfit_in_lineage(history)],
        noise=noise_lines(history),
        costs=conclusion.costs(history),
        suite=_suite(ended.suite) if ended else "runs at the end",
        silent=note_silent_test(history.baseline.test.printed if history.baseline else None),
        environment=environment_table(history),
        ceilings=_ceilings(history),
        roofline=against(history),
        commands=reproduce(history),
        comparison=comparison(history),
        decisions=decisions(history),
        links=_links(history),
    )


def _latest(history: History) -> str:
    """Instant of the latest event."""
    if history.rounds:
        return history.rounds[-1].closed_at
    return history.baseline.opened_at if history.baseline else history.opened.target.created


def _suite(suite: TestResult | None) -> str:
    if suite is None:
        return "the contract names none, or nothing was kept"
    return f"{suite.kind} in {suite.seconds:.1f} s" + ("" if suite.passed else f": {line(suite.detail, 300)}")


def environment_table(history: History) -> str:
    """The machine and the settings that the numbers hold for."""
    machine = history.opened.machine
    caches = (("L1d", machine.l1d_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    rows = (
        ("Machine", f"{cell(machine.name)} ({machine.kind}, {machine.arch}, {machine.cores} cores)"),
        ("Caches", ", ".join(f"{name} {size // 1024} KiB" for name, size in caches if size) or "UNKNOWN"),
        ("Compiler", cell(machine.compiler) if machine.compiler else "UNKNOWN"),
        ("Fingerprint", f"`{machine.fingerprint}`"),
        ("Preset", f"{history.limits.preset} (alpha {history.limits.alpha:g}, margin {history.limits.margin:g})"),
        ("Planner", cell(history.opened.planner)),
        ("Ridgeline", history.opened.version),
        ("Base commit", f"`{history.opened.base_commit}`"),
    )
    return table(("What", "Value"), rows)


def _ceilings(history: History) -> str:
    if history.roofline is None or not history.roofline.specs:
        return "- none were registered"
    return "\n".join(f"- {spec.text}" for spec in history.roofline.specs)


def reproduce(history: History) -> str:
    """One command line for the repository's folder: best version, build, test, benchmark."""
    contract = history.contract
    folder = history.opened.contract_path.rpartition("/")[0]
    steps = [f"git checkout --detach {figures.best_commit(history)}"]
    steps += [f"cd {command((folder,))}"] if folder else []
    if contract.rebuild.required and contract.rebuild.command:
        steps.append(command(contract.rebuild.command))
    steps.append(command(contract.test_command))
    steps.append(command(word.replace("{csv}", "benchmark.csv") for word in contract.benchmark_command))
    return " && ".join(steps)


def comparison(history: History) -> str:
    """The command that times the original against the best version once more; empty where it would not find both."""
    folder, _, name = history.opened.contract_path.rpartition("/")
    base, best = history.opened.base_commit, figures.best_commit(history)
    if base == best or name != "ridgeline.yaml":
        return ""
    return (f"cd {command((folder,))} && " if folder else "") + f"ridgeline bench {base[:12]} {best[:12]}"


def decisions(history: History) -> str:
    """What people decided, or the policy in their place; empty where nobody was asked."""
    decided = [*history.opened.decisions, *(one for closed in history.rounds for one in closed.decisions)]
    rows = [
        (cell(one.key.rpartition("-")[0]), one.choice, cell(one.by), minute(one.at), cell(one.reason, 300) or "-")
        for one in decided
    ]
    replaced = "".join(f"\n- {cell(one.judged.verdict.sentence, 600)}" for one in history.rounds if one.replaced)
    told = table(("Question", "Decision", "By", "At (UTC)", "Reason"), rows) if rows else ""
    return f"{told}\n{replaced}" if replaced else told


def _links(history: History) -> list[str]:
    links = ["logs/optimize.md", "logs/performance_trend.md", "performance.md", "manifest.yaml", "ledger.jsonl"]
    best = figures.best(history)
    return links + ([f"rounds/round-{best[0]}/summary.md"] if best else [])
