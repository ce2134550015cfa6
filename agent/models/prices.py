"""What an answer costs, from litellm's own list, which is on the disk; an unknown price stays unknown."""

from typing import Any

from ridgeline.agent.models.choice import Price
from ridgeline.agent.models.library import failures, library

MILLION = 1_000_000


def listed(name: str) -> dict[str, Any] | None:
    """litellm's entry of a model; None when it has none."""
    lib = library()
    try:
        return dict(lib.get_model_info(name))
    except (lib.exceptions.ModelNotMappedError, ValueError, KeyError):
        return None


def price(name: str) -> Price | None:
    """The most that a million tokens cost, in and out: writing to a cache, and a dearer tier of length, included."""
    entry = listed(name)
    if entry is None:
        return None
    given = [
        _highest(entry, "input_cost_per_token", "cache_creation_input_token_cost"),
        _highest(entry, "output_cost_per_token"),
    ]
    if None in given:
        return None
    return Price(input=MILLION * (given[0] or 0.0), output=MILLION * (given[1] or 0.0))


def _highest(entry: dict[str, Any], *prefixes: str) -> float | None:
    found = [
        value
        for key, value in entry.items()
        if key.startswith(prefixes) and isinstance(value, int | float) and not key.endswith(("_batches", "_priority"))
    ]
    return max(found) if found else None


def dollars(response: Any, name: str) -> float | None:
    """Of one answer, its cached tokens at their own price; None when the model is not in the list."""
    lib = library()
    try:
        return float(lib.completion_cost(completion_response=response, model=name))
    except (lib.exceptions.ModelNotMappedError, *failures()):
        return None
