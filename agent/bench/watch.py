"""Who looks on while two things are compared: a live table on a terminal, plain lines anywhere else, or nobody."""

import math
import sys
from typing import TYPE_CHECKING, Any

from ridgeline.agent.bench.answer import percent, signed
from ridgeline.agent.bench.course import Watch
from ridgeline.agent.console import note
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.noise import Noise
from ridgeline.graph.policy.paired import pair_means
from ridgeline.graph.policy.sequential import Estimate, visible

if TYPE_CHECKING:
    from rich.live import Live

HEADER = ("PAIR", "THIS PAIR", "t_A / t_B", "AT LEAST", "AT MOST", "REQUIRED", "TIME LEFT")
SHOWN = 12
"""Rows of the live table: the latest."""


class SilentWatch:
    """Nobody."""

    def say(self, text: str) -> None:
        """Nothing."""

    def calibrated(self, noise: Noise | None, limits: Limits) -> None:
        """Nothing."""

    def looked(self, pair: Comparison, seen: Estimate, *, left_s: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing to give back."""


class PlainWatch:
    """Lines for a log file or a pipe."""

    def __init__(self) -> None:
        self._said = ""

    def say(self, text: str) -> None:
        """One line for each kind of work, not for each step of it."""
        kind = text.partition(":")[0]
        if kind not in (self._said, "A against itself"):
            note(text)
        self._said = kind

    def calibrated(self, noise: Noise | None, limits: Limits) -> None:
        """What identical versions showed."""
        note(calibration_line(noise, limits))

    def looked(self, pair: Comparison, seen: Estimate, *, left_s: float) -> None:
        """One line for each pair."""
        number, here, ratio, lower, upper, required, left = cells(pair, seen, left_s)
        note(f"pair {number:>3}: {here:>9}, t_A / t_B {ratio} [{lower}, {upper}], required {required}, {left} left")

    def close(self) -> None:
        """Nothing to give back."""


class LiveWatch:
    """A table that grows by a row for each pair, with what is done now below it."""

    def __init__(self) -> None:
        self._now = "starting"
        self._noise = ""
        self._rows: list[tuple[str, ...]] = []
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Shown until the next one."""
        self._now = text
        self._shown()

    def calibrated(self, noise: Noise | None, limits: Limits) -> None:
        """Stands above the table from now on."""
        self._noise = calibration_line(noise, limits)
        self._shown()

    def looked(self, pair: Comparison, seen: Estimate, *, left_s: float) -> None:
        """One more row."""
        self._rows.append(cells(pair, seen, left_s))
        self._shown()

    def close(self) -> None:
        """The table stays, what was done goes."""
        self._now = ""
        if self._live is not None:
            self._live.update(self._rendered())
            self._live.stop()
            self._live = None

    def _shown(self) -> None:
        if self._live is None:
            self._live = _live()
        self._live.update(self._rendered())

    def _rendered(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text(self._noise)] if self._noise else []
        if self._rows:
            table = Table(box=None, pad_edge=False)
            for title in HEADER:
                table.add_column(title, justify="right", no_wrap=True)
            for row in self._rows[-SHOWN:]:
                table.add_row(*row)
            parts.append(table)
        if self._now:
            parts.append(Text(self._now, style="cyan"))
        return Group(*parts)


def watcher(*, quiet: bool) -> Watch:
    """The one that fits standard error."""
    if quiet:
        return SilentWatch()
    return LiveWatch() if sys.stderr.isatty() else PlainWatch()


def cells(pair: Comparison, seen: Estimate, left_s: float) -> tuple[str, ...]:
    """One row of the table, in the header's order."""
    here = math.fsum(means := pair_means(pair.shapes)) / len(means)
    left = f"{int(left_s) // 60:02d}:{int(left_s) % 60:02d}"
    numbers = (seen.theta, seen.lower, seen.upper, seen.required)
    return (str(seen.pairs), signed(math.expm1(here)), *(_ratio(number) for number in numbers), left)


def calibration_line(noise: Noise | None, limits: Limits) -> str:
    """How much identical versions scatter, and what can be seen through that."""
    if noise is None:
        return "identical versions: too few pairs to tell their noise"
    text = f"identical versions: {noise.pairs} pairs scatter by {percent(noise.sd)} each"
    if noise.allowance:
        text += f" and differ by {signed(math.expm1(noise.offset))} systematically, which is added to the margin"
    return f"{text}; gains under {percent(visible(noise, limits))} cannot be seen in {limits.looks[-1]} pairs"


def _ratio(log_ratio: float) -> str:
    return f"{math.exp(log_ratio):.4f}" if math.isfinite(log_ratio) else "-"


def _live() -> "Live":
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), refresh_per_second=4, vertical_overflow="visible")
    live.start()
    return live
