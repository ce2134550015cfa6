"""`run`, `resume`, `stop`: a campaign's life from the shell."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.campaign.progress import Outcome
    from ridgeline.agent.campaign.settings import Raw, Settings
    from ridgeline.agent.contract_file import LoadedContract
    from ridgeline.agent.providers.choice import Choice

EXIT_CODES = {
    "concluded": 0,
    "stopped": 0,
    "running": 0,
    "waiting": 3,
    "decided": 3,
    "no_device": 4,
    "interrupted": 130,
}

Contract = Annotated[Path, typer.Argument(help="A ridgeline.yaml, or its folder.")]
Campaign = Annotated[
    str | None,
    typer.Argument(
        help="A campaign's directory or name; without it, the newest one here.", autocompletion=folders.names
    ),
]
Instruction = Annotated[str, typer.Option("--instruction", "-i", help="What to optimize, in your words.")]
Planner = Annotated[str | None, typer.Option(help="Who proposes changes without a model; default: catalog.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="The language model that thinks: litellm's provider/model, mailbox, or recorded:FOLDER. Env: RIDGELINE_MODEL."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="Address of an OpenAI-compatible server, with --model openai/NAME.")
]
Fallbacks = Annotated[
    list[str] | None, typer.Option("--fallback", help="Model to ask when the first gives no answer; may be repeated.")
]
Preset = Annotated[str | None, typer.Option(help="evidence (default), campaign, router or autonomous.")]
MaxRounds = Annotated[
    int | None, typer.Option(help="Stop after this many rounds, 1 to 119; each of --candidates is one.")
]
MaxMinutes = Annotated[
    float | None, typer.Option(help="End within this many minutes, counted from the start of the command.")
]
Dollars = Annotated[
    float | None,
    typer.Option("--budget-usd", help="Stop before a model costs more than this. Not used with recorded answers."),
]
Tokens = Annotated[
    int | None,
    typer.Option("--budget-tokens", help="Stop before a model takes more tokens. Not used with recorded answers."),
]
GpuMinutes = Annotated[
    float | None, typer.Option("--budget-gpu-minutes", help="Begin no round after this many minutes of GPU commands.")
]
MaxWait = Annotated[
    float | None, typer.Option("--max-wait", help="Wait so many minutes for a device that is in use; default 60.")
]
Hours = Annotated[float | None, typer.Option("--budget-hours", help="The same in hours.")]
Candidates = Annotated[
    int | None,
    typer.Option(
        help="Directions tried side by side, each a round; at most one is kept. Default: 3 with a model, else 1; of recorded"
        " answers as many as there.",
        min=1,
        max=8,
    ),
]
Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Begin with a deep round: many steps with tools in a work tree of its own, one change at the end. Needs a model.",
    ),
]
DeepPlan = Annotated[
    str | None,
    typer.Option("--deep-plan", help='The same, by this plan, for example "write it anew in Gluon".'),
]
DeepFrom = Annotated[
    str | None,
    typer.Option(
        "--deep-from",
        help="The same: write the kernel anew in this language, which the contract's Python must have; `deep languages` lists.",
    ),
]
Assignments = Annotated[list[str] | None, typer.Option("--set", help="key=value of any limit; may be repeated.")]
Targets = Annotated[
    list[str] | None, typer.Option("--target", help="key=value of a target parameter, for example git_branch=none.")
]
Directory = Annotated[
    Path | None, typer.Option("--dir", help="Campaign directory; default: agent/workspace/ in the repository.")
]
Approve = Annotated[
    str | None, typer.Option(help="Wait for a person at: target, hypothesis, change; several with commas.")
]
Notify = Annotated[
    str | None,
    typer.Option(
        help="Who is told when it waits, keeps a change, stops or ends: ntfy:TOPIC, slack:URL of a webhook,"
        " mailto:ADDRESS, or a command that reads a JSON object. Env: RIDGELINE_NOTIFY."
    ),
]
NotifyTest = Annotated[bool, typer.Option("--notify-test", help="Send --notify a test message, and start nothing.")]
Wiki = Annotated[
    list[Path] | None, typer.Option("--wiki", help="Folder of documents that a model may look up too; repeatable.")
]
WarmFrom = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder with campaigns whose best versions are tried first, beside this repository's own; repeatable."
        " None at all: --set warm_start=off."
    ),
]
Repair = Annotated[
    bool, typer.Option("--repair", help="Mend what ledger, tape and commits allow; what is replaced is kept beside.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `run`, `resume`, `stop` and `fsck` to the command line."""
    app.command()(run)
    app.command()(resume)
    app.command()(stop)
    app.command()(fsck)


