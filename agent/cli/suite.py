"""`suite`: many problems on one budget, one table."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.suite.run import Arm
    from ridgeline.agent.suite.table import Table

SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PROBLEMS",
        help="A folder of tasks or of KernelBench, FlashInfer Trace, SOL-ExecBench or GPU MODE problems.",
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder of the suite: tasks, campaigns and rows. The same again goes on with it.")
]
Arms = Annotated[
    list[str] | None,
    typer.Option(
        "--arm",
        help="NAME or NAME:key=value,...: an agent (planner, model, base_url, preset, max_rounds, any limit by name),"
        " or answers=FOLDER; repeatable. model=recorded:FOLDER takes a folder of recorded answers for each problem."
        " Default: catalog:planner=catalog.",
    ),
]
MinutesEach = Annotated[
    float | None, typer.Option(help="Minutes of each campaign; default: of --max-minutes an equal part.")
]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Begin no problem that all arms could not end within this many minutes of now.")
]
MaxRounds = Annotated[int | None, typer.Option(help="Rounds of each campaign.")]
Only = Annotated[str, typer.Option(help="Problems whose name holds this text.")]
Beside = Annotated[
    int, typer.Option(min=1, max=64, help="Attempts at a time: as many as there are cards; each takes an idle one.")
]
Baselines = Annotated[
    str,
    typer.Option(
        help="Time each champion beside these, by commas, in order: eager, compile, max_autotune, rival. In the same call, or a later one."
    ),
]
RivalsFolder = Annotated[
    Path | None, typer.Option("--rivals", help="Folder with somebody's kernel for each problem, timed as rival.")
]
RivalName = Annotated[str, typer.Option("--rival-name", help="Whose they are.")]
RivalSource = Annotated[str, typer.Option("--rival-source", help="Where they are read, with the commit.")]
Processor = Annotated[bool, typer.Option("--processor", help="Make tasks for this machine's processor.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `suite` and its commands to the command line."""
    group = typer.Typer(
        help="Many problems on one budget, one table: agents or answers side by side.", no_args_is_help=True
    )
    group.command(name="run")(run)
    group.command(name="table")(table)
    group.command(name="list")(list_problems)
    app.add_typer(group, name="suite")


def run(
    problems: SourceArgument,
    out: Out,
    arm: Arms = None,
    minutes_each: MinutesEach = None,
    max_minutes: MaxMinutes = None,
    max_rounds: MaxRounds = None,
    only: Only = "",
    baselines: Baselines = "",
    rivals: RivalsFolder = None,
    rival_name: RivalName = "",
    rival_source: RivalSource = "",
    beside: Beside = 1,
    processor: Processor = False,
    as_json: Json = False,
) -> None:
    """Take every problem through every arm: a campaign each, or a judged answer. Stopped at any time, it goes on."""
    from ridgeline.agent.bench.baselines import read_names
    from ridgeline.agent.formats.reading import list_sources
    from ridgeline.agent.suite.run import Suite, SuiteSettings

    arms = tuple(_parse_arm(text) for text in arm or ["catalog:planner=catalog"])
    if len({each.name for each in arms}) < len(arms):
        raise UserError("--arm: two have the same name; give each its own")
    if max_minutes is not None and minutes_each is None and any(each.answers is None for each in arms):
        count = sum(only in source.name for source in list_sources(problems))
        minutes_each = max(1.0, round(max_minutes / max(1, count * len(arms)), 1))
    settings = SuiteSettings(
        source=str(problems.resolve()),
        arms=arms,
        processor=processor,
        minutes_each=minutes_each,
        max_rounds=max_rounds,
    )
    if rivals is not None and not rivals.is_dir():
        raise UserError(f"--rivals: {rivals}: no such folder; give one with a folder for each problem")
    names = read_names(baselines, "--baselines")
    if "rival" in names and rivals is None:
        raise UserError("--baselines: rival: is timed from a folder; give --rivals FOLDER")
    suite = Suite(
        folder=out,
        settings=settings,
        progress=console.Progress(console.note),
        only=only,
        beside=beside,
        baselines=names,
        rivals=rivals.resolve() if rivals else None,
        rival_name=rival_name,
        rival_source=rival_source,
    )
    _print_table(suite.run(max_minutes), out, as_json=as_json)


