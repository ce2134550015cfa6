"""What is told of one kernel: its code on every target, beside an earlier version, with what a trace says of it."""

from collections.abc import Sequence

from ridgeline.agent.isa.hot import Placed, placed
from ridgeline.graph.kernel_profile import Hotspot
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.difference import compared
from ridgeline.sandbox.profiles.isa.report import Inspected
from ridgeline.sandbox.profiles.isa.values import IsaFinding


class Section(Value):
    """One kernel of a file."""

    found: tuple[Inspected, ...]
    """One for each target."""
    findings: tuple[IsaFinding, ...]
    """Differences to the earlier version."""
    hot: tuple[Placed | None, ...]
    """For each of `found`; None without a trace, and where there are no instructions to place it on."""
    compared: bool
    """Whether the earlier version has this kernel on a target of these."""

    @property
    def kernel(self) -> str:
        """Its name in the code."""
        return self.found[0].report.kernel

    @property
    def placed(self) -> tuple[tuple[Inspected, Placed | None], ...]:
        """Each target's code with what is hot in it."""
        return tuple(zip(self.found, self.hot, strict=True))


def sections(
    found: Sequence[tuple[Inspected, ...]], before: Sequence[tuple[Inspected, ...]], spots: Sequence[Hotspot]
) -> tuple[Section, ...]:
    """One for each kernel. Kernels of an earlier version are found by name; a single one whatever its name is now."""
    return tuple(_section(one, _earlier(one, found, before), spots) for one in found)


def _earlier(
    one: tuple[Inspected, ...], found: Sequence[tuple[Inspected, ...]], before: Sequence[tuple[Inspected, ...]]
) -> tuple[Inspected, ...]:
    if len(found) == len(before) == 1:
        return before[0]
    return next((old for old in before if old[0].report.kernel == one[0].report.kernel), ())


def _section(one: tuple[Inspected, ...], old: tuple[Inspected, ...], spots: Sequence[Hotspot]) -> Section:
    then, now = ([inspected.report for inspected in version] for version in (old, one))
    return Section(
        found=one,
        findings=compared(then, now),
        hot=tuple(placed(inspected.code, spots) if spots and inspected.code else None for inspected in one),
        compared=bool({report.target for report in then} & {report.target for report in now}),
    )
