"""`memory ...`: the versioned memory files `v<N>.json` of a campaign or of any folder."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.sandbox.store.json_file import NotJson, parse_json

app = typer.Typer(
    help="Versioned memory files v<N>.json. A campaign renders these from its ledger; your masks are heard and stay.",
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
    """Adds `memory` and its commands to the command line."""
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
    console.say(str(create_version(_folder(where), version, force=force)))


@app.command("read")
def print_records(
    version: Annotated[str, typer.Option(help="v<N>, or all.")] = "all",
    field: Annotated[str, typer.Option(help="Dotted path, for example performance.latency_us.")] = "",
    unmasked_only: Annotated[bool, typer.Option("--unmasked-only", help="Leave masked versions out.")] = False,
    where: Where = None,
) -> None:
    """Print versions as JSON. `all` leaves masked ones out; asking for a masked one by name is an error."""
    folder = _folder(where)
    if version == "all":
        chosen = load_unmasked(folder)
        console.emit({name: _select_part(record, field, name) for name, record in chosen.items()})
        return
    record = load(folder, version)
    if record.get("masked"):
        if unmasked_only:
            console.emit({})
            return
        raise UserError(f"{version}.json: masked; unmask it first, or choose another version")
    console.emit(_select_part(record, field, version))


@app.command()
def update(
    version: Version,
    assignments: Annotated[list[str], typer.Option("--set", help="dotted.key=value; numbers and JSON are typed.")],
    where: Where = None,
) -> None:
    """Change fields of a version. Values keep the type the field has: a hash of digits stays text."""
    folder = _folder(where)
    record = load(folder, version)
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--set: {text!r} is not key=value; write for example --set performance.tflops=1.5")
        assign(record, key, value)
    console.say(str(store(folder, version, record)))


@app.command()
def mask(version: Versions, where: Where = None) -> None:
    """Leave versions out of planning; nothing is deleted."""
    _mark_masked(version, where, masked=True)


@app.command()
def unmask(version: Versions, where: Where = None) -> None:
    """Take masked versions back in."""
    _mark_masked(version, where, masked=False)


@app.command()
def summary(where: Where = None, as_json: Json = False) -> None:
    """A table of all versions of a memory folder."""
    folder = _folder(where)
    rows = [row(name, load(folder, name)) for name in versions(folder)]
    if as_json:
        console.emit({"versions": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    else:
        console.table(COLUMNS, rows)


@app.command()
def latest(where: Where = None) -> None:
    """Name of the newest version that is not masked."""
    unmasked = [*load_unmasked(_folder(where))]
    if not unmasked:
        raise UserError("memory: has no unmasked version; create one with `ridgeline memory create --version v0`")
    console.say(unmasked[-1])


@app.command("list")
def list_(where: Where = None, as_json: Json = False) -> None:
    """Names of all versions, oldest first."""
    names = versions(_folder(where))
    if as_json:
        console.emit({"versions": list(names)})
        return
    for name in names:
        console.say(name)


def _folder(where: Path | None) -> Path:
    """The memory folder that was meant. Raises `UserError` when it does not exist."""
    folder = where if where is not None else folders.find(None)
    if folders.is_campaign(folder):
        folder = folder / "memory"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such memory folder; make it with `ridgeline memory init --dir {folder}`")
    return folder


def _mark_masked(versions: str, where: Path | None, *, masked: bool) -> None:
    """Mask or unmask versions, after all of them could be read."""
    from ridgeline.sandbox.store.campaign_folder import Wishes

    folder = _folder(where)
    names = [name.strip() for name in versions.split(",")]
    records = [(name, load(folder, name)) for name in names]
    for name, record in records:
        record["masked"] = masked
        store(folder, name, record)
        if folders.is_campaign(folder.parent):
            Wishes(folder.parent).mark(int(name[1:]), masked=masked)
        console.say(f"{name} {'masked' if masked else 'unmasked'}")
    if folders.is_campaign(folder.parent):
        console.note("a campaign that goes on plans by this from its next round; a concluded one only shows it")


def _select_part(record: dict[str, Any], field: str, version: str) -> Any:
    """A dotted part of a memory record for `memory read`; the record itself for an empty path."""
    part: Any = record
    for key in filter(None, field.split(".")):
        if isinstance(part, list) and key.isdigit() and int(key) < len(part):
            part = part[int(key)]
        elif isinstance(part, dict) and key in part:
            part = part[key]
        else:
            fields = ", ".join(part) if isinstance(part, dict) else json.dumps(part)[:60]
            raise UserError(f"{version}.json: {field}: no such field at {key!r}; found {fields}")
    return part


# Memory files `v<N>.json`: names, reading, typed assignment, atomic writing (rules 16).

VERSION = re.compile(r"v(0|[1-9]\d*)")
COLUMNS = ("Version", "Masked", "TFLOPS", "BW", "TFLOPS%", "BW%", "Status corr/gate", "Action")
TEXT_FIELDS = frozenset({"git_commit_hash", "version", "timestamp"})
"""Always text, also when they look like a number."""


def empty(version: str) -> dict[str, Any]:
    """A memory record of a version with every section and nothing known yet."""
    measured = ("latency_us", "tflops", "bandwidth_gbps", "tflops_peak_utilization_pct")
    performance: dict[str, Any] = dict.fromkeys((*measured, "bandwidth_peak_utilization_pct"))
    performance["comparison_with_previous"] = dict.fromkeys(("latency_delta", "tflops_delta", "bandwidth_delta"))
    return {
        "version": version,
        "masked": False,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "performance": performance,
        "optimization": dict.fromkeys(
            ("action_category", "action_description", "expected_impact", "risks_and_rollback"), ""
        ),
        "profile_evidence": dict.fromkeys(("tool_used", "evidence_summary", "bottleneck_type", "evidence_chain"), ""),
        "correctness": {"rel_err": None, "status": ""},
        "isa_metric_progress": [],
        "search_log": [],
        "pitfalls_and_fixes": [],
        "references": [],
        "quality_gate": {"result": "", "failure_reason": ""},
        "git_commit_hash": "",
    }


def versions(folder: Path) -> tuple[str, ...]:
    """Names of all versions that a memory folder has a record of, by number, as `memory list` prints them."""
    names = (file.stem for file in folder.glob("v*.json") if VERSION.fullmatch(file.stem))
    return tuple(sorted(names, key=lambda name: int(name[1:])))


def load(folder: Path, version: str) -> dict[str, Any]:
    """A version's memory record. Raises `UserError` for a bad name, a missing or a damaged file."""
    file = _file(folder, version)
    try:
        record = parse_json(file.read_bytes())
    except FileNotFoundError:
        names = ", ".join(versions(folder)) or "none"
        raise UserError(f"{version}: no such version in {folder}; there are: {names}") from None
    except NotJson as error:
        raise UserError(f"{file.name}: {error}; mend the file") from None
    except IsADirectoryError:
        raise UserError(f"{file.name}: is a folder, and should be a file; move it away") from None
    if not isinstance(record, dict):
        raise UserError(f"{file.name}: is not a JSON object; mend the file or create it again with --force")
    return record


