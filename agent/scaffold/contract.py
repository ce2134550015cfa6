"""Write a commented `ridgeline.yaml` for a folder, with what can be seen filled in and the rest as examples."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ridgeline.agent.contract_file import FILE_NAME
from ridgeline.agent.errors import UserError
from ridgeline.agent.extensions import tasks
from ridgeline.graph.errors import GitFailed
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.yaml_file import nearest

SOURCES: Mapping[str, str] = {".cu": "CUDA", ".hip": "HIP", ".py": "TRITON", ".c": "C", ".cpp": "HIP"}
"""Backend by extension, the most telling extension first."""
MARKS: Mapping[str, str] = {".py": "@triton.jit", ".cpp": "__global__"}
"""Text without which a file of that extension is no kernel."""
PLAIN = (((".cpp", ".cc", ".cxx"), "C"), ((".py",), "PYTHON"))
"""Extensions and backend of sources without a mark of a GPU: they run on this machine's processor."""
SKIPPED = ("test", "bench")
MAX_BYTES = 1_000_000

TEMPLATE = """\
# What Ridgeline must know about this kernel. Check it: `ridgeline check .`; all fields: `ridgeline schema contract`.
# Commands run without a shell, in this folder, with a scrubbed environment. Paths are relative to this folder.

target_op: {op}              # operator and precision, for example gemm_fp8_blockwise
target_backend: {backend}          # TRITON, CK, HIPBLASLT, TURBO, FLYDSL, HIP, CUDA, CUTEDSL, C (C++ too) or PYTHON
target_gpu: {gpu}              # product or architecture, for example MI300X or gfx942; cpu for this processor
dtype: fp32

# 1. The kernel. Only these files may be changed, unless `editable` names others.
kernel_source: [{sources}]
# protected: [tests/**]    # nobody may change these, over and above everything that is not editable

# 2. The focused correctness test: exit code 0 is right. Draw fresh inputs in every run.
test_command: {test}

# 3. The focused benchmark over all shapes; it writes one CSV row per shape to {{csv}}.
benchmark_command: {benchmark}

# 4. The same for some shapes: {{shapes}} is a comma list of labels.
quick_command: {benchmark} --shapes {{shapes}}

# Strongly advised: time two builds in one process, A B B A. Without it runs alternate between processes: noisier.
# paired_command: build/bench --pair {{a}} {{b}} --csv {{csv}} --shapes {{shapes}} --blocks {{blocks}} --seed {{seed}}

# 5. The header of that CSV, in order. Check says PASS, FAIL or ERROR for each row.
benchmark_output:
  columns: [label, Check, "Forward GFLOPS", "Forward Time (ms)"]

# 6. The column that decides.
scoring:
  primary_metric: Forward GFLOPS
  higher_is_better: true
  time_ms: Forward Time (ms)

# 7. repo: small changes, fast builds. workspace: heavy builds.
execution_mode: repo

# 8. Whether a changed source must be built, and how.
rebuild: {rebuild}

# work: {{flops: "2*M*N*K", bytes: "4*(M*K + K*N + M*N)"}}   # over the row's columns: lets the roofline be computed
# profile: {{command: build/bench --profile medium, kernel: my_kernel}}
# knowledge: {{wiki: [docs/kernels]}}   # more facts for a model to look up, in the layout of Ridgeline's knowledge/
# audit: {{allow: [file-access]}}       # rules of `ridgeline audit` that this kernel has honest reasons for
# max_iterations: 20
# limits: {{margin: 0.01, max_minutes: 60}}
"""


