"""Find, read and check a `ridgeline.yaml`; every problem becomes one line with file, field and mend."""

import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import get_args

from pydantic import ValidationError

from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.agent.knowledge_folders import require_readable, roots, unreadable, unsound
from ridgeline.graph.contract import CONFIG_NAMES, OURSELVES, PREREQUISITES, Contract
from ridgeline.graph.finding import Allowable
from ridgeline.graph.formula import FormulaError, evaluate
from ridgeline.graph.rules.audit import RELAXED_RULE
from ridgeline.graph.rules.define import state_precision
from ridgeline.graph.rules.shapes import is_grouped
from ridgeline.graph.values import Value
from ridgeline.knowledge.definitions import list_functions
from ridgeline.knowledge.rewrite import code
from ridgeline.sandbox.audit.shared import C_LIKE
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.judge.task_file import TaskError, load_task
from ridgeline.sandbox.store.yaml_file import NotReadable, document, explain_errors, fields_of_lines, unknown_keys
from ridgeline.sandbox.workspace.globs import matches

logger = logging.getLogger(__name__)

FILE_NAME = "ridgeline.yaml"
SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)
INTERPRETER = re.compile(r"python[\d.]*|bash|sh|perl|node")
SCRIPT = re.compile(r"^[^{}-].*\.(py|sh|pl|js)$")
MARK = "RIDGELINE FILL IN"
"""Stands at each place of a written harness that only a person can fill."""
THROUGHPUT = re.compile(r"flop|[a-z]/s(?:ec)?(?![a-z])|[kmgt]i?bps", re.IGNORECASE)
"""In the name of a column that is no time."""
OTHER_UNIT = re.compile(
    r"(?:^|[\s_(\[,/])(?:[uµμn]s(?:ec)?|s|secs?|seconds|microseconds|nanoseconds)[\])]?$", re.IGNORECASE
)
"""At the end of the name of a column of times in another unit than milliseconds."""
LARGEST_HARNESS = 200_000
"""Bytes of a file that is looked through for marks."""
COMMANDS = (
    "test_command",
    "benchmark_command",
    "quick_command",
    "paired_command",
    "format_command",
    "full_test_command",
)


class LoadedContract(Value):
    """A contract that was read from a file and agrees with the folder it lies in."""

    contract: Contract
    path: Path
    """The file, absolute."""
    root: Path
    """Its folder: every path in the contract is relative to it."""
    warnings: tuple[str, ...] = ()
    """What is allowed and still worth a look, one line each."""


def load(path: Path) -> LoadedContract:
    """Read and check a contract, or the `ridgeline.yaml` of a folder. Raises `UserError`, several problems at once."""
    file = _find(path)
    fields = _document(file)
    problems = [*unknown_keys(fields, Contract), *_missing(fields), *_not_allowable(fields)]
    try:
        contract = state_precision(Contract.model_validate(fields))
    except ValidationError as error:
        problems.extend(line for line in explain_errors(error) if line.split(":")[0] not in fields_of_lines(problems))
        raise UserErrors([f"{file.name}: {line}" for line in problems]) from None
    contract = _take_weights(contract, file.parent)
    problems = [
        *_find_unmatched_globs(contract, file.parent),
        *_list_missing_programs(contract, file.parent),
        *_formulas(contract),
    ]
    problems += _wikis(contract, file.parent)
    problems += _find_marked_places(contract, file.parent)
    problems += _find_undefined_function(contract, file.parent)
    problems += [
        *_find_locked_editables(contract, file.parent),
        *_find_unbuilt_sources(contract, file.parent),
        *_misused_columns(contract),
        *_absent_processors(contract),
        *_find_unfit_engine(contract),
        *_find_unrun_empty_group(contract, file.parent),
        *_find_unskewed_groups(contract),
    ]
    if problems:
        raise UserErrors([f"{file.name}: {line}" for line in problems])
    warnings = tuple(f"{file.name}: {line}" for line in (*_secrets(contract), *_explain_untested_groups(contract)))
    for line in warnings:
        logger.warning("%s", line)
    return LoadedContract(contract=contract, path=file, root=file.parent, warnings=warnings)


def is_contract(file: Path) -> bool:
    """Whether a file holds a contract's commands, right or wrong: who asks for a task by mistake is told so in a line."""
    try:
        return not {*COMMANDS}.isdisjoint(document(file, empty=""))
    except (NotReadable, OSError):
        return False


def with_wikis(loaded: LoadedContract, folders: Sequence[Path]) -> LoadedContract:
    """The contract with more folders of knowledge, after its own. Raises `UserError` for one that is no wiki."""
    for folder in require_readable(folders, "--wiki"):
        if why := unsound(folder):
            raise UserError(f"--wiki: {folder}: {why}")
    wikis = (*loaded.contract.knowledge.wiki, *(str(folder.resolve()) for folder in folders))
    knowledge = loaded.contract.knowledge.model_copy(update={"wiki": tuple(dict.fromkeys(wikis))})
    return loaded.model_copy(update={"contract": loaded.contract.model_copy(update={"knowledge": knowledge})})


