"""The devices of a machine, as agent_info.csv, results.json and rocpd databases tell them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.files import Head, RecordingError, rows

FORMAT = "agent_info"
_FACTS: Mapping[str, tuple[str, float]] = {
    "units": ("cu_count", 1),
    "simds_per_unit": ("simd_per_cu", 1),
    "wave_size": ("wave_front_size", 1),
    "max_waves_per_simd": ("max_waves_per_simd", 1),
    "l2_domains": ("num_xcc", 1),
    "lds_bytes_per_unit": ("lds_size_in_kb", 1024),
    "clock_mhz": ("max_engine_clk_fcompute", 1),
}
"""Our name of a constant, the tool's, and what the tool's number is multiplied by."""


def sniff(head: Head) -> bool:
    """Reading a profile: whether a CSV header is that of agent_info."""
    return {"agent_type", "cu_count"} <= set(head.lower)


@dataclass(frozen=True)
class Agent:
    """One GPU of the machine."""

    ids: tuple[str, ...]
    """What dispatches may call it: `Agent 2` (logical node), `2` (node), a handle."""
    arch: str | None
    product: str | None
    facts: tuple[Named, ...]


def agent(fields: Mapping[str, object], ids: Sequence[str] = ()) -> Agent | None:
    """Reading a profile: an agent from the tool's own fields (any case); None for CPUs."""
    low = {key.lower(): value for key, value in fields.items()}
    if str(low.get("agent_type", low.get("type"))).upper() not in ("GPU", "2"):
        return None
    facts = [Named(name=name, value=_number(low.get(key)) * times) for name, (key, times) in _FACTS.items()]
    names = [f"Agent {low[key]}" for key in ("logical_node_id", "logical_index") if key in low]
    names += [str(low[key]) for key in ("node_id", "absolute_index") if key in low]
    return Agent(
        (*ids, *names),
        _arch(str(low.get("name") or ""), _number(low.get("gfx_target_version"))),
        str(low.get("product_name") or "") or None,
        tuple(fact for fact in facts if fact.value > 0),
    )


def _number(cell: object) -> float:
    """Reading a profile: what was told as a number; 0 where it was not, which no constant can be."""
    try:
        return float(str(cell))
    except ValueError:
        return 0.0


def _arch(name: str, version: float) -> str | None:
    if name.startswith("gfx"):
        return name.split(":")[0]
    number = int(version)
    if number < 10000:
        return None
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def read_agents(path: Path, head: Head) -> tuple[Agent, ...]:
    """Reading a profile: the GPUs of an agent_info.csv. `RecordingError` when the file is damaged or tells of no GPU."""
    agents = []
    for line, row in rows(path, head):
        gpu = agent(dict(zip(head.names, row, strict=True)))
        if gpu is not None:
            if not gpu.facts:
                raise RecordingError(path, "a GPU without any constant: the row is damaged", line=line)
            agents.append(gpu)
    if not agents:
        raise RecordingError(path, "names no GPU: the run saw none, or the file is cut")
    return tuple(agents)


def recording(path: Path, agents: Sequence[Agent]) -> Recording:
    """Reading a profile: a lone agent_info.csv: the constants of the first GPU; a warning when others differ."""
    first_gpu = agents[0]
    same = all((gpu.arch, gpu.facts) == (first_gpu.arch, first_gpu.facts) for gpu in agents)
    return Recording(
        format=FORMAT,
        tool="rocprofv3",
        vendor="amd",
        arch=first_gpu.arch,
        device=first_gpu.product,
        facts=first_gpu.facts,
        rows=len(agents),
        files=(str(path),),
        warnings=() if same else (f"{len(agents)} GPUs that differ; the constants are those of {first_gpu.ids[0]}",),
    )


def choose(agents: Iterable[Agent], identity: str) -> Agent | None:
    """The agent that dispatches call `identity`; any one when all GPUs are of one kind; None when that is unclear."""
    gpus = tuple(agents)
    for gpu in gpus:
        if identity in gpu.ids:
            return gpu
    return gpus[0] if gpus and all(gpu.facts == gpus[0].facts for gpu in gpus) else None


# What a device's constants add to a recording: arch, facts, and registers per lane, corrected where known wrong.

_UNIFIED = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
"""One register file holds arch and accumulation registers, given out in steps of 8."""
_HALVED = "rocprofv3 through ROCm 7.2 decodes gfx95x registers with half the granule: twice VGPR_Count"


@dataclass(frozen=True)
class _Rule:
    arch: str
    halved: bool

    def of(self, kernel: KernelCalls) -> KernelCalls:
        vgpr, accum = kernel.last.arch_vgpr, kernel.last.accum_vgpr
        if vgpr is None or not vgpr:
            return kernel
        if self.halved:
            return kernel.model_copy(update={"vgpr_total": 2 * vgpr, "corrected": _HALVED})
        if self.arch in _UNIFIED:
            return kernel.model_copy(update={"vgpr_total": -(-(vgpr + (accum or 0)) // 8) * 8})
        # gfx908 has two separate files and RDNA only one: the larger is what limits either
        return kernel.model_copy(update={"vgpr_total": max(vgpr, accum or 0)})


def on_device(recording: Recording, agent: Agent) -> Recording:
    """The recording with the device's arch, name and constants, and `vgpr_total` of its kernels."""
    kernels = registers(recording.kernels, agent.arch)
    device = f"{agent.product} ({recording.device})" if agent.product and recording.device else None
    device = device or agent.product or recording.device
    fact_names = {fact.name for fact in recording.facts}
    facts = (*recording.facts, *(fact for fact in agent.facts if fact.name not in fact_names))
    return recording.model_copy(
        update={
            "arch": agent.arch,
            "device": device,
            "facts": facts,
            "kernels": kernels,
        }
    )


def registers(kernels: Sequence[KernelCalls], arch: str | None) -> tuple[KernelCalls, ...]:
    """Kernels with `vgpr_total`. On gfx95x a recording without any accumulation register is of a tool that halves."""
    if arch is None:
        return tuple(kernels)
    accumulators = [launch.accum_vgpr for kernel in kernels for launch in (kernel.last, *kernel.variants)]
    rule = _Rule(
        arch, arch.startswith("gfx95") and any(count is not None for count in accumulators) and not any(accumulators)
    )
    return tuple(rule.of(kernel) for kernel in kernels)
