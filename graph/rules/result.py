"""What a campaign achieved, in one value that everything a person or a model reads is rendered from.

`compute_result(history)` is a pure fold over the ledger. The gain of the best version over the original has one source: the
final paired test (`Result.final`, with a bound, and per shape). Before it, `Result.product` is what is known: the
product of the kept rounds' own paired gains. Nothing else may compute a ratio of best over original; benchmark runs of
different minutes are readings.

`claim_speedup(compute_result(history))` is the speedup to tell, with `lower`, `level` and `from_final`. Its words, such as
`best_so_far`, `headline` and `first_screen`, are in `ridgeline.graph.reports.result`.
"""

from collections.abc import Iterable, Sequence
from math import exp, expm1, isfinite, log, log1p, nan
from typing import Literal

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.finding import Finding
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Attribution, Concluded, RoundClosed
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.audit import NOTHING_SETTLES, describe_finding, describe_settlement
from ridgeline.graph.rules.cost import device_minutes
from ridgeline.graph.rules.gates import UNEXPLAINED
from ridgeline.graph.rules.history import accepted_rounds, is_overfit, lineage
from ridgeline.graph.standing import History
from ridgeline.graph.stats.paired import run_fixed_test
from ridgeline.graph.trial import Applied, Timed, find, find_proposal
from ridgeline.graph.values import Bucket, Cost, Engine, Value, add_up

SUSPICIOUS = "suspicious: "
"""Begins a note of `ridgeline.graph.rules.gates.note_suspicious_gain`."""
BUSY = ("blocks left out", "timed again", "had the core")
"""In notes of a comparison: that others disturbed its pairs, and what was done about it."""


class ShapeGain(Value):
    """One shape of the final test."""

    label: str
    weight: float = 1.0
    """In the mean over shapes."""
    original_us: float
    """Median time of one call in microseconds, like `best_us`, of the same process pairs."""
    best_us: float
    speedup: float
    lower: float | None
    """Both bounds hold for all shapes at once, at the test's level; None of a single pair."""
    upper: float | None


class Claim(Value):
    """A speedup, time of the original over time of the best version, with what bounds it."""

    speedup: float
    lower: float | None
    """One-sided lower confidence bound; None where nothing bounds it."""
    level: float | None
    """Its confidence as a share, for example 0.99."""
    from_final: bool
    """Else it is the product of the kept rounds' paired gains."""


class FinalTest(Value):
    """The one pre-registered test of best against original: fresh processes, interleaved, a number of pairs fixed."""

    speedup: float
    lower: float | None
    level: float
    """One-sided confidence of `lower` as a share, for example 0.99."""
    pairs: int
    engine: Engine
    shapes: tuple[ShapeGain, ...]
    disturbances: tuple[str, ...] = ()
    """What is known of others on the machine while the pairs were taken; empty: nobody disturbed them."""


class Product(Value):
    """The kept rounds' gains over the version before each, multiplied: gains of different minutes, each paired."""

    speedup: float
    lower: float | None
    """Product of the rounds' lower bounds; None where a round has none."""
    level: float | None
    """All bounds of the `tested` candidates hold together at least this often: 1 - alpha for each round, shared by
    those that were timed side by side. None below 0."""
    kept: int
    tested: int
    """Candidates whose gain was bounded, the ones not kept too: the kept ones were chosen among them."""


class KeptRound(Value):
    """One kept change."""

    round: int
    change: str
    gain: float
    """Over the best version before it, as a share."""
    lower: float | None
    upper: float | None
    commit: str | None
    """On the campaign's branch; None where nothing is committed there."""
    losses: tuple[str, ...] = ()
    """Shapes that became slower with it, as its verdict names them."""


class OpenPoint(Value):
    """What no check of this campaign settled."""

    kind: Literal["own work", "unexplained", "suspicious", "precision", "audit", "attribution", "final test"]
    rounds: tuple[int, ...]
    """Kept ones that it is about; empty: the whole result."""
    text: str


