"""What is asked of a comparison, checked before anything runs."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from ridgeline.agent import settings
from ridgeline.agent.errors import UserError
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Engine, Value
from ridgeline.sandbox.store.nearness import nearest
from ridgeline.sandbox.timing.comparator import Metric
from ridgeline.sandbox.timing.reported import ByCsv, ByRegex

MAX_PAIRS = 30
"""Pairs at most where nobody says: somebody who asks wants an answer, a campaign has other candidates to look at."""
PLOTS = (".png", ".svg")


class Asked(Value):
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


def limits_of(layers: tuple[settings.Layer, ...], *, max_pairs: int) -> Limits:
    """The campaign's limits with a look after every pair; nothing is dropped for looking unpromising.

    Raises UserError naming the option, variable or contract field of a value that cannot be.
    """
    found = settings.resolve(layers).limits
    return found.model_copy(update={"looks": tuple(range(1, max_pairs + 1)), "screen_pairs": max_pairs + 1})


def positive(numbers: Mapping[str, float | None]) -> None:
    """Raises UserError for an option that is given and is not a number above 0."""
    for option, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UserError(f"{option}: is {value:g}; give a number above 0")


def whole(option: str, value: int | None, *, least: int) -> None:
    """Raises UserError for an option that is given and is below `least`."""
    if value is not None and value < least:
        raise UserError(f"{option}: is {value}; give {least} or more")


def metric(*, regex: str | None, column: str | None, label: str | None, higher: bool, engine: str | None) -> Metric:
    """What is compared. Raises UserError for options that do not go together or a pattern without its one group."""
    if regex is not None and column is not None:
        raise UserError("--metric-regex and --csv: give one of them")
    if regex is None and column is None:
        given = {"--label": label is not None, "--higher-is-better": higher, "--engine": engine is not None}
        if unfit := [option for option, there in given.items() if there]:
            raise UserError(
                f"{unfit[0]}: says something of numbers that the commands report; add --metric-regex or --csv"
            )
        return Metric()
    if label is not None and column is None:
        raise UserError("--label: names a column of --csv COLUMN, which is not given")
    reader = ByCsv(column=column, label=label) if column is not None else ByRegex(pattern=_pattern(regex or ""))
    return Metric(reader=reader, higher_is_better=higher, engine=_engine(engine or "wall"))


def output_file(option: str, path: Path | None, *, endings: tuple[str, ...] = ()) -> None:
    """Raises UserError for a file that could not be written when the numbers are there."""
    if path is None:
        return
    if endings and path.suffix not in endings:
        raise UserError(f"{option}: {path.name!r} must end in {' or '.join(endings)}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UserError(f"{option}: {path} cannot be written; name a file in a folder that exists")


def _engine(word: str) -> Engine:
    engines: tuple[Engine, ...] = get_args(Engine)
    for engine in engines:
        if engine == word:
            return engine
    raise UserError(f"--engine: unknown engine {word!r}; {nearest(word, engines)}")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        found = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UserError(f"--metric-regex: {text!r}: {error}; correct the pattern") from None
    if found.groups != 1:
        raise UserError(
            f"--metric-regex: {text!r} has {found.groups} groups; put one around the number: 'time: ([0-9.]+)'"
        )
    return found