def load_unmasked(folder: Path) -> dict[str, dict[str, Any]]:
    """Memory records of versions that may influence planning, by version."""
    records = {name: load(folder, name) for name in versions(folder)}
    return {name: record for name, record in records.items() if not record.get("masked")}


def create_version(folder: Path, version: str, *, force: bool) -> Path:
    """Write an empty memory record. Raises `UserError` when there is one and `force` is not given."""
    if _file(folder, version).exists() and not force:
        raise UserError(f"{version}: exists already in {folder}; use update, or --force to replace it")
    return store(folder, version, empty(version))


def store(folder: Path, version: str, record: dict[str, Any]) -> Path:
    """Writes a version's memory record atomically: the file is the old one or the new one, never a part."""
    file = _file(folder, version)
    draft = file.with_suffix(".json.tmp")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
    return file


def assign(record: dict[str, Any], key: str, text: str) -> None:
    """Set a dotted key of a memory record, in place. Raises `UserError` when the path runs through something that is no section."""
    *sections, name = key.split(".")
    part: Any = record
    for section in sections:
        part = part.setdefault(section, {}) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise UserError(f"--set: {key}: {section!r} is not a section; choose a field of a section")
    part[name] = parse_value(text, name=name, present=part.get(name))


def parse_value(text: str, *, name: str, present: object) -> Any:
    """The value of `memory update KEY=TEXT`: text where text stands already, otherwise JSON when it is JSON that can be read again.

    Raises UserError for what no file can hold.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UserError(f"--set: {name}: is not UTF-8 text; write it as UTF-8") from None
    if name in TEXT_FIELDS or (isinstance(present, str) and not text.startswith(("[", "{"))):
        return text
    try:
        return parse_json(data)
    except NotJson:
        return text


def row(version: str, record: dict[str, Any]) -> tuple[str, ...]:
    """Cells of one version in the table of `memory summary`; `-` where nothing is known."""
    performance = _section(record, "performance")
    correctness = _section(record, "correctness").get("status") or "-"
    gate = _section(record, "quality_gate").get("result") or "-"
    action = _section(record, "optimization").get("action_description") or "-"
    numbers = ("tflops", "bandwidth_gbps", "tflops_peak_utilization_pct", "bandwidth_peak_utilization_pct")
    return (
        version,
        "yes" if record.get("masked") else "no",
        *(_number(performance.get(name)) for name in numbers),
        f"{correctness}/{gate}",
        " ".join(str(action).split())[:60],
    )


def _section(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a memory record; empty where it is none."""
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> str:
    """A number of a memory record in four digits; `-` for anything else."""
    try:
        return f"{value:.4g}" if isinstance(value, int | float) else "-"
    except OverflowError:  # an integer beyond any float
        return "-"


def _file(folder: Path, version: str) -> Path:
    """The file of a version's memory record. Raises UserError for a name that is not v<N>."""
    if not VERSION.fullmatch(version):
        raise UserError(f"--version: {version!r} is not v<N>; write for example v3")
    return folder / f"{version}.json"
