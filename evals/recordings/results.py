"""The results page: a row for each recorded campaign and each recorded comparison with others, from their files alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import inf, log10
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ridgeline.agent.bench.baselines import TORCH, ShapeTimes, SideBySide, Who, mean_all, mean_us
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import RECORDED, has_model
from ridgeline.evals.recordings.export import TASK
from ridgeline.evals.recordings.recording import CARD, Folder, read_card
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.reports.figures import time_us
from ridgeline.graph.reports.text import times_at_least
from ridgeline.graph.rules.bottleneck import classify_bottleneck
from ridgeline.graph.rules.cost import minutes_between
from ridgeline.graph.rules.headroom import Headroom, compute_best_headroom, compute_headroom, describe_device
from ridgeline.graph.rules.history import best_profile, best_round, fold_ledger, standing
from ridgeline.graph.rules.result import Result, claim_speedup, compute_result
from ridgeline.graph.rules.roofline import bound_of, compute_shape_roofs
from ridgeline.graph.standing import History
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.task_file import FILE_NAME, load_task

WHO: tuple[Who, ...] = ("start", *TORCH, "rival", "ours")
NOT_MEASURED = "not measured"
LEAST_HEADROOM = 1.3
"""Best time of torch over the floor: nearer to it nobody can be much faster."""
AT_THE_ROOF = 0.92
"""Share of the floor above which a row needs no reason."""
COUNTER = re.compile(r" \[[a-z]+: [^\]]*\]")
"""Which tool's counter a number was read from."""


class Rivals(SideBySide):
    """A file of `evals/rivals`: what was timed side by side with others, and what repeats it. Its stem names the row."""

    schema_version: Literal[1]
    campaign: str = ""
    """Folder in `evals/campaigns` whose champion `ours` is; empty for a row without a recorded campaign."""
    command: str = ""
    """The one command that repeats the row."""
    bound: Literal["compute", "memory", ""] = ""
    floor_source: str = ""
    rounds: int | None = None
    tokens: int | None = None
    device_seconds: float | None = None
    wall_minutes: float | None = None


class ResultRow(Value):
    """One row of the page; None where nothing was measured."""

    name: str
    task: str
    device: str
    types: str
    shapes: tuple[ShapeTimes, ...]
    speedup: Mapping[Who, float]
    """Their time over ours, from interleaved pairs; where it is not given, the ratio of the times."""
    lower: Mapping[Who, float]
    """The same, at least."""
    share: float | None
    """Floor over our time, geometric mean over shapes."""
    bound: str
    rounds: int | None
    tokens: int | None
    device_seconds: float | None
    """At most: all seconds of commands on a machine with a card, builds included; 0 on a processor."""
    wall_minutes: float | None
    command: str
    rival: str
    notes: tuple[str, ...]
    undecided: tuple[Who, ...] = ()
    """Who was not told apart from ours: that one may be the fastest."""

    @property
    def undecided_torch(self) -> str:
        """On the results page: versions of PyTorch that were not told apart from ours; they have no time."""
        return " and ".join(NAMES[who] for who in TORCH if who in self.undecided)

    def time_us(self, who: Who) -> float | None:
        """On the results page: geometric mean of the times over the shapes; None unless every one was timed."""
        return mean_us(self.shapes, who)

    @property
    def floor_us(self) -> float | None:
        """On the results page: geometric mean of the floors over the shapes; None unless every one has a floor."""
        return mean_all([shape.floor_us for shape in self.shapes])

    @property
    def headroom(self) -> float | None:
        """On the results page: the time of torch's best over the floor, of one that was timed elsewhere by its ratio to ours; None where
        either is not known."""
        best, ours, floor = self.best_of_torch, self.time_us("ours"), self.floor_us
        if best is None or ours is None or floor is None:
            return None
        time_us = self.time_us(best) or ours * (self.ratio(best) or 0.0)
        return time_us / floor

    def ratio(self, who: Who) -> float | None:
        """On the results page: their time over ours, of pairs where there were some, also of a later run on another card."""
        theirs, ours = self.time_us(who), self.time_us("ours")
        return self.speedup.get(who, theirs / ours if theirs and ours else None)

    @property
    def best_of_torch(self) -> Who | None:
        """Who of eager, compile and max-autotune was fastest beside ours; None where none was timed."""
        timed = [(ratio, who) for who in TORCH if (ratio := self.ratio(who)) is not None]
        return min(timed)[1] if timed else None


