"""The parameters of DEFINE_TARGET, resolved."""

from typing import Literal

from ridgeline.graph.values import Value


class Goal(Value):
    """`performance_target`, parsed: metric, operator, value, unit."""

    metric: str
    op: Literal[">", ">="]
    value: float
    unit: str
    text: str


class Target(Value):
    """Every field is filled before the campaign starts."""

    target_op: str
    target_backend: str
    target_lang: str
    target_gpu: str
    platform: str
    """Product as the user names it, for example MI300X; the processor's name for a CPU."""
    dtype: str
    target_shapes: tuple[str, ...]
    """Empty means all shapes of the benchmark."""
    performance_target: Goal | None
    primary_metric: str
    project_skill: str
    """Where the contract is."""
    execution_mode: str
    git_commit: bool
    git_branch: str
    """Name of the campaign's branch, resolved."""
    max_iterations: int | None
    campaign: str
    created: str
    """`YYYY-MM-DD HH:MM`."""
    instruction: str = ""
