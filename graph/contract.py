"""What a project tells Ridgeline about itself: the models behind `ridgeline.yaml`."""

import math
import re
import shlex
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ridgeline.graph.finding import Allowable
from ridgeline.graph.values import Engine, Value, is_default, is_empty, is_none

OURSELVES = "ridgeline"
"""A command of this program is run by the very installation that reads the contract, wherever PATH leads."""
SHELL_WORDS = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "&", "2>&1"})
CONFIG_NAMES = frozenset({"block_size", "mtp", "head_size"})
"""Columns that change which kernel runs, wherever a benchmark has them."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
"""How a shell sets a variable for one command."""


def _split(value: object) -> object:
    """A contract's command written as one line, as words; it is never handed to a shell. `NAME=value` before it is env's."""
    words = tuple(shlex.split(value)) if isinstance(value, str) else value
    return ("env", *words) if isinstance(words, tuple) and words and ASSIGNMENT.match(str(words[0])) else words


def _to_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _plain(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv:
        raise ValueError("is empty; write the program and its arguments")
    if words := sorted(SHELL_WORDS & set(argv)):
        raise ValueError(f"uses the shell ({' '.join(words)}); put it into a script and call the script")
    return argv


Argv = Annotated[tuple[str, ...], BeforeValidator(_split), Field(min_length=1)]
Globs = Annotated[tuple[str, ...], BeforeValidator(_to_list)]
Backend = Literal["TRITON", "CK", "HIPBLASLT", "TURBO", "FLYDSL", "HIP", "CUDA", "CUTEDSL", "C", "PYTHON"]
Mode = Literal["repo", "workspace"]


def takes_csv(argv: tuple[str, ...]) -> bool:
    """Whether a contract's command is told where to write its CSV."""
    return any("{csv}" in word for word in argv)


class BenchmarkOutput(Value):
    """Prerequisite 5: what the benchmark writes. The header is frozen at the baseline; drift raises."""

    columns: tuple[str, ...] = Field(min_length=2)
    """The CSV header, in order, byte for byte."""
    label: str = "label"
    check: str = "Check"
    """Column that says PASS, FAIL or ERROR for the row."""
    config_columns: tuple[str, ...] = ()
    """Columns whose values make a configuration class (same launch, tile and kernel path).

    Default: those of `columns` that are named block_size, mtp or head_size; `[]` for none.
    """

    @model_validator(mode="before")
    @classmethod
    def _find_config_columns(cls, fields: Any) -> Any:
        """Where a contract says nothing of classes, columns of the names that the documents give make them."""
        if (
            isinstance(fields, dict)
            and "config_columns" not in fields
            and isinstance(fields.get("columns"), list | tuple)
        ):
            return {**fields, "config_columns": tuple(name for name in fields["columns"] if name in CONFIG_NAMES)}
        return fields

    @model_validator(mode="after")
    def _names_its_columns(self) -> Self:
        for name in (self.label, self.check, *self.config_columns):
            if name not in self.columns:
                raise ValueError(f"column {name!r} is not among columns; add it or correct the name")
        return self


class ProjectOutput(Value):
    """What a program of the project writes, where it has other columns than `benchmark_output`.

    That is `benchmark_command`, and any command without `{csv}`, which writes `file`.
    """

    columns: tuple[str, ...] = Field(min_length=2)
    """Its CSV header, in order, byte for byte. Columns of `benchmark_output` that it has are read; others count as left out."""
    label: str
    """A row's label in `benchmark_output`, made of its columns: `M{M}_N{N}_K{K}`. Of rows with one label the first counts."""
    check: str | None = "Check"
    """Null where no column says it: then the rule of `correctness` does, for its column in each row."""
    time_us: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Column of microseconds, which `scoring.time_ms` of `benchmark_output` is made of."""
    file: Annotated[str | None, Field(exclude_if=is_none)] = None
    """What a command that takes no `{csv}` writes, from the contract's folder; not committed, and removed before each run."""

    @model_validator(mode="after")
    def _names_its_columns(self) -> Self:
        for name in (*re.findall(r"\{([^{}]*)\}", self.label), self.check, self.time_us):
            if name is not None and name not in self.columns:
                raise ValueError(f"column {name!r} is not among columns; add it or correct the name")
        return self


def _join_words(value: object) -> object:
    """A contract's list of addresses as one text, as an environment variable has them."""
    return " ".join(value) if isinstance(value, list) and all(isinstance(word, str) for word in value) else value


