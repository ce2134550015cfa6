"""Recordings of one run, put together where that is sound: constants beside times, passes of counters, no doubles."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import agents
from ridgeline.sandbox.profiles.readers.csv_head import header
from ridgeline.sandbox.profiles.readers.registers import on_device

_DOMAINS = re.compile(
    r"_?(kernel_trace|kernel_stats|domain_stats|counter_collection|agent_info|results|(hip|hsa|marker|rccl)_api_(trace|stats)"
    r"|(memory_copy|memory_allocation|scratch_memory)_(trace|stats)|pc_sampling_\w+)?\.(csv|json|db)(\.gz)?$"
)
_PASS = re.compile(r"(pmc|pass)_?\d+$")
Found = tuple[Recording, ...]


def merged(files: Sequence[tuple[Path, Found]]) -> Found:
    """All recordings of a folder: most compute time first, then those without kernels."""
    gpus = {path: agents.read_agents(path, header(path)) for path, found in files if _is(found, agents.FORMAT)}
    kept = [(path, found) for path, found in files if path not in gpus]
    traced = {_run(path) for path, found in kept if _is(found, "kernel_trace")}
    kept = [(path, found) for path, found in kept if not (_is(found, "kernel_stats") and _run(path) in traced)]
    placed = [(path, tuple(_placed(one, _beside(path, gpus)) for one in found)) for path, found in kept]
    found = [*_passes([pair for pair in placed if _is(pair[1], "counter_collection")])]
    found += [one for _, told in placed if not _is(told, "counter_collection") for one in told]
    if not found:
        return tuple(one for _, told in files for one in told)
    return tuple(sorted(found, key=_rank))


def _is(found: Found, form: str) -> bool:
    return bool(found) and found[0].format == form


def _run(path: Path) -> tuple[str, str]:
    """What files of one process share: the folder and the name before the domain."""
    return str(path.parent), _DOMAINS.sub("", path.name)


def _rank(one: Recording) -> tuple[bool, bool, float]:
    compute = sum(kernel.total_ns or 0 for kernel in one.kernels if kernel.category == "compute")
    return not one.kernels, one.grade != "trace", -compute


def _beside(path: Path, gpus: Mapping[Path, Sequence[agents.Agent]]) -> Sequence[agents.Agent]:
    """The GPUs that the same process saw; those of the only agent_info of the folder otherwise."""
    same = [told for one, told in gpus.items() if _run(one) == _run(path)]
    if same:
        return same[0]
    kinds = {tuple(told) for told in gpus.values()}
    return next(iter(kinds)) if len(kinds) == 1 else ()


def _placed(one: Recording, gpus: Sequence[agents.Agent]) -> Recording:
    agent = None if one.arch or one.vendor != "amd" or not one.kernels else agents.chosen(gpus, one.device or "")
    return on_device(one, agent) if agent is not None else one


def _passes(files: Sequence[tuple[Path, Found]]) -> Iterable[Recording]:
    """Counters of one GPU, taken in several passes of one program, are one recording."""
    groups: dict[tuple[object, ...], list[Recording]] = {}
    for path, found in files:
        folder = next((str(one.parent) for one in path.parents if _PASS.fullmatch(one.name)), str(path.parent))
        for one in found:
            # a process number in the name changes from pass to pass; the kernels and how often they ran do not
            calls = frozenset((kernel.name, kernel.calls) for kernel in one.kernels)
            groups.setdefault((folder, one.device, one.arch, calls), []).append(one)
    return [joined for group in groups.values() for joined in _joined(group)]


def _joined(group: Sequence[Recording]) -> Iterable[Recording]:
    """The passes as one; recordings that counted the same things are of several processes, and stay apart."""
    first, *rest = group
    counted = [frozenset(metric.name for kernel in one.kernels for metric in kernel.metrics) for one in group]
    if not rest or len(set(counted)) < len(counted):
        return group
    kernels = {kernel.name: kernel for kernel in first.kernels}
    for one in rest:
        kernels |= {kernel.name: _with(kernels[kernel.name], kernel.metrics) for kernel in one.kernels}
    return [
        first.model_copy(
            update={
                "kernels": tuple(kernels.values()),
                "rows": sum(one.rows for one in group),
                "rejected": sum(one.rejected for one in group),
                "files": tuple(name for one in group for name in one.files),
                "warnings": tuple(dict.fromkeys(warning for one in group for warning in one.warnings)),
            }
        )
    ]


def _with(kernel: KernelCalls, metrics: Sequence[Named]) -> KernelCalls:
    """The kernel with more metrics; the first pass that told one keeps it."""
    known = {metric.name for metric in kernel.metrics}
    return kernel.model_copy(update={"metrics": (*kernel.metrics, *(one for one in metrics if one.name not in known))})