def schema() -> dict[str, object]:
    """JSON Schema of `ridgeline.yaml`."""
    return Contract.model_json_schema()


def _take_weights(contract: Contract, root: Path) -> Contract:
    """The contract with what its task says of the weight and protection of sizes, where it says nothing itself."""
    if contract.task_file is None or contract.scoring.shape_weights or contract.scoring.protected_shapes:
        return contract
    try:
        task, _ = load_task(root / contract.task_file)
    except TaskError:
        return contract  # told where the task is used
    weights = {size.label: size.weight for size in task.timed if size.weight != 1}
    protected = tuple(size.label for size in task.timed if size.protected)
    if not (weights or protected):
        return contract
    scoring = contract.scoring.model_copy(update={"shape_weights": weights, "protected_shapes": protected})
    return contract.model_copy(update={"scoring": scoring})


def _find(path: Path) -> Path:
    file = path / FILE_NAME if path.is_dir() else path
    if file.is_file():
        return file.resolve()
    if path.is_dir():
        raise UserError(
            f"{path}: has no {FILE_NAME}; write one with `ridgeline init {path}`, of a bare function with --function NAME"
        )
    if not path.exists():
        raise UserError(f"{path}: no such file; give a {FILE_NAME} or its folder, or write one with `ridgeline init`")
    raise UserError(f"{path}: is not a regular file; give a {FILE_NAME} or its folder")


def _document(file: Path) -> dict[str, object]:
    try:
        return document(file, empty=f"write a commented one with `ridgeline init {file.parent}`")
    except NotReadable as error:
        raise UserError(str(error)) from None


def _missing(fields: Mapping[str, object]) -> Iterator[str]:
    mends = {
        "kernel_source": "name the kernel's files, for example `kernel_source: [kernel.c]`",
        "test_command": "give the test of this kernel alone, for example `test_command: python test_op.py`",
        "benchmark_command": "give it with {csv}, for example `benchmark_command: python bench.py --csv {csv}`",
        "quick_command": "give it with {csv} and {shapes}, for example `python bench.py --csv {csv} --shapes {shapes}`",
        "benchmark_output": "list the CSV header under `benchmark_output: columns:`",
        "scoring": "name the deciding column under `scoring: primary_metric:`",
        "execution_mode": "write `repo` (small change, fast build) or `workspace` (heavy build)",
        "rebuild": "write `rebuild: {required: false}`, or `required: true` and the `command`",
    }
    for name, title in PREREQUISITES.items():
        if fields.get(name) is None:
            yield f"{name}: missing (prerequisite {title}); {mends[name]}"


def _not_allowable(fields: Mapping[str, object]) -> Iterator[str]:
    """Complaints about a contract: rules of the audit that none may allow, and words that are no rule."""
    audit = fields.get("audit")
    allow = audit.get("allow") if isinstance(audit, dict) else None
    names = get_args(Allowable)
    for place, name in enumerate(allow if isinstance(allow, list) else ()):
        if not isinstance(name, str) or name in names:
            continue
        from ridgeline.sandbox.audit.rules import CONVICTING

        if name == RELAXED_RULE:
            why = f"{name}: has a field of its own; write `relaxed_math: allowed`"
        elif name in CONVICTING:
            why = f"{name}: this one convicts, and cannot be allowed; remove it, and write the kernel without"
        else:
            close = get_close_matches(name, names, n=1)
            mend = f"did you mean {close[0]!r}?" if close else "`ridgeline audit` names the rules that it finds"
            why = f"{name!r} is no rule of the audit; {mend}"
        yield f"audit.allow.{place}: {why}"


def _find_unmatched_globs(contract: Contract, root: Path) -> Iterator[str]:
    flags = (contract.flags_file,) if contract.flags_file else ()
    for field, globs in (
        ("kernel_source", contract.kernel_source),
        ("editable", contract.editable),
        ("protected", contract.protected),
        ("flags_file", flags),
        ("rebuild.files", contract.rebuild.files),
        ("workspace.src", contract.workspace.src),
        ("workspace.tests", contract.workspace.tests),
        ("workspace.bench", contract.workspace.bench),
    ):
        for glob in globs:
            if Path(glob).is_absolute() or ".." in Path(glob).parts:
                yield f"{field}: {glob!r} leaves the contract's folder; give paths below {root}"
            elif not any(match.is_file() for match in _matches(root, glob)):
                yield f"{field}: {glob!r} matches no file in {root}; correct the path or the pattern"


