"""The full validation at the end of a direction, which a quick acceptance still owes."""

from ridgeline.graph.evidence import Benchmark, MixedEvidence
from ridgeline.graph.policy.history import standing
from ridgeline.graph.policy.outcome import losses, lost
from ridgeline.graph.policy.readings import failing, guarded
from ridgeline.graph.policy.score import ScoreError, delta
from ridgeline.graph.standing import History


def needs_full(history: History) -> bool:
    """Whether the preset accepts on quick runs and the best version has none over all shapes."""
    best = standing(history)
    return history.limits.preset == "campaign" and best.round > 1 and best.full is None


def showed(run: Benchmark, history: History) -> tuple[bool, str]:
    """Whether the numbers may serve as the best version's, and what they say against the original."""
    best, baseline = standing(history), history.baseline
    if baseline is None:
        return False, "there is no baseline to compare with"
    if bad := failing(run):
        return False, f"round-{best.round} fails the benchmark's own check on {', '.join(bad)}: look at it by hand"
    try:
        found = delta(run, baseline.quick, history.contract.scoring, labels=best.all_shapes)
    except (ScoreError, MixedEvidence) as error:
        return False, str(error)
    drops = lost(found.shapes, guarded(best, "full"), history.limits)
    note = f"round-{best.round} over all shapes: {found.gain:+.1%} against the original"
    return True, f"{note}; {losses(drops)}" if drops else note
