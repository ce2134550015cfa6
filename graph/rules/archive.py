"""Search mode `evolve`: measured candidates in cells on islands, and which of them a question begins from.

A fold over the ledger, by the evolutionary variant of design document 002. A generation is one question with all its
candidates. It works on one island, in turn: its parent is drawn there and its candidates are put there. A candidate is
right or it has score 0, holds no cell and is no parent. A score is what its pairs with the best version of its round
measured, times what that version had proven: an estimate that steers the search and claims nothing. What is kept is
proven against the best version, whatever it was made from.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import exp
from random import Random

from ridgeline.graph.briefing import ArchivedVersion, Parent
from ridgeline.graph.finding import Finding
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import Code, RoundClosed
from ridgeline.graph.rules.history import commit_of, fold_once, lineage, masked_versions, standing
from ridgeline.graph.rules.result import KERNEL, compute_products
from ridgeline.graph.standing import History, Standing
from ridgeline.graph.trial import Applied, Failed, Proposed, find, find_proposal
from ridgeline.graph.values import FileEdit, Value

Cell = tuple[int, int, int]
"""Bins of complexity, diversity and score, from 0."""

DIVERSITY_REFERENCES = 20
"""Versions that the diversity of a new one is the mean distance to."""
DIVERSITY_SAMPLE = 50
"""Versions whose pairs tell how diverse the population is."""
EXPLORATION = 0.2
"""How often a parent is drawn with no regard to scores."""
ELITES_DRAWN, OTHERS_DRAWN = 3, 2
TEMPERATURE, COLDEST, HOTTEST = 1.0, 0.5, 2.0
PAGE_ELITES = 6
"""Elites of other cells that a planner is shown."""


class Solution(Value):
    """One candidate, or the original as round 1."""

    round: int
    generation: int
    """0 of the original."""
    island: int
    """Where it was put first; the original stands on all."""
    parent: int | None
    """The round that it was made from; None of the original."""
    change: str
    score: float
    """Time of the original / its time; 0 where it is not right or was not measured."""
    cell: Cell | None
    """None with score 0."""
    may_be_parent: bool
    """Right, kernel work by its bucket and without a cache: what a child inherits needs no bound of its own."""
    is_kept: bool = False
    draws: int = 0
    """Questions that began from it."""
    commit: str
    tree: str
    code: Code | None
    audit: tuple[Finding, ...] = ()
    """What reading it found that its origin had not: its children have it too."""


class Island(Value):
    """Versions that compete for the same cells."""

    members: tuple[int, ...]
    """Rounds with a score, as they came."""
    cells: tuple[tuple[Cell, int], ...]
    """Each cell with the round that holds it, by cell."""


class Generation(Value):
    """What one question added."""

    number: int
    island: int
    rounds: tuple[int, ...]
    admitted: tuple[int, ...]
    """Those that took a cell."""
    best_score: float
    """Of the best version after it, as proven."""
    best_round: int


class Archive(Value):
    """Where the search stands."""

    solutions: tuple[Solution, ...]
    """The population, by round; what was pruned is in the ledger alone."""
    islands: tuple[Island, ...]
    elites: tuple[int, ...]
    """Rounds with the highest scores, best first."""
    generations: tuple[Generation, ...]

    def find_solution(self, round: int) -> Solution:
        """The version of a round in the population. Raises StopIteration where it was pruned."""
        return next(solution for solution in self.solutions if solution.round == round)


def has_archive(limits: Limits) -> bool:
    """Whether questions begin from an archive: never with one candidate, which is the linear loop."""
    return limits.search_mode == "evolve" and limits.candidates > 1


def measure_code(sources: Sequence[FileEdit]) -> Code:
    """What the archive compares of a version's editable files."""
    text = "\n".join(edit.text for edit in sources if edit.text is not None)
    return Code(length=len(text), lines=text.count("\n") + 1, characters="".join(sorted(set(text))))


def compute_code_distance(a: Code, b: Code) -> float:
    """0.1 for a character of length, 10 for a line, 0.5 for each character of the longer that the shorter has not."""
    longer, shorter = (a, b) if a.length >= b.length else (b, a)
    new = len(set(longer.characters) - set(shorter.characters))
    return 0.1 * (longer.length - shorter.length) + 10 * abs(a.lines - b.lines) + 0.5 * new


