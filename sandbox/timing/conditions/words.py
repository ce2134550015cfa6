"""What disturbed a measurement, in sentences for people: pure."""

import statistics
from collections import Counter
from collections.abc import Sequence

from ridgeline.sandbox.timing.conditions.rules import Disturbed, Kind


def left_out(dropped: Sequence[Disturbed], taken: int) -> tuple[str, ...]:
    """One sentence per kind of disturbance, with how many of the `taken` blocks it cost."""
    counted = Counter(one.kind for one in dropped)
    return tuple(
        f"{count} of {taken} blocks left out: {cause([one for one in dropped if one.kind == kind])}"
        for kind, count in counted.most_common()
    )


def cause(same: Sequence[Disturbed]) -> str:
    """What disturbed these blocks, which are of one kind: the median of the shares, each name once."""
    share = statistics.median(one.amount for one in same)
    names = ", ".join(dict.fromkeys(name for one in same for name in one.names))
    said: dict[Kind, str] = {
        "foreign_load": f"other processes used {share:.0%} of the timed core",
        "steal": f"the hypervisor gave {share:.0%} of the timed core to other guests",
        "throttled": f"the card was throttled ({names})",
        "foreign_process": f"other processes were computing on the card: {names}",
        "clock": f"the card's clock differed by {share:.1%} between the two versions; lock it if you may",
        "harness": "marked invalid by the benchmark itself",
    }
    return said[same[0].kind]
