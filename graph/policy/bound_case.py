"""One profile while it is classified: the thresholds, its numbers, and the chain of what was looked at."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ridgeline.graph.kernel_profile import KernelProfile, Stall
from ridgeline.graph.values import Value


class Thresholds(Value):
    """Conventions of the field, in one place. Shares are 0..1."""

    min_calls: int = 3
    """Fewer timed calls decide nothing, unless counters were read."""
    helpers_of_span: float = 0.50
    """Copies, fills and communication above this share: the fix is outside the kernel."""
    short_ns: float = 5_000
    """Below it a kernel takes no longer than a launch."""
    busy_of_span: float = 0.30
    full_waves: float = 1.0
    tail_waves: float = 2.0
    tail_fraction: float = 0.5
    high: float = 0.60
    """Of the memory or compute peak."""
    lead: float = 0.10
    """How far memory and compute must differ for one of them to be the bound."""
    stall: float = 0.20
    """Share of wave time from which a stall class is worth naming."""
    waits_of_memory_bound: float = 0.20
    waits_of_compute_bound: float = 0.50
    l2_hit: float = 0.80
    dram_of_requests: float = 0.50
    low_occupancy: float = 0.25
    conflicts: float = 0.05
    sectors_per_request: float = 16.0
    """16 sectors of 32 bytes serve the widest access of a warp; more cannot be coalesced."""
    sectors_over_ideal: float = 2.0
    spread: float = 0.10
    """(slowest - fastest) / median of the timed calls."""


@dataclass
class Case:
    """One profile while the rules look at it; collects what they saw."""

    profile: KernelProfile
    limits: Thresholds
    evidence: list[str] = field(default_factory=list)

    def number(self, name: str) -> float | None:
        """A number of the profile; None when nobody told it."""
        return self.profile.number(name)

    def stalled(self, classes: Iterable[Stall]) -> float:
        """Share of wave time in these stall classes; 0 where none was recorded."""
        wanted = set(classes)
        return sum(item.share for item in self.profile.stalls if item.stall in wanted)

    def largest(self, names: Iterable[str]) -> tuple[str, float] | None:
        """The largest of these numbers and its name; None when nobody told any."""
        known = [(name, value) for name in names if (value := self.number(name)) is not None]
        return max(known, key=lambda item: item[1], default=None)

    def saw(self, name: str, threshold: str) -> None:
        """Put a number, its threshold and its source on the chain."""
        self.evidence.extend(
            f"{name} {said.value:.4g} ({threshold}) [{said.source}; {said.rung}]"
            for said in self.profile.numbers
            if said.name == name
        )

    def noted(self, text: str) -> None:
        """Put a sentence on the chain."""
        self.evidence.append(text)