# Reading.


def read_rivals(path: Path) -> Rivals:
    """One file. Raises UserError with file, field and mend."""
    try:
        return Rivals.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise UserError(
            f"{path}: {where}: {problem['msg']}; correct it, the fields are in evals/rivals/README.md"
        ) from None


def read_times(path: Path) -> SideBySide:
    """What `ridgeline judge baselines --json` printed. Raises UserError with file, field and mend."""
    try:
        return SideBySide.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"--times {path}: {error.strerror}; give a file that can be read") from None
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the file"
        raise UserError(
            f"--times {path}: {where}: {error.errors()[0]['msg']}; give what `ridgeline judge baselines --json` printed"
        ) from None


def write_row(
    rivals: Path, recording: Path, times: SideBySide | None, *, command: str, types: str, notes: Sequence[str]
) -> Path:
    """The file of `evals/rivals` that makes a recording a row; where it lies. Nothing of what is known is left out.

    `command`: what repeats the row; empty: a demo of the task that lies in the recording, which must then have one.
    Raises UserError.
    """
    card = read_card(recording)
    if not command and not (recording / TASK).is_dir():
        raise UserError(
            f"--again: missing, and {recording} has no task of its own; give the command that repeats the row"
        )
    place = recording.as_posix()
    who = f"--model {RECORDED}{place}" if card is None or has_model(card.planner) else f"--planner {card.planner}"
    fields = (times or SideBySide()).model_dump(exclude_defaults=True, mode="json")
    fields |= {
        "schema_version": 1,
        "campaign": recording.name,
        "command": command or f"ridgeline demo --task {place}/{TASK} {who}",
        "notes": [*fields.get("notes", []), *notes],
    }
    fields.pop("task", None)  # of a campaign the ledger's name is taken
    if types:
        fields["types"] = types
    path = rivals / f"{recording.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        Rivals.model_validate(fields).model_dump_json(indent=2, exclude_defaults=True) + "\n", encoding="utf-8"
    )
    return path


def read_rows(campaigns: Path, rivals: Path) -> tuple[ResultRow, ...]:
    """Rows of the results page for each recorded campaign, with what was timed beside it, and for each comparison without one.

    Raises UserError for a recording or file that cannot be read, and for a campaign that is not there.
    """
    files = {path.stem: read_rivals(path) for path in sorted(rivals.glob("*.json"))}
    folders = {path.parent.name: path.parent for path in sorted(campaigns.glob(f"*/{CARD}"))}
    for name, file in files.items():
        if file.campaign and file.campaign not in folders:
            raise UserError(f"{rivals / name}.json: campaign: no {campaigns / file.campaign}; correct the name")
    beside = {file.campaign: file for file in files.values() if file.campaign}
    rows = [_row_of_campaign(folder, beside.get(name, Rivals(schema_version=1))) for name, folder in folders.items()]
    rows += [_row_of_file(name, file) for name, file in files.items() if not file.campaign]
    return tuple(sorted(rows, key=lambda row: ("NVIDIA" not in row.device, row.name)))


def _row_of_file(name: str, file: Rivals) -> ResultRow:
    floors, ours = (
        mean_all([shape.floor_us for shape in file.shapes]),
        mean_all([s.times_us.get("ours") for s in file.shapes]),
    )
    return ResultRow(
        name=name,
        task=file.task or name,
        device=file.device,
        types=file.types,
        shapes=file.shapes,
        speedup=file.speedup,
        lower=file.lower,
        share=floors / ours if floors and ours else None,
        bound=file.bound,
        rounds=file.rounds,
        tokens=file.tokens,
        device_seconds=file.device_seconds,
        wall_minutes=file.wall_minutes,
        command=file.command,
        rival=file.rival,
        undecided=file.undecided,
        notes=(*file.notes, *([f"floor: {file.floor_source}"] if file.floor_source else ())),
    )


