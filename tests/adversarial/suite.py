"""The table of candidates: what each is, what must be said of it, and how it is laid out for the judge."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent
SECRET = "the key is 4711"
"""Of a file that is none of the candidate's, which some sources name as @SECRET@: no verdict may show it."""
CARD = ROOT / "gpu"
"""Candidates that need a GPU: the same layout."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a candidate is written: the fields of task.yaml that follow, and the base version it is compared with."""

    suffix: str
    base: str
    fields: Mapping[str, Any]


TORCH = {"language": "python", "reference": "reference_torch.py"}
NUMPY = {"language": "python", "reference": "reference.py"}
TRITON = {"language": "triton", "reference": "reference_torch.py"}
DIALECTS: Mapping[str, Dialect] = {
    "c": Dialect(suffix=".c", base="base.c", fields={"language": "c"}),
    "cuda": Dialect(suffix=".cu", base="base.cu", fields={"language": "cuda"}),
    "torch": Dialect(suffix=".py", base="base_torch.py", fields=TORCH),
    "torch_return": Dialect(suffix=".py", base="base_torch_return.py", fields={**TORCH, "convention": "return"}),
    "numpy": Dialect(suffix=".py", base="base_numpy.py", fields=NUMPY),
    "numpy_return": Dialect(suffix=".py", base="base_numpy_return.py", fields={**NUMPY, "convention": "return"}),
    "triton": Dialect(suffix=".py", base="base_triton.py", fields=TRITON),
}
INTERPRETED: Mapping[str, Mapping[str, int]] = {
    "add_rmsnorm": {"rows": 5},
    "attention": {"heads": 2, "seq": 45, "dim": 24},
    "cumsum": {"rows": 7},
    "gelu": {"n": 40000},
    "layernorm": {"rows": 5},
    "matvec": {"m": 150, "k": 300},
    "rope": {"seq": 5, "heads": 2},
    "softmax": {"rows": 5, "cols": 1100},
    "sum_reduce": {"n": 40000},
    "swiglu": {"n": 40000},
    "transpose": {"rows": 200, "cols": 140},
    "vector_add": {"n": 100000},
}
"""Most of a dimension where a kernel in Triton runs in its interpreter, which takes its time for each block of a grid:
still several blocks, more than one round of each loop, and an end that no block divides. Cases of gemm_f32, whose two
timed sizes must stay different, name their own (`set` in honest.toml)."""


@dataclass(frozen=True, kw_only=True)
class Naive:
    """What the naive evaluator believes of a cheat, and in which of its common forms."""

    fools: str = "faster"
    """`faster`: it passes and is called faster; `correct`: it passes; `nothing`: `why` says what stops it there."""
    order: str = "first"
    """The reference runs `first` and its result stays; `copy`: a copy stays; `after`: it runs after the candidate."""
    compare: str = "allclose"
    """`allclose`; `ratio99`: 99 % must match; `largest`: a running maximum of the errors; `either`: abs or rel;
    `cosine`: nearly parallel."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One candidate."""

    id: str
    kind: str
    """`cheat` or `honest`."""
    home: Path
    """Folder that holds tasks/, cheats/ and honest/."""
    task: str
    dialect: str
    file: str
    entry: str | None = None
    """Function of the file, where it is not the task's own entry."""
    rows: tuple[str, ...] = ()
    """Of the taxonomy; for honest ones the number in its table of suspicious candidates, if any."""
    caught_by: tuple[str, ...] = ()
    """Defences of which at least one must fire with reading switched off."""
    expect: Mapping[str, str] = field(default_factory=dict)
    """Answers that are settled: correct, faster, own_work."""
    overlay: Mapping[str, Any] = field(default_factory=dict)
    """Fields of task.yaml that differ for this candidate."""
    needs: str = ""
    """`namespaces`: dangerous to the tests themselves where workers are isolated only weakly."""
    naive: Naive = Naive()
    older: bool = False
    """It is compared with the same source, which knows that it is the older version (`OLDER`)."""

    @property
    def source(self) -> Path:
        """The candidate's file."""
        return self.home / f"{self.kind}s".replace("honests", "honest") / self.task / self.file


@dataclass(frozen=True)
class Staged:
    """A task folder of its own for one case."""

    task_file: Path
    candidate: Path
    against: Path


def cheats(home: Path = ROOT) -> list[Case]:
    """Every spelling of every cheat."""
    return list(_cheats(home))


IN_CACHE = [{"label": "large", "dims": {"rows": 1024, "cols": 2048}}]
"""A size whose arrays a card's last cache holds."""


def attacks(home: Path = CARD) -> list[Case]:
    """What was written against the judge's path on a card with its code at hand; each file says what it does."""
    return [
        Case(
            id=path.stem,
            kind="attack",
            home=home,
            task=path.parent.name,
            dialect="triton",
            file=path.name,
            overlay={"shapes": IN_CACHE}
            if path.stem in ("cold_cache_kept", "flush_read_back", "inputs_fetched")
            else {},
        )
        for path in sorted((home / "attacks").glob("*/*.py"))
    ]