class Scoring(Value):
    """Prerequisite 6: how a row becomes a score."""

    primary_metric: Annotated[tuple[str, ...], BeforeValidator(_to_list)] = Field(min_length=1)
    """Column that decides. Several independent columns: none may fall and one must rise."""
    higher_is_better: bool = True
    forward: str | None = None
    """Throughput column of the forward pass; with `backward` the combined step 6/(2/F + 4/B) decides."""
    backward: str | None = None
    time_ms: str | None = None
    """Column with the time of one call in milliseconds, for the roofline and the reports."""
    shape_weights: Annotated[dict[str, float], Field(exclude_if=is_empty)] = {}
    """Weight of a shape in every mean over shapes, by label: the share of calls that a service makes. Others have 1;
    of a task those that its `shapes` say."""
    protected_shapes: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Shapes that may lose nothing: one that is slower with confidence, however little, rolls a round back."""
    engine: Engine = "wall"
    """What took the benchmark's times. `cpu`: processor time of a kernel of this machine's processor, as its benchmark
    reports it by `getrusage` or `CLOCK_PROCESS_CPUTIME_ID`; what sleeps, waits or runs side by side does not show in it."""

    @model_validator(mode="after")
    def _both_directions(self) -> Self:
        if self.backward and not self.forward:
            raise ValueError("backward is given without forward; name both columns")
        return self

    @field_validator("shape_weights")
    @classmethod
    def _are_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        for label, weight in weights.items():
            if not (math.isfinite(weight) and weight > 0):
                raise ValueError(f"shape_weights: {label}: {weight:g} is no weight; give a number above 0")
        return weights

    def weight(self, label: str) -> float:
        """Weight of a shape in means over shapes, as the contract says it."""
        return self.shape_weights.get(label, 1.0)

    @property
    def combined(self) -> bool:
        return self.forward is not None and self.backward is not None


class Correctness(Value):
    """How the test command says right or wrong; exit code 0 is needed in every kind."""

    kind: Literal["exit", "column", "snr", "rel_err", "allclose"] = "exit"
    column: str | None = None
    op: Literal["==", "<=", "<", ">=", ">"] = "=="
    threshold: float = 0.0
    exit_patterns: tuple[str, ...] = ("mismatch", "AssertionError", "not close", "FAIL")
    """Output that makes a failed test a correctness failure (repairable), not a broken command."""


class Rebuild(Value):
    """Prerequisite 8: whether a changed source must be built, and how."""

    required: bool
    """Whether anything is built at all."""
    command: Argv | None = None
    files: Annotated[Globs, Field(exclude_if=is_empty)] = ()
    """All that the command reads, where a candidate may change other files too, for example `csrc/**` and `setup.py`: one
    that changes none of them is not built again, and runs with what the same files gave before. Default: every change is built."""

    @model_validator(mode="after")
    def _says_how(self) -> Self:
        if self.required and self.command is None:
            raise ValueError("required is true but command is missing; give the build command")
        return self


class MinimalProject(Value):
    """Workspace mode: what the minimal project holds beyond the files that sources and commands name."""

    src: Globs = ()
    tests: Globs = ()
    bench: Globs = ()
    rebuild: Rebuild | None = None
    """How the minimal project is built; default: as the project itself is."""


class Work(Value):
    """Operations and bytes of one call, as arithmetic over the row's columns, for example `2*M*N*K`."""

    flops: str | None = None
    bytes: str | None = None


class Profile(Value):
    """What to run under a profiler: one short, representative call."""

    command: Argv
    kernel: str | None = None
    """Name of the function or kernel to look for."""