class Result(Value):
    """Where the campaign stands or how it ended."""

    campaign: str
    concluded: bool
    final: FinalTest | None
    no_claim: str
    """Why there is no final test."""
    product: Product | None
    """None before the baseline."""
    kept: tuple[KeptRound, ...]
    rounds: int
    """Closed rounds after the baseline."""
    unsettled: tuple[OpenPoint, ...]
    stop_reason: str
    """Empty while the campaign has not concluded."""
    attribution: Attribution | None
    """Where the gain comes from, its headline being the final test's, or the product before it. None: no gain."""
    cost: Cost
    """Of what is closed; see `uncounted_from`."""
    uncounted_from: int | None = None
    """The first round that is not closed, which `cost` does not count; None once the campaign has concluded."""
    by_mailbox: bool = False
    """The model's answers came by mailbox: what they cost, only their writer may know."""
    gpu_minutes: float
    """At most; see `ridgeline.graph.rules.cost.device_minutes`."""
    base_commit: str
    best_commit: str
    branch: str | None
    """Its tip is the best version; None where nothing is committed to one."""
    merge: tuple[str, ...]
    """Commands that bring the kept changes home, one way each; empty where nothing was kept."""


def compute_result(history: History) -> Result:
    """What a campaign achieved, folded from its ledger."""
    opened, conclusion = history.opened, history.concluded
    lineage = fold.lineage(history)
    final = read_final_test(conclusion, history.limits)
    best = fold.standing(history).commit if history.baseline else opened.base_commit
    attribution = _attribute_result(history, final)
    cost = fold.total_cost(history) if history.baseline else Cost()
    on_branch = bool(lineage) and all(closed.commit for closed in lineage) and opened.target.git_branch != "none"
    return Result(
        campaign=opened.target.campaign,
        concluded=conclusion is not None,
        final=final,
        no_claim="" if final else _explain_no_claim(conclusion),
        product=compute_product(history) if history.baseline else None,
        kept=tuple(_describe_kept_round(closed) for closed in lineage),
        rounds=len(history.rounds),
        unsettled=_list_open_points(history, lineage, final, attribution),
        stop_reason=conclusion.stop_reason if conclusion else "",
        attribution=attribution,
        cost=cost,
        uncounted_from=None if conclusion else fold.next_round(history),
        by_mailbox=opened.planner == "mailbox",
        gpu_minutes=device_minutes(history, cost),
        base_commit=opened.base_commit,
        best_commit=best,
        branch=opened.branch if on_branch else None,
        merge=_list_merge_commands(opened.target.campaign, opened.branch if on_branch else None) if lineage else (),
    )


def claim_speedup(result: Result) -> Claim | None:
    """The one speedup to tell: the final test's, and before the end the product. None where there is neither.

    A concluded campaign without a final test claims nothing.
    """
    if result.final is not None:
        return Claim(speedup=result.final.speedup, lower=result.final.lower, level=result.final.level, from_final=True)
    if result.concluded or result.product is None:
        return None
    so_far = result.product
    return Claim(speedup=so_far.speedup, lower=so_far.lower, level=so_far.level, from_final=False)


def read_final_test(conclusion: Concluded | None, limits: Limits) -> FinalTest | None:
    """The headline as the ledger has it, with every shape's own interval; None where there was no usable final test."""
    if conclusion is None or conclusion.final is None or conclusion.speedup is None:
        return None
    share = limits.alpha / (2 * len(conclusion.final.shapes))
    shapes = []
    for shape in conclusion.final.shapes:
        alone = run_fixed_test(conclusion.final.model_copy(update={"shapes": (shape,)}), alpha=share)
        shapes.append(
            ShapeGain(
                label=shape.label,
                weight=shape.weight,
                original_us=shape.best_us,
                best_us=shape.candidate_us,
                speedup=exp(alone.theta),
                lower=exp(alone.lower) if isfinite(alone.lower) else None,
                upper=exp(alone.upper) if isfinite(alone.upper) else None,
            )
        )
    return FinalTest(
        speedup=conclusion.speedup,
        lower=conclusion.speedup_lower,
        level=1 - limits.alpha,
        pairs=max(len(shape.pairs) for shape in conclusion.final.shapes),
        engine=conclusion.final.engine,
        shapes=tuple(shapes),
        disturbances=conclusion.final.notes,
    )