def _row_of_campaign(path: Path, file: Rivals) -> ResultRow:
    """A recorded campaign's row of the results page; where the champion was timed beside others, all times are of that run."""
    folder = Folder(path)
    history, card = fold_ledger(folder.lines()), read_card(path)
    assert history is not None, "a ledger that was read has a line"
    result = compute_result(history)
    claim = claim_speedup(result)
    headroom, is_cold = compute_best_headroom(history), _finds_cold_cache(path)
    if is_cold and history.baseline is not None and isinstance(headroom, str):
        headroom = _compute_cold_headroom(history)
    roofs = {} if isinstance(headroom, str) else _floors(history)
    shapes, notes = file.shapes or tuple(_shapes_of(history, result)), [*file.notes]
    if result.final is not None and any("start" not in shape.times_us for shape in shapes):
        starts = {shape.label: {"start": shape.original_us} for shape in result.final.shapes}
        shapes = tuple(
            shape.model_copy(update={"times_us": {**starts.get(shape.label, {}), **shape.times_us}}) for shape in shapes
        )
        notes.append("start: as the campaign's own final test timed it, in pairs with its best version")
    shapes = tuple(
        shape.model_copy(update={"floor_us": roofs[shape.label].floor_us})
        if shape.floor_us is None and shape.label in roofs
        else shape
        for shape in shapes
    )
    floors, ours = (
        mean_all([shape.floor_us for shape in shapes]),
        mean_all([shape.times_us.get("ours") for shape in shapes]),
    )
    if result.final is None:
        notes.append(f"no speedup is claimed: {result.no_claim}")
    if isinstance(headroom, str):
        notes.append(f"floor: {headroom}")
    else:
        cold = "; each timed call finds a cold cache, and what it writes may stay there" if is_cold else ""
        notes.append(f"floor: {headroom.ceiling}{cold}")
    share = floors / ours if floors and ours else None
    if (share is None or share < AT_THE_ROOF) and (reason := _explain_distance(history)):
        notes.append(reason)
    speedup: dict[Who, float] = {**file.speedup}
    lower: dict[Who, float] = {**file.lower}
    if claim and claim.from_final and claim.lower and "start" not in file.lower:
        speedup["start"], lower["start"] = claim.speedup, claim.lower
    is_on_card = history.opened.machine.kind != "cpu"
    return ResultRow(
        name=path.name,
        task=file.task or history.opened.contract.target_op,
        device=card.device if card else history.opened.machine.name,
        types=file.types or history.opened.contract.dtype,
        shapes=shapes,
        speedup=speedup,
        lower=lower,
        share=share,
        bound=file.bound or ("" if isinstance(headroom, str) else bound_of(tuple(roofs.values()))),
        rounds=result.rounds,
        # answers that were written beforehand are read, and what they took nobody counted
        tokens=None if history.opened.planner.startswith(RECORDED) else result.cost.tokens,
        device_seconds=60 * result.gpu_minutes if is_on_card else 0.0,
        wall_minutes=_wall_minutes(history),
        command=file.command,
        undecided=file.undecided,
        rival=file.rival,
        notes=tuple(notes),
    )


def _explain_distance(history: History) -> str:
    """For the results page: what keeps the best version from its floor, by counters of its own profile; empty without them."""
    profile, best = best_profile(history), standing(history)
    if profile is None or best_round(history) is None or history.opened.machine.kind == "cpu":
        return ""
    ceilings = history.roofline.ceilings if history.roofline else None
    roofs = compute_shape_roofs(best.quick.rows, history.contract.work, ceilings)
    _, evidence = classify_bottleneck(profile, roofs, best.quick.rows, history.contract.scoring)
    if "counters]" not in evidence:
        return ""
    counts = {counter.name: counter.value for counter in profile.counters}
    moved = ""
    if len(roofs) == 1 and roofs[0].bound == "memory" and roofs[0].bytes and counts.get("dram_bytes"):
        moved = f"; it moved {counts['dram_bytes'] / 1e9:.3g} GB, the task's least is {roofs[0].bytes / 1e9:.3g} GB"
    return f"ours, by its profile: {COUNTER.sub('', evidence)}{moved}"


def _wall_minutes(history: History) -> float | None:
    """For the results page: from the baseline, the first thing that is measured, to the end; None while it goes on."""
    begin, end = history.baseline, history.concluded
    return minutes_between(begin.opened_at, end.closed_at) if begin and end else None


