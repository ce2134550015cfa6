"""Settings in layers: preset, contract, environment, command line. The later layer wins; every value keeps its origin.

Merge order, weakest first:

1. the preset (`evidence` unless a later layer names another),
2. recorded answers that are given again: the limits under which they were given,
3. the contract: `limits:` and `max_iterations`,
4. the environment: `RIDGELINE_<KEY>`, for example `RIDGELINE_MAX_MINUTES=30`,
5. the command line: flags such as `--max-rounds`, and `--set key=value`, which wins over its flag.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Contract
from ridgeline.graph.limits import PRESETS, RETIRED, Limits
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.store.yaml_file import nearest

if TYPE_CHECKING:
    from ridgeline.agent.providers.choice import Choice

PREFIX, OPTION = "RIDGELINE_", "--"
"""Begin the names of variables that are limits, and of options."""
OTHER_VARIABLES = frozenset(
    {
        "RIDGELINE_ADDRESS",
        "RIDGELINE_PLANNER",
        "RIDGELINE_RUN",
        "RIDGELINE_CACHE",
        "RIDGELINE_CHECKPOINTS",
        "RIDGELINE_COMPILED",
        "RIDGELINE_DEVICE_HOST",
        "RIDGELINE_MODEL",
        "RIDGELINE_BASE_URL",
        "RIDGELINE_MODEL_PRICE",
        "RIDGELINE_GATE",
        "RIDGELINE_NOTIFY",
        "RIDGELINE_SEARCH",
        "RIDGELINE_SMTP",
        "RIDGELINE_TOKEN",
        "RIDGELINE_TORCH_TRACE",
        "RIDGELINE_URL",
        "RIDGELINE_QUIET_S",
        "RIDGELINE_DEEP_DESK",
    }
)
"""Variables of ours that are no limits, those included that only processes which we start are given."""
MAX_ROUNDS = 119
"""Rules 3.1: a number of rounds is below 120, or absent for no limit."""

MODEL_CANDIDATES = 3
"""Directions that a model is asked for at once, where nobody says how many."""

GPU_BLOCKS = 24
"""Blocks in a process pair on a GPU. Starting the process takes seconds and a block takes milliseconds, and on an H100
a pair of 5 blocks still has five times the scatter of its processes (evals/research/noise)."""

JUDGED_BLOCKS = 12
"""The same where the judge times: each of its calls has values of its own and is compared, which takes milliseconds."""

OF_MODEL = "--model "
"""Begins the origin of a limit of recorded answers."""

UNASKED = frozenset(
    {
        "max_dollars",
        "max_tokens",
        "answer_tokens",
        "context_tokens",
        "tool_calls",
        "deep_minutes",
        "deep_tokens",
        "deep_device_s",
        "deep_steps",
    }
)
"""Limits of what a model is asked and paid: with recorded answers nobody is."""

Raw = str | int | float | bool | tuple[int, ...] | None


class Setting(Value):
    """One value that a layer gives."""

    key: str
    """Field of `Limits`."""
    value: Raw
    """As written; text is converted when the layers are resolved."""
    origin: str
    """What a person would change to change it, for example `ridgeline.yaml limits.margin`."""


class Layer(Value):
    """What one source says; every key is optional."""

    settings: tuple[Setting, ...] = ()


class Settings(Value):
    """The outcome: complete limits, and where each value that differs from the bare preset came from."""

    limits: Limits
    origins: tuple[tuple[str, str], ...]
    """(key, origin), for every key that a layer gave."""


def from_contract(contract: Contract, file: str = "ridgeline.yaml") -> Layer:
    """The contract's layer. Raises `UserError` for a key that no limit has."""
    settings = [_setting(key, value, f"{file}: limits.{key}") for key, value in contract.limits.items()]
    if "blocks" not in contract.limits and contract.paired_command and device_kind(contract) != "cpu":
        blocks = JUDGED_BLOCKS if contract.task_file else GPU_BLOCKS
        settings.insert(0, Setting(key="blocks", value=blocks, origin=f"{file}: paired_command on a GPU"))
    if contract.max_iterations is not None:
        settings.insert(0, Setting(key="max_rounds", value=contract.max_iterations, origin=f"{file}: max_iterations"))
    return Layer(settings=tuple(settings))


def from_model(model: "Choice | None") -> Layer:
    """What recorded answers need, weaker than every other layer; nothing for a model that is asked. Raises `UserError`."""
    if model is None or model.recording is None:
        return Layer()
    from ridgeline.agent.providers.recorded import read_limits

    origin, limits = f"{OF_MODEL}{model.name_shown}", read_limits(model.recording)
    return Layer(settings=tuple(Setting(key=key, value=value, origin=origin) for key, value in limits.items()))


