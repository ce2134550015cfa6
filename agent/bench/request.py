"""The command line of `ridgeline bench`, as a value."""

import math
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

from ridgeline.agent.campaign import settings
from ridgeline.agent.contract_file import FILE_NAME
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import SHELL_WORDS
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Engine, Value
from ridgeline.sandbox.store.durable import require_room
from ridgeline.sandbox.store.yaml_file import nearest
from ridgeline.sandbox.timing.comparator import ByCsv, ByRegex, Metric
from ridgeline.sandbox.workspace.repository import revision

# What is asked of a comparison, checked before anything runs.

MOST_PAIRS = 100_000
"""Nobody waits for more; each pair is a look that the bounds are widened for."""
PLOTS = (".png", ".svg")
FILE_BYTES = 1 << 16
"""Room that a file of ours must find before anything is measured; many pairs take more."""


class BenchSettings(Value):
    """How long and how strictly to compare. `limits`: alpha, margin and everything else that judges."""

    limits: Limits
    blocks: int
    """ABBA blocks in one pair."""
    max_pairs: int
    max_seconds: float
    """For all of it, calibration included."""
    calibration_pairs: int
    """Of A against itself; 0 measures none."""
    seed: int = 0
    slower_margin: float | None = None
    """Of --fail-on slower: B fails where it is slower by more than this share; None where nothing is to fail."""

    @property
    def relation_margin(self) -> float:
        """To within which share `bench` calls A and B equal."""
        return self.limits.margin if self.slower_margin is None else self.slower_margin


def limits_of(layers: tuple[settings.Layer, ...], *, max_pairs: int) -> Limits:
    """The limits of a comparison: a campaign's, with a look after every pair; nothing is dropped for looking unpromising.

    Raises UserError naming the option, variable or contract field of a value that cannot be.
    """
    limits = settings.resolve(layers, model=None).limits
    return limits.model_copy(update={"looks": tuple(range(1, max_pairs + 1)), "screen_pairs": max_pairs + 1})


def positive(numbers: Mapping[str, float | None]) -> None:
    """Raises UserError for an option of `bench` that is given and is not a number above 0."""
    for option, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UserError(f"{option}: is {value:g}; give a number above 0")


def require_at_least(option: str, value: int | None, *, least: int) -> None:
    """Raises UserError for an option of `bench` that is given and is below `least`."""
    if value is not None and value < least:
        raise UserError(f"{option}: is {value}; give {least} or more")


def metric(
    *,
    regex: str | None,
    column: str | None,
    label: str | None,
    higher: bool,
    engine: str | None,
    cpu_time: bool,
    gpu: bool,
) -> Metric:
    """What `bench` compares of two commands. Raises UserError for options that do not go together or a pattern without its one group."""
    if gpu and (cpu_time or engine == "cpu"):
        option = "--cpu-time" if cpu_time else "--engine cpu"
        raise UserError(f"{option}: processor time does not see what a GPU does; leave it out, or --gpu")
    if cpu_time and (regex is not None or column is not None):
        raise UserError(
            "--cpu-time: is compared instead of what the commands report; leave out --metric-regex and --csv"
        )
    if regex is not None and column is not None:
        raise UserError("--metric-regex and --csv: give one of them")
    if regex is None and column is None:
        options = {"--label": label is not None, "--higher-is-better": higher, "--engine": engine is not None}
        if unfit := [option for option, there in options.items() if there]:
            raise UserError(
                f"{unfit[0]}: says something of numbers that the commands report; add --metric-regex or --csv"
            )
        return Metric(engine="cpu" if cpu_time else "wall")
    if label is not None and column is None:
        raise UserError("--label: names a column of --csv COLUMN, which is not given")
    reader = ByCsv(column=column, label=label) if column is not None else ByRegex(pattern=_pattern(regex or ""))
    return Metric(reader=reader, higher_is_better=higher, engine=_engine(engine or "wall"))


