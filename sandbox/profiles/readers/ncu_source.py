"""ncu's source page: where the samples of each kernel fell, per instruction, and what the warps waited for there."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.kernel_profile import Hotspot, Stall
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.hopper import STALLS
from ridgeline.sandbox.profiles.readers.ncu_text import Row, locale_of, number

TOP = 20
SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "Sampling Data (All)")
ALIASES = {
    "stall_branch_resolve": "branch_resolving", "stall_dispatch": "dispatch_stall", "stall_imc": "imc_miss",
    "stall_lg": "lg_throttle", "stall_long_sb": "long_scoreboard", "stall_math": "math_pipe_throttle",
    "stall_mio": "mio_throttle", "stall_no_inst": "no_instruction", "stall_short_sb": "short_scoreboard",
    "stall_sleep": "sleeping", "stall_tex": "tex_throttle",
}  # fmt: skip
"""The page's short names, and the names that the metrics use."""
SUMMED = {
    "Instructions Executed": "source.instructions_executed",
    "L1 Wavefronts Shared": "source.l1_wavefronts_shared",
    "L1 Wavefronts Shared Ideal": "source.l1_wavefronts_shared_ideal",
    "L2 Theoretical Sectors Global": "source.l2_sectors_global",
    "L2 Theoretical Sectors Global Ideal": "source.l2_sectors_global_ideal",
}
"""Columns whose sum over the instructions says something about the kernel."""


@dataclass(kw_only=True)
class Listing:
    """The instructions of one kernel, all its sections of the page taken together."""

    name: str
    sections: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    """`pcsamp.<reason>` and the sums of `SUMMED`."""
    lines: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    """By (address, instruction): samples, hits, and samples by reason."""

    @property
    def samples(self) -> float:
        """All samples of the kernel."""
        return float(sum(line["samples"] for line in self.lines.values()))


def listings(rows: Sequence[Row], path: Path) -> tuple[list[Listing], str]:
    """Every kernel on the page, most samples first, and a warning about the locale or an empty text.

    Raises RecordingError for a page without instructions, a cut row, or a count that is no number.
    """
    found: dict[str, Listing] = {}
    mark, warning = locale_of(((cell, "inst") for _, row in rows for cell in row[2:]), path)
    header: list[str] = []
    listing: Listing | None = None
    for line, row in rows:
        if row[0] == "Kernel Name":
            listing, header = found.setdefault(row[1], Listing(name=row[1])), []
            listing.sections += 1
        elif "Source" in row and not header:
            header = row
        elif listing is None or len(row) != len(header):
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        else:
            cells = dict(zip(header, row, strict=True))
            _count(listing, cells, {name: number(text, mark) for name, text in cells.items()})
    kept = [listing for listing in found.values() if listing.lines]
    if not kept:
        raise RecordingError(path, "a source page without an instruction; profile with --set full or SourceCounters")
    return sorted(kept, key=lambda listing: -listing.samples), warning


def hotspots(listing: Listing) -> tuple[Hotspot, ...]:
    """The instructions with the most samples, at most 20."""
    whole = listing.samples
    ranked = sorted(listing.lines.items(), key=lambda item: -item[1]["samples"])[:TOP]
    return tuple(
        Hotspot(
            isa=isa,
            pc=int(address, 16) if address.startswith("0x") else None,
            share=line["samples"] / whole,
            stall=_main_stall(line),
            hits=int(line["hits"]) or None,
            kernel=listing.name,
        )
        for (address, isa), line in ranked
        if line["samples"]
    )


def reason(column: str) -> str | None:
    """The stall that a column counts in all samples, by the metrics' name; None for other columns."""
    if not column.startswith("stall_") or column.endswith("(Not Issued)"):
        return None
    return ALIASES.get(column, column.removeprefix("stall_"))


def _count(listing: Listing, cells: dict[str, str], values: dict[str, float | None]) -> None:
    line = listing.lines.setdefault((cells.get("Address", ""), cells["Source"].strip()), Counter())
    samples = next((values[name] for name in SAMPLES if values.get(name) is not None), None)
    line["samples"] += int(samples or 0)
    line["hits"] += int(values.get("Instructions Executed") or 0)
    for name, value in values.items():
        if value is None:
            continue
        if (stalled := reason(name)) is not None:
            line[f"pcsamp.{stalled}"] += int(value)
            listing.totals[f"pcsamp.{stalled}"] += int(value)
        elif name in SUMMED:
            listing.totals[SUMMED[name]] += int(value)


def _main_stall(line: Counter[str]) -> Stall | None:
    counts = Counter({name: count for name, count in line.items() if name.startswith("pcsamp.") and count})
    if not counts:
        return None
    return STALLS.get(counts.most_common(1)[0][0].removeprefix("pcsamp."), "other")
