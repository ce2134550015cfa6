"""`deep ...`: a person's word on deep rounds, and the tools for whoever edits the files of one."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError

app = typer.Typer(
    help="Deep rounds: many steps with tools in a work tree of its own, one change at the end.", no_args_is_help=True
)

Campaign = Annotated[
    str | None,
    typer.Argument(
        help="A campaign's directory or name; without it, the newest one here.", autocompletion=folders.names
    ),
]
Plan = Annotated[str, typer.Option(help='What it is for, for example "write it anew in Gluon".')]
LONGEST_PLAN = 2000
"""Characters of a plan."""


def register(parent: typer.Typer) -> None:
    """Adds `deep` and its commands to the command line."""
    parent.add_typer(app, name="deep")


@app.command()
def ask(campaign: Campaign = None, plan: Plan = "") -> None:
    """Ask a campaign for a deep round: the next round that it begins is one."""
    from ridgeline.agent.campaign.state_files import read_history
    from ridgeline.agent.providers.base import plain
    from ridgeline.sandbox.store.campaign_folder import Wishes

    directory = folders.find(campaign)
    history = read_history(directory)
    if history is not None and history.concluded is not None:
        raise UserError(f"{directory.name}: has concluded; begin another campaign with --deep")
    if history is not None and history.opened.planner == "catalog":
        raise UserError(f"{directory.name}: a deep round needs a model, and here the catalog proposes; use run --model")
    if len(plan) > LONGEST_PLAN:
        raise UserError(f"--plan: has {len(plan)} characters; give at most {LONGEST_PLAN}")
    number = Wishes(directory).ask_deep(" ".join(plain(plan, limit=LONGEST_PLAN).split()))
    console.say(f"{directory.name}: deep round {number} is asked for; it is the next round that begins")


@app.command()
def languages(
    contract: Annotated[Path, typer.Argument(help="A ridgeline.yaml, or its folder.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """What the contract's Python has to write a kernel anew in: names for `run --deep-from`."""
    from ridgeline.agent.contract_file import load
    from ridgeline.agent.deep.languages import find_languages

    loaded = load(contract)
    present = find_languages(loaded.contract, loaded.root)
    if as_json:
        console.emit({"languages": [language.model_dump() for language in present]})
        return
    for language in present:
        console.say(f"{language.name:10} {language.title}, module {language.module}")
    if not present:
        console.say("none of those that are known")


def _run_tool(words: list[str], campaign: str | None) -> None:
    """A command of `ridgeline deep`: sent to the campaign that started this agent, else carried out here."""
    from ridgeline.agent.providers.base import DESK

    desk = os.environ.get(DESK)
    if desk and campaign is None:
        from ridgeline.agent.deep.messages import send

        console.say(send(Path(desk), words))
        return
    from ridgeline.agent.campaign.runner import work_at_desk

    console.say(work_at_desk(folders.find(campaign), words))


@app.command()
def build(campaign: Campaign = None) -> None:
    """Compile what lies in the open deep round's tree."""
    _run_tool(["build"], campaign)


@app.command("test")
def run_test(campaign: Campaign = None) -> None:
    """Compile it, then the contract's test."""
    _run_tool(["test"], campaign)


@app.command("time")
def take_time(campaign: Campaign = None) -> None:
    """Compile it, then one process pair against the best version: a hint, no proof."""
    _run_tool(["time"], campaign)


@app.command("profile")
def take_profile(campaign: Campaign = None) -> None:
    """Compile it, then its counters."""
    _run_tool(["profile"], campaign)


@app.command("isa")
def read_code(campaign: Campaign = None) -> None:
    """Compile it, then what the compiler made of it: registers, spills, vectors. Nothing of it runs."""
    _run_tool(["isa"], campaign)


@app.command("back")
def go_back(
    step: Annotated[int, typer.Argument(help="0 is the best version.", min=0)], campaign: Campaign = None
) -> None:
    """Make the tree what it was after a step."""
    _run_tool(["back", str(step)], campaign)