def compute_product(history: History) -> Product:
    """Of the kept rounds: their gains multiplied, and their lower bounds likewise."""
    return compute_products(history)[-1]


def compute_products(history: History) -> tuple[Product, ...]:
    """The product of the kept gains as it stood before each round, in order, and as it stands now."""
    numbers = {closed.round for closed in fold.lineage(history)}
    products = [Product(speedup=1.0, lower=None, level=None, kept=0, tested=0)]
    log_gain, low, doubt = 0.0, 1.0, 0.0
    for closed in history.rounds:
        verdict, before = closed.judged.verdict, products[-1]
        tested, count = before.tested + (verdict.lower is not None), before.kept
        if closed.round in numbers:
            count += 1
            log_gain += log1p(verdict.gain or 0.0)
            low *= nan if verdict.lower is None else 1 + verdict.lower
        lower = low if count and isfinite(low) else None
        timed = find(closed.judged, Timed)
        if verdict.lower is not None:
            doubt += 1 / (timed.sharing if timed else 1)  # rounds timed side by side share one error rate
        level = 1 - doubt * history.limits.alpha
        valid_level = level if lower is not None and level > 0 else None
        products.append(Product(speedup=exp(log_gain), lower=lower, level=valid_level, kept=count, tested=tested))
    return tuple(products)


def compute_bases(history: History) -> tuple[Product, ...]:
    """The product of the kept gains at the version that each round's candidate was compared with, in order.

    Rounds that were tried side by side share one: what the first of them kept is nothing that the others were measured on.
    """
    products = compute_products(history)
    places = {closed.round: place for place, closed in enumerate(history.rounds)}
    return tuple(products[places.get(closed.beside, place)] for place, closed in enumerate(history.rounds))


def _list_merge_commands(campaign: str, branch: str | None) -> tuple[str, ...]:
    pack = f"ridgeline report {campaign} --pack PACK && git am --keep-non-patch PACK/patches/*.patch"
    if branch is None:
        return (pack,)
    return (f"git merge {branch}", pack, f"git push origin {branch} && gh pr create --head {branch} --fill")


def _explain_no_claim(conclusion: Concluded | None) -> str:
    if conclusion is None:
        return "the final test of best against original runs when the campaign concludes"
    return conclusion.final_note or "no version was kept"


def _describe_kept_round(closed: RoundClosed) -> KeptRound:
    verdict = closed.judged.verdict
    assert verdict.gain is not None  # a verdict cannot be accepted without one
    return KeptRound(
        round=closed.round,
        change=find_proposal(closed.judged).hypothesis.change,
        gain=verdict.gain,
        lower=verdict.lower,
        upper=verdict.upper,
        commit=closed.commit,
        losses=tuple(note.removeprefix("trade-off: ") for note in verdict.notes if note.startswith("trade-off: ")),
    )


def _attribute_result(history: History, final: FinalTest | None) -> Attribution | None:
    if not fold.accepted_rounds(history):
        return None
    return attribute_gain(history, final)


def _list_open_points(
    history: History, lineage: Sequence[RoundClosed], final: FinalTest | None, sources: Attribution | None
) -> tuple[OpenPoint, ...]:
    points = [point for closed in lineage for point in _list_open_points_of_round(closed, history)]
    if lineage and final is not None and history.concluded is not None and history.concluded.final_note:
        points.append(OpenPoint(kind="final test", rounds=(), text=history.concluded.final_note))
    if final is not None and final.disturbances:
        points.append(OpenPoint(kind="final test", rounds=(), text=_describe_disturbances(final)))
    if sources is not None and sources.verdict != "clean":
        text = f"{sources.verdict}: {describe_gap(sources, history)}; {RULE_11}"
        points.append(OpenPoint(kind="attribution", rounds=(), text=text))
    together: dict[tuple[str, str], OpenPoint] = {}
    for point in points:
        same = together.get((point.kind, point.text))
        together[point.kind, point.text] = (
            point.model_copy(update={"rounds": same.rounds + point.rounds}) if same else point
        )
    return tuple(together.values())


