"""`ridgeline rejudge`: recorded measurements under other rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ridgeline.evals.research.rejudge.rules import Rule
    from ridgeline.evals.research.rejudge.table import Tally

Recordings = Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Folders of recorded campaigns.")]
Rules = Annotated[list[str] | None, typer.Option("--rule", help="Only this rule; repeatable. Default: all.")]
Preset = Annotated[
    str | None,
    typer.Option(help="Judge by this preset with what --set changes: evidence, campaign, router, autonomous."),
]
Assignments = Annotated[list[str] | None, typer.Option("--set", help="key=value of any limit; may be repeated.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the table for a page.")]
Each = Annotated[bool, typer.Option("--each", help="Also print what each rule says of each candidate.")]
Plot = Annotated[Path | None, typer.Option(help="Draw it too; .png or .svg.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `rejudge` to the command line."""
    app.command()(rejudge)


def rejudge(
    recordings: Recordings,
    rule: Rules = None,
    preset: Preset = None,
    assignments: Assignments = None,
    markdown: Markdown = False,
    each: Each = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """What other rules would have kept of recorded candidates, what they would have claimed, and what was true."""
    from ridgeline.agent import console
    from ridgeline.evals.research.rejudge.cases import cases, list_raced
    from ridgeline.evals.research.rejudge.table import HEAD, rows, tally
    from ridgeline.evals.research.rejudge.table import markdown as page

    all_cases = [case for path in recordings for case in cases(path)]
    for path in recordings:
        if raced := list_raced(path):
            console.note(f"{path.name}: rounds {', '.join(map(str, raced))} are left out: a race of several candidates")
    tallies = [tally(entry, all_cases) for entry in _chosen(rule or [], preset, assignments or [])]
    if plot:
        from ridgeline.evals.research.rejudge.table import draw

        draw(plot, tallies)
    if as_json:
        console.emit({"recordings": [path.name for path in recordings], "rules": [row.model_dump() for row in tallies]})
    elif markdown:
        console.say(page(tallies))
    else:
        console.table(HEAD, rows(tallies))
    if each and not as_json:
        _say_each(tallies)


def _say_each(tallies: "list[Tally]") -> None:
    from ridgeline.agent import console

    console.say()
    lines = [
        (row.rule, d.recording, str(d.round), d.recorded, d.answer, f"{d.claimed:.4f}x", f"{d.true:.4f}x", d.why)
        for row in tallies
        for d in row.decisions
    ]
    console.table(("rule", "recording", "round", "recorded", "answer", "claimed", "true", "why"), lines)


def _chosen(names: list[str], preset: str | None, assignments: list[str]) -> "list[Rule]":
    """For rejudging: the asked rules; with limits of one's own, those are judged beside Ridgeline's default."""
    from ridgeline.agent.campaign import settings
    from ridgeline.agent.errors import UserError
    from ridgeline.evals.research.rejudge import rules as rule_set

    every = list(rule_set.rules())
    if unknown := [name for name in names if name not in {rule.name for rule in every}]:
        raise UserError(f"--rule: {unknown[0]!r} is unknown; known: {', '.join(rule.name for rule in every)}")
    custom: list[Rule] = []
    if preset or assignments:
        layers = [settings.from_flags({"preset": preset}), settings.from_assignments(assignments)]
        limits = settings.resolve(layers).limits
        label = " ".join([limits.preset, *assignments])
        custom = [rule_set.preset(label, "limits of one's own", limits)]
        every = every[:1]
    return [*[rule for rule in every if not names or rule.name in names], *custom]
