"""Every threshold that a user or a preset may set, in one frozen place; presets are named sets of them."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ridgeline.graph.approval import GATES, Gate, Late
from ridgeline.graph.values import Value, is_default

Preset = Literal["evidence", "campaign", "router", "autonomous"]
SearchMode = Literal["linear", "evolve"]


RETIRED = frozenset({"chain_tolerance", "hit_rate_min", "stagnation_new_directions"})
"""Settings that older campaigns have on record and that no rule ever read."""


class Limits(Value):
    """Numbers are those of the design documents unless a field says otherwise."""

    preset: Preset = "evidence"
    # how candidates are compared (evidence)
    alpha: float = Field(default=0.01, gt=0, lt=0.5)
    """False-accept rate per candidate, however often its pairs are looked at."""
    margin: float = Field(default=0.005, ge=0, lt=1)
    """The lower confidence bound of the gain must exceed this and the calibration's allowance (`Estimate.required`)."""
    blocks: int = Field(default=5, ge=2, le=64)
    """ABBA blocks inside one process pair."""
    looks: tuple[int, ...] = tuple(range(1, 13))
    """Numbers of fresh process pairs at which a candidate may be kept (from the second pair on) or dropped."""
    screen_pairs: int = Field(default=2, ge=1)
    """From this look on, a candidate whose estimate is below the margin is dropped; confirming is for the others."""
    futility: float = Field(default=0.10, gt=0, lt=0.5)
    """Dropped as soon as its gain is below the margin at this error rate, the first look included."""
    calibration_pairs: int = Field(default=16, ge=0)
    """Process pairs of the original against itself before any candidate: what noise looks like here. 0 measures none."""
    calibration_looks: Annotated[tuple[int, ...], Field(exclude_if=is_default(()))] = ()
    """Numbers of these pairs at which calibrating ends early where noise is small for sure; none: never, as campaigns did
    before this limit was."""
    calibration_late: Annotated[bool, Field(exclude_if=is_default(False))] = False
    """Calibrating waits until the first candidate is about to be measured: no question does. False calibrates before the
    first question, as campaigns did before this limit was."""
    unmeasured_apart: Annotated[bool, Field(exclude_if=is_default(False))] = False
    """Candidates that a busy machine left without numbers are no sign of stagnation, and no lesson is asked about them. False
    counts them as rollbacks, as campaigns did before this limit was."""
    calibration_minutes: float = Field(default=2.0, gt=0)
    """Calibrating ends early after this long, with the pairs it has."""
    canary_every: int = Field(default=8, ge=0)
    """After so many rounds the best version is timed against itself again. 0 never."""
    canary_pairs: int = Field(default=2, ge=2)
    drift_limit: float = Field(default=0.03, gt=0)
    """A version whose time has moved by more than this since it was measured has the machine calibrated again."""
    dropped_blocks_limit: float = Field(default=0.20, ge=0, lt=1)
    """Largest share of disturbed blocks that may be left out."""
    lost_in_a_row: Annotated[int, Field(ge=1, exclude_if=is_default(1))] = 1
    """So many pairs in a row that the machine disturbed end a candidate's measuring without numbers. For fewer, others
    are timed instead, within `looks`. 1 gives up at the first, as campaigns did before this limit was."""
    candidates: Annotated[int, Field(ge=1, le=8, exclude_if=is_default(1))] = 1
    """Directions that are tried side by side against the same best version, of which at most one is kept; each is a
    round on record. They share `alpha`, so only preset `evidence`, which has an error rate, takes more than 1."""
    deep: Annotated[Literal["asked", "stagnation", "start"], Field(exclude_if=is_default("asked"))] = "asked"
    """When a round is a deep one: when a person asks; after a stagnation review too, where the planner wants one; the
    first round too. Needs a model."""
    deep_plan: Annotated[str, Field(max_length=2000, exclude_if=is_default(""))] = ""
    """What the deep round at the start is for, for example `write it anew in Gluon`; empty: as the worker sees fit."""
    deep_minutes: Annotated[float, Field(gt=0, exclude_if=is_default(30.0))] = 30.0
    """Work in one deep round; waiting for a person is none."""
    deep_tokens: Annotated[int, Field(ge=1000, exclude_if=is_default(2_000_000))] = 2_000_000
    """Of the model in one deep round, what it is told counted anew at each of its calls."""
    deep_device_s: Annotated[float, Field(gt=0, exclude_if=is_default(600.0))] = 600.0
    """Seconds that the timings and profiles of one deep round may take."""
    deep_steps: Annotated[int, Field(ge=1, le=1000, exclude_if=is_default(100))] = 100
    """Calls of tools in one deep round."""
    # where a question begins from (search mode `evolve`: `rules.archive`)
    search_mode: Annotated[SearchMode, Field(exclude_if=is_default("linear"))] = "linear"
    """linear: every question begins from the best version. evolve: from a measured candidate that is drawn from an
    archive of cells on islands; what is kept is proven against the best version all the same. With 1 of `candidates`
    both are the same."""
    search_seed: Annotated[int, Field(ge=0, exclude_if=is_default(0))] = 0
    """What parents are drawn with: the same seed and the same ledger give the same parent."""
    islands: Annotated[int, Field(ge=1, le=20, exclude_if=is_default(3))] = 3
    population: Annotated[int, Field(ge=2, exclude_if=is_default(100))] = 100
    """Candidates that the archive holds; the one with the lowest score leaves it. The ledger keeps all."""
    elites: Annotated[int, Field(ge=1, exclude_if=is_default(50))] = 50
    migration_every: Annotated[int, Field(ge=1, exclude_if=is_default(10))] = 10
    """Generations (questions) after which the best of each island are copied to the next one."""
    migration_rate: Annotated[float, Field(ge=0, le=1, exclude_if=is_default(0.2))] = 0.2
    """Share of an island that is copied."""
    max_generations: Annotated[int, Field(ge=1, exclude_if=is_default(30))] = 30
    patience: Annotated[int, Field(ge=1, exclude_if=is_default(5))] = 5
    """Generations without `min_rel_improve` after which search mode `evolve` ends."""
    min_rel_improve: Annotated[float, Field(ge=0, exclude_if=is_default(0.01))] = 0.01
    tuning_points: Annotated[int, Field(ge=0, le=1000, exclude_if=is_default(0))] = 0
    """Points that a declared sweep over several parameters tries inside one round, by one process pair each; its best one
    meets the gate on fresh pairs. 0 moves one parameter a round, as campaigns did before this limit was."""
    warm_start: Annotated[bool, Field(exclude_if=is_default(False))] = False
    """Best versions of earlier campaigns of the same operator, machine and language are candidates of the first question,
    judged again from nothing. False begins from the original alone, as campaigns did before this limit was."""
    final_pairs: int = Field(default=8, ge=3)
    """Pairs of the champion-versus-original test."""
    shape_guard: float = Field(default=0.02, ge=0)
    """No shape may be slower than this with confidence."""
    # what a core shape may lose, in every preset
    core_shape_regress_limit: float = 0.05
    """A core shape that measures slower by this share rejects a candidate (`core_regression`), proven or not."""
    # gates of presets `campaign`, `router` and `autonomous`
    near_noise_limit: float = 0.02
    valid_mean_improvement: float = 0.01
    noise_sigma_fraction: float = 0.5
    min_remeasure: int = 3
    borderline_full_limit: float = 0.05
    inflation_gap_limit: float = 0.01
    noise_threshold: float = 0.01
    repeat_same_direction: int = 2
    measurement_suspect_delta: float = 0.30
    accept_tie_with_benefit: bool = False
    keep_gpu_time: bool = False
    """The trace gate: kernel time of the profiler must improve too."""
    occupancy_drop_limit: float = 0.25
    # repairs and streaks
    max_repairs: int = Field(default=3, ge=0, le=10)
    repair_builds: bool = True
    """A failed build may be repaired too (a preset may roll back at once)."""
    regression_stop: bool = False
    max_consecutive_regressions: int = Field(default=5, ge=1, le=50)
    recent_regressions_window: int = 5
    stagnation_rollbacks: int = 2
    stagnation_same_category: int = 3
    stagnation_same_bottleneck: int = 4
    split: bool = True
    write_baseline: Annotated[bool, Field(exclude_if=is_default(False))] = False
    """Where a contract starts from PyTorch, the planner writes the first kernel, and that is the original."""
    mask_fraction: float = 0.5
    max_restarts: int = 1
    # ends
    target_peak_fraction: float | None = 0.90
    """Stop at this share of the bounding ceiling; None never stops for it."""
    endless: bool = False
    max_rounds: int | None = Field(default=None, ge=1)
    """Attempts after the baseline; the command line's and the contract's max_iterations."""
    max_minutes: float | None = Field(default=None, gt=0)
    max_dollars: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    answer_tokens: int = Field(default=8192, ge=100)
    """Longest answer that is asked of a model, and so what one question may cost at most."""
    max_gpu_minutes: float | None = Field(default=None, gt=0)
    """Minutes of commands on a machine with a GPU, builds included."""
    # what a model may use for one question
    tool_calls: int = Field(default=12, ge=0, le=100)
    """Read-only tool calls of one planning question."""
    context_tokens: int = Field(default=24_000, ge=1_000)
    """Tokens of what a model is told at once, beside the fixed words of the prompt."""
    # a person approves
    approve: Annotated[tuple[Gate, ...], Field(exclude_if=is_default(()))] = ()
    """Where the campaign waits for a person: target, hypothesis, change; a list, or one word with commas."""
    approval_hours: Annotated[float, Field(ge=0, exclude_if=is_default(0.0))] = 0.0
    """After so long nobody is waited for any more; 0 waits for ever."""
    approval_late: Annotated[Late, Field(exclude_if=is_default("hold"))] = "hold"
    """What happens then: hold, reject or accept."""
    # waiting
    poll_max_s: float = Field(default=900, gt=0)
    """Longest single wait for a command or an idle card, in seconds; after it is looked whether anything goes on."""
    poll_stuck_windows: int = Field(default=2, ge=1)
    """So many such waits in a row without output or work, and a command hangs: it is ended as out of time."""
    gpu_retry_interval_s: float = 600
    gpu_max_wait_s: float = Field(default=3600, ge=0)
    """Longest wait for a device that is in use, in seconds: a card, or the processor where another campaign times."""

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, values: object) -> object:
        """Ledgers and requests of older campaigns still name them."""
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if key not in RETIRED}

    @field_validator("candidates")
    @classmethod
    def _shared_error_rate(cls, candidates: int, others: ValidationInfo) -> int:
        preset = others.data.get("preset")
        if candidates > 1 and preset != "evidence":
            raise ValueError(f"{candidates} candidates need preset evidence: {preset} has no error rate to share")
        return candidates

    @field_validator("search_mode")
    @classmethod
    def _proven_by_pairs(cls, mode: SearchMode, others: ValidationInfo) -> SearchMode:
        preset = others.data.get("preset")
        if mode == "evolve" and preset != "evidence":
            raise ValueError(f"search mode evolve needs preset evidence: {preset} tries one direction at a time")
        return mode

    @field_validator("approve", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
        if isinstance(words, list | tuple) and (unknown := [word for word in words if word and word not in GATES]):
            raise ValueError(f"{', '.join(map(str, unknown))}: no gate; use {', '.join(GATES)}")
        return tuple(gate for gate in GATES if gate in words) if isinstance(words, list | tuple) else words


PRESETS: dict[Preset, Limits] = {
    "evidence": Limits(
        lost_in_a_row=3, calibration_looks=(4, 6, 8, 12), calibration_late=True, unmeasured_apart=True, warm_start=True
    ),
    "campaign": Limits(preset="campaign", repair_builds=False, max_restarts=0),
    "router": Limits(preset="router", repair_builds=False, split=False, write_baseline=True, max_restarts=3),
    "autonomous": Limits(
        preset="autonomous",
        repair_builds=False,
        keep_gpu_time=True,
        regression_stop=True,
        endless=True,
        target_peak_fraction=None,
        max_restarts=0,
    ),
}
"""`campaign` is design documents 000 and 001, `router` is 002, `autonomous` is 003."""

DOCUMENTS: dict[Preset, str] = {
    "campaign": "design documents 000 and 001",
    "router": "design document 002",
    "autonomous": "design document 003",
}
"""Whose rules a preset follows where it does not follow Ridgeline's own; `evidence` is Ridgeline's own."""


def by_document(limits: Limits) -> str:
    """Whose rule it is that decides by these limits, in words for a reason."""
    source = DOCUMENTS.get(limits.preset)
    return f"by the rule of preset `{limits.preset}`" + (f" ({source})" if source else "")
