"""Ridgeline optimizes one kernel at a time, unattended, and proves every gain it keeps.

The names of `__all__` are public; everything else may move between versions. A name is imported when it is first asked
for, because each worker process of the judge imports this file.

In a checkout the folders beside this file are links to those of the top level, where the sources are. An installed
`ridgeline` has the folders themselves. That is why nothing resolves the path of one of our modules.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than a worker's own program
if TYPE_CHECKING:
    from ridgeline.agent.bench.request import Request as Comparison
    from ridgeline.agent.bench.run import compare_versions as compare
    from ridgeline.agent.contract_file import load as load_contract
    from ridgeline.agent.verification import audit_path as audit
    from ridgeline.agent.verification import judge_candidate as judge
    from ridgeline.agent.version import VERSION as __version__
    from ridgeline.sandbox.judge.options import Options as JudgeOptions
    from ridgeline.sandbox.profiles.readers.detect import read as read_profile

__all__ = [
    "Comparison",
    "JudgeOptions",
    "__version__",
    "audit",
    "compare",
    "judge",
    "load_contract",
    "read_profile",
]

_PLACES = {
    "Comparison": ("agent.bench.request", "Request"),
    "JudgeOptions": ("sandbox.judge.options", "Options"),
    "__version__": ("agent.version", "VERSION"),
    "audit": ("agent.auditing", "audited"),
    "compare": ("agent.bench.run", "compared"),
    "judge": ("agent.judging", "judged"),
    "load_contract": ("agent.contract_file", "load"),
    "read_profile": ("sandbox.profiles.readers.detect", "read"),
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