def table(out: Annotated[Path, typer.Argument(help="Folder of a suite.")], as_json: Json = False) -> None:
    """The table of a suite as far as it is."""
    from ridgeline.agent.suite.run import SETTINGS_FILE, Suite, SuiteSettings
    from ridgeline.sandbox.store.json_file import read_model

    if not (out / SETTINGS_FILE).is_file():
        raise UserError(f"{out}: is no folder of a suite; give the --out of `ridgeline suite run`")
    suite = Suite(folder=out, settings=read_model(out / SETTINGS_FILE, SuiteSettings))
    _print_table(suite.table(), out, as_json=as_json)


def list_problems(problems: SourceArgument, as_json: Json = False) -> None:
    """The problems of a folder, and which of them cannot become tasks as far as reading them tells."""
    from ridgeline.agent.formats.problem import FormatError
    from ridgeline.agent.formats.reading import list_sources, read_source

    lines: list[dict[str, str]] = []
    for source in list_sources(problems):
        why = ""
        try:
            if source.format is not None:
                read_source(source)
        except FormatError as error:
            why = str(error)
        lines.append({"name": source.name, "format": source.format or "task", "refused": why})
    if as_json:
        console.emit({"problems": lines})
        return
    console.table(("PROBLEM", "FORMAT", "REFUSED"), [(line["name"], line["format"], line["refused"]) for line in lines])


def _parse_arm(text: str) -> "Arm":
    """The option `--arm`: NAME or NAME:key=value,key=value; a value may hold commas (`looks=1,2`). Raises UserError."""
    from ridgeline.agent.providers.choice import RECORDED
    from ridgeline.agent.suite.run import ANSWERS, Arm

    name, _, words = text.partition(":")
    pairs = [word.partition("=") for word in re.split(r",(?=[^,=]*=)", words) if word]
    if not name.replace("-", "").replace("_", "").isalnum() or any(not mark for _, mark, _ in pairs):
        raise UserError(f"--arm: {text!r}: write NAME:key=value,..., for example small:model=mailbox,max_rounds=3")
    settings = {key.strip().replace("-", "_"): value.strip() for key, _, value in pairs}
    arm = Arm(name=name, settings=settings)
    if arm.answers:
        settings[ANSWERS] = str(_require_answers(arm, ANSWERS, arm.answers, "a file"))
    elif arm.recorded:
        if beside := [key for key in ("planner", "base_url") if key in settings]:
            raise UserError(f"--arm: {name}: {beside[0]}: recorded answers ask nobody; leave it out")
        settings["model"] = f"{RECORDED}{_require_answers(arm, 'model', arm.recorded, 'a folder')}"
    return Arm(name=name, settings=settings)


def _require_answers(arm: "Arm", key: str, folder: Path, what: str) -> Path:
    """The whole path of the folder in the option `--arm`. Raises UserError where there is none."""
    if not folder.is_dir():
        raise UserError(f"--arm: {arm.name}: {key}: {folder}: no such folder; give one with {what} for each problem")
    return folder.resolve()


def _print_table(table: "Table", out: Path, *, as_json: bool) -> None:
    from ridgeline.agent.suite.table import HEADER, render_contests, render_leads, render_sides, render_table

    if as_json:
        console.emit(table)
        return
    console.table(HEADER, render_table(table))
    for line in (*render_contests(table), *render_leads(table)):
        console.say(line)
    if table.untried:
        console.say(f"{table.untried} attempts are not begun")
    for row in table.rows:
        if row.asked and row.speedup:
            sides = row.detail or render_sides(row)
            console.say(f"{row.result}: {row.problem}, {row.arm}: {row.speedup:.3f}x its start; {sides}")
        elif row.page:
            console.say(f"{row.result}: {row.problem}, {row.arm}: {out / row.page}")
        elif row.result in ("refused", "failed", "wrong", "missing", "waiting"):
            console.say(f"{row.result}: {row.problem}, {row.arm}: {row.detail}")