def _finds_cold_cache(path: Path) -> bool:
    """For the results page: whether the judge empties the card's cache before each timed call, as the recorded task says."""
    task = path / TASK / FILE_NAME
    return task.is_file() and load_task(task).task.cache == "cold"


def _compute_cold_headroom(history: History) -> Headroom | str:
    """For the results page: how near the best version is to ceilings that no cache takes calls past."""
    best = standing(history)
    device = describe_device(history).model_copy(update={"cold": True})
    return compute_headroom((best.full or best.quick).rows, history.contract, device)


def _floors(history: History) -> dict[str, ShapeRoof]:
    """For the results page: the floor of each shape of the original's benchmark."""
    assert history.baseline is not None, "a share was computed of it"
    rows = history.baseline.quick.rows
    roofs = compute_shape_roofs(rows, history.opened.contract.work, describe_device(history).ceilings)
    return {roof.label: roof for roof in roofs}


def _shapes_of(history: History, result: Result) -> Iterator[ShapeTimes]:
    """For the results page: both versions as the final test timed them side by side; without one, the original's benchmark alone."""
    if result.final is not None:
        for shape in result.final.shapes:
            yield ShapeTimes(label=shape.label, times_us={"start": shape.original_us, "ours": shape.best_us})
        return
    scoring = history.opened.contract.scoring
    for row in history.baseline.quick.rows if history.baseline else ():
        if start_us := time_us((row,), scoring):
            yield ShapeTimes(label=row.label, times_us={"start": start_us})


# Telling.

HEAD = """# Results

`make results` reads every number below from a recording, and a test holds this page against the recordings. What nobody timed says
*not measured*, and has no column in a row's own table. Comparisons with compilers and with others' kernels are added as they are recorded
(`evals/rivals/README.md`).

- **Times** are microseconds of one call, the geometric mean over the sizes of a task. All columns of a row were timed in one run on one
  machine, but where the row says otherwise.
- **floor** is the least time that the ceilings measured on that machine allow for the operations and bytes that the task declares.
- **ours, by its profile** is why a row on a card stays below 92 % of its floor: what the counters of its best version's own profile
  say by the rules of the loop, and of a row with one size the bytes that it moved; results that stay in a cache are not among them.
  Where a row has no such line, none was recorded.
- **Calls** find a cold cache where a row says so; in the others a repeated call may find its data there.
- **A speedup** is that of interleaved pairs, and stands with its lower bound at 99 %. A few are of a later run on another card, and
  have no time here; the row says so. The best of torch is the one with the least.
- **device** is the time of all commands on a machine with a card, builds included; 0 on a processor. **wall** goes from the baseline to the
  end, waiting for answers included.
- **again** is the command that repeats a row from a clone, on a machine with such a card or processor. `recorded:` gives the answers of the
  recording again, so that no model is needed, and measures anew; with a key, name a model in its place.

![Times of each row against its start, on a logarithmic axis](pictures/results.svg)
"""
NAMES: Mapping[Who, str] = {
    "start": "start",
    "eager": "eager",
    "compile": "compile",
    "max_autotune": "max-autotune",
    "rival": "rival",
    "ours": "ours",
}


def render_page(rows: Sequence[ResultRow]) -> str:
    """The whole results page, Markdown."""
    parts = [HEAD, "## Times\n"]
    parts.append(_table(("row", "types", *(NAMES[who] for who in WHO), "floor", "share of the floor", "bound"),
                        (_time_cells(row) for row in rows)))  # fmt: skip
    parts.append("\n## Gain and cost\n")
    heads = ("row", "over the start", "over the best of torch", "over the rival", "rounds", "tokens", "device", "wall")
    parts.append(_table(heads, (_gain_cells(row) for row in rows)))
    parts += ["\n## Over the best of torch\n", *_tell_mean(rows), "\n## Each row\n"]
    parts += [_section(row) for row in rows]
    return "\n".join(parts).rstrip("\n") + "\n"


def _time_cells(row: ResultRow) -> tuple[str, ...]:
    share = NOT_MEASURED if row.share is None else f"{100 * row.share:.0f} %"
    times = (_time(row.time_us(who)) for who in WHO)
    return (f"`{row.name}`", row.types, *times, _time(row.floor_us), share, row.bound or "not known")


