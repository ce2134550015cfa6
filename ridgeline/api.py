"""What programs may rely on: four calls, the frozen values that they return, and the errors that they raise.

Every error is a `RidgelineError`, with one line that names what is wrong and the mend, and with the `exit_code` of the
command line: `UserError` for input, `CampaignError` for a kernel on which nothing can be optimized, `WorldError` for
a device, disk, tool or repository that fails. Values are pydantic models; `value.model_dump(mode="json")` is what the
command of the same name prints with `--json`. Nothing is printed on standard output; what a campaign says while it
runs goes to `progress`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ridgeline.agent import verification
from ridgeline.agent.bench.comparison import Answer as Comparison
from ridgeline.agent.bench.request import Request
from ridgeline.agent.bench.run import compare_versions
from ridgeline.agent.campaign import runner, settings
from ridgeline.agent.campaign.progress import Outcome, Progress, SilentProgress
from ridgeline.agent.campaign.wiring import PLANNERS
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.choice import choose
from ridgeline.graph.errors import CampaignError, RidgelineError, WorldError
from ridgeline.graph.judgment import Judgment
from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.store.yaml_file import nearest

__all__ = [
    "CampaignError",
    "Comparison",
    "Judgment",
    "Outcome",
    "Progress",
    "Recording",
    "RidgelineError",
    "UserError",
    "WorldError",
    "compare",
    "judge",
    "optimize",
    "read_profile",
]


def compare(
    a: str,
    b: str,
    *,
    folder: Path | str = ".",
    csv: str | None = None,
    label: str | None = None,
    metric_regex: str | None = None,
    higher_is_better: bool = False,
    engine: str | None = None,
    clock: Literal["wall", "cpu"] = "wall",
    alpha: float | None = None,
    margin: float | None = None,
    calibration_pairs: int | None = None,
    blocks: int | None = None,
    max_pairs: int = 30,
    max_minutes: float = 10.0,
    timeout_s: float = 600.0,
    threads: int | None = None,
    gpu: bool = False,
    seed: int = 0,
    raw: Path | None = None,
) -> Comparison:
    """Whether B is faster than A, in interleaved fresh processes, with an error rate that holds at every look.

    `a`, `b`: two command lines (run without a shell), or two commits, branches or checkouts of a repository with a
    contract. `folder`: where commands run and words are looked up. By default whole wall times are compared, with
    `clock="cpu"` the processor time of each command and all it waits for, in which sleeping, waiting and devices do not
    show; `csv` names a column and `label` the column of shapes of the CSV that the commands print, `metric_regex` the
    one number that its group finds. `alpha`: chance of a false gain (0.01); `margin`: least gain that counts, as a share (0.005).
    `calibration_pairs`: A against itself first (16; 0 for none). `blocks`: ABBA blocks in a pair. `timeout_s`: for one
    run. `threads=1` pins each run to a core; `gpu=True` waits for an idle card and holds it. `raw`: keeps all timings.

    The answer's `ratio`, `lower` and `upper` are t_A / t_B: above 1, B is faster; `verdict` is faster, not_faster or
    undecided. Raises UserError for input, WorldError where a command fails or no card is idle.
    """
    if clock not in ("wall", "cpu"):
        raise UserError(f"clock: is {clock!r}; give wall or cpu")
    request = Request(
        a=a,
        b=b,
        csv=csv,
        label=label,
        metric_regex=metric_regex,
        higher_is_better=higher_is_better,
        engine=engine,
        cpu_time=clock == "cpu",
        alpha=alpha,
        margin=margin,
        calibration_pairs=calibration_pairs,
        blocks=blocks,
        max_pairs=max_pairs,
        max_minutes=max_minutes,
        timeout=timeout_s,
        threads=threads,
        gpu=gpu,
        seed=seed,
        raw=raw,
        quiet=True,
    )
    return compare_versions(request, Path(folder).resolve())


def judge(
    task: Path | str,
    *,
    candidate: Path | str | None = None,
    against: Path | str | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    margin: float = 0.005,
    alpha: float = 0.01,
    max_pairs: int = 12,
) -> Judgment:
    """Whether a task's candidate is correct, faster and its own work; its code runs in processes of its own.

    `task`: a task.yaml or its folder. `candidate`, `against`: folders with the new version and the one to beat; the
    task's own where they are left out. `cuda` is a card of AMD too. `margin`: least gain that counts, as a share;
    `alpha`: chance of calling an equal candidate faster; `max_pairs`: process pairs after which it stays undecided.

    `accepted` sums up the three answers; each is yes, no or unverified, with its evidence. Nothing is
    accepted in a task whose known holes let wrong kernels pass. Raises UserError for input, WorldError where the
    reference or the machine fails.
    """
    try:
        options = Options(device=device, margin=margin, alpha=alpha, most_pairs=max_pairs)
    except ValidationError as error:
        raise _refusal("judge", error) from None
    folders = (Path(candidate) if candidate else None, Path(against) if against else None)
    return verification.judge_candidate(Path(task), *folders, options)


def optimize(
    contract: Path | str,
    *,
    instruction: str = "",
    planner: str = "catalog",
    model: str | None = None,
    base_url: str | None = None,
    preset: str | None = None,
    max_rounds: int | None = None,
    max_minutes: float | None = None,
    max_dollars: float | None = None,
    candidates: int | None = None,
    limits: Mapping[str, float | int | str] | None = None,
    target: Mapping[str, str] | None = None,
    campaign_dir: Path | str | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run a campaign to its end, or until it waits for an answer; each change is kept only if it is proven.

    `contract`: a ridgeline.yaml or its folder, in a git repository. `planner`: `catalog` applies known levers without a
    model; `model` (litellm's provider/model, `mailbox`, or `recorded:FOLDER`) thinks in its place, `base_url` is an OpenAI-compatible
    server's address. `limits`: any other limit by name, as `ridgeline run --set`; `target`: parameters of the target, as
    `--target`. `candidates`: directions that are tried side by side, as `--candidates`. `campaign_dir`: where the campaign is
    kept; by default below agent/workspace in the repository.

    `status` is concluded, waiting, stopped or no_device; `speedup` and `speedup_lower` are of the final test, None where
    there was none. Your checkout is not touched: kept changes are commits on `branch`. Raises UserError for input,
    CampaignError where the unmodified kernel fails its test, WorldError where device, disk or repository fail.
    """
    loaded = load(Path(contract))
    if planner not in PLANNERS:
        raise UserError(f"planner: {planner!r} is unknown; {nearest(planner, PLANNERS)}")
    thinking = choose(model, base_url=base_url, fallbacks=[], environment={}) if model else None
    ends = {"max_rounds": max_rounds, "max_minutes": max_minutes, "max_dollars": max_dollars}
    flags = {"preset": preset, **ends, "candidates": candidates}
    resolved = settings.resolve(
        [
            settings.from_model(thinking),
            settings.from_contract(loaded.contract, loaded.path.name),
            settings.from_environment(os.environ),
            settings.from_flags(flags),
            settings.from_assignments([f"{key}={value}" for key, value in (limits or {}).items()]),
        ],
        model=thinking is not None,
    )
    return runner.start(
        runner.StartRequest(
            contract=loaded,
            instruction=instruction,
            limits=resolved.limits,
            planner=thinking.planner if thinking else planner,
            model=thinking,
            overrides=dict(target or {}),
            progress=progress or SilentProgress(),
            campaign_dir=Path(campaign_dir).absolute() if campaign_dir else None,
        )
    )


def read_profile(path: Path | str) -> tuple[Recording, ...]:
    """What a profiler recorded: one recording per process and GPU, most compute time first.

    `path`: a file, a folder or a tar.gz of rocprofv3, rocprof-compute, ncu (CSV pages) or torch.profiler; the format is
    found by content. Times are nanoseconds, sizes bytes, rates GB/s; what was not recorded is None. Raises UserError
    that names the file and line of what is damaged or unknown.
    """
    try:
        return read_recordings(Path(path))
    except RecordingError as error:
        raise UserError(str(error)) from error


def _refusal(call: str, error: ValidationError) -> UserError:
    """The first thing that is wrong with the arguments, in one line."""
    problem = error.errors()[0]
    field = ".".join(str(part) for part in problem["loc"])
    return UserError(f"{call}: {field}: {problem['msg'][:1].lower()}{problem['msg'][1:]}; correct the argument")