def _describe_disturbances(final: FinalTest) -> str:
    """That the final test's pairs were taken on a busy machine, or that nobody knows, with the notes that say so."""
    is_busy = any(mark in note for note in final.disturbances for mark in BUSY)
    what = "its pairs were taken on a busy machine" if is_busy else "how quiet the machine was is not sure"
    return f"{what}: {'; '.join(final.disturbances)}"


def _list_open_points_of_round(closed: RoundClosed, history: History) -> Iterable[OpenPoint]:
    verdict, number = closed.judged.verdict, closed.round
    if verdict.own_work != "yes":
        text = "was not checked" if verdict.own_work == "unverified" else "is denied by a check"
        yield OpenPoint(kind="own work", rounds=(number,), text=f"that the change does all the work itself {text}")
    for note in verdict.notes:
        if note.startswith(UNEXPLAINED):
            yield OpenPoint(kind="unexplained", rounds=(number,), text=note.removeprefix(UNEXPLAINED))
        elif note.startswith(SUSPICIOUS):
            yield OpenPoint(kind="suspicious", rounds=(number,), text=note.removeprefix(SUSPICIOUS))
    chosen = closed.judged.formatted.applied if closed.judged.formatted else find(closed.judged, Applied)
    for finding in chosen.audit if chosen else ():
        if _is_open(finding, history):
            kind: Literal["precision", "audit"] = "precision" if finding.closer == "precision_probe" else "audit"
            yield OpenPoint(
                kind=kind, rounds=(number,), text=f"{describe_finding(finding)}; {_describe_missing(finding)}"
            )


def _is_open(finding: Finding, history: History) -> bool:
    """Whether nothing settles the finding here. What only a person's reading settles is open until one has read it."""
    if finding.rule in history.contract.audit.allow or finding.severity != "routes":
        return False
    return finding.closer == "reading" or describe_settlement(finding, history.contract) == NOTHING_SETTLES


def _describe_missing(finding: Finding) -> str:
    return "a person must read it" if finding.closer == "reading" else NOTHING_SETTLES


# Rule 11 at the end: how much of the headline reaches a real training step.

RULE_11 = "of a gain, only what the kept rounds account for is expected outside this benchmark (Rule 11)"
KERNEL: frozenset[Bucket] = frozenset({"K1", "K2", "K3", "K4"})
ROUNDS_MULTIPLIED = "round gains multiplied (sum of log gains)"

BucketGain = tuple[Bucket, float, float | None]
"""Bucket, benchmark gain, and for W1 the most that a training step can gain; None is no proven bound."""


def attribute_gain(history: History, final: FinalTest | None = None) -> Attribution:
    """Re-attribution over the accepted lineage, in per cent: how much of the headline a training step would see.

    Without `final` the headline is the rounds' own gains multiplied. Gains multiply, so logarithms are summed: adding
    per cents would show a gap where there is none. The gap is what the headline has beyond its sources, as a factor of
    speed; beyond the rounds themselves it is called inflated where the test's lower bound has it too. Where the final
    test measured less than the rounds did, each source has its share of that, and the gap is negative.
    """
    claims = [_read_bucket_gain(closed) for closed in lineage(history)]
    structural = add_up(log1p(bench) for bucket, bench, _ in claims if bucket in KERNEL)
    cache = add_up(log1p(_bound_cache_gain(bench, bound)) for bucket, bench, bound in claims if bucket == "W1")
    rounds = add_up(log1p(bench) for _, bench, _ in claims)
    measured = log(final.speedup) if final else rounds
    sure = log(final.lower) if final and final.lower else measured
    share = measured / rounds if measured < rounds and rounds > 0 else 1.0
    structural, cache = share * structural, share * cache
    real = structural + cache
    beyond = measured - real if share * rounds > real or measured > rounds else measured - rounds
    # Rounded far below anything measurable, so that a gap of exactly the limit is not decided by the last bit.
    gap, proven = (round(100 * expm1(excess), 9) for excess in (beyond, max(sure, share * rounds) - real))
    inflated = proven > 100 * history.limits.inflation_gap_limit
    return Attribution(
        structural=100 * expm1(structural),
        weight_cache=100 * expm1(cache),
        real=100 * expm1(real),
        headline=100 * expm1(measured),
        gap=gap,
        verdict="rolled-back" if overfit_in_lineage(history) else "inflated" if inflated else "clean",
        method="the final test over the round gains multiplied" if final else ROUNDS_MULTIPLIED,
    )


