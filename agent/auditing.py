"""What `ridgeline audit` is asked to read, and the answer in one object."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.agent.contract_file import FILE_NAME, LoadedContract, load
from ridgeline.agent.errors import UserError
from ridgeline.graph.finding import Finding, Simulation
from ridgeline.graph.policy import caches
from ridgeline.graph.policy.audit import Standing, overall
from ridgeline.graph.values import Value
from ridgeline.sandbox.audit import diffs
from ridgeline.sandbox.audit.examine import added, audit, examined
from ridgeline.sandbox.audit.rules import Hit, finding
from ridgeline.sandbox.workspace.edits import CONTRACT_FILE
from ridgeline.sandbox.workspace.globs import matches

SKIPPED = frozenset({".git", "__pycache__", "node_modules", "build", "dist", ".venv", "venv", "workspace"})
MOST_FILES = 2000
STDIN = "<stdin>"


class CacheCheck(Value):
    """What the trace, or the simulation with tensors, says about one cache that was found."""

    path: str
    line: int
    rule: str
    hit_rate: str | None
    """Hits over steps of the 4-step trace; None where the key does not tell."""
    answer: caches.Answer
    why: str
    method: str


class Audited(Value):
    """The whole answer."""

    source: str
    verdict: Standing
    findings: tuple[Finding, ...]
    caches: tuple[CacheCheck, ...]
    examined: tuple[str, ...]
    """Files that were read, by path."""


def audited(path: str, *, text: str | None = None, contract: Path | None = None, python: str | None = None) -> Audited:
    """Audit of a file, a folder, a diff, or `text` given on standard input. Raises UserError for what is none.

    `python`: an interpreter with torch, in which caches are tried with fresh tensors.
    """
    loaded = _contract(path, contract)
    found, names = _of_text(path, text, loaded) if text is not None else _of_path(Path(path), loaded)
    return Audited(
        source=path if text is None else STDIN,
        verdict=overall(found),
        findings=tuple(found),
        caches=tuple(_checked(one, python) for one in found if one.key),
        examined=tuple(names),
    )


def _contract(path: str, given: Path | None) -> LoadedContract | None:
    """The contract that was named, or the one in the folder that is audited."""
    if given is not None:
        return load(given)
    folder = Path(path)
    return load(folder) if path != "-" and folder.is_dir() and (folder / FILE_NAME).is_file() else None


def _of_path(path: Path, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    if path.is_dir():
        return _of_folder(path, loaded)
    if not path.is_file():
        raise UserError(f"{path}: no such file or folder; name a source, a folder, a diff, or - for standard input")
    text = _read(path)
    if path.suffix in {".diff", ".patch"} or diffs.looks_like_diff(text):
        return _of_diff(str(path), text, loaded)
    return list(audit(str(path), text, dtype=_dtype(loaded))), [str(path)]


def _of_text(path: str, text: str, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    if diffs.looks_like_diff(text):
        return _of_diff(STDIN, text, loaded)
    suffix = ".py" if _is_python(text) else ".cu"
    found = audit(f"stdin{suffix}", text, dtype=_dtype(loaded))
    return [one.model_copy(update={"path": STDIN}) for one in found], [STDIN]


def _of_folder(folder: Path, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """Every source below a folder; with a contract only what a candidate may change."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()]
    inside = {file.relative_to(folder).as_posix(): file for file in files}
    chosen = {
        name: file for name, file in inside.items() if not SKIPPED & set(Path(name).parts[:-1]) and examined(name)
    }
    if loaded is not None and loaded.root.resolve() == folder.resolve():
        globs = loaded.contract.editable_globs
        chosen = {name: file for name, file in inside.items() if matches(name, globs) and examined(name)}
    if not chosen:
        raise UserError(f"{folder}: has no source that the audit reads; it reads Python, C, C++, CUDA and HIP")
    if len(chosen) > MOST_FILES:
        raise UserError(f"{folder}: has {len(chosen)} sources; name a folder with at most {MOST_FILES}")
    found = [one for name, file in chosen.items() for one in audit(name, _read(file), dtype=_dtype(loaded))]
    return found, list(chosen)


def _of_diff(source: str, text: str, loaded: LoadedContract | None) -> tuple[list[Finding], list[str]]:
    """What a diff adds, against the files of the contract's folder or of this one where they are there."""
    try:
        files = diffs.parse(text)
    except diffs.NoDiff as error:
        raise UserError(f"{source}: {error}; give a unified diff, as `git diff` writes it") from None
    root = loaded.root if loaded else Path()
    found: list[Finding] = []
    for file in files:
        before, after, shift = diffs.sides(file, lambda name: _beside(root, name))
        found += _protected(file.path, loaded)
        new = added({file.path: before}, {file.path: after}, dtype=_dtype(loaded))
        found += [one.model_copy(update={"line": one.line + shift}) for one in new]
    return found, [file.path for file in files]


def _protected(path: str, loaded: LoadedContract | None) -> list[Finding]:
    """A change to what the contract protects, or does not let a candidate change."""
    if loaded is None:
        return []
    contract = loaded.contract
    allowed = matches(path, contract.editable_globs) and not matches(path, (*contract.protected, CONTRACT_FILE))
    return [] if allowed else [finding(Hit(rule="protected-path", line=1, code=path), path, [])]


def _checked(one: Finding, python: str | None) -> CacheCheck:
    rate, told, method = caches.trace(one.key), caches.answer(one), "4-step trace"
    if python is not None:
        simulation = _simulated(one, python)
        told, method = caches.judge(simulation), f"8-step simulation ({simulation.method})"
    return CacheCheck(
        path=one.path,
        line=one.line,
        rule=one.rule,
        hit_rate=str(rate) if rate else None,
        answer=told.answer,
        why=told.why,
        method=method,
    )


def _simulated(one: Finding, python: str) -> Simulation:
    from ridgeline.sandbox.audit.simulation import simulate

    return simulate(one.key, python=python)


def _beside(root: Path, name: str) -> str | None:
    """Text of a file below a folder; None for what is not there, lies elsewhere or is no text."""
    place = (root / name).resolve()
    if not place.is_relative_to(root.resolve()) or not place.is_file():
        return None
    return place.read_text(encoding="utf-8", errors="replace")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a file that can be read") from None


def _is_python(text: str) -> bool:
    marks = ("def ", "import ", "@triton", "class ", "from ")
    return any(line.startswith(marks) for line in text.splitlines())


def _dtype(loaded: LoadedContract | None) -> str:
    return loaded.contract.dtype if loaded else "fp32"


def rows(found: Sequence[Finding]) -> list[tuple[str, str, str, str, str]]:
    """Severity, rule, place, code and closer check of each finding, convicting ones first."""
    order: Mapping[str, int] = {"convicts": 0, "routes": 1, "notes": 2}
    ranked = sorted(found, key=lambda one: (order[one.severity], one.path, one.line))
    return [
        (
            one.severity,
            one.rule + (f" ({one.bucket})" if one.bucket else ""),
            f"{one.path}:{one.line}",
            one.closer.replace("_", " "),
            one.code[:80],
        )
        for one in ranked
    ]