def compute_population_diversity(codes: Sequence[Code], random: Random) -> float:
    """Mean over pairs, 0 to 1: 0.4 by length, 0.3 by lines, 0.3 by characters, each relative to what there is."""
    sample = random.sample(list(codes), DIVERSITY_SAMPLE) if len(codes) > DIVERSITY_SAMPLE else codes
    longest = max((code.length for code in sample), default=0) or 1
    lines = max((code.lines for code in sample), default=0) or 1
    differences = [
        0.4 * abs(a.length - b.length) / longest
        + 0.3 * abs(a.lines - b.lines) / lines
        + 0.3 * len(set(a.characters) ^ set(b.characters)) / (len(set(a.characters) | set(b.characters)) or 1)
        for a, b in combinations(sample, 2)
    ]
    return sum(differences) / len(differences) if differences else 0.0


def compute_temperature(diversity: float) -> float:
    """Of the Boltzmann draw: the more diverse the population, the less a score counts."""
    wanted = min(HOTTEST, max(COLDEST, TEMPERATURE * (1 + (2 * diversity - 1))))
    return 0.8 * wanted + 0.2 * TEMPERATURE


def count_bins(elites: int) -> int:
    """Of each of a cell's three features: 4 for 50 elites."""
    return int(elites ** (1 / 3) + 0.99)


@fold_once
def fold_archive(history: History) -> Archive:
    """The archive after the last closed round. Raises ValueError before the baseline is closed."""
    archive = _OpenArchive(history.limits)
    archive.add(_make_original(history))
    products, generations = compute_products(history), list[Generation]()
    for number, rounds in enumerate(list_generations(history), start=1):
        island = (number - 1) % history.limits.islands
        so_far = products[rounds[0].round - 2].speedup
        solutions = [_make_solution(closed, number, island, so_far, history) for closed in rounds]
        archive.count_draw({solution.parent for solution in solutions if solution.parent is not None})
        admitted = tuple(solution.round for solution in solutions if archive.add(solution))
        if number % history.limits.migration_every == 0:
            archive.migrate()
        last = rounds[-1].round
        kept = [closed.round for closed in lineage(history) if closed.round <= last]
        generations.append(
            Generation(
                number=number,
                island=island,
                rounds=tuple(closed.round for closed in rounds),
                admitted=admitted,
                best_score=products[last - 1].speedup,
                best_round=max(kept, default=1),
            )
        )
    return archive.freeze(generations)


def list_generations(history: History) -> Iterator[tuple[RoundClosed, ...]]:
    """Rounds that were asked for together, in order, with a person's edits of them."""
    generation: list[RoundClosed] = []
    for closed in history.rounds:
        if generation and not closed.author and closed.beside != generation[0].beside:
            yield tuple(generation)
            generation = []
        generation.append(closed)
    if generation:
        yield tuple(generation)


def _make_original(history: History) -> Solution:
    """Round 1, with score 1: the seed of every island."""
    opened, baseline = history.opened, history.baseline
    if baseline is None:
        raise ValueError("there is no archive before the baseline is closed")
    return Solution(
        round=1,
        generation=0,
        island=0,
        parent=None,
        change="the original",
        score=1.0,
        cell=None,
        may_be_parent=True,
        is_kept=True,
        commit=opened.base_commit,
        tree=opened.base_tree,
        code=baseline.code,
    )


def _make_solution(closed: RoundClosed, generation: int, island: int, so_far: float, history: History) -> Solution:
    """`so_far`: the speedup that the best version had proven when the round's question was asked."""
    judged, start = closed.judged, find_proposal(closed.judged)
    applied, verdict = find(judged, Applied), judged.verdict
    is_right = not isinstance(judged.trial, Failed) and verdict.correct == "yes" and verdict.own_work != "no"
    has_score = is_right and verdict.gain is not None and verdict.gain > -1 and closed.code is not None
    before = [other.round for other in lineage(history) if other.round < closed.beside]
    return Solution(
        round=closed.round,
        generation=generation,
        island=island,
        parent=start.parent or max(before, default=1),
        change=start.hypothesis.change,
        score=so_far * (1 + (verdict.gain or 0.0)) if has_score else 0.0,
        cell=None,
        is_kept=closed.accepted,
        may_be_parent=has_score and closed.bucket in KERNEL and not (applied and applied.caches),
        commit=commit_of(closed) if closed.accepted else applied.commit if applied else "",
        tree=applied.tree if applied else "",
        code=closed.code,
        audit=applied.audit if applied else (),
    )