def _gain_cells(row: ResultRow) -> tuple[str, ...]:
    device = NOT_MEASURED if row.device_seconds is None else f"{row.device_seconds:.0f} s"
    return (
        f"`{row.name}`",
        _gain(row, "start"),
        _gain(row, row.best_of_torch),
        _gain(row, "rival"),
        _count(row.rounds),
        _count(row.tokens),
        device,
        NOT_MEASURED if row.wall_minutes is None else f"{row.wall_minutes:.0f} min",
    )


def _tell_mean(rows: Sequence[ResultRow]) -> Iterator[str]:
    """On the results page: the geometric mean of lower bounds over the tasks on a card that leave room, and which rows are not in it."""
    counted: dict[str, ResultRow] = {}
    absent: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.time_us("ours") or inf):
        if "NVIDIA" not in row.device:
            continue
        if row.best_of_torch is None:
            why = "no time of torch beside them"
        elif row.undecided_torch or row.best_of_torch not in row.lower or row.headroom is None:
            why = "no bound over the best of torch, or no floor"
        elif row.headroom < LEAST_HEADROOM:
            why = f"headroom below {LEAST_HEADROOM:g}"
        elif row.task in counted:
            why = "another row of the same task is faster"
        else:
            counted[row.task] = row
            continue
        absent.setdefault(why, []).append(row.name)
    bounds = {row.name: row.lower[row.best_of_torch] for row in counted.values() if row.best_of_torch}
    mean = mean_all([*bounds.values()])
    number = (
        "no row"
        if mean is None
        else f"**{times_at_least(mean, 2)} over {len(bounds)} {'task' if len(bounds) == 1 else 'tasks'}**"
    )
    yield (
        "The geometric mean, over tasks on a card, of the speedups' lower bounds over the best of torch that was timed, where that"
        f" takes at least {LEAST_HEADROOM:g} times the floor (headroom), the fastest row of a task: {number}."
        " A version of torch that was not timed may be faster than the one that was.\n"
    )
    whole = [bounds[row.name] for row in counted.values() if all(row.ratio(who) is not None for who in TORCH)]
    if (mean := mean_all(whole)) is not None:
        yield (
            f"Where eager, compile and max-autotune were all timed: **{times_at_least(mean, 2)} over {len(whole)}"
            f" {'task' if len(whole) == 1 else 'tasks'}**.\n"
        )
    for row in counted.values():
        who = row.best_of_torch or "eager"
        yield f"- `{row.name}`: at least {times_at_least(bounds[row.name], 2)}{_name_torch(row, who)}, headroom {row.headroom:.2f}"
    for why, names in absent.items():
        yield f"- not in it, {why}: {', '.join(f'`{name}`' for name in sorted(names))}"


def _gain(row: ResultRow, who: Who | None) -> str:
    """On the results page: their time over ours with its bound; a ratio that nothing bounds is no claim."""
    if who is None or (ratio := row.ratio(who)) is None:
        return NOT_MEASURED
    if who in TORCH and row.undecided_torch:
        return f"no bound ({row.undecided_torch} not told apart)"
    if who not in row.lower:
        return "no bound"
    return f"{ratio:.2f}x, at least {times_at_least(row.lower[who], 2)}{_name_torch(row, who)}"


def _name_torch(row: ResultRow, who: Who) -> str:
    """Which of PyTorch's versions it is, and which were not timed: the best of one is not the best of three."""
    if who not in TORCH:
        return ""
    others = " and ".join(NAMES[each] for each in TORCH if row.ratio(each) is None)
    return f" ({NAMES[who]}; {others} not timed)" if others else f" ({NAMES[who]})"


def _section(row: ResultRow) -> str:
    lines = [f"### {row.name}\n", f"{row.task} on {row.device}{f'; rival: {row.rival}' if row.rival else ''}.\n"]
    timed = [who for who in WHO if any(who in shape.times_us for shape in row.shapes)]
    has_floor = any(shape.floor_us is not None for shape in row.shapes)
    heads = ("size", *(NAMES[who] for who in timed), *(("floor",) if has_floor else ()))
    shapes = [
        (
            shape.label,
            *(_time(shape.times_us.get(who)) for who in timed),
            *((_time(shape.floor_us),) if has_floor else ()),
        )
        for shape in row.shapes
    ]
    lines += [_table(heads, shapes), ""]
    lines += [f"- {note}" for note in row.notes]
    lines.append(f"- again: `{row.command}`" if row.command else "- again: not recorded as one command")
    return "\n".join((*lines, ""))


