"""The profile of the best version as a model is told it: bottleneck, then counters with what they are of."""

from ridgeline.agent.planners.model_fit import clipped
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.evidence import Profiled

FIRST = ("spill", "register", "regs", "vgpr", "sgpr", "occupancy", "shared", "smem", "lds", "scratch", "local")
"""In the names of counters that are told first: they say what a patch may still take."""
TIMED = " (rests on timing alone: "
"""In the evidence of a bottleneck that no counter shows; what follows says why there is none."""
REASONLESS = "couldn't vectorize loop"
"""Ends a compiler's remark that the next one repeats with its reason."""


def profile_of(told: Briefing) -> str:
    """Bottleneck with its grounds, one line for each group of shapes; then counters and notes."""
    why, hint, basis = told.bottleneck_evidence.partition(TIMED)
    head = f"bottleneck (a hint: it rests on times alone, {basis.rstrip(')')})" if hint else "bottleneck"
    why = why or "no counter says why"
    lines = [f"{head}: {told.bottleneck}", *(f"because: {chain}" for chain in why.split("; "))]
    if told.profile is None:
        return "\n".join([*lines, "no profile of the best version"])
    command = told.contract.profile.command if told.contract.profile else ()
    of = f", of one command: {' '.join(command)}" if command else ""
    lines.append(f"instrument: {told.profile.rung}{of}")
    order = sorted(told.profile.counters, key=lambda counter: not any(word in counter.name.lower() for word in FIRST))
    lines += [f"{counter.name} = {counter.value:g}{_by(told.profile, counter.name)}" for counter in order]
    lines += [f"note: {clipped(note, 300)}" for note in told.profile.notes if not note.endswith(REASONLESS)]
    return "\n".join(lines)


def _by(profile: Profiled, name: str) -> str:
    """Which tool told a counter that is not of the profile's main instrument."""
    rung = profile.rung_of(name)
    return "" if rung == profile.rung else f" ({rung})"
