"""What the audit of a candidate's source decides: convicted, overfit, unsettled, or a note on where to look closer."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.finding import Finding, KeyPart, KeyTerm, Lookup, Role, Simulation
from ridgeline.graph.values import Bucket, Hypothesis, Value

MOST_NOTES = 6
"""Findings that a verdict's notes name; the rest are counted."""
CACHE_RULES = frozenset({"identity-cache", "weight-cache", "tensor-weakref", "memo"})
JUDGE_ONLY_RULES = frozenset(
    {
        "address-cache",
        "build-setting",
        "call-count",
        "caller-look",
        "content-cache",
        "fake-report",
        "file-access",
        "identity-cache",
        "kept-output",
        "lazy-output",
        "may-exit",
        "memo",
        "mode-branch",
        "native-load",
        "network",
        "patched-library",
        "raw-syscall",
        "reads-reference",
        "runs-at-load",
        "shadowed-import",
        "shared-macro",
        "starts-process",
        "symbol-name",
        "tensor-weakref",
    }
)
"""Rules that only the judge of a task settles: a contract's own test and benchmark run in the candidate's process."""
RELAXED_RULE = "relaxed-math"
"""Of options that change the meaning of arithmetic: no test shows for which inputs. `relaxed_math` decides."""
HARMLESS_RULES = frozenset({"inline-asm", "local-macro", "library-call", "fallback", "downgrade", RELAXED_RULE})
"""Rules of what does the work, if otherwise than one may want it: the test and the clock see that. Never in the way."""
NOTHING_SETTLES = "nothing here settles it"

AuditState = Literal["clean", "routes", "convicted"]


class Refusal(Value):
    """Why a candidate is rolled back before it is built."""

    reason: Literal["convicted", "overfit", "unsettled"]
    detail: str


def summarize_findings(findings: Sequence[Finding]) -> AuditState:
    """The findings of the audit in a word."""
    if any(finding.severity == "convicts" for finding in findings):
        return "convicted"
    return "routes" if any(finding.severity == "routes" for finding in findings) else "clean"


def find_refusal(findings: Sequence[Finding], hypothesis: Hypothesis, contract: Contract) -> Refusal | None:
    """The gate: the first of what speaks against a candidate. None lets it go on to its tests."""
    return next(iter(list_refusals(findings, hypothesis.bucket, contract)), None)


def list_refusals(findings: Sequence[Finding], bucket: Bucket, contract: Contract) -> tuple[Refusal, ...]:
    """The gate: every convicting finding, cache that Rule 11 forbids, relaxed arithmetic, then what nothing here can settle.

    `bucket`: of the hypothesis.
    """
    convicting = (finding for finding in findings if finding.severity == "convicts")
    refusals = [Refusal(reason="convicted", detail=describe_finding(finding)) for finding in convicting]
    caches = ((each, _explain_forbidden_cache(each, bucket)) for each in findings if each.rule in CACHE_RULES)
    refusals += [Refusal(reason="overfit", detail=f"{describe_finding(each)}: {why}") for each, why in caches if why]
    if contract.relaxed_math == "refused":
        relaxed = (finding for finding in findings if finding.rule == RELAXED_RULE and finding.severity == "routes")
        refusals += [Refusal(reason="unsettled", detail=_describe_relaxed(finding)) for finding in relaxed]
    blocking = (finding for finding in list_open_findings(findings, contract) if finding.rule in JUDGE_ONLY_RULES)
    return (*refusals, *(Refusal(reason="unsettled", detail=_describe_blocking(finding)) for finding in blocking))


def list_refused_rules(contract: Contract) -> frozenset[str]:
    """The gate: rules whose findings end a candidate by reading alone under this contract; no honest kernel has those that convict."""
    return frozenset() if contract.judged else JUDGE_ONLY_RULES - {*contract.audit.allow}


def list_open_findings(findings: Sequence[Finding], contract: Contract) -> tuple[Finding, ...]:
    """Findings that need a closer check and get none: there is no judge, and the contract does not allow them."""
    if contract.judged:
        return ()
    allowed = {*contract.audit.allow, *HARMLESS_RULES}
    return tuple(finding for finding in findings if finding.severity == "routes" and finding.rule not in allowed)


def list_audit_notes(findings: Sequence[Finding], contract: Contract) -> tuple[str, ...]:
    """One line for each finding that needs a closer look, the first ones in full."""
    routed = [finding for finding in findings if finding.severity != "convicts"]
    lines = [
        f"audit: {describe_finding(finding)}; {describe_settlement(finding, contract)}"
        for finding in routed[:MOST_NOTES]
    ]
    left = len(routed) - len(lines)
    return (*lines, f"audit: {left} more findings of the same kind of weight") if left else tuple(lines)


def describe_settlement(finding: Finding, contract: Contract) -> str:
    """What settles a finding in a campaign of this contract, in words that fit after its line."""
    if finding.severity == "notes":
        return "settled by the 4-step trace"
    if finding.rule == RELAXED_RULE:
        return f"{contract.relaxed_math} by relaxed_math"
    if contract.judged or finding.closer == "reading":
        return f"settled by {name_closer(finding.closer)}"
    return "allowed by audit.allow" if finding.rule in contract.audit.allow else NOTHING_SETTLES


def describe_finding(finding: Finding) -> str:
    """A finding of the audit in one line, for a verdict."""
    return f"{_describe_place(finding)}: {finding.meaning}: `{finding.code}`"


def _describe_place(finding: Finding) -> str:
    bucket = f" ({finding.bucket})" if finding.bucket else ""
    return f"{finding.path}:{finding.line} {finding.rule}{bucket}"


