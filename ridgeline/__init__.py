"""Ridgeline optimizes one kernel at a time, unattended, and proves every gain it keeps.

The names of `__all__` are public and described in docs/api.md; everything else may move between versions. A name is
imported when it is first used, because each worker process of the judge imports this file.

In a checkout the folders beside this file are links to those of the top level, where the sources are. An installed
`ridgeline` has the folders themselves. That is why nothing resolves the path of one of our modules.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than a worker's own program
if TYPE_CHECKING:
    from ridgeline.agent.version import VERSION as __version__
    from ridgeline.api import (
        CampaignError,
        Comparison,
        Judgment,
        Outcome,
        Progress,
        Recording,
        RidgelineError,
        UserError,
        WorldError,
        compare,
        judge,
        optimize,
        read_profile,
    )

__all__ = [
    "CampaignError",
    "Comparison",
    "Judgment",
    "Outcome",
    "Progress",
    "Recording",
    "RidgelineError",
    "UserError",
    "WorldError",
    "__version__",
    "compare",
    "judge",
    "optimize",
    "read_profile",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = ("agent.version", "VERSION") if name == "__version__" else ("api", name)
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
