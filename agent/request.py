"""What the command line asks of the campaign runner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.outcome import Outcome
from ridgeline.agent.progress import Progress
from ridgeline.agent.providers.choice import Choice
from ridgeline.graph.limits import Limits

__all__ = ["Outcome", "StartRequest"]


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """A campaign to start. `limits` are resolved; `overrides` are parameters of the target that win over all else."""

    contract: LoadedContract
    instruction: str
    """Free text of the user; empty when there is none."""
    limits: Limits
    planner: str
    """Name of the planner, for example `catalog`."""
    model: Choice | None = None
    """The language model that thinks instead of a planner that needs none."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    progress: Progress
    notify: tuple[str, ...] = ()
    """Command that is told of events, its program as a path; empty for none."""
    campaign_dir: Path | None = None
    """Where to keep the campaign; None means `<repository>/agent/workspace/<campaign>`."""
