"""What a campaign achieved, in one value that everything a person or a model reads is rendered from.

`result(history)` is a pure fold over the ledger. The gain of the best version over the original has one source: the
final paired test (`Result.final`, with a bound, and per shape). Before it, `Result.product` is what is known: the
product of the kept rounds' own paired gains. Nothing else may compute a ratio of best over original; benchmark runs of
different minutes are readings.

`claim(result(history))` is the speedup to tell, with `lower`, `level` and `from_final`. Its words, such as
`best_so_far`, `headline` and `first_screen`, are in `ridgeline.graph.documents.result`.
"""

from collections.abc import Iterable, Sequence
from math import exp, isfinite, log1p, nan
from typing import Literal

from ridgeline.graph.finding import Finding
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.attribution import apportion, attribute
from ridgeline.graph.policy.audit import NOTHING, said, settled
from ridgeline.graph.policy.budgets import device_minutes
from ridgeline.graph.policy.gates import UNEXPLAINED
from ridgeline.graph.record import Attribution, Concluded, RoundClosed
from ridgeline.graph.standing import History
from ridgeline.graph.stats.paired import run_fixed_test
from ridgeline.graph.trial import Applied, find, proposed
from ridgeline.graph.values import Cost, Engine, Value

SUSPICIOUS = "suspicious: "
"""Begins a note of `ridgeline.graph.policy.gates.suspicion`."""


class ShapeGain(Value):
    """One shape of the final test."""

    label: str
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


class Product(Value):
    """The kept rounds' gains over the version before each, multiplied: gains of different minutes, each paired."""

    speedup: float
    lower: float | None
    """Product of the rounds' lower bounds; None where a round has none."""
    level: float | None
    """All bounds of the `tested` candidates hold together at least this often: 1 - tested * alpha. None below 0."""
    kept: int
    tested: int
    """Candidates whose gain was bounded, the ones not kept too: the kept ones were chosen among them."""


class Kept(Value):
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


class Unsettled(Value):
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
    kept: tuple[Kept, ...]
    rounds: int
    """Closed rounds after the baseline."""
    unsettled: tuple[Unsettled, ...]
    stop_reason: str
    """Empty while the campaign has not concluded."""
    attribution: Attribution | None
    """Where the gain comes from, its headline being the final test's, or the product before it. None: no gain."""
    cost: Cost
    gpu_minutes: float
    """At most; see `ridgeline.graph.policy.budgets.device_minutes`."""
    base_commit: str
    best_commit: str
    branch: str | None
    """Its tip is the best version; None where nothing is committed to one."""
    merge: tuple[str, ...]
    """Commands that bring the kept changes home, one way each; empty where nothing was kept."""


def result(history: History) -> Result:
    """The value."""
    opened, done = history.opened, history.concluded
    kept = fold.lineage(history)
    final = final_test(done, history.limits)
    best = fold.standing(history).commit if history.baseline else opened.base_commit
    found = _attribution(history, final)
    cost = fold.total_cost(history) if history.baseline else Cost()
    on_branch = bool(kept) and all(closed.commit for closed in kept) and opened.target.git_branch != "none"
    return Result(
        campaign=opened.target.campaign,
        concluded=done is not None,
        final=final,
        no_claim="" if final else _no_claim(done),
        product=product(history) if history.baseline else None,
        kept=tuple(_kept(closed) for closed in kept),
        rounds=len(history.rounds),
        unsettled=_unsettled(history, kept, final, found),
        stop_reason=done.stop_reason if done else "",
        attribution=found,
        cost=cost,
        gpu_minutes=device_minutes(history, cost),
        base_commit=opened.base_commit,
        best_commit=best,
        branch=opened.branch if on_branch else None,
        merge=_merge(opened.target.campaign, opened.branch if on_branch else None) if kept else (),
    )


def claim(found: Result) -> Claim | None:
    """The one speedup to tell: the final test's, and before the end the product. None where there is neither.

    A concluded campaign without a final test claims nothing.
    """
    if found.final is not None:
        return Claim(speedup=found.final.speedup, lower=found.final.lower, level=found.final.level, from_final=True)
    if found.concluded or found.product is None:
        return None
    so_far = found.product
    return Claim(speedup=so_far.speedup, lower=so_far.lower, level=so_far.level, from_final=False)


def final_test(done: Concluded | None, limits: Limits) -> FinalTest | None:
    """The headline as the ledger has it, with every shape's own interval; None where there was no usable final test."""
    if done is None or done.final is None or done.speedup is None:
        return None
    share = limits.alpha / (2 * len(done.final.shapes))
    shapes = []
    for shape in done.final.shapes:
        alone = run_fixed_test(done.final.model_copy(update={"shapes": (shape,)}), alpha=share)
        shapes.append(
            ShapeGain(
                label=shape.label,
                original_us=shape.best_us,
                best_us=shape.candidate_us,
                speedup=exp(alone.theta),
                lower=exp(alone.lower) if isfinite(alone.lower) else None,
                upper=exp(alone.upper) if isfinite(alone.upper) else None,
            )
        )
    return FinalTest(
        speedup=done.speedup,
        lower=done.speedup_lower,
        level=1 - limits.alpha,
        pairs=max(len(shape.pairs) for shape in done.final.shapes),
        engine=done.final.engine,
        shapes=tuple(shapes),
    )