def run(
    contract: Contract,
    instruction: Instruction = "",
    planner: Planner = None,
    model: Model = None,
    base_url: BaseUrl = None,
    fallback: Fallbacks = None,
    preset: Preset = None,
    max_rounds: MaxRounds = None,
    max_minutes: MaxMinutes = None,
    budget_usd: Dollars = None,
    budget_tokens: Tokens = None,
    budget_gpu_minutes: GpuMinutes = None,
    budget_hours: Hours = None,
    max_wait: MaxWait = None,
    candidates: Candidates = None,
    deep: Deep = False,
    deep_plan: DeepPlan = None,
    deep_from: DeepFrom = None,
    approve: Approve = None,
    assignments: Assignments = None,
    target: Targets = None,
    directory: Directory = None,
    wiki: Wiki = None,
    warm_from: WarmFrom = None,
    notify: Notify = None,
    notify_test: NotifyTest = False,
    as_json: Json = False,
) -> None:
    """Optimize the kernel of a contract. A campaign of rounds, each kept only if it is proven."""
    if notify_test:
        _try_out(notify, as_json=as_json)
        return
    loaded = _load_contract(contract, wiki or [])
    budgets = {"max_dollars": budget_usd, "max_tokens": budget_tokens, "max_gpu_minutes": budget_gpu_minutes}
    minutes = _minutes(max_minutes, budget_hours)
    ends = {"max_rounds": max_rounds, "max_minutes": minutes, "candidates": candidates}
    plan = _plan_deep(loaded, deep_plan, deep_from)
    start = {"deep": "start" if deep or plan else None, "deep_plan": plan}
    plain = {"preset": preset, "approve": approve, **ends, **start}
    flags: dict[str, Raw] = {**plain, **budgets, "gpu_max_wait_s": None if max_wait is None else 60 * max_wait}
    choice = thinker(planner, model, base_url, fallback or [])
    outcome = launch(
        loaded,
        settings=resolve_settings(loaded, flags, assignments or [], model=choice),
        instruction=instruction,
        planner=planner or os.environ.get("RIDGELINE_PLANNER", "catalog"),
        overrides=parse_pairs("--target", target or []),
        directory=directory,
        memory=_require_folders(warm_from or []),
        model=choice,
        notify=_remember_receiver(notify),
    )
    print_outcome(outcome, as_json=as_json)


def _plan_deep(loaded: "LoadedContract", plan: str | None, language: str | None) -> str | None:
    """The option for a deep round at the start: its plan in a person's words or from a language; None where none is given."""
    if language is None:
        return plan
    from ridgeline.agent.deep.languages import plan_rewrite

    rewrite = plan_rewrite(language, loaded.contract, loaded.root)
    return f"{rewrite} {plan}" if plan else rewrite


def resume(campaign: Campaign = None, as_json: Json = False) -> None:
    """Go on with a stopped campaign. Any stop will do: interruption, crash, another machine."""
    directory = folders.find(campaign)
    from ridgeline.agent.campaign.state_files import read_history, require_whole

    require_whole(directory)
    history = read_history(directory)
    if history is not None and history.concluded is not None:
        console.note(
            f"{directory.name}: has concluded; nothing to resume. Read it with `ridgeline report {directory.name}`"
        )
    from ridgeline.agent.campaign.progress import progress, read_worked_s
    from ridgeline.agent.campaign.runner import resume as go_on

    print_outcome(go_on(directory, progress(before_s=read_worked_s(directory))), as_json=as_json)


