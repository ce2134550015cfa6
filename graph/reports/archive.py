"""`archive.md` and what the report and `status` show of search mode `evolve`: cells, elites, generations."""

from ridgeline.graph.reports.text import cell, table, times
from ridgeline.graph.rules.archive import Archive, Solution, choose_parent, fold_archive, has_archive
from ridgeline.graph.standing import History


def render_archive(history: History) -> str:
    """The page `archive.md`; it is written anew after each round and read back by nobody."""
    return f"# Archive of candidates\n\n{describe_archive(history)}\n"


def describe_archive(history: History) -> str:
    """Lines of the archive's page: every cell with the version that holds it, then each generation; empty in search mode `linear`."""
    if not has_archive(history.limits):
        return ""
    if history.baseline is None:
        return "Empty: the original is not measured yet."
    archive, limits = fold_archive(history), history.limits
    holders = [
        (index, place, archive.find_solution(number))
        for index, island in enumerate(archive.islands)
        for place, number in island.cells
    ]
    cells = table(
        ("Island", "Cell", "Version", "Score", "Made from", "Change", "Elite", "Drawn"),
        [
            (
                str(index + 1),
                "-".join(map(str, place)),
                f"round-{solution.round}",
                times(solution.score),
                f"round-{solution.parent}" if solution.parent else "-",
                cell(solution.change),
                "yes" if solution.round in archive.elites else "no",
                str(solution.draws),
            )
            for index, place, solution in holders
        ],
    )
    generations = table(
        ("Generation", "Island", "Summary"),
        [
            (
                str(item.number),
                str(item.island + 1),
                f"gen {item.number}: best round-{item.best_round} score {item.best_score:.3f} "
                f"({len(item.rounds)} candidates, {len(item.admitted)} admitted)",
            )
            for item in archive.generations
        ],
    )
    return "\n\n".join(
        (
            summarize_archive(history),
            "A score is the time of the original over the version's, by its pairs with the best version of its round: it "
            "steers the search and claims nothing. A cell is the bins of complexity, diversity and score. The best "
            f"version is proven by its pairs as in every round. Seed {limits.search_seed}, {limits.islands} islands, "
            f"population {limits.population}, elites {limits.elites}, migration of {100 * limits.migration_rate:g} % "
            f"every {limits.migration_every} generations.",
            cells,
            *((generations,) if archive.generations else ()),
            _describe_rejects(archive),
        )
    )


def summarize_archive(history: History) -> str:
    """For the report: where the search stands, in a line; empty in search mode `linear` and before the baseline."""
    parent = choose_parent(history) if history.baseline is not None else None
    if parent is None:
        return ""
    archive = fold_archive(history)
    filled, count = sum(len(island.cells) for island in archive.islands), len(archive.generations)
    text = f"{count} generation{'' if count == 1 else 's'}, {filled} cells on {len(archive.islands)} islands"
    if history.concluded is not None:
        return text
    return f"{text}; the next changes round-{parent.version.round} on island {parent.version.island + 1}"


def _describe_rejects(archive: Archive) -> str:
    """Rows of the archive's page for candidates with score 0: on record, in no cell, no parent."""
    rejects: list[Solution] = [solution for solution in archive.solutions if not solution.score]
    names = ", ".join(f"round-{solution.round}" for solution in rejects)
    return f"Score 0, not right or not measured: {names or 'none'}."