def describe_unused(settings: Settings, model: "Choice") -> tuple[str, ...]:
    """A line with what a command gives that has no effect on recorded answers; none where all has.

    Raises `UserError` for more candidates at once than there are edits of.
    """
    if model.recording is None:
        return ()
    from ridgeline.agent.providers.recorded import count_candidates

    given = {key: origin for key, origin in settings.origins if origin.startswith((OPTION, PREFIX))}
    asked, most = settings.limits.candidates, count_candidates(model.recording)
    if asked > most and (origin := given.get("candidates")):
        raise UserError(
            f"{origin}: is {asked}, and {model.name_shown} has edits of {most} at once; give at most {most}, or leave it out"
        )
    unused = [origin for key, origin in given.items() if key in UNASKED]
    what = ", ".join(unused)
    return (f"not used: {what}: with recorded answers nobody is asked, and nothing is paid",) if unused else ()


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Variables `RIDGELINE_<KEY>`. Raises `UserError` for one that names nothing."""
    names = sorted(name for name in environment if name.startswith(PREFIX) and name not in OTHER_VARIABLES)
    return Layer(settings=tuple(_setting(name[len(PREFIX) :].lower(), environment[name], name) for name in names))


def from_flags(flags: Mapping[str, Raw]) -> Layer:
    """Flags that were given, by field of `Limits`; None means not given."""
    flag_names = {
        "max_dollars": "--budget-usd",
        "max_tokens": "--budget-tokens",
        "max_gpu_minutes": "--budget-gpu-minutes",
        "gpu_max_wait_s": "--max-wait",
    }
    settings = [
        Setting(key=key, value=value, origin=flag_names.get(key, f"--{key.replace('_', '-')}"))
        for key, value in flags.items()
        if value is not None
    ]
    return Layer(settings=tuple(settings))


def from_assignments(assignments: Iterable[str]) -> Layer:
    """Values of `--set key=value`. Raises `UserError` for one without `=` or with an unknown key."""
    settings: list[Setting] = []
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--set: {text!r} is not key=value; write for example --set margin=0.02")
        settings.append(_setting(key.strip(), value.strip(), f"--set {key.strip()}"))
    return Layer(settings=tuple(settings))


def resolve(layers: Iterable[Layer], *, model: bool | None = False) -> Settings:
    """Merge, weakest layer first. Raises `UserError` naming the origin of a value that cannot be.

    `model`: whether a language model thinks; None where nobody does, of a command that has no rounds. A model is asked for
    several directions at once where nobody says how many.
    """
    by_key = {setting.key: setting for layer in layers for setting in layer.settings}
    values: dict[str, Raw] = {key: _parse_value(setting) for key, setting in by_key.items()}
    for setting in by_key.values():
        _check_bounds(setting, values[setting.key])
    preset = str(values.get("preset", "evidence"))
    if preset not in PRESETS:
        raise UserError(f"{by_key['preset'].origin}: unknown preset {preset!r}; {nearest(preset, PRESETS)}")
    if preset == "evidence" and (model or values.get("search_mode") == "evolve"):
        values.setdefault("candidates", MODEL_CANDIDATES)
    try:
        limits = Limits.model_validate({**dict(PRESETS[preset]), **values})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = str(problem["loc"][0])
        message = str(problem["msg"])
        mend = "correct the value"
        if by_key[key].origin.startswith(OF_MODEL):  # recorded answers, and a preset that is not theirs
            mend = f"leave out {by_key['preset'].origin}, or give --set {key}=1 too"
        raise UserError(f"{by_key[key].origin}: {message[:1].lower()}{message[1:]}; {mend}") from None
    if limits.deep != "asked" and model is False:
        raise UserError(f"{by_key['deep'].origin}: a deep round needs a model; give --model, or leave it out")
    _check_looks(limits, by_key)
    return Settings(limits=limits, origins=tuple((key, setting.origin) for key, setting in by_key.items()))


def adjust_limits(limits: Limits, assignments: Sequence[str], *, model: bool) -> tuple[tuple[str, Raw], ...]:
    """What `--set key=value` changes of a campaign's limits, converted. Raises `UserError` for what cannot be.

    `model`: whether a language model thinks in it.
    """
    changes = from_assignments(assignments)
    names = {setting.key for setting in changes.settings}
    if fixed := sorted(names & {"preset", "approve"}):
        raise UserError(f"--set: {', '.join(fixed)}: is settled when a campaign is begun; reject it and begin another")
    base = [
        Setting(key=name, value=value, origin="the campaign's own limits")
        for name, value in limits.model_dump().items()
        if name != "approve"
    ]
    adjusted = resolve((Layer(settings=tuple(base)), changes), model=model).limits
    return tuple((name, getattr(adjusted, name)) for name in sorted(names))


def _setting(key: str, value: Raw, origin: str) -> Setting:
    """One limit's value out of a layer of settings. Raises UserError for a key that no limit has."""
    if key in RETIRED:
        raise UserError(f"{origin}: {key} was removed, because nothing ever read it; leave it out")
    if key not in Limits.model_fields:
        raise UserError(f"{origin}: unknown setting {key!r}; {nearest(key, Limits.model_fields)}")
    return Setting(key=key, value=value, origin=origin)


def _parse_value(setting: Setting) -> Raw:
    """Text as the command line and the environment have it: `none` for no limit, `1,2,4,8` for a list."""
    value = setting.value
    if not isinstance(value, str) or setting.key == "deep_plan":
        return value
    if value.lower() in ("none", "null", ""):
        return () if setting.key == "calibration_looks" else None
    if setting.key not in ("looks", "calibration_looks"):
        return value
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise UserError(f"{setting.origin}: {value!r} is not a list of numbers; write for example 1,2,4,8") from None


def _check_bounds(setting: Setting, value: Raw) -> None:
    """Raises UserError for a number of rounds that is out of bounds."""
    if setting.key != "max_rounds" or value is None:
        return
    try:
        rounds = int(str(value))
    except ValueError:
        raise UserError(f"{setting.origin}: {value!r} is not a whole number; give 1 to {MAX_ROUNDS}") from None
    if not 1 <= rounds <= MAX_ROUNDS:
        raise UserError(f"{setting.origin}: is {rounds}; give 1 to {MAX_ROUNDS}, or leave it out for no limit")


def _check_looks(limits: Limits, by_key: Mapping[str, Setting]) -> None:
    """In a campaign's settings: raises UserError unless the looks rise from 1 or more."""
    looks = limits.looks
    if not looks or looks[0] < 1 or any(later <= earlier for earlier, later in pairwise(looks)):
        origin = by_key["looks"].origin if "looks" in by_key else "looks"
        raise UserError(
            f"{origin}: looks must rise and begin with 1 or more, found {looks}; write for example 1,2,4,8,12"
        )