def _time(time_us: float | None) -> str:
    return NOT_MEASURED if time_us is None else f"{time_us:.4g}" if time_us < 1000 else f"{time_us:.0f}"


def _count(number: int | None) -> str:
    return NOT_MEASURED if number is None else f"{number:,}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join((*lines, *(f"| {' | '.join(row)} |" for row in rows)))


# The picture.

WIDTH, LEFT, RIGHT, TOP, STEP = 900, 240, 24, 40, 30
COLORS: Mapping[Who | Literal["floor"], str] = {
    "start": "#8c8c8c",
    "eager": "#b35900",
    "compile": "#c98a00",
    "max_autotune": "#7a5195",
    "rival": "#c0392b",
    "ours": "#1a7f37",
    "floor": "#222222",
}


def draw(rows: Sequence[ResultRow]) -> str:
    """The results page's picture as SVG: a line for each row with a start, each time as many times as fast, on a logarithmic axis."""
    drawn = [(row, _speeds(row)) for row in rows]
    drawn = [(row, speeds) for row, speeds in drawn if len(speeds) > 1]
    every = [speed for _, speeds in drawn for _, speed in speeds] or [1.0]
    timed = [speed for _, speeds in drawn for who, speed in speeds if who != "floor"] or [1.0]
    # a floor far beyond every time, as of a call that is all launch, would press the others together
    low, high = min(every) / 1.15, max(timed) * 1.3

    def place(speed: float) -> float:
        return LEFT + (log10(speed) - log10(low)) / (log10(high) - log10(low)) * (WIDTH - LEFT - RIGHT)

    height = TOP + STEP * len(drawn) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        "<title>How many times as fast as its start each version of a task is</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    shown, x = {who for _, speeds in drawn for who, _ in speeds}, LEFT
    for name in (name for name in COLORS if name in shown):
        label = "floor" if name == "floor" else NAMES[name]
        out.append(f'{_mark(name, x, 16)}<text x="{x + 10}" y="20">{label}</text>')
        x += 40 + 7 * len(label)
    for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if low <= tick <= high:
            at = place(tick)
            out.append(f'<line x1="{at:.1f}" y1="{TOP - 10}" x2="{at:.1f}" y2="{height - 30}" stroke="#e0e0e0"/>')
            out.append(f'<text x="{at:.1f}" y="{height - 12}" text-anchor="middle">{tick}x</text>')
    for number, (row, speeds) in enumerate(drawn):
        y = TOP + STEP * number + STEP / 2
        out.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>')
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#f0f0f0"/>')
        for who, speed in speeds:
            title = f"<title>{escape(row.name)}, {who}: {speed:.2f}x</title>"
            if speed > high:
                beyond = f"{title}floor {speed:,.0f}x \u2192"
                out.append(
                    f'<text x="{WIDTH - RIGHT}" y="{y - 8:.1f}" font-size="10" text-anchor="end">{beyond}</text>'
                )
                continue
            out.append(f"<g>{title}{_mark(who, place(speed), y)}</g>")
    return "\n".join((*out, "</svg>")) + "\n"


def _mark(who: Who | Literal["floor"], x: float, y: float) -> str:
    """On the results page's picture: a dot with a rim, which is seen under others; the floor is a bar."""
    if who == "floor":
        return f'<rect x="{x - 1.5:.1f}" y="{y - 8:.1f}" width="3" height="16" fill="{COLORS[who]}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{COLORS[who]}" stroke="#ffffff"/>'


def _speeds(row: ResultRow) -> list[tuple[Who | Literal["floor"], float]]:
    """On the results page: how many times as fast as the start each is."""
    start = row.time_us("start")
    if start is None:
        return []
    times: list[tuple[Who | Literal["floor"], float | None]] = [("floor", row.floor_us)]
    times += [(who, row.time_us(who)) for who in WHO]
    return [(who, start / time) for who, time in times if time is not None]
