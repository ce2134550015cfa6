"""What a device's constants add to a recording: arch, facts, and registers per lane, corrected where known wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.graph.kernel_profile import KernelCalls, Recording
from ridgeline.sandbox.profiles.readers.agents import Agent

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
    known = {fact.name for fact in recording.facts}
    facts = (*recording.facts, *(fact for fact in agent.facts if fact.name not in known))
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
    told = [launch.accum_vgpr for kernel in kernels for launch in (kernel.last, *kernel.variants)]
    rule = _Rule(arch, arch.startswith("gfx95") and any(one is not None for one in told) and not any(told))
    return tuple(rule.of(kernel) for kernel in kernels)