def _find_locked_editables(contract: Contract, root: Path) -> Iterator[str]:
    """A complaint for each glob of a contract's editable surface of which `protected` leaves no file to change."""
    for field in ("editable", "flags_file") if contract.editable else ("kernel_source", "flags_file"):
        globs = getattr(contract, field) or ()
        for glob in (globs,) if isinstance(globs, str) else globs:
            if Path(glob).is_absolute():
                continue
            files = [match.relative_to(root).as_posix() for match in _matches(root, glob) if match.is_file()]
            if files and all(matches(file, contract.protected) for file in files):
                yield f"{field}: {glob!r} may be edited and is under `protected` too; take it out of one of them"


def _find_unbuilt_sources(contract: Contract, root: Path) -> Iterator[str]:
    """A contract's sources of a compiler that a candidate may change, and that `rebuild.files` leaves out: no change would be seen."""
    globs = contract.rebuild.files
    for glob in contract.editable_globs if globs else ():
        for match in _matches(root, glob):
            name = match.relative_to(root).as_posix()
            if match.suffix in C_LIKE and match.is_file() and not matches(name, globs):
                yield f"rebuild.files: leaves out {name}, which a compiler reads and a candidate may change; add it"


def _misused_columns(contract: Contract) -> Iterator[str]:
    """Columns of a contract's `scoring` that cannot be what they are named for: no number, no time, or a time of which more wins."""
    output, scoring = contract.benchmark_output, contract.scoring
    texts = {output.label: "the label", output.check: "the check", **dict.fromkeys(output.config_columns, "a class")}
    fields = (
        *(("primary_metric", name) for name in scoring.primary_metric),
        ("forward", scoring.forward),
        ("backward", scoring.backward),
        ("time_ms", scoring.time_ms),
    )
    for field, name in fields:
        if name in texts:
            yield f"scoring.{field}: column {name!r} is {texts[name]} of a row and no number; name a column of numbers"
    time = scoring.time_ms
    if time is None or time in texts:
        return
    if time not in output.columns:
        yield f"scoring.time_ms: column {time!r} is not in benchmark_output.columns; correct one of them"
    elif time in (scoring.forward, scoring.backward) or THROUGHPUT.search(time):
        yield f"scoring.time_ms: column {time!r} is a throughput and no time; name the column of times, or leave it out"
    elif OTHER_UNIT.search(time):
        yield f"scoring.time_ms: column {time!r} is not in milliseconds; let the benchmark write milliseconds"
    elif time in scoring.primary_metric and scoring.higher_is_better:
        yield f"scoring.higher_is_better: is true, but {time!r} is a time, of which less is better; write false"


def _absent_processors(contract: Contract) -> Iterator[str]:
    """A complaint where the contract wants more threads than this process may have processors."""
    available = len(os.sched_getaffinity(0))
    if contract.threads > available:
        yield f"threads: is {contract.threads}, and this machine has {available} processors for it; give at most {available}"


def _find_undefined_function(contract: Contract, root: Path) -> Iterator[str]:
    """A complaint where no source of the contract's kernel defines its `function`."""
    if contract.function is None:
        return
    files = [match for glob in contract.kernel_source for match in _matches(root, glob) if match.is_file()]
    texts = {str(file): file.read_text(encoding="utf-8", errors="replace") for file in files if code(file.name)}
    if contract.function not in list_functions(texts):
        yield f"function: no source of the kernel defines {contract.function!r}; correct the name, or leave it out"


def _find_unrun_empty_group(contract: Contract, root: Path) -> Iterator[str]:
    """A complaint where the contract's test with an empty group is not there, may be edited by a candidate, or is not run."""
    if contract.empty_group_test is None:
        return
    path, separator, name = contract.empty_group_test.partition("::")
    if not separator or not name or not (root / path).is_file():
        yield f"empty_group_test: {contract.empty_group_test}: give FILE::NAME, a file that is there and the test's name"
        return
    if name not in (root / path).read_text(encoding="utf-8", errors="replace"):
        yield f"empty_group_test: {path} has no {name}; correct the name, or write the test"
    if any((root / path) in _matches(root, glob) for glob in contract.editable_globs):
        yield f"empty_group_test: {path} may be edited by a candidate; name a test that is not editable"
    runs = (*contract.test_command, *(contract.full_test_command or ()))
    folders = {path, *(parent.as_posix() for parent in PurePosixPath(path).parents if parent.name)}
    if not any(word.partition("::")[0].removeprefix("./").rstrip("/") in folders for word in runs):
        yield f"empty_group_test: neither test_command nor full_test_command runs {path}; name it in one of them"


def _find_unskewed_groups(contract: Contract) -> Iterator[str]:
    """A complaint where a contract's grouped operator has no skewed size: the baseline would refuse it after minutes of tests."""
    if is_grouped(contract) and not contract.skew_shapes:
        yield f"skew_shapes: {contract.target_op} works on groups; name at least one size with groups of unequal length"