class _OpenArchive:
    """The archive while it is folded."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._solutions: dict[int, Solution] = {}
        self._members: list[list[int]] = [[] for _ in range(limits.islands)]
        self._cells: list[dict[Cell, int]] = [{} for _ in range(limits.islands)]
        self._ranges: dict[int, tuple[float, float]] = {}
        """Feature -> its least and greatest value so far: what bins are cut from."""

    def add(self, solution: Solution) -> bool:
        """Whether it took a cell: an empty one, or that of a version with a lower score."""
        if not solution.score or solution.code is None:
            self._solutions[solution.round] = solution
            self._prune()
            return False
        solution = solution.model_copy(update={"cell": self._place(solution.code, solution.score)})
        self._solutions[solution.round] = solution
        islands = range(len(self._cells)) if solution.generation == 0 else (solution.island,)
        took = [self._settle(solution, island) for island in islands]
        self._prune()
        return any(took) and solution.round in self._solutions

    def count_draw(self, parents: set[int]) -> None:
        """Counts one more question that began from these parents."""
        for number in sorted(parents & self._solutions.keys()):
            drawn = self._solutions[number]
            self._solutions[number] = drawn.model_copy(update={"draws": drawn.draws + 1})

    def migrate(self) -> None:
        """The best of each island are copied to the next one, in a ring, and compete for its cells."""
        leaving: list[list[int]] = []
        for members in self._members:
            count = int(self._limits.migration_rate * len(members))
            leaving.append(sorted(members, key=self._rank)[:count])
        for island, rounds in enumerate(leaving):
            for number in rounds:
                self._settle(self._solutions[number], (island + 1) % len(self._members))

    def freeze(self, generations: Sequence[Generation]) -> Archive:
        """The archive of search mode `evolve` as a frozen value."""
        elites = sorted((number for number, solution in self._solutions.items() if solution.score), key=self._rank)
        return Archive(
            solutions=tuple(self._solutions[number] for number in sorted(self._solutions)),
            islands=tuple(
                Island(members=tuple(members), cells=tuple(sorted(cells.items())))
                for members, cells in zip(self._members, self._cells, strict=True)
            ),
            elites=tuple(elites[: self._limits.elites]),
            generations=tuple(generations),
        )

    def _rank(self, round: int) -> tuple[float, int]:
        """Sorts by score, best first; of equal ones the older first."""
        return -self._solutions[round].score, round

    def _settle(self, solution: Solution, island: int) -> bool:
        """Make it a member of an island, and holder of its cell there where that is empty or held by a lower score."""
        assert solution.cell is not None
        if solution.round not in self._members[island]:
            self._members[island].append(solution.round)
        holder = self._cells[island].get(solution.cell)
        if holder is not None and self._solutions[holder].score >= solution.score:
            return False
        self._cells[island][solution.cell] = solution.round
        return True

    def _place(self, code: Code, score: float) -> Cell:
        """Each feature's bin between the least and the greatest value so far."""
        references = self._choose_references()
        distances = [compute_code_distance(code, other) for other in references]
        diversity = sum(distances) / len(distances) if distances else 0.0
        complexity, spread, merit = (
            self._bin(at, value) for at, value in enumerate((float(code.length), diversity, score))
        )
        return complexity, spread, merit

    def _bin(self, feature: int, value: float) -> int:
        low, high = self._ranges.get(feature, (value, value))
        low, high = self._ranges[feature] = min(low, value), max(high, value)
        bins = count_bins(self._limits.elites)
        return min(bins - 1, int(bins * (value - low) / (high - low))) if high > low else 0

    def _choose_references(self) -> list[Code]:
        """The versions that differ most, the oldest first: each next one is farthest from those already chosen."""
        waiting = [solution.code for _, solution in sorted(self._solutions.items()) if solution.score and solution.code]
        chosen = waiting[:1]
        waiting = waiting[1:]
        nearest = [compute_code_distance(code, chosen[0]) for code in waiting]
        while waiting and len(chosen) < DIVERSITY_REFERENCES:
            far = nearest.index(max(nearest))
            chosen.append(waiting.pop(far))
            del nearest[far]
            distances = [compute_code_distance(code, chosen[-1]) for code in waiting]
            nearest = [min(pair) for pair in zip(nearest, distances, strict=True)]
        return chosen

    def _prune(self) -> None:
        """Above the population's limit the lowest score goes, of equal ones the oldest; the original and what was kept stay."""
        while len(self._solutions) > self._limits.population:
            able = [number for number, solution in self._solutions.items() if not solution.is_kept]
            if not able:
                return
            lowest = min(able, key=lambda number: (self._solutions[number].score, number))
            del self._solutions[lowest]
            for members, cells in zip(self._members, self._cells, strict=True):
                members[:] = [number for number in members if number != lowest]
                for cell in [cell for cell, number in cells.items() if number == lowest]:
                    del cells[cell]


