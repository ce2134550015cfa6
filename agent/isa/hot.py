"""Puts the hot instructions of a recorded trace on the lines of a listing."""

from collections.abc import Sequence
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.graph.kernel_profile import Hotspot
from ridgeline.graph.values import Value
from ridgeline.sandbox.profiles.isa.values import Code


class Placed(Value):
    """What a trace says of the lines of one listing."""

    shares: tuple[tuple[int, float], ...]
    """Index of the instruction, and its share of all wave time or samples."""
    missed: tuple[str, ...]
    """Hot instructions that are not, or not once, in the listing."""


def hotspots(path: Path) -> tuple[Hotspot, ...]:
    """The hot instructions of an AMD thread trace or of ncu's source page. Raises `UserError`."""
    from ridgeline.sandbox.profiles.readers import att, ncu
    from ridgeline.sandbox.profiles.readers.fault import RecordingError

    if not path.exists():
        raise UserError(f"--trace: {path}: no such file or folder; give a ui_output folder or ncu's source page")
    try:
        recording = att.read(path) if att.sniff(path) else ncu.read(path)
    except RecordingError as error:
        raise UserError(f"--trace: {error}") from None
    found = recording.hotspots or (recording.att.hotspots if recording.att else ())
    if not found:
        raise UserError(f"--trace: {path}: tells no instructions; give a thread trace or ncu's source page")
    return found


def placed(code: Code, found: Sequence[Hotspot]) -> Placed:
    """Each by its text, and by its source line where several instructions read the same."""
    where: dict[str, list[int]] = {}
    for index, instruction in enumerate(code.instructions):
        where.setdefault(_plain(instruction.text), []).append(index)
    shares: dict[int, float] = {}
    missed = []
    for hot in found:
        same = where.get(_plain(hot.isa), [])
        line = hot.source.rpartition("/")[2]
        named = [index for index in same if line and code.instructions[index].source == line]
        fitting = named or same
        if len(fitting) == 1:
            shares[fitting[0]] = shares.get(fitting[0], 0.0) + hot.share
        else:
            why = f"{len(fitting)} times in it" if fitting else "not in it"
            missed.append(f"{hot.share:.1%} {hot.isa} ({why})")
    return Placed(shares=tuple(sorted(shares.items())), missed=tuple(missed))


def _plain(text: str) -> str:
    return " ".join(text.replace(",", " ").rstrip(" ;").split())
