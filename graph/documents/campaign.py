"""Every file of the campaign's folder as a function of its history: path -> text, or a stored artifact."""

from ridgeline.graph.documents.final_report import report
from ridgeline.graph.documents.lessons import latest_unmasked
from ridgeline.graph.documents.manifest import SCRIPT, manifest
from ridgeline.graph.documents.memory import baseline_memory, round_memory
from ridgeline.graph.documents.optimize_log import optimize_log
from ridgeline.graph.documents.performance import performance
from ridgeline.graph.documents.plans import plan
from ridgeline.graph.documents.quick_script import quick_script
from ridgeline.graph.documents.readme import readme
from ridgeline.graph.documents.rounds import Documents, baseline_files, placed, round_files
from ridgeline.graph.documents.trend import trend
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.standing import History


def render(history: History, *, worktree: str, tool: str = "ridgeline") -> Documents:
    """All files. `worktree` is the checked-out tree that the quick script measures; nothing is read, no clock asked."""
    files = _living(history, worktree, tool)
    if history.baseline is not None:
        files |= baseline_files(history, history.baseline)
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    for closed in history.rounds:
        files |= _of_round(history, closed)
    return files | _ending(history)


def changed(history: History, *, worktree: str, tool: str = "ridgeline") -> Documents:
    """The files that the latest event can have touched: what a round needs written when it closes.

    Writing these after every event leaves the same folder as writing everything at the end.
    """
    files = _living(history, worktree, tool)
    if history.rounds:
        files |= _of_round(history, history.rounds[-1])
    elif history.baseline is not None:
        files |= baseline_files(history, history.baseline)
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    return files | _remembered(history) | _ending(history)


def _living(history: History, worktree: str, tool: str) -> Documents:
    """The files that grow or follow the state of the campaign."""
    return {
        "manifest.yaml": manifest(history, worktree=worktree),
        "README.md": readme(history, tool=tool),
        "performance.md": performance(history),
        SCRIPT: quick_script(history, worktree=worktree),
        "logs/optimize.md": optimize_log(history),
        "logs/performance_trend.md": trend(history),
    }


def _of_round(history: History, closed: RoundClosed) -> Documents:
    files = round_files(history, closed)
    files[f"memory/v{closed.round - 1}.json"] = round_memory(history, closed)
    files[f"plans/v{closed.round - 1}_plan.md"] = plan(history, closed)
    return files


def _remembered(history: History) -> Documents:
    """Memory that a restart after the latest round masked, or that now records what was masked."""
    last = history.rounds[-1].round if history.rounds else 1
    if not any(restart.after_round == last for restart in history.restarts):
        return {}
    touched = {version for restart in history.restarts for version in restart.masked}
    touched |= {latest_unmasked(history, restart) for restart in history.restarts}
    files: Documents = {}
    if 0 in touched and history.baseline is not None:
        files["memory/v0.json"] = baseline_memory(history, history.baseline)
    for closed in history.rounds:
        if closed.round - 1 in touched:
            files[f"memory/v{closed.round - 1}.json"] = round_memory(history, closed)
    return files


def _ending(history: History) -> Documents:
    """The final report with the raw data of the final test; nothing before the end."""
    ended = history.concluded
    if ended is None:
        return {}
    files: Documents = {"final_report.md": report(history)}
    if ended.final is not None:
        files |= placed("final", (ended.final.raw.model_copy(update={"name": "comparison.json"}),))
    if ended.project is not None:
        files["final/benchmark.csv"] = ended.project.csv
    if ended.baseline_again is not None:
        files["final/baseline_again.csv"] = ended.baseline_again.csv
    return files