def fsck(campaign: Campaign = None, repair: Repair = False, as_json: Json = False) -> None:
    """What is whole of a campaign's folder. --repair makes again what it can. Exit code 2: something is damaged."""
    from ridgeline.agent.campaign.repair import check

    directory = folders.find(campaign)
    checked = check(directory, console.note if as_json else console.say, mend=repair)
    if as_json:
        console.emit(checked)
    else:
        lines = f"{checked.ledger_lines} line{'' if checked.ledger_lines == 1 else 's'} in the ledger"
        console.say(f"{directory.name}: {'whole' if checked.whole else 'damaged'}, {lines}")
    if not checked.whole:
        raise typer.Exit(2)


def stop(campaign: Campaign = None, as_json: Json = False) -> None:
    """Ask a running campaign to conclude. It ends its open round within seconds, validates what it kept and writes its
    report; asked again meanwhile, it ends the validation too."""
    from ridgeline.agent.campaign.status import status_of
    from ridgeline.sandbox.store.campaign_folder import request_stop

    directory = folders.find(campaign)
    before = status_of(directory)
    if before.status == "concluded":
        raise UserError(f"{directory.name}: has concluded already; read it with `ridgeline report {directory.name}`")
    request_stop(directory)
    acting = (
        "ends its open round within seconds, validates what it kept and concludes; asked again, without validation"
        if before.status == "running"
        else "concludes when it is resumed, without a new question; what waits undecided is then rolled back"
    )
    if as_json:
        console.emit(
            {"campaign": directory.name, "dir": str(directory), "status": before.status, "stop_requested": True}
        )
    else:
        console.say(f"{directory.name}: asked to stop; it {acting}")


def resolve_settings(
    loaded: "LoadedContract", flags: "dict[str, Raw]", assignments: list[str], *, model: "Choice | None" = None
) -> "Settings":
    """The limits of a campaign out of command line and settings, layer by layer; `model`: the one that thinks, if any."""
    from ridgeline.agent.campaign import settings

    return settings.resolve(
        [
            settings.from_model(model),
            settings.from_contract(loaded.contract, loaded.path.name),
            settings.from_environment(os.environ),
            settings.from_flags(flags),
            settings.from_assignments(assignments),
        ],
        model=model is not None,
    )


def launch(
    loaded: "LoadedContract",
    *,
    settings: "Settings",
    instruction: str = "",
    planner: str = "catalog",
    overrides: dict[str, str] | None = None,
    directory: Path | None = None,
    memory: tuple[Path, ...] = (),
    model: "Choice | None" = None,
    notify: tuple[str, ...] = (),
) -> "Outcome":
    """Start a campaign and watch it until it stops for any reason. Raises `UserError` for an unknown planner.

    With a `model`, that thinks instead of the planner; what it may cost is said before anything is measured.
    """
    from ridgeline.agent.campaign.progress import progress
    from ridgeline.agent.campaign.runner import StartRequest, start

    if model is not None:
        from ridgeline.agent.campaign.settings import describe_unused
        from ridgeline.agent.providers.budget import forecast

        if model.recording is not None and settings.limits.deep != "asked":
            raise UserError("--deep: what was done in a deep round is in no recorded answer; leave it out")
        for line in (*forecast(model, settings.limits), *describe_unused(settings, model)):
            console.note(line)
    else:
        _require_known(planner)
    return start(
        StartRequest(
            contract=loaded,
            instruction=instruction,
            limits=settings.limits,
            planner=model.planner if model else planner,
            model=model,
            overrides=overrides or {},
            progress=progress(),
            notify=notify,
            memory=memory,
            campaign_dir=directory.absolute() if directory else None,
        )
    )


def _require_known(planner: str) -> None:
    """Raises UserError for an option `--planner` that nothing registers."""
    from ridgeline.agent.campaign.wiring import PLANNERS
    from ridgeline.sandbox.store.yaml_file import nearest

    if planner not in PLANNERS:
        raise UserError(f"--planner: {planner!r} is unknown; {nearest(planner, PLANNERS)}")


def print_outcome(outcome: "Outcome", *, as_json: bool) -> None:
    """Prints how a campaign ended and leaves with the exit code that says so."""
    if as_json:
        console.emit(outcome)
    elif not outcome.problem:
        _summary(outcome)
    if outcome.problem:
        console.complain(outcome.problem)
    if outcome.request:
        from ridgeline.agent.campaign.approvals import describe_wait

        console.complain(f"{outcome.campaign}: {describe_wait(outcome.dir, outcome.request)}")
    if code := EXIT_CODES[outcome.status]:
        raise typer.Exit(code)