def output_file(option: str, path: Path | None, *, endings: tuple[str, ...] = ()) -> None:
    """Raises UserError for a file of `bench` that could not be written when the numbers are there."""
    if path is None:
        return
    if endings and path.suffix not in endings:
        raise UserError(f"{option}: {path.name!r} must end in {' or '.join(endings)}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"{option}: {path} cannot be written; name a file in a folder that exists")
    try:
        require_room(path.absolute().parent, size=FILE_BYTES)
    except DiskFull as error:
        raise UserError(f"{option}: {error}") from None
    except OSError as error:
        raise UserError(f"{option}: {path}: {error.strerror}; name a file in a folder that you may write to") from None


def _engine(word: str) -> Engine:
    engines: tuple[Engine, ...] = get_args(Engine)
    for engine in engines:
        if engine == word:
            return engine
    raise UserError(f"--engine: unknown engine {word!r}; {nearest(word, engines)}")


def _pattern(text: str) -> re.Pattern[str]:
    """The pattern that takes a number out of a compared command's output. Raises UserError where it has not exactly one group."""
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UserError(f"--metric-regex: {text!r}: {error}; correct the pattern") from None
    if pattern.groups != 1:
        raise UserError(
            f"--metric-regex: {text!r} has {pattern.groups} groups; put one around the number: 'time: ([0-9.]+)'"
        )
    return pattern


class Request(Value):
    """Each field is the option of that name; None where it was not given and the default depends on the rest."""

    a: str
    b: str
    alpha: float | None = None
    margin: float | None = None
    max_minutes: float = 10.0
    max_pairs: int = 30
    calibration_pairs: int | None = None
    blocks: int | None = None
    metric_regex: str | None = None
    csv: str | None = None
    label: str | None = None
    higher_is_better: bool = False
    engine: str | None = None
    cpu_time: bool = False
    threads: int | None = None
    gpu: bool = False
    timeout: float = 600.0
    seed: int = 0
    plot: Path | None = None
    raw: Path | None = None
    fail_on: str | None = None
    expect: Path | None = None
    update: bool = False
    junit: Path | None = None
    annotate: str | None = None
    contract: str = FILE_NAME
    quiet: bool = False
    as_json: bool = False


# What the two words of `ridgeline bench A B` mean: a command line, a commit or a checkout.

Kind = Literal["command", "commit", "folder"]
PREFIXES: dict[str, Kind] = {"cmd": "command", "commit": "commit", "dir": "folder"}
WRITTEN: dict[Kind, str] = {kind: f"{prefix}:" for prefix, kind in PREFIXES.items()}


class Side(Value):
    """One word, understood."""

    name: Literal["A", "B"]
    kind: Kind
    text: str
    """Without its prefix."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of a compared command; no shell reads them. Raises UserError for quotes that do not close."""
        try:
            words = tuple(shlex.split(self.text))
        except ValueError as error:
            reason = str(error)
            raise UserError(
                f"{self.name}: {self.text!r}: {reason[:1].lower()}{reason[1:]}; correct the quotes"
            ) from None
        if shell_words := sorted(SHELL_WORDS & set(words)):
            raise UserError(
                f"{self.name}: {self.text!r} uses the shell ({' '.join(shell_words)});"
                " put it into a script and give the script"
            )
        return words


def read_sides(a: str, b: str, here: Path, contract: str = FILE_NAME) -> tuple[Side, Side]:
    """Sides A and B of `bench` from their words. Raises UserError, one line, for one that is nothing or several things, and for a
    mixture.
    """
    side_a = _parse_side("A", a, here, contract, beside=_list_kinds(b, here, contract))
    side_b = _parse_side("B", b, here, contract, beside=_list_kinds(a, here, contract))
    if (side_a.kind == "command") != (side_b.kind == "command"):
        raise UserError(
            f"A is a {side_a.kind} and B is a {side_b.kind}: they would be timed in two ways, and are never compared;"
            " give two commands, or two commits or folders"
        )
    return side_a, side_b


def _list_kinds(word: str, here: Path, contract: str) -> list[Kind]:
    """What a side of `bench` may be: a program, a commit where a contract says how it is timed, a folder."""
    prefix, colon, _ = word.partition(":")
    if colon and prefix in PREFIXES:
        return [PREFIXES[prefix]]
    return [kind for kind in WRITTEN if _READINGS[kind](word, here) and not _out_of_place(kind, here / contract)]


def _parse_side(name: Literal["A", "B"], word: str, here: Path, contract: str, *, beside: list[Kind]) -> Side:
    """Side A or B of `bench` from one word. Beside what can only be a commit it is no program: the two are never compared.

    Raises UserError for one that is nothing, or still several things.
    """
    prefix, colon, rest = word.partition(":")
    if colon and prefix in PREFIXES:
        side = Side(name=name, kind=PREFIXES[prefix], text=rest.strip())
        if not _READINGS[side.kind](side.text, here):
            raise UserError(f"{name}: {_no_such(side, here)}")
        return side
    kinds = _list_kinds(word, here, contract)
    if len(kinds) > 1 and beside == ["commit"]:
        kinds = [kind for kind in kinds if kind != "command"]
    if not kinds:
        raise UserError(f"{name}: {_nothing(name, word, here / contract)}")
    if len(kinds) > 1:
        meanings = " and ".join(f"a {kind}" for kind in kinds)
        ways = " or ".join(f"{WRITTEN[kind]}{word}" for kind in kinds)
        raise UserError(f"{name}: {word!r} is {meanings}; write {ways}")
    return Side(name=name, kind=kinds[0], text=word)


def _is_program(text: str, here: Path) -> bool:
    """Whether the first word of a side of `bench` is a program that can be run."""
    program = first_line(text)
    if "/" in program:
        return shutil.which(here / program) is not None
    return bool(program) and shutil.which(program) is not None


def first_line(text: str) -> str:
    try:
        return next(iter(shlex.split(text)), "")
    except ValueError:  # said where the command is needed
        return text.split(maxsplit=1)[0] if text.split() else ""


def _is_folder(text: str, here: Path) -> bool:
    return bool(text) and (here / text).is_dir()


def _is_commit(text: str, here: Path) -> bool:
    return revision(text, here) is not None


_READINGS: dict[Kind, Callable[[str, Path], bool]] = {
    "command": _is_program,
    "folder": _is_folder,
    "commit": _is_commit,
}


def _out_of_place(kind: Kind, contract: Path) -> bool:
    """Whether a side of `bench` names a commit where no contract says how commits are built and timed."""
    return kind == "commit" and not contract.is_file()


def _no_such(side: Side, here: Path) -> str:
    match side.kind:
        case "command":
            return f"program {first_line(side.text)!r} not found; install it, or correct the command"
        case "commit":
            return f"{side.text!r} is no commit, branch or tag that git knows in {here}"
        case "folder":
            return f"{side.text!r} is no folder; give a git checkout with a {FILE_NAME}"


def _nothing(name: str, word: str, contract: Path) -> str:
    if word.strip() != word or " " in word:
        return f"program {first_line(word)!r} not found; install it, or correct the command"
    commit = "no commit that git knows here" if contract.is_file() else f"no commit ({contract.parent} has no contract)"
    return f"{word!r} is no folder, {commit} and no program; correct it, or say which with cmd:, commit: or dir:"