def product(history: History) -> Product:
    """Of the kept rounds: their gains multiplied, and their lower bounds likewise."""
    return products(history)[-1]


def products(history: History) -> tuple[Product, ...]:
    """As it stood before each round, in order, and as it stands now."""
    kept = {closed.round for closed in fold.lineage(history)}
    found = [Product(speedup=1.0, lower=None, level=None, kept=0, tested=0)]
    whole, low = 0.0, 1.0
    for closed in history.rounds:
        verdict, last = closed.judged.verdict, found[-1]
        tested, count = last.tested + (verdict.lower is not None), last.kept
        if closed.round in kept:
            count += 1
            whole += log1p(verdict.gain or 0.0)
            low *= nan if verdict.lower is None else 1 + verdict.lower
        lower = low if count and isfinite(low) else None
        level = 1 - tested * history.limits.alpha
        held = level if lower is not None and level > 0 else None
        found.append(Product(speedup=exp(whole), lower=lower, level=held, kept=count, tested=tested))
    return tuple(found)


def _merge(campaign: str, branch: str | None) -> tuple[str, ...]:
    pack = f"ridgeline report {campaign} --pack PACK && git am --keep-non-patch PACK/patches/*.patch"
    if branch is None:
        return (pack,)
    return (f"git merge {branch}", pack, f"git push origin {branch} && gh pr create --head {branch} --fill")


def _no_claim(done: Concluded | None) -> str:
    if done is None:
        return "the final test of best against original runs when the campaign concludes"
    return done.final_note or "no version was kept"


def _kept(closed: RoundClosed) -> Kept:
    verdict = closed.judged.verdict
    assert verdict.gain is not None  # a verdict cannot be accepted without one
    return Kept(
        round=closed.round,
        change=proposed(closed.judged).hypothesis.change,
        gain=verdict.gain,
        lower=verdict.lower,
        upper=verdict.upper,
        commit=closed.commit,
        losses=tuple(note.removeprefix("trade-off: ") for note in verdict.notes if note.startswith("trade-off: ")),
    )


def _attribution(history: History, final: FinalTest | None) -> Attribution | None:
    if not fold.accepted(history):
        return None
    done = history.concluded
    found = (done.attribution if done else None) or attribute(history)
    limit = 100 * history.limits.inflation_gap_limit
    return apportion(found, final.speedup, limit=limit) if final is not None else found


def _unsettled(
    history: History, kept: Sequence[RoundClosed], final: FinalTest | None, sources: Attribution | None
) -> tuple[Unsettled, ...]:
    found = [one for closed in kept for one in _of_round(closed, history)]
    if kept and final is not None and history.concluded is not None and history.concluded.final_note:
        found.append(Unsettled(kind="final test", rounds=(), text=history.concluded.final_note))
    if sources is not None and sources.verdict != "clean":
        text = f"{sources.verdict}: part of the gain exists only in the benchmark's loop (Rule 11)"
        found.append(Unsettled(kind="attribution", rounds=(), text=text))
    together: dict[tuple[str, str], Unsettled] = {}
    for one in found:
        same = together.get((one.kind, one.text))
        together[one.kind, one.text] = one.model_copy(update={"rounds": same.rounds + one.rounds}) if same else one
    return tuple(together.values())


def _of_round(closed: RoundClosed, history: History) -> Iterable[Unsettled]:
    verdict, number = closed.judged.verdict, closed.round
    if verdict.own_work != "yes":
        text = "was not checked" if verdict.own_work == "unverified" else "is denied by a check"
        yield Unsettled(kind="own work", rounds=(number,), text=f"that the change does all the work itself {text}")
    for note in verdict.notes:
        if note.startswith(UNEXPLAINED):
            yield Unsettled(kind="unexplained", rounds=(number,), text=note.removeprefix(UNEXPLAINED))
        elif note.startswith(SUSPICIOUS):
            yield Unsettled(kind="suspicious", rounds=(number,), text=note.removeprefix(SUSPICIOUS))
    chosen = closed.judged.formatted.applied if closed.judged.formatted else find(closed.judged, Applied)
    for one in chosen.audit if chosen else ():
        if _open(one, history):
            kind: Literal["precision", "audit"] = "precision" if one.closer == "precision_probe" else "audit"
            yield Unsettled(kind=kind, rounds=(number,), text=f"{said(one)}; {_missing(one)}")


def _open(one: Finding, history: History) -> bool:
    """Whether nothing settles the finding here. What only a person's reading settles is open until one has read it."""
    if one.rule in history.contract.audit.allow or one.severity != "routes":
        return False
    return one.closer == "reading" or settled(one, history.contract) == NOTHING


def _missing(one: Finding) -> str:
    return "a person must read it" if one.closer == "reading" else NOTHING