def _remember_receiver(command: str | None) -> tuple[str, ...]:
    """The words of the option `--notify`, remembered as this user's own."""
    if command is None:
        return ()
    from ridgeline.agent.campaign.notify import allow, parse_receiver

    words = parse_receiver(command, "--notify")
    allow(words)
    return words


def _try_out(command: str | None, *, as_json: bool) -> None:
    """Send the receiver of `--notify` a test message, and print that it was sent."""
    from ridgeline.agent.campaign.notify import VARIABLE, Hook, parse_receiver

    text, origin = (os.environ.get(VARIABLE, ""), VARIABLE) if command is None else (command, "--notify")
    Hook(parse_receiver(text, origin) if text.strip() else (), Path.cwd()).try_out()
    if as_json:
        console.emit({"sent": True})
    else:
        console.say("sent; look whether it arrived")


def _require_folders(places: list[Path]) -> tuple[Path, ...]:
    """Folders of the option `--warm-from`. Raises UserError for one that is none."""
    for place in places:
        if not place.is_dir():
            raise UserError(f"--warm-from: {place}: no such folder; give one with campaigns in it")
    return tuple(place.resolve() for place in places)


def _load_contract(contract: Path, wikis: list[Path]) -> "LoadedContract":
    """The contract of a command line with the folders of `--wiki` attached."""
    from ridgeline.agent.contract_file import load, with_wikis

    return with_wikis(load(contract), wikis)


def thinker(planner: str | None, model: str | None, base_url: str | None, fallback: list[str]) -> "Choice | None":
    """The model of the option `--model` or the environment; a planner that is named wins over the environment.

    Recorded answers are read, so that a folder without any is refused before anything is made.
    """
    from ridgeline.agent.providers.choice import choose

    if planner is None:
        choice = choose(model, base_url=base_url, fallbacks=fallback, environment=os.environ)
        if choice is not None and choice.recording is not None:
            from ridgeline.agent.providers.recorded import read_answers

            read_answers(choice.recording)
        return choice
    if model or base_url or fallback:
        raise UserError("--planner: is given beside --model; a model is a planner: give one of the two")
    return None


def _minutes(minutes: float | None, hours: float | None) -> float | None:
    """The time limit of a command line in minutes, from whichever of the two options was given. Raises UserError for both."""
    if hours is None:
        return minutes
    if minutes is not None:
        raise UserError("--budget-hours: is given beside --max-minutes, which means the same; give one of the two")
    if not 0 < hours < 10_000:
        raise UserError(f"--budget-hours: is {hours:g}; give hours above 0")
    return 60 * hours


def parse_pairs(option: str, texts: list[str]) -> dict[str, str]:
    """`key=value` words of a command line as a mapping. Raises `UserError` for a word without `=`."""
    for text in texts:
        if "=" not in text:
            raise UserError(f"{option}: {text!r} is not key=value; write for example {option} git_branch=none")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


MOST_UNSOURCED = 5
"""Places that are printed."""


def _summary(outcome: "Outcome") -> None:
    """The first screen that `run` prints of a campaign's outcome: a line where one is enough, else a heading and its lines."""
    from ridgeline.graph.reports.result import first_screen

    console.say(f"campaign   {outcome.campaign} ({outcome.status})")
    for name, lines in first_screen(outcome.result) if outcome.result else ():
        if len(lines) == 1:
            console.say(f"{name.lower():<10} {lines[0]}")
            continue
        console.say(name.lower())
        for line in lines:
            console.say(f"  {line}")
    if outcome.best_commit:
        console.say(f"best       {outcome.best_commit[:12]} on {outcome.branch}")
    written = outcome.status == "concluded"
    console.say(
        f"report     {outcome.report if written else f'ridgeline report {outcome.campaign}, also before the end'}"
    )
    if outcome.unsourced:
        console.say(f"invalid    {len(outcome.unsourced)} hardware numbers without a source (design document 002):")
        for place in outcome.unsourced[:MOST_UNSOURCED]:
            console.say(f"  {place}")
        console.say(f"  `ridgeline knowledge check {outcome.campaign}` names all, each with its mend")