def describe_gap(attribution: Attribution, history: History) -> str:
    """Where a gap comes from: gains that a benchmark's loop alone has, or a final test that no round explains."""
    if attribution.verdict == "rolled-back" or attribute_gain(history).verdict == "inflated":
        return "part of the gain exists only in the benchmark's loop"
    return f"the final test measured {attribution.gap:+.2f}% beyond what the kept rounds account for"


def overfit_in_lineage(history: History) -> tuple[int, ...]:
    """Accepted rounds that rest on a forbidden bucket; each must be rolled back before a report."""
    return tuple(closed.round for closed in accepted_rounds(history) if is_overfit(closed))


LINK_DROP = 0.01
"""Largest share by which a kept version may be slower than the one before: rule 9 of the documents."""


def broken_links(history: History) -> tuple[tuple[int, float], ...]:
    """Kept rounds that fell by more than `LINK_DROP` against the version before, with how much; a person can choose one."""
    gains = ((closed.round, closed.judged.verdict.gain) for closed in accepted_rounds(history))
    return tuple((number, -gain) for number, gain in gains if gain is not None and gain < -LINK_DROP)


def attribution_rows(attribution: Attribution) -> tuple[tuple[str, str, str, str], ...]:
    """Rows: source, buckets, benchmark gain, real-training-equivalent gain.

    The weight cache's own row holds its bounded part; what its benchmark showed beyond that is in the residual.
    """
    return (
        (
            "Structural kernel work",
            "K1-K4",
            _format_percent(attribution.structural),
            _format_percent(attribution.structural),
        ),
        (
            "Bounded weight cache",
            "W1",
            _format_percent(attribution.weight_cache),
            _format_percent(attribution.weight_cache),
        ),
        ("Benchmark-only residual", "-", _format_percent(max(0.0, attribution.gap)), _format_percent(0.0)),
        ("Total", "all", _format_percent(attribution.headline), _format_percent(attribution.real)),
    )


def _read_bucket_gain(closed: RoundClosed) -> BucketGain:
    hypothesis = find_proposal(closed.judged).hypothesis
    gain = closed.judged.verdict.gain
    assert gain is not None  # a verdict cannot be accepted without one
    return hypothesis.bucket, gain, hypothesis.real_gain_bound


def _bound_cache_gain(bench: float, bound: float | None) -> float:
    """What of a weight cache's benchmark gain a training step can have; without a bound nothing is proven."""
    return min(bench, bound if bound is not None else 0.0)


def _format_percent(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}%"  # adding zero turns -0.00 into +0.00


# The one headline number, champion against original on fresh data.


class FinalSpeedup(Value):
    speedup: float
    """Time of the original over time of the champion, geometric mean over shapes."""
    lower: float
    """One-sided lower confidence bound at 1 - alpha."""


def compute_final_speedup(final: Comparison | None, limits: Limits) -> FinalSpeedup | None:
    """None when there was no usable final comparison: no claim is made then."""
    if final is None:
        return None
    interval = run_fixed_test(final, alpha=limits.alpha)
    return FinalSpeedup(speedup=exp(interval.theta), lower=exp(interval.lower))
