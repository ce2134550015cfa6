"""The golden documents of `tests/data/documents`. Refresh after a wanted change, then read the diff:

python -m tests.document_golden
"""

from pathlib import Path

from ridgeline.graph.reports.files import commit_message, render_all, tip_entry
from tests.document_builders import complete, training

FOLDER = Path(__file__).parent / "data" / "documents"
CHOSEN = (
    "README.md",
    "manifest.yaml",
    "performance.md",
    "final_report.md",
    "quick_test_bench.py",
    "logs/optimize.md",
    "logs/performance_trend.md",
    "memory/v0.json",
    "memory/v4.json",
    "plans/v4_plan.md",
    "rounds/round-1/summary.md",
    "rounds/round-5/summary.md",
    "rounds/round-6/iteration_report.md",
    "rounds/round-6/summary.md",
)


def documents() -> dict[str, str]:
    """Name of the golden file -> what is rendered now."""
    history = complete()
    files = render_all(history, worktree="tree", tool="ridgeline 0.1.0")
    found = {f"{path.replace('/', '-')}.golden": str(files[path]) for path in CHOSEN}
    found["training-trend.md.golden"] = str(render_all(training(), worktree="tree")["logs/performance_trend.md"])
    found["commit.txt.golden"] = commit_message(history.rounds[0].judged, history, 2)
    found["tip.md.golden"] = tip_entry(history.rounds[0], history.opened)
    return found


def refresh() -> None:
    """Write what is rendered now."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for stale in FOLDER.glob("*.golden"):
        stale.unlink()
    for name, text in documents().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh()
