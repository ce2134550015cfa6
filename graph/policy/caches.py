"""Whether a cache would hit in training, where activations and gradients are new in every step."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.finding import Finding, KeyPart, KeyTerm, Lookup, Role, Simulation
from ridgeline.graph.values import Value

STEPS = 4
"""Steps of the pen-and-paper trace (14.5)."""
FRESH_STEPS = 8
"""Steps of the simulation with fresh tensors (14.6)."""
LEAST_RATE = 0.5
"""Below this hit rate a cache is rolled back, whatever the benchmark says (14.5)."""
DECIDABLE: frozenset[KeyPart] = frozenset({"weight", "weight_version", "activation", "gradient", "layout"})
"""Parts whose behaviour in training is known; an address depends on the allocator, anything else on the program."""

Answer = Literal["real", "bounded", "overfit", "refused", "undecided"]
"""bounded: a weight cache, W1. refused: it would give stale results, or could not be simulated."""


class HitRate(Value):
    """What a trace of a cache gave."""

    hits: int
    steps: int
    stale: int = 0
    """Hits on a weight that had changed since."""

    @property
    def rate(self) -> float:
        """Hits per step."""
        return self.hits / self.steps

    def __str__(self) -> str:
        return f"{self.hits}/{self.steps}"


class CacheAnswer(Value):
    """Whether a cache may stay, and why."""

    answer: Answer
    why: str


def trace(key: Sequence[KeyTerm], *, steps: int = STEPS) -> HitRate | None:
    """The four-step trace of a key on symbols: a step looks the tensor up in its forward and its backward pass.

    The weight is one object that the optimizer changes after each step; what belongs to a step is new at each look-up.
    None where the key has a part whose behaviour cannot be told from the source, or no identity at all.
    """
    if not decidable(key):
        return None
    return counted(symbols(key, steps=steps).lookups, steps=steps)


def decidable(key: Sequence[KeyTerm]) -> bool:
    """Whether a key's hits in training follow from the source alone."""
    parts = {term.part for term in key}
    return bool(parts) and parts <= DECIDABLE and bool(parts & {"weight", "activation", "gradient"})


def symbols(key: Sequence[KeyTerm], *, steps: int = FRESH_STEPS) -> Simulation:
    """A key's look-ups over fresh steps, without tensors; `unavailable` where its parts do not say enough."""
    if not decidable(key):
        return Simulation(method="unavailable", detail="the key's parts do not say what they tell apart")
    role = role_of(key)
    lookups = tuple(
        Lookup(
            step=step,
            role=role,
            key="|".join(_symbol(term, step=step, half=half) for term in key),
            version=step if role == "weight" else 0,
        )
        for step in range(steps)
        for half in (0, 1)
    )
    return Simulation(method="symbols", lookups=lookups)


def role_of(key: Sequence[KeyTerm]) -> Role:
    """Whose cache it is: a key with one term that is new in every step belongs to that."""
    parts = {term.part for term in key}
    return "gradient" if "gradient" in parts else "activation" if "activation" in parts else "weight"


def counted(lookups: Sequence[Lookup], *, steps: int) -> HitRate:
    """Steps in which a look-up found what an earlier one had put there, and hits on outdated weights."""
    known: dict[str, int] = {}
    hit: set[int] = set()
    stale = 0
    for one in lookups:
        if one.key in known:
            fresh = known[one.key] == one.version
            stale += not fresh
            hit |= {one.step} if fresh else set()
        known.setdefault(one.key, one.version)
    return HitRate(hits=len(hit), steps=steps, stale=stale)


def judge(simulation: Simulation, *, steps: int = FRESH_STEPS) -> CacheAnswer:
    """F049: a weight hits in every step and misses once it was changed, all else never hits; unknown is refused."""
    if simulation.method == "unavailable" or not simulation.lookups:
        return CacheAnswer(answer="refused", why=f"the cache could not be simulated: {simulation.detail or 'no keys'}")
    weights = [one for one in simulation.lookups if one.role == "weight"]
    others = [one for one in simulation.lookups if one.role != "weight"]
    if others:
        found = counted(others, steps=steps)
        why = f"hit rate {found} over steps with new activations and gradients"
        return CacheAnswer(
            answer="overfit", why=why if not found.hits else f"{why}; a hit there is another step's data"
        )
    found = counted(weights, steps=steps)
    if found.stale:
        return CacheAnswer(answer="refused", why=f"{found.stale} look-ups found a weight as it was before it changed")
    if found.hits < steps:
        return CacheAnswer(answer="overfit", why=f"hit rate {found}: a weight cache hits in every step")
    return CacheAnswer(answer="bounded", why=f"hit rate {found}, and a miss after every change of the weight")


def answer(finding: Finding) -> CacheAnswer:
    """F048: what the trace says about a cache that the audit found. `undecided` goes to a closer check."""
    rate = trace(finding.key)
    if rate is None:
        return CacheAnswer(answer="undecided", why=f"what its key tells apart is not plain; see {finding.closer}")
    if role_of(finding.key) == "weight":
        if rate.stale:
            return CacheAnswer(answer="refused", why=f"{rate.stale} hits on a weight that had changed since")
        return CacheAnswer(answer="bounded", why=f"4-step trace {rate}: one hit a step for an unchanged weight")
    if rate.rate < LEAST_RATE:
        return CacheAnswer(answer="overfit", why=f"4-step trace {rate}: its key is new in every training step")
    return CacheAnswer(answer="undecided", why=f"4-step trace {rate}")  # pragma: no cover - such keys never hit


def _symbol(term: KeyTerm, *, step: int, half: int) -> str:
    """What a term of a key is at one look-up."""
    match term.part:
        case "activation" | "gradient":
            return f"object {step}.{half}"
        case "weight_version":
            return f"version {step}"
        case _:
            return term.text
