"""Times a pair again when the machine disturbed it, and says what of several pairs is fit to be compared.

Whether a pair is timed again, which of its tries counts and which blocks are left out depends on conditions alone:
`ridgeline.sandbox.timing.conditions.rules` is never shown a time.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ridgeline.graph.evidence import BenchmarkFailed
from ridgeline.graph.values import Value
from ridgeline.sandbox.timing.conditions.quiet import Quiet
from ridgeline.sandbox.timing.conditions.rules import Block, Disturbed, Span, disturbed
from ridgeline.sandbox.timing.conditions.words import left_out
from ridgeline.sandbox.timing.interleaving import Interleaver, Question, Timed
from ridgeline.sandbox.timing.pairs import Pair

EXTRA_TRIES = 2
"""Of a disturbed pair, each in fresh processes: what lasts longer than three tries belongs to the machine."""


class Fit(Value):
    """The pairs that may be compared, without what was disturbed."""

    pairs: tuple[Pair, ...]
    dropped: int
    """Blocks left out, on both sides together."""
    taken: int
    """All blocks of the tries that count."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Steady:
    """`Interleaver` that gives a disturbed pair `EXTRA_TRIES` more tries, and keeps the least disturbed one."""

    interleaver: Interleaver
    host: bool
    """Times are taken by the processor, so that its load counts."""
    limit: float
    """Share of a pair's blocks that may be disturbed before it is timed again."""
    quiet: Quiet | None = None
    """Waits for the machine to rest before another try; None tries again at once."""

    def time(self, question: Question, number: int, attempt: int = 0) -> Timed | BenchmarkFailed:
        """One pair. A try that fails fails the pair: a crash is no disturbance."""
        tries: list[Timed] = []
        for extra in range(EXTRA_TRIES + 1):
            if extra and self.host and self.quiet:
                self.quiet.wait()
            timed = self.interleaver.time(question, number, attempt + extra)
            if isinstance(timed, BenchmarkFailed):
                return timed
            tries.append(timed.model_copy(update={"disturbed": judged(timed, host=self.host)}))
            if not _again(tries[-1].pair.blocks, tries[-1].disturbed, self.limit):
                break
        best = min(tries, key=lambda one: len(one.disturbed))
        return best.model_copy(update={"others": tuple(one for one in tries if one is not best)})


def judged(timed: Timed, *, host: bool) -> tuple[Disturbed, ...]:
    """The blocks that the machine disturbed. The times are taken out before the rules see anything."""
    spans = tuple(
        Span(
            label=slot.label,
            block=slot.block,
            side=slot.side,
            process=slot.process,
            at_us=slot.at_us,
            shared=slot.shared,
        )
        for slot in timed.pair.slots
    )
    return disturbed(spans, tuple(process.conditions for process in timed.processes), host=host)


def fit(timed: Sequence[Timed], question: Question, *, limit: float) -> Fit | BenchmarkFailed:
    """What is left of the pairs; `unstable` when more than `limit` of their blocks had to go.

    Blocks that the harness marked count too. A pair that lost all blocks of a shape is left out whole, because pairs
    are compared shape by shape.
    """
    pairs: list[Pair] = []
    dropped: list[Disturbed] = []
    for one in timed:
        out = {(gone.label, gone.block): gone for gone in (*_marks(one.pair), *one.disturbed)}
        if lost := _lost(one.pair.blocks, out):
            why = next(gone for gone in out.values() if gone.label == lost)
            out = {**{block: _same(why, block) for block in one.pair.blocks}, **out}
        else:
            pairs.append(one.pair.without(out))
        dropped += out.values()
    taken = sum(len(one.pair.blocks) for one in timed)
    notes = (*left_out(dropped, taken), *_repeats(timed), *_unseen(timed))
    if pairs and len(dropped) <= limit * taken:
        return Fit(pairs=tuple(pairs), dropped=len(dropped), taken=taken, notes=notes)
    detail = f"the machine did not stay the same (at most {limit:.0%} may be left out): {'; '.join(notes)}"
    seconds = sum(one.seconds for one in timed)
    return BenchmarkFailed(commit=question.candidate, reason="unstable", detail=detail, seconds=seconds)


def _again(blocks: Sequence[Block], found: Sequence[Disturbed], limit: float) -> bool:
    return len(found) > limit * len(blocks) or _lost(blocks, {(one.label, one.block) for one in found}) is not None


def _lost(blocks: Sequence[Block], out: Collection[Block]) -> str | None:
    """A shape without any block left."""
    left = {label for label, number in blocks if (label, number) not in out}
    return next((label for label, _ in blocks if label not in left), None)


def _marks(pair: Pair) -> tuple[Disturbed, ...]:
    return tuple(Disturbed(label=label, block=block, kind="harness") for label, block in pair.marked)


def _same(why: Disturbed, block: Block) -> Disturbed:
    return why.model_copy(update={"label": block[0], "block": block[1]})


def _repeats(timed: Sequence[Timed]) -> tuple[str, ...]:
    again = [len(one.others) for one in timed if one.others]
    if not again:
        return ()
    tries = f"{sum(again)} more {'try' if sum(again) == 1 else 'tries'}"
    return (f"{len(again)} of {len(timed)} pairs were disturbed and timed again, {tries} in all",)


def _unseen(timed: Sequence[Timed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for one in timed for process in one.processes for note in process.conditions.notes))
