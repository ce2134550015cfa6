"""The viewer's folder of PC samples: `code.json` with counts of issued and stalled samples per instruction."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.sandbox.profiles.readers import json_text
from ridgeline.sandbox.profiles.readers.att_code import viewer_rows
from ridgeline.sandbox.profiles.readers.fault import RecordingError

FILES = ("code.json", "filenames.json")
REASONS = (
    "NONE", "NO_INSTRUCTION_AVAILABLE", "ALU_DEPENDENCY", "WAITCNT", "INTERNAL_INSTRUCTION", "BARRIER_WAIT",
    "ARBITER_NOT_WIN", "ARBITER_WIN_EX_STALL", "OTHER_WAIT", "SLEEP_WAIT",
)  # fmt: skip
"""Why a sampled wave did not issue, in the order of rocprofiler-sdk's enumeration and so of Stall_Reasons."""
COLUMNS = ("isa", "source", "vaddr", "pc_issued", "pc_stalled", "stall_reasons")
HEAD = 65536


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Where a sample fell and why the wave did not issue there."""

    isa: str
    source: str
    reason: str
    """One of REASONS, `ISSUED`, or empty: a host trap does not tell."""
    address: int | None = None
    kernel: str = ""

    def without_reason(self) -> "Sample":
        """The instruction alone."""
        return replace(self, reason="")


def sniff(folder: Path) -> bool:
    """Whether the folder is a viewer's and its filenames.json says that it holds PC samples."""
    if not all((folder / name).is_file() for name in FILES):
        return False
    with (folder / "filenames.json").open("rb") as file:
        return b'"pc_sampling":true' in file.read(HEAD).replace(b" ", b"")


def samples(folder: Path) -> tuple[Counter[Sample], bool]:
    """How often each sample occurs, and whether reasons are told. RecordingError where there is none or damage."""
    path = folder / "code.json"
    columns, rows = viewer_rows(path)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}: no PC samples")
    places = [columns.index(name) for name in COLUMNS]
    counted: Counter[Sample] = Counter()
    stochastic, kernel = False, ""
    for number, row in enumerate(rows):
        isa, source = (json_text.text_of(row[place], path, f"ISA or Source of row {number}") for place in places[:2])
        if isa.startswith("; "):
            kernel = source or isa[2:].strip()
            continue
        address, issued, stalled = json_text.wholes([row[p] for p in places[2:5]], path, f"counts of row {number}")
        told = json_text.sequence(row[places[5]], path, f"Stall_Reasons of row {number}")
        reasons = json_text.wholes(told, path, f"Stall_Reasons of row {number}")
        at = Sample(isa=isa, source=source, reason="", address=address, kernel=kernel)
        if len(reasons) > len(REASONS) or sum(reasons) > stalled:
            raise RecordingError(path, f"row {number} has {sum(reasons)} reasons for {stalled} stalled samples")
        stochastic |= any(reasons)
        for reason, count in zip(("ISSUED", "", *REASONS), (issued, stalled - sum(reasons), *reasons), strict=False):
            counted[replace(at, reason=reason)] += count
    counted = +counted
    if not counted:
        raise RecordingError(path, "holds no sample; sample longer or with a smaller interval")
    return counted, stochastic
