"""`knowledge ...`: ask for facts and levers, read a hardware number with its source, check that all can be trusted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError
from ridgeline.agent.knowledge_folders import require_readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ridgeline.knowledge.documents import Problem
    from ridgeline.knowledge.library import Library
    from ridgeline.knowledge.specs import Spec

app = typer.Typer(
    help="Facts, levers and hardware numbers, each with its source: search them, read one, check them.",
    no_args_is_help=True,
)

Query = Annotated[str, typer.Argument(help="What you would ask a colleague; empty for the reading order of a route.")]
Op = Annotated[str | None, typer.Option(help="Operator, for example gemm or gemm_fp8_blockwise.")]
Gpu = Annotated[str | None, typer.Option(help="Product or architecture, for example MI300X or gfx942.")]
Lang = Annotated[str | None, typer.Option(help="triton, hip, cuda, ck, flydsl, cutedsl or c.")]
Phase = Annotated[str | None, typer.Option(help="analyze, propose, draft or diagnose: what suits it comes earlier.")]
Limit = Annotated[int, typer.Option(min=1, help="Answers at most.")]
Budget = Annotated[int, typer.Option(min=1, help="Tokens of all excerpts together.")]
Used = Annotated[list[str] | None, typer.Option("--exclude", help="path#heading that was read before; repeatable.")]
Product = Annotated[str, typer.Argument(help="For example 'MI300X' or 'H100 SXM'; exact, siblings are not guessed.")]
Metric = Annotated[str | None, typer.Argument(help="For example bf16_dense or hbm_bandwidth; without it, all of them.")]
Campaign = Annotated[str | None, typer.Argument(help="Campaign whose numbers are checked; without it, the knowledge.")]
Wiki = Annotated[list[Path] | None, typer.Option("--wiki", help="Another folder in the same layout; repeatable.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, logs on standard error.")
]


def register(parent: typer.Typer) -> None:
    """Adds `knowledge` and its commands to the command line."""
    parent.add_typer(app, name="knowledge")


@app.command()
def search(
    query: Query = "",
    op: Op = None,
    gpu: Gpu = None,
    lang: Lang = None,
    phase: Phase = None,
    limit: Limit = 5,
    budget: Budget = 2400,
    exclude: Used = None,
    wiki: Wiki = None,
    as_json: Json = False,
) -> None:
    """Sections and levers that answer, best first, each with file and line."""
    from ridgeline.knowledge.index import open_index
    from ridgeline.knowledge.search import Route, Search
    from ridgeline.sandbox.store.durable import cache_folder

    try:
        route = Route(op=op, gpu=gpu, lang=lang, phase=phase)
    except ValueError as error:
        raise UserError(f"--{error}") from error
    with Search(open_index(_library(wiki), cache_folder("knowledge"))) as base:
        hits = base.find(query, route, limit=limit, budget=budget, used=exclude or ())
        unknown = base.uncovered_words(query, route)
    if unknown:
        nearest = "; the nearest is below" if hits else ""
        console.note(f"not covered: nothing here speaks of {', '.join(unknown)}{nearest}")
    if as_json:
        console.emit([{name: getattr(hit, name) for name in hit.__slots__} for hit in hits])
        return
    for hit in hits:
        console.say(f"{hit.path}:{hit.line}  {hit.heading}  ({hit.score:.2f})")
        for line in hit.excerpt.splitlines():
            console.say(f"    {line}".rstrip())
        console.say()
    if not hits and not unknown:
        console.note("nothing found; ask in other words, or leave out --op, --gpu or --lang")


STANDINGS = {
    "unverified": "the source says itself that its numbers are to be verified",
    "one source": "no second one was found that gives the same",
}


@app.command()
def spec(product: Product, metric: Metric = None, wiki: Wiki = None, as_json: Json = False) -> None:
    """A hardware number and the line it stands at. What no document gives is UNKNOWN, never inferred."""
    from ridgeline.knowledge.specs import Products

    products = Products(_library(wiki))
    if products.find(product) is None:
        raise UserError(f"product: {products.spec(product, 'arch').note}")
    if metric is not None and (nearest := products.nearest_metric(product, metric)) is not None:
        raise UserError(f"metric: {metric} is none; the nearest of {product} is {nearest}")
    specs = (products.spec(product, metric),) if metric else products.all(product)
    if as_json:
        plain = [_plain(row) for row in specs]
        console.emit(plain[0] if metric else {"product": product, "specs": plain})
    else:
        for row in specs:
            console.say(row.text)
    for note in dict.fromkeys(row.note for row in specs if row.note):
        console.note(note)
    parts = [part for row in specs if (part := products.device_spec(product, row.metric)).dies > 1]
    if parts:
        listed = ", ".join(f"{part.metric} {part.written} {part.unit}" for part in parts)
        console.note(f"of all {parts[0].dies} dies of the module; a kernel runs on one of them: {listed}")
    for standing, meaning in STANDINGS.items():
        names = [row.metric for row in specs if row.standing == standing]
        if names:
            console.note(f"{standing}: {', '.join(names)}; {meaning}")


@app.command()
def check(campaign: Campaign = None, wiki: Wiki = None, as_json: Json = False) -> None:
    """Whether every fact has a source that exists, or every number in a campaign's files stands where it says."""
    if campaign is None:
        from ridgeline.knowledge.check import check as checked

        library = _library(wiki)
        base = checked(library)
        counts = {name: getattr(base, name) for name in ("documents", "facts", "specs", "cards", "sources")}
        problems: Sequence[Problem] = base.problems
        extra: dict[str, object] = {"unused_sources": list(base.unused)}
    else:
        from ridgeline.agent.knowledge_folders import numbers, wikis_of

        library = _library((*wikis_of(campaign), *(wiki or ())))
        claims = numbers(campaign, library)
        counts = {name: getattr(claims, name) for name in ("files", "registered", "unknown")}
        problems, extra = claims.problems, {"campaign": campaign}
    if as_json:
        listed = [{name: getattr(problem, name) for name in problem.__slots__} for problem in problems]
        console.emit({"ok": not problems, **counts, **extra, "problems": listed})
    else:
        console.say(", ".join(f"{count} {name}" for name, count in counts.items()))
        for problem in problems:
            console.say(str(problem))
    if problems:
        raise UserError(f"knowledge check: {len(problems)} problem{'s' * (len(problems) > 1)}")


def _library(wikis: "Sequence[Path] | None") -> "Library":
    """The documents for `ridgeline knowledge`: those that ship and those of `--wiki`. Raises UserError for an unreadable folder."""
    from ridgeline.knowledge.library import Library

    return Library(require_readable(wikis or (), "--wiki"))


def _plain(spec: "Spec") -> dict[str, object]:
    """A hardware number as `knowledge spec --json` prints it; without a source where no document gives it."""
    return {
        "metric": spec.metric,
        "value": spec.written if spec.value is None and spec.written else spec.value,
        "unit": spec.unit,
        "source_path": spec.source_path if spec.written else None,
        "source_line": spec.source_line if spec.written else None,
        "text": spec.text,
        "product": spec.product,
        "standing": spec.standing,
        "sources": [
            f"{citation.source}, {citation.place}" if citation.place else citation.source for citation in spec.citations
        ],
    }