# Which version the next question changes.


def choose_parent(history: History) -> Parent | None:
    """The version that the next question changes, with what a planner is shown of the archive; None where mode is linear."""
    if not has_archive(history.limits):
        return None
    archive, best = fold_archive(history), standing(history)
    number = len(archive.generations) + 1
    chosen = _draw_parent(history, archive, number) or archive.find_solution(best.round)
    island = (number - 1) % len(archive.islands)
    return Parent(
        version=_describe_version(chosen, island),
        commit=best.commit if chosen.round == best.round else chosen.commit,
        generation=number,
        best_score=archive.generations[-1].best_score if archive.generations else 1.0,
        elites=tuple(_list_other_elites(history, archive, chosen)),
    )


def find_origin(start: Proposed, history: History) -> Standing | Solution:
    """The version that the open round's edits are edits of: the best one, or in search mode `evolve` its parent."""
    return standing(history) if start.parent is None else fold_archive(history).find_solution(start.parent)


def _draw_parent(history: History, archive: Archive, generation: int) -> Solution | None:
    """By the seed and the generation alone; None where the island has nobody that may be changed.

    With `EXPLORATION` any of the island; else 3 of its cells' elites and 2 others, of which one is drawn by its score
    and by how seldom it was drawn before.
    """
    random = Random(f"{history.limits.search_seed}:{generation}")
    island = archive.islands[(generation - 1) % len(archive.islands)]
    hidden = masked_versions(history)
    able = {
        solution.round: solution
        for solution in archive.solutions
        if solution.may_be_parent and solution.round in island.members and solution.round - 1 not in hidden
    }
    if not able:
        return None
    if random.random() < EXPLORATION:
        return random.choice(list(able.values()))
    holders = {number for _, number in island.cells}
    elites = [able[number] for number in archive.elites if number in able and number in holders]
    others = [solution for solution in able.values() if solution not in elites]
    drawn = random.sample(elites, min(ELITES_DRAWN, len(elites)))
    drawn += random.sample(others, min(OTHERS_DRAWN, len(others)))
    rest = [solution for solution in able.values() if solution not in drawn]
    drawn += random.sample(rest, min(ELITES_DRAWN + OTHERS_DRAWN - len(drawn), len(rest)))
    codes = [solution.code for solution in archive.solutions if solution.score and solution.code]
    temperature = compute_temperature(compute_population_diversity(codes, random))
    top = max(drawn, key=lambda solution: solution.score)
    weights = [exp((solution.score - top.score) / temperature) / (1 + solution.draws) for solution in drawn]
    return random.choices(drawn, weights)[0] if sum(weights) > 0 else top


def _describe_version(solution: Solution, island: int) -> ArchivedVersion:
    assert solution.cell is not None
    return ArchivedVersion(
        round=solution.round, score=solution.score, island=island, cell=solution.cell, change=solution.change
    )


def _list_other_elites(history: History, archive: Archive, parent: Solution) -> Iterator[ArchivedVersion]:
    """Elites that hold a cell which the parent does not, best first, the masked ones left out."""
    hidden, shown = masked_versions(history), 0
    holds = {number: at for at, island in reversed(list(enumerate(archive.islands))) for _, number in island.cells}
    for number in archive.elites:
        if number not in holds or number == parent.round or number - 1 in hidden or shown == PAGE_ELITES:
            continue
        shown += 1
        yield _describe_version(archive.find_solution(number), holds[number])


# When the search ends by its own rules.


def count_generations_without_gain(history: History) -> int:
    """Generations since the best version last became better by `min_rel_improve`."""
    reference, streak = 1.0, 0
    for generation in fold_archive(history).generations:
        if generation.best_score > 1.0 and generation.best_score >= reference * (1 + history.limits.min_rel_improve):
            reference, streak = generation.best_score, 0
        else:
            streak += 1
    return streak