def honest(home: Path = ROOT) -> list[Case]:
    """Every honest kernel."""
    return list(_honest(home))


def _table(home: Path, name: str) -> list[dict[str, Any]]:
    tables = (home / f"{name}s.toml", home / f"{name}.toml")
    entries: list[dict[str, Any]] = []
    for path in tables:
        if path.exists():
            entries += tomllib.loads(path.read_text(encoding="utf-8"))[name]
    return entries


def _cheats(home: Path) -> Iterator[Case]:
    for entry in _table(home, "cheat"):
        naive = Naive(**entry.get("naive", {}))
        for name, dialect in entry["spellings"].items():
            yield Case(
                id=name,
                kind="cheat",
                home=home,
                task=entry["task"],
                dialect=dialect,
                file=name + DIALECTS[dialect].suffix,
                rows=tuple(entry["rows"]),
                caught_by=tuple(entry["caught_by"]),
                expect=entry.get("expect", {}),
                overlay=entry.get("set", {}),
                needs=entry.get("needs", ""),
                naive=naive,
                older=entry.get("older", False),
            )


def _honest(home: Path) -> Iterator[Case]:
    for entry in _table(home, "honest"):
        stem, dialect = entry["file"], entry["dialect"]
        for kernel in entry.get("kernels", [None]):
            yield Case(
                id=f"{entry['task']}-{kernel or stem}",
                kind="honest",
                home=home,
                task=entry["task"],
                dialect=dialect,
                file=stem + DIALECTS[dialect].suffix,
                entry=kernel,
                rows=tuple(entry.get("rows", ())),
                expect={"correct": "yes", **entry.get("expect", {})},
                overlay=entry.get("set", {}),
            )


def stage(case: Case, into: Path) -> Staged:
    """Lays a case out under `into`: task.yaml, the reference and the base version; the candidate in a folder beside."""
    folder, dialect = case.home / "tasks" / case.task, DIALECTS[case.dialect]
    source = "kernel" + dialect.suffix
    fields = yaml.safe_load((folder / "task.yaml").read_text(encoding="utf-8"))
    reference = dialect.fields.get("reference", fields["reference"])
    task, candidate = into / "task", into / "candidate"
    for made in (task, candidate):
        made.mkdir(parents=True)
    secret, base = into / "secret.h", folder / dialect.base
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    text = _text(case, source_of=case.source, entry=fields["entry"]).replace("@SECRET@", str(secret))
    older = text.replace("OLDER = False", "OLDER = True") if source.endswith(".py") else f"#define OLDER\n{text}"
    against = older if case.older else base.read_text(encoding="utf-8") if base.exists() else text
    (candidate / source).write_text(text, encoding="utf-8")
    (task / source).write_text(against, encoding="utf-8")
    (task / "reference.py").write_text((folder / reference).read_text(encoding="utf-8"), encoding="utf-8")
    laid = {**fields, **dialect.fields, "reference": "reference.py", "source": [source], **case.overlay}
    if "build" in laid:
        flags = laid["build"].get("flags", ())
        laid["build"] = {**laid["build"], "flags": [word for flag in flags for word in _resolve_flag(flag)]}
    if case.dialect == "triton" and case.home == ROOT:
        laid |= _interpreted(laid, INTERPRETED.get(case.task, {}))
    task_file = task / "task.yaml"
    task_file.write_text(yaml.safe_dump(laid, sort_keys=False), encoding="utf-8")
    return Staged(task_file, candidate, task)


def _resolve_flag(flag: str) -> tuple[str, ...]:
    """A flag of the compiler; of @CUBLAS@ what links with the library that PyTorch has loaded in every worker."""
    if flag != "@CUBLAS@":
        return (flag,)
    found = [
        path
        for folder in sys.path
        for pattern in ("nvidia/*/lib/libcublas.so.*", "torch/lib/libcublas.so.*")
        for path in sorted(Path(folder).glob(pattern))
    ]
    if not found:
        return ("-lcublas",)
    link = ("-Xlinker", "--no-as-needed", "-Xlinker", f"-l:{found[0].name}")
    return (f"-L{found[0].parent}", *link)


def _interpreted(fields: Mapping[str, Any], most: Mapping[str, int]) -> dict[str, Any]:
    """The sizes of a task, public and drawn, no larger than this."""
    shapes = [
        {**shape, "dims": {name: min(size, most.get(name, size)) for name, size in shape["dims"].items()}}
        for shape in fields["shapes"]
    ]
    ranges = {name: [low, min(high, most.get(name, high))] for name, (low, high) in fields["drawn"]["ranges"].items()}
    return {"shapes": shapes, "drawn": {**fields["drawn"], "ranges": ranges}}


def _text(case: Case, *, source_of: Path, entry: str) -> str:
    """The candidate's source, with the chosen function under the task's entry name."""
    text = source_of.read_text(encoding="utf-8")
    if case.entry is None or case.entry == entry:
        return text
    if source_of.suffix == ".py":
        return f"{text}\n\n{entry} = {case.entry}\n"
    return f"#define {case.entry} {entry}\n{text}"
