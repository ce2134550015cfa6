"""How a campaign stands when `run` or `resume` returns: the one JSON object those commands print."""

from typing import Literal

from ridgeline.graph.policy.result import Result
from ridgeline.graph.values import Cost, Value

Status = Literal["running", "stopped", "concluded", "waiting", "decided", "interrupted", "no_device"]
"""decided: a person answered what it waited for, and nobody has resumed it."""


class Seen(Value):
    """What the campaign's measurements can tell apart."""

    sigma: float
    """Standard deviation of one process pair of identical versions, as a share."""
    visible_gain: float
    """Smallest gain, as a share, that is kept nine times in ten."""
    pairs: int
    engine: str
    alarms: int
    """How often the noise was found changed, and measured again."""


class Outcome(Value):
    """Everything about the gain is of `result`, from the final test alone."""

    campaign: str
    dir: str
    """Campaign directory, absolute."""
    status: Status
    stop_reason: str
    """Empty while the campaign has not concluded."""
    rounds: int
    """Closed rounds after the baseline."""
    accepted: int
    rolled_back: int
    metric: str
    speedup: float | None
    """Time of the original / time of the best version, from the final test; None when there was none."""
    speedup_lower: float | None
    """Lower confidence bound of `speedup`."""
    best_commit: str | None
    branch: str
    cost: Cost
    result: Result | None
    """What was kept, how sure that is, what is not settled, and how to merge it; None before the first event."""
    report: str
    """Path of the final report."""
    noise: Seen | None
    """None where identical versions were not timed against each other."""
    preset: str
    planner: str
    request: str | None = None
    """The open request that a waiting campaign wants answered."""
    problem: str = ""
    """Why a campaign without an idle device could not go on."""
