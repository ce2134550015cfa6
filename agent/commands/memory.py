"""`memory ...`: the versioned memory files `v<N>.json` of a campaign or of any folder."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeline.agent import campaigns, console, memory_files
from ridgeline.agent.errors import UserError

app = typer.Typer(
    help="Versioned memory files v<N>.json. A running campaign plans from its ledger and renders these from it.",
    no_args_is_help=True,
)

Where = Annotated[
    Path | None,
    typer.Option("--dir", help="Memory folder or campaign; without it, memory/ of the newest campaign here."),
]
Version = Annotated[str, typer.Option(help="v<N>.")]
Versions = Annotated[str, typer.Option("--version", help="v<N>, or a comma list.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="memory")


@app.command()
def init(where: Where = None) -> None:
    """Make an empty memory folder."""
    folder = where or Path("memory")
    folder.mkdir(parents=True, exist_ok=True)
    console.say(str(folder))


@app.command()
def create(
    version: Version,
    where: Where = None,
    force: Annotated[bool, typer.Option("--force", help="Replace one that exists.")] = False,
) -> None:
    """Write an empty record of a version."""
    console.say(str(memory_files.create(_folder(where), version, force=force)))


@app.command()
def read(
    version: Annotated[str, typer.Option(help="v<N>, or all.")] = "all",
    field: Annotated[str, typer.Option(help="Dotted path, for example performance.latency_us.")] = "",
    unmasked_only: Annotated[bool, typer.Option("--unmasked-only", help="Leave masked versions out.")] = False,
    where: Where = None,
) -> None:
    """Print versions as JSON. `all` leaves masked ones out; asking for a masked one by name is an error."""
    folder = _folder(where)
    if version == "all":
        chosen = memory_files.unmasked(folder)
        console.emit({name: _part(record, field, name) for name, record in chosen.items()})
        return
    record = memory_files.load(folder, version)
    if record.get("masked"):
        if unmasked_only:
            console.emit({})
            return
        raise UserError(f"{version}.json: masked; unmask it first, or choose another version")
    console.emit(_part(record, field, version))


@app.command()
def update(
    version: Version,
    assignments: Annotated[list[str], typer.Option("--set", help="dotted.key=value; numbers and JSON are typed.")],
    where: Where = None,
) -> None:
    """Change fields of a version. Values keep the type the field has: a hash of digits stays text."""
    folder = _folder(where)
    record = memory_files.load(folder, version)
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--set: {text!r} is not key=value; write for example --set performance.tflops=1.5")
        memory_files.assign(record, key, value)
    console.say(str(memory_files.store(folder, version, record)))


@app.command()
def mask(version: Versions, where: Where = None) -> None:
    """Leave versions out of planning; nothing is deleted."""
    _set_masked(version, where, masked=True)


@app.command()
def unmask(version: Versions, where: Where = None) -> None:
    """Take masked versions back in."""
    _set_masked(version, where, masked=False)


@app.command()
def summary(where: Where = None, as_json: Json = False) -> None:
    """A table of all versions."""
    folder = _folder(where)
    rows = [memory_files.row(name, memory_files.load(folder, name)) for name in memory_files.versions(folder)]
    if as_json:
        console.emit({"versions": [dict(zip(memory_files.COLUMNS, row, strict=True)) for row in rows]})
    else:
        console.table(memory_files.COLUMNS, rows)


@app.command()
def latest(where: Where = None) -> None:
    """Name of the newest version that is not masked."""
    found = [*memory_files.unmasked(_folder(where))]
    if not found:
        raise UserError("memory: has no unmasked version; create one with `ridgeline memory create --version v0`")
    console.say(found[-1])


@app.command("list")
def list_(where: Where = None, as_json: Json = False) -> None:
    """Names of all versions, oldest first."""
    names = memory_files.versions(_folder(where))
    if as_json:
        console.emit({"versions": list(names)})
        return
    for name in names:
        console.say(name)


def _folder(where: Path | None) -> Path:
    """The memory folder that was meant. Raises `UserError` when it does not exist."""
    folder = where if where is not None else campaigns.find(None)
    if campaigns.is_campaign(folder):
        folder = folder / "memory"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such memory folder; make it with `ridgeline memory init --dir {folder}`")
    return folder


def _set_masked(versions: str, where: Path | None, *, masked: bool) -> None:
    folder = _folder(where)
    names = [name.strip() for name in versions.split(",")]
    records = [(name, memory_files.load(folder, name)) for name in names]
    for name, record in records:
        record["masked"] = masked
        memory_files.store(folder, name, record)
        console.say(f"{name} {'masked' if masked else 'unmasked'}")
    if campaigns.is_campaign(folder.parent):
        console.note("the campaign itself plans from its ledger: this changes what readers of these files see")


def _part(record: dict[str, Any], field: str, version: str) -> Any:
    """A dotted part of a record; the record itself for an empty path."""
    part: Any = record
    for key in filter(None, field.split(".")):
        if isinstance(part, list) and key.isdigit() and int(key) < len(part):
            part = part[int(key)]
        elif isinstance(part, dict) and key in part:
            part = part[key]
        else:
            found = ", ".join(part) if isinstance(part, dict) else json.dumps(part)[:60]
            raise UserError(f"{version}.json: {field}: no such field at {key!r}; found {found}")
    return part
