"""What changed between two versions of a kernel on one target, and which of it is evidence against the second."""

from collections.abc import Sequence

from ridgeline.sandbox.profiles.isa.values import IsaFinding, Kind, Report, Width

MOVES: tuple[tuple[Kind, str], ...] = (
    ("global_load", "global loads"),
    ("global_store", "global stores"),
    ("lds_read", "LDS reads"),
    ("lds_write", "LDS writes"),
)
Number = float | int | None


def gate(before: Sequence[Report], after: Sequence[Report]) -> tuple[IsaFinding, ...]:
    """Evidence against `after`, over the targets that both have: spills, scratch or a lost wave tier.

    Never evidence for it: fewer registers do not make a kernel faster, only measuring shows that.
    """
    return tuple(found for found in compared(before, after) if found.weight == "against")


def compared(before: Sequence[Report], after: Sequence[Report]) -> tuple[IsaFinding, ...]:
    """Every difference, target by target, in the order of `before`."""
    others = {report.target.arch: report for report in after}
    return tuple(
        found
        for report in before
        if (other := others.get(report.target.arch)) is not None
        for found in differences(report, other)
    )


def differences(before: Report, after: Report) -> tuple[IsaFinding, ...]:
    """All that differs on one target. A number that one of the two does not tell gives no finding."""
    found = [
        _spills(before, after),
        _more_is_worse(before, after, "scratch"),
        _occupancy(before, after),
        _noted(before, after, "registers", _registers(before), _registers(after)),
        _noted(before, after, "lds", before.resources.lds_bytes, after.resources.lds_bytes),
        *_code(before, after),
    ]
    return tuple(finding for finding in found if finding is not None)


def _spills(before: Report, after: Report) -> IsaFinding | None:
    was, now = before.resources.vgpr_spills, after.resources.vgpr_spills
    if was is None or now is None or was == now:
        return None
    text = f"register spills rose from {was} to {now}" if now > was else f"register spills fell from {was} to {now}"
    return _finding(after, "spills", was, now, weight="against" if now > was else "for", text=text)


def _more_is_worse(before: Report, after: Report, name: str) -> IsaFinding | None:
    was, now = before.resources.scratch_bytes, after.resources.scratch_bytes
    if was is None or now is None or was == now:
        return None
    word = "rose" if now > was else "fell"
    return _finding(
        after,
        "scratch",
        was,
        now,
        weight="against" if now > was else "for",
        text=f"{name} per lane {word} from {was} to {now} bytes",
    )


def _occupancy(before: Report, after: Report) -> IsaFinding | None:
    if before.occupancy is None or after.occupancy is None:
        return None
    was, now = before.occupancy, after.occupancy
    tier_lost = now.register_tier < was.register_tier
    if now.waves_per_simd == was.waves_per_simd and not tier_lost:
        return None
    lost = now.waves_per_simd < was.waves_per_simd
    text = f"waves per SIMD {was.waves_per_simd:g} -> {now.waves_per_simd:g}, now limited by {now.limiter}"
    if tier_lost:
        text += f"; registers alone {was.register_tier} -> {now.register_tier}"
    weight = "against" if lost else "note" if tier_lost else "for"
    return _finding(after, "occupancy", was.waves_per_simd, now.waves_per_simd, weight=weight, text=text)


def _code(before: Report, after: Report) -> list[IsaFinding | None]:
    """Counts of two listings of one form: PTX and SASS have nothing to compare."""
    was, now = before.shape, after.shape
    if was is None or now is None or before.form != after.form:
        return []
    return [
        _noted(before, after, "matrix", was.count("matrix"), now.count("matrix")),
        _noted(before, after, "waits", was.count("wait"), now.count("wait")),
        _noted(before, after, "barriers", was.count("barrier"), now.count("barrier")),
        _noted(before, after, "size", was.instructions, now.instructions),
        *(_width(after, was.widths, now.widths, kind, words) for kind, words in MOVES),
    ]


def _width(after: Report, was: tuple[Width, ...], now: tuple[Width, ...], kind: Kind, words: str) -> IsaFinding | None:
    mean_was, mean_now = _mean(was, kind), _mean(now, kind)
    if mean_was is None or mean_now is None or mean_was == mean_now:
        return None
    text = f"{words} move {mean_was:.3g} -> {mean_now:.3g} bytes per lane on average"
    return _finding(after, "width", mean_was, mean_now, weight="note", text=text)


def _mean(widths: tuple[Width, ...], kind: Kind) -> float | None:
    own = [width for width in widths if width.kind == kind]
    count = sum(width.count for width in own)
    return sum(width.count * width.lane_bytes for width in own) / count if count else None


def _registers(report: Report) -> int | None:
    held = report.resources
    return held.vgpr_total if held.vgpr_total is not None else held.arch_vgpr


def _noted(before: Report, after: Report, name: str, was: Number, now: Number) -> IsaFinding | None:
    if was is None or now is None or was == now:
        return None
    return _finding(after, name, was, now, weight="note", text=f"{name} {was:g} -> {now:g}")


def _finding(after: Report, name: str, was: Number, now: Number, *, weight: str, text: str) -> IsaFinding:
    return IsaFinding.model_validate(
        {"name": name, "weight": weight, "target": after.target.arch, "before": was, "after": now, "text": text}
    )