def write(folder: Path, *, test: str | None = None, benchmark: str | None = None) -> Path:
    """Writes a new `ridgeline.yaml`; its path. Raises `UserError` when there is one, or no folder."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the folder of the kernel")
    file = folder / FILE_NAME
    if file.exists():
        raise UserError(f"{file}: exists already; edit it, or move it away first")
    file.write_text(_text(folder, test=test, benchmark=benchmark), encoding="utf-8")
    return file


def guess(folder: Path) -> tuple[tuple[str, ...], str]:
    """For `init`: kernel files and backend: all files of the most telling extension that look like kernels. Raises UserError for none."""
    for extension, backend in SOURCES.items():
        files = sorted(path for path in folder.glob(f"*{extension}") if _is_kernel(path))
        if files:
            return tuple(path.name for path in files), backend
    for extensions, backend in PLAIN:
        files = sorted(path for path in folder.iterdir() if path.suffix in extensions and _is_plain(path))
        if files:
            return tuple(path.name for path in files), backend
    suffixes = sorted({path.suffix for path in folder.iterdir() if path.is_file() and path.suffix})
    there = f"files here end in {', '.join(suffixes[:8])}" if suffixes else "no source file lies here"
    raise UserError(
        f"{folder}: holds no source of a kernel in C, C++, CUDA, HIP, Triton or Python"
        f" ({there});"
        " give the folder in which the kernel lies"
    )


def _is_plain(path: Path) -> bool:
    """For `init`: whether a file may hold the kernel, whatever is in it."""
    return path.is_file() and not path.name.lower().startswith(SKIPPED) and path.stat().st_size <= MAX_BYTES


def _is_kernel(path: Path) -> bool:
    if path.name.lower().startswith(SKIPPED) or path.stat().st_size > MAX_BYTES:
        return False
    mark = MARKS.get(path.suffix)
    return mark is None or mark in path.read_text(encoding="utf-8", errors="replace")


def _text(folder: Path, *, test: str | None, benchmark: str | None) -> str:
    sources, backend = guess(folder)
    compiled = backend not in ("TRITON", "PYTHON")
    return TEMPLATE.format(
        op="my_kernel_f32",
        backend=backend,
        gpu="cpu" if backend in ("C", "PYTHON") else "null",
        sources=", ".join(sources),
        test=test or ("./test_kernel.sh" if compiled else "python test_kernel.py"),
        benchmark=_with_csv(benchmark)
        or ("./bench_kernel.sh" if compiled else "python bench_kernel.py") + " --csv {csv}",
        rebuild="{required: true, command: make}" if compiled else "{required: false}",
    )


def _with_csv(benchmark: str | None) -> str | None:
    if benchmark is None:
        return None
    return benchmark if "{csv}" in benchmark else f"{benchmark} --csv {{csv}}"


# Ready-made tasks: copy one into a fresh git repository, where a campaign can work on it.

IDENTITY = ("-c", "user.name=Ridgeline", "-c", "user.email=ridgeline@localhost")
"""Given for this one commit: nobody's git configuration is read or written."""
GIT_S = 60.0


def copy(name: str, destination: Path) -> Path:
    """`init --task`: copy the task of that name, or of that folder, into a new one, make it a repository with one commit; returns it.

    Raises `UserError` for an unknown task or a folder that is not empty.
    """
    if (Path(name) / FILE_NAME).is_file():
        return compose(Path(name).resolve().name, [Path(name)], destination)
    folders_by_task = tasks()
    if name not in folders_by_task:
        raise UserError(f"--task: unknown task {name!r}; {nearest(name, folders_by_task)}")
    return compose(name, folders_by_task[name], destination)


def compose(name: str, folders: Iterable[Path], destination: Path) -> Path:
    """`init`: put the files of all folders into a new one, make it a repository with one commit; returns the new folder.

    Raises `UserError` for a folder that is not empty.
    """
    if destination.exists() and any(destination.iterdir()):
        raise UserError(f"{destination}: is not empty; name a folder that does not exist yet")
    with removing_unfinished(destination):
        try:
            destination.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError:  # of a file system of the kernel's, as /proc is
            raise UserError(f"{destination}: no folder can be made there; name another place") from None
        ignored = shutil.ignore_patterns("build", "__pycache__", ".git", "workspace")
        for folder in folders:
            shutil.copytree(folder, destination, ignore=ignored, dirs_exist_ok=True)
        ignore = destination / ".gitignore"
        if not ignore.exists():
            ignore.write_text("build/\n", encoding="utf-8")
        begin_repository(destination, f"Task {name} as shipped")
    return destination


@contextmanager
def removing_unfinished(folder: Path) -> Iterator[None]:
    """What `init` made in a folder goes again where the work on it does not come to its end, so that it can begin anew."""
    before = {path.name for path in folder.iterdir()} if folder.is_dir() else None
    try:
        yield
    except BaseException:
        if before is None:
            discard_tree(folder)
        else:
            for path in [path for path in folder.iterdir() if path.name not in before]:
                discard_tree(path)
        raise


def begin_repository(folder: Path, message: str) -> None:
    """Make a scaffolded folder a repository with one commit of all that it holds. Raises GitFailed."""
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", message)):
        _git(folder, *arguments)


def _git(folder: Path, *arguments: str) -> None:
    """Runs git in the scaffolded folder. Raises GitFailed."""
    argv = ("git", *IDENTITY, "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", *arguments)
    result = run(argv, cwd=folder, timeout_s=GIT_S)
    if not result.ok:
        raise GitFailed(f"git {arguments[0]} in {folder}: {result.output.strip() or f'exit code {result.returncode}'}")


# Continuous integration: files that time a branch against the one it goes into.

CI_FILES: Mapping[str, str] = {
    "github": ".github/workflows/ridgeline-bench.yml",
    "gitlab": ".gitlab/ridgeline-bench.yml",
}
"""Where each system has its reusable files, from the root of the repository."""


def write_ci(folder: Path, system: str) -> Path:
    """`init --ci`: write the file for a CI system into a repository; returns its path. Its head says how it is used.

    Raises `UserError` for an unknown system or a file that is there.
    """
    if system not in CI_FILES:
        raise UserError(f"--ci: unknown system {system!r}; {nearest(system, CI_FILES)}")
    file = folder / CI_FILES[system]
    if file.exists():
        raise UserError(f"{file}: exists already; edit it, or move it away first")
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder; give the root of the repository")
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(__file__).parent / "ci" / f"{system}.yml", file)
    return file