def _explain_untested_groups(contract: Contract) -> Iterator[str]:
    """What is to be said of a contract's grouped operator that nobody tests with an empty group."""
    if is_grouped(contract) and contract.empty_group_test is None:
        yield (
            f"{contract.target_op} works on groups, and empty_group_test names no test with an empty one: "
            "an expert without tokens is usual in training; name the test, or write one"
        )


def _find_unfit_engine(contract: Contract) -> Iterator[str]:
    """A complaint where the contract wants processor time to be scored and it cannot be."""
    if contract.scoring.engine != "cpu":
        return
    if device_kind(contract) != "cpu":
        yield "scoring.engine: cpu: processor time does not see what a GPU does; give event, graph, profiler or wall"
    elif contract.task_file:
        yield "scoring.engine: cpu: the judge of a task times by the wall clock; give wall, or leave it out"


def _matches(root: Path, glob: str) -> Iterator[Path]:
    """Files of a contract's glob; a trailing `**` and a bare folder mean everything below."""
    if (root / glob).is_dir():
        return root.joinpath(glob).rglob("*")
    return root.glob(f"{glob}/*" if glob.endswith("**") else glob)


def _find_marked_places(contract: Contract, root: Path) -> Iterator[str]:
    """Places that `ridgeline init --function` marked in a contract's harness and nobody filled yet."""
    files = {match for glob in contract.protected for match in _matches(root, glob) if match.is_file()}
    for file in sorted(files):
        if file.stat().st_size > LARGEST_HARNESS or "build" in file.relative_to(root).parts:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if MARK in line:
                what = line.partition(MARK)[2].strip(" :*/")
                yield f"{file.relative_to(root)}:{number}: is not filled in: {what}; write it, and remove the mark"


def _list_missing_programs(contract: Contract, root: Path) -> Iterator[str]:
    """A complaint for each program of a contract's commands that is not installed."""
    commands = [(name, getattr(contract, name)) for name in COMMANDS]
    commands.append(("rebuild.command", contract.rebuild.command))
    if (local := contract.workspace.rebuild) is not None:
        commands.append(("workspace.rebuild.command", local.command))
    commands.append(("profile.command", contract.profile.command if contract.profile else None))
    commands.append(("best_known.command", contract.best_known.command if contract.best_known else None))
    built = contract.rebuild.required
    for name, argv in commands:
        if not argv or argv[0] == OURSELVES:
            continue
        if _exists(argv[0], root):
            yield from _find_missing_script(name, argv, root)
            continue
        if built and "/" in argv[0] and not argv[0].startswith("/") and not SCRIPT.search(argv[0]):
            continue  # a program that the build makes; a script is never one
        yield f"{name}: program {argv[0]!r} not found; install it, or give a path inside {root}"


def _find_missing_script(name: str, argv: tuple[str, ...], root: Path) -> Iterator[str]:
    """A complaint where a contract's command gives an interpreter a script that does not exist."""
    interpreted = INTERPRETER.fullmatch(Path(argv[0]).name) and len(argv) > 1 and SCRIPT.search(argv[1])
    if interpreted and not (root / argv[1]).is_file():
        yield f"{name}: file {argv[1]!r} not found in {root}; write it, or correct the command"


def _formulas(contract: Contract) -> Iterator[str]:
    """Complaints about formulas of a contract's `work` that name no number of a row, or are no arithmetic; tried on small odd numbers."""
    output = contract.benchmark_output
    texts = {output.label, output.check, *(set(output.config_columns) - CONFIG_NAMES)}
    numbers = {name: 2.0 * place + 3.0 for place, name in enumerate(output.columns) if name not in texts}
    for field, formula in (("flops", contract.work.flops), ("bytes", contract.work.bytes)):
        try:
            evaluate(formula or "0", numbers)
        except FormulaError as error:
            yield f"work.{field}: {error}; correct the formula"


def _wikis(contract: Contract, root: Path) -> Iterator[str]:
    for folder in roots(contract, root):
        if why := unreadable(folder) or unsound(folder):
            yield f"knowledge.wiki: {folder}: {why}"
    if (project := contract.knowledge.reference_project) is not None and not (root / project).is_dir():
        yield f"knowledge.reference_project: {root / project}: no such folder; give a checkout, or leave it out"


def _exists(program: str, root: Path) -> bool:
    if "{" in program:
        return True
    return (root / program).is_file() if "/" in program else shutil.which(program) is not None


def _secrets(contract: Contract) -> Iterator[str]:
    for name in contract.pass_environment:
        if SECRET.search(name):
            yield f"pass_environment: {name} looks like a secret and every candidate could read it; leave it out"