def _describe_blocking(finding: Finding) -> str:
    """With the mend first: whoever shows a single line cuts its end."""
    mend = f"{NOTHING_SETTLES}; write it without, or allow it in ridgeline.yaml: audit: {{allow: [{finding.rule}]}}"
    return f"{_describe_place(finding)}: {finding.meaning}; {mend}: `{finding.code}`"


def _describe_relaxed(finding: Finding) -> str:
    """A relaxed compiler option and its mend."""
    return (
        f"{_describe_place(finding)}: `{finding.code}` {finding.meaning}; "
        "write it without, or allow it in ridgeline.yaml: relaxed_math: allowed"
    )


def _explain_forbidden_cache(finding: Finding, bucket: Bucket) -> str:
    """Why Rule 11 does not let this cache stay; empty where it may, or where only a run can tell."""
    verdict = classify_cache(finding)
    if verdict.answer in {"overfit", "refused"}:
        return verdict.why
    if verdict.answer == "bounded" and bucket != "W1":
        return f"a weight cache in a hypothesis of bucket {bucket}; propose it as W1 with real_gain_bound"
    return ""


def list_weight_caches(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Caches that pass the pen-and-paper trace as W1: they are run over fresh steps before anything is built."""
    return tuple(
        finding for finding in findings if finding.rule in CACHE_RULES and classify_cache(finding).answer == "bounded"
    )


def name_closer(closer: str) -> str:
    """The closer check as a person calls it."""
    return closer.replace("_", " ")


# Whether a cache would hit in training, where activations and gradients are new in every step.

STEPS = 4
"""Steps of the pen-and-paper trace."""
FRESH_STEPS = 8
"""Steps of the simulation with fresh tensors."""
LEAST_RATE = 0.5
"""Below this hit rate a cache is rolled back, whatever the benchmark says."""
DECIDABLE: frozenset[KeyPart] = frozenset({"weight", "weight_version", "activation", "gradient", "layout"})
"""Parts whose behaviour in training is known; an address depends on the allocator, anything else on the program."""

CacheVerdict = Literal["real", "bounded", "overfit", "refused", "undecided"]
"""bounded: a weight cache, W1. refused: it would give stale results, or could not be simulated."""


class HitRate(Value):
    """What a trace of a cache gave."""

    hits: int
    steps: int
    stale: int = 0
    """Hits on a weight that had changed since."""

    @property
    def rate(self) -> float:
        """Hits of a cache per step."""
        return self.hits / self.steps

    def __str__(self) -> str:
        return f"{self.hits}/{self.steps}"


class CacheAnswer(Value):
    """Whether a cache may stay, and why."""

    answer: CacheVerdict
    why: str


def trace_key(key: Sequence[KeyTerm]) -> HitRate | None:
    """The four-step trace of a key on symbols: a step looks the tensor up in its forward and its backward pass.

    The weight is one object that the optimizer changes after each step; what belongs to a step is new at each look-up.
    None where the key has a part whose behaviour cannot be told from the source, or no identity at all.
    """
    if not is_decidable(key):
        return None
    return count_hits(simulate_symbols(key, steps=STEPS).lookups, steps=STEPS)


def is_decidable(key: Sequence[KeyTerm]) -> bool:
    """Whether a key's hits in training follow from the source alone."""
    parts = {term.part for term in key}
    return bool(parts) and parts <= DECIDABLE and bool(parts & {"weight", "activation", "gradient"})


def simulate_symbols(key: Sequence[KeyTerm], *, steps: int = FRESH_STEPS) -> Simulation:
    """A key's look-ups over fresh steps, without tensors; `unavailable` where its parts do not say enough."""
    if not is_decidable(key):
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


def count_hits(lookups: Sequence[Lookup], *, steps: int) -> HitRate:
    """Steps in which a look-up found what an earlier one had put there, and hits on outdated weights."""
    version_by_key: dict[str, int] = {}
    hit: set[int] = set()
    stale = 0
    for lookup in lookups:
        if lookup.key in version_by_key:
            fresh = version_by_key[lookup.key] == lookup.version
            stale += not fresh
            hit |= {lookup.step} if fresh else set()
        version_by_key.setdefault(lookup.key, lookup.version)
    return HitRate(hits=len(hit), steps=steps, stale=stale)


def classify_simulation(simulation: Simulation) -> CacheAnswer:
    """A weight hits in every step and misses once it was changed, all else never hits; unknown is refused."""
    if simulation.method == "unavailable" or not simulation.lookups:
        return CacheAnswer(answer="refused", why=f"the cache could not be simulated: {simulation.detail or 'no keys'}")
    weights = [lookup for lookup in simulation.lookups if lookup.role == "weight"]
    data_lookups = [lookup for lookup in simulation.lookups if lookup.role != "weight"]
    if data_lookups:
        hit_rate = count_hits(data_lookups, steps=FRESH_STEPS)
        why = f"hit rate {hit_rate} over steps with new activations and gradients"
        return CacheAnswer(
            answer="overfit", why=why if not hit_rate.hits else f"{why}; a hit there is another step's data"
        )
    hit_rate = count_hits(weights, steps=FRESH_STEPS)
    if hit_rate.stale:
        return CacheAnswer(
            answer="refused", why=f"{hit_rate.stale} look-ups found a weight as it was before it changed"
        )
    if hit_rate.hits < FRESH_STEPS:
        return CacheAnswer(answer="overfit", why=f"hit rate {hit_rate}: a weight cache hits in every step")
    return CacheAnswer(answer="bounded", why=f"hit rate {hit_rate}, and a miss after every change of the weight")


def classify_cache(finding: Finding) -> CacheAnswer:
    """What the trace says about a cache that the audit found. `undecided` goes to a closer check."""
    rate = trace_key(finding.key)
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
