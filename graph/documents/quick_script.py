"""`quick_test_bench.py`: the quick validation as a person can run it, with the standard library alone."""

from ridgeline.graph.documents.manifest import schema_sha256
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render


def quick_script(history: History, *, worktree: str) -> str:
    """The script; without a baseline its list of shapes is empty and it refuses to run (exit 2)."""
    contract = history.contract
    shapes = history.baseline.representative if history.baseline else ()
    columns = contract.benchmark_output.columns
    return render(
        "quick_test_bench.v1.py",
        campaign=repr(history.opened.target.campaign),
        worktree=repr(worktree),
        folder=repr(history.opened.contract_path.rpartition("/")[0]),
        shapes=_listed(shapes),
        argv=_listed(contract.quick_command),
        build=_listed(contract.rebuild.command or ()),
        header=repr(",".join(columns)),
        digest=schema_sha256(columns),
        label=repr(contract.benchmark_output.label),
        check=repr(contract.benchmark_output.check),
        timeout=contract.timeouts.benchmark_s,
        build_timeout=contract.timeouts.build_s,
    )


def _listed(words: tuple[str, ...]) -> str:
    return "[" + "".join(f"\n    {word!r}," for word in words) + ("\n]" if words else "]")