class BestKnown(Value):
    """The best kernel that is known for the operator: a library's, or another backend of the project."""

    name: str
    """For example `hipBLASLt`."""
    command: Argv
    """Times it as `quick_command` times yours: `{csv}` in the same columns, `{shapes}` a comma list of labels."""

    @field_validator("command")
    @classmethod
    def _check_command(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        if not any("{csv}" in word for word in argv):
            raise ValueError("has no {csv}; say where it must write its CSV")
        return _plain(argv)


class Knowledge(Value):
    """What the planner may look up besides the knowledge that ships with Ridgeline."""

    wiki: Globs = ()
    """Folders with `ops/`, `hardware/`, `backends/` or `cards/` in the layout of Ridgeline's own knowledge.

    Relative ones are below this file's folder. The same rules hold: every number ends in its source.
    """
    reference_project: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Folder of a checkout that a model may look through for ideas, where the knowledge has nothing new.

    Nothing of it is run, and no hardware number may be taken from it.
    """


class Audit(Value):
    """What reading a candidate's source may find without the candidate being refused for it."""

    allow: tuple[Allowable, ...] = ()
    """Rules of the audit whose findings this kernel has honest reasons for, for example `file-access`."""


PROFILE_S = 600.0


class Timeouts(Value):
    """Seconds a command of each kind may take before its process group is killed."""

    build_s: float = Field(default=600, gt=0)
    test_s: float = Field(default=60, gt=0)
    benchmark_s: float = Field(default=600, gt=0)
    format_s: float = Field(default=60, gt=0)
    profile_s: Annotated[float, Field(gt=0, exclude_if=is_default(PROFILE_S))] = PROFILE_S
    """All runs of one version under profilers of GPUs together; what is not seen by then stays unseen."""


class Contract(Value):
    """`ridgeline.yaml`. The eight prerequisites have no default: each one missing is named."""

    contract: Literal[1] = 1
    """Version of this format."""
    target_op: str = Field(pattern=r"^[a-z0-9_]+$")
    """Operator and precision as a slug, for example `gemm_fp8_blockwise`."""
    target_backend: Backend
    target_gpu: str | None = None
    """Product or architecture, for example MI300X or gfx942; `cpu` for this machine's processor."""
    dtype: str = "fp32"
    description: str = ""
    kernel_source: Globs = Field(min_length=1)
    """Prerequisite 1: the kernel's files, relative to this file's folder."""
    editable: Globs = ()
    """Globs a candidate may change; default: the kernel's files."""
    protected: Globs = ()
    """Globs nobody may change, over and above everything that is not editable."""
    test_command: Argv
    """Prerequisite 2: the focused correctness test."""
    benchmark_command: Argv
    """Prerequisite 3: the focused benchmark over all shapes; `{csv}` is the file it must write."""
    quick_command: Argv
    """Prerequisite 4: the quick validation; `{csv}`, and `{shapes}`, a comma list of labels."""
    benchmark_output: BenchmarkOutput
    """Prerequisite 5."""
    project_output: Annotated[ProjectOutput | None, Field(exclude_if=is_none)] = None
    """Of `benchmark_command`, where it differs from `benchmark_output`; its numbers are never compared with the quick ones."""
    scoring: Scoring
    """Prerequisite 6."""
    execution_mode: Mode
    """Prerequisite 7: `repo` for small changes and fast builds, `workspace` for heavy ones.

    In a workspace a candidate is first built and tested in a minimal copy of the project (`workspace`); only what it
    changes of `kernel_source` and `flags_file` goes on to the project itself, where it is tested and measured in full.
    """
    workspace: Annotated[MinimalProject, Field(exclude_if=is_default(MinimalProject()))] = MinimalProject()
    rebuild: Rebuild
    """Prerequisite 8."""
    paired_command: Argv | None = None
    """Times two builds in one process, A B B A: `{a}`, `{b}` folders, `{csv}`, `{shapes}`, `{blocks}`, `{seed}`.

    Its rows may add `at_us`, when the block ended, and `shared`, whether another process took the core meanwhile.
    """
    format_command: Argv | None = None
    """Formats changed files, which are appended as arguments; measured again before a commit."""
    full_test_command: Argv | None = None
    """The project's full suite, run once on the best version at the end."""
    profile: Profile | None = None
    best_known: Annotated[BestKnown | None, Field(exclude_if=is_none)] = None
    """What the fourth rollback in a row has the best version compared with. It is told, and decides nothing."""
    correctness: Correctness = Correctness()
    work: Work = Work()
    knowledge: Annotated[Knowledge, Field(exclude_if=is_default(Knowledge()))] = Knowledge()
    audit: Annotated[Audit, Field(exclude_if=is_default(Audit()))] = Audit()
    function: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Name of the function or kernel that is timed, where its file holds others too."""
    relaxed_math: Annotated[Literal["refused", "allowed"], Field(exclude_if=is_default("refused"))] = "refused"
    """Whether a candidate may add options that change what NaN, infinity, subnormals and rounding give: `-ffast-math`."""
    start: Annotated[Literal["kernel", "pytorch"], Field(exclude_if=is_default("kernel"))] = "kernel"
    """What the kernel's files hold: a kernel of the backend, or PyTorch alone, of which limit `write_baseline` (preset
    `router`) has the planner write a first kernel, tested and committed before the baseline is measured."""
    flags_file: str | None = None
    """Editable file with compiler flags, if the build reads one."""
    target_shapes: Literal["all"] | tuple[str, ...] = "all"
    core_shapes: tuple[str, ...] = ()
    """Shapes guarded by the 5 % rule; default: the active set."""
    skew_shapes: tuple[str, ...] = ()
    """Grouped operators: rows with a skewed distribution, always measured."""
    empty_group_test: Annotated[str | None, Field(exclude_if=is_none)] = None
    """Grouped operators: the test with a group that has no rows, as `FILE::NAME`; `test_command` or `full_test_command`
    runs that file."""
    threads: int = Field(default=1, ge=1)
    device_host: Annotated[str, BeforeValidator(_join_words), Field(exclude_if=is_empty)] = ""
    """Machine that builds, tests and times, `ssh://[USER@]HOST[:PORT][/PATH/OF/ridgeline]`, while planner and record stay
    here; empty: this one. Further ones, in a list, only build and test candidates of the same round."""
    performance_target: str | None = None
    """For example `>500 TFLOPS` or `>60% peak efficiency`."""
    max_iterations: int | None = None
    git_commit: bool = True
    git_branch: str = "auto"
    timeouts: Timeouts = Timeouts()
    memory_limit_mb: int = Field(default=8192, ge=64)
    pass_environment: tuple[str, ...] = ()
    """Names of environment variables the commands need; everything else is withheld.

    A path that one holds is readable; a folder in one named `...CACHE`, `..._CACHE_DIR` or `..._CACHE_PATH` may be written."""
    limits: dict[str, float | int | bool | str] = Field(default_factory=dict)
    """Overrides of `ridgeline.graph.limits.Limits`, checked when the limits are resolved."""

    @field_validator("test_command", "benchmark_command", "quick_command", "paired_command")
    @classmethod
    def _no_shell(cls, argv: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return argv if argv is None else _plain(argv)

    @field_validator("max_iterations")
    @classmethod
    def _check_bound(cls, rounds: int | None) -> int | None:
        if rounds is not None and not 1 <= rounds < 120:
            raise ValueError(f"is {rounds}; give 1 to 119, or leave it out for no limit")
        return rounds

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        numeric = (*self.scoring.primary_metric, self.scoring.forward, self.scoring.backward, self.scoring.time_ms)
        for name in numeric:
            if name and name not in self.benchmark_output.columns and not self.scoring.combined:
                raise ValueError(f"scoring: column {name!r} is not in benchmark_output.columns; correct one of them")
        for field in ("benchmark_command", "quick_command"):
            if not takes_csv(getattr(self, field)) and self.fixed_file is None:
                raise ValueError(
                    f"{field}: has no {{csv}}; say where the benchmark must write its CSV, or what it writes as it is"
                    " under project_output: file"
                )
        output, rule = self.project_output, self.correctness
        if output is not None and output.check is None and (rule.kind != "column" or rule.column not in output.columns):
            raise ValueError(
                "project_output.check: is null; then correctness needs kind: column, and one of those columns"
            )
        return self

    @property
    def fixed_file(self) -> str | None:
        """The CSV that a contract's commands without `{csv}` write, from the contract's folder."""
        return self.project_output.file if self.project_output else None

    def read_as(self, field: str) -> ProjectOutput | None:
        """How the CSV of a contract's command is read; None where it has the columns of `benchmark_output`."""
        fixed = field == "quick_command" and not takes_csv(self.quick_command)
        return self.project_output if fixed or field == "benchmark_command" else None

    @property
    def judged(self) -> bool:
        """Whether Ridgeline's own judge tests and times the candidates, apart and on values that nobody knows."""
        commands = (self.test_command, self.benchmark_command, self.quick_command, self.paired_command)
        return all(argv is None or argv[:2] == (OURSELVES, "judge") for argv in commands)

    @property
    def local_rebuild(self) -> Rebuild:
        """How the minimal project of workspace mode is built."""
        return self.workspace.rebuild or self.rebuild

    @property
    def task_file(self) -> str | None:
        """The task that Ridgeline's own judge is asked about, from the contract's folder; None for other commands.

        Commands that say more than the usual ones of a task are run as they are written.
        """
        task_path = self.test_command[-1]
        return (
            task_path if all(getattr(self, name) == argv for name, argv in judge_commands(task_path).items()) else None
        )

    @property
    def editable_globs(self) -> tuple[str, ...]:
        """The whole editable surface of a contract."""
        extra = (self.flags_file,) if self.flags_file else ()
        return tuple(dict.fromkeys((*(self.editable or self.kernel_source), *extra)))


def judge_commands(task_file: str) -> dict[str, Argv]:
    """The commands of a task's contract, by field. The loop runs none of them: it asks the judge."""
    judge, shapes = (OURSELVES, "judge"), ("--csv", "{csv}", "--shapes", "{shapes}")
    return {
        "test_command": (*judge, "test", task_file),
        "benchmark_command": (*judge, "bench", task_file, "--csv", "{csv}"),
        "quick_command": (*judge, "bench", task_file, *shapes),
        "paired_command": (
            *judge,
            "pair",
            task_file,
            "{a}",
            "{b}",
            *shapes,
            "--blocks",
            "{blocks}",
            "--seed",
            "{seed}",
        ),
    }


PREREQUISITES = {
    "kernel_source": "1 kernel source path",
    "test_command": "2 focused test command",
    "benchmark_command": "3 focused benchmark command",
    "quick_command": "4 quick-validation template",
    "benchmark_output": "5 benchmark output format",
    "scoring": "6 scoring rule",
    "execution_mode": "7 execution_mode recommendation",
    "rebuild": "8 rebuild requirement and command",
}
"""Field of each prerequisite and what a person calls it."""
