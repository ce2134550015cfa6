"""Small, valid evidence for tests: rows, benchmarks, comparisons, profiles. Used through `tests.builders`.

Numbers of the default benchmark are GFLOPS, higher is better, of three shapes `small`, `medium` and `large`.
"""

import hashlib
from collections.abc import Mapping, Sequence

from ridgeline.graph.evidence import Benchmark, Comparison, Machine, Profiled, Row, ShapePairs, TestResult
from ridgeline.graph.values import Artifact, Named

BASE = "b" * 40
"""Commit of the original and, unless a test says otherwise, of the best version."""
CANDIDATE = "c" * 40
MACHINE = "machine-0"
"""Fingerprint of the default machine."""
METRIC = "GFLOPS"
COLUMNS = ("label", "M", "N", "K", "Check", METRIC, f"{METRIC}_stddev", "Time (ms)")
VALUES: Mapping[str, float] = {"small": 50.0, "medium": 100.0, "large": 200.0}
SIZES: Mapping[str, int] = {"small": 64, "medium": 256, "large": 1024}


def make_artifact(name: str = "file.txt", text: str = "") -> Artifact:
    data = (text or name).encode()
    return Artifact(sha256=hashlib.sha256(data).hexdigest(), name=name, size=len(data))


def make_row(
    label: str = "medium",
    value: float = 100.0,
    *,
    check: str = "PASS",
    stddev: float = 1.0,
    config: tuple[tuple[str, str], ...] = (),
    metrics: Mapping[str, float] | None = None,
) -> Row:
    """A row of the default header; `metrics` replaces all numeric columns."""
    size = float(SIZES.get(label, 128))
    default = {
        "M": size,
        "N": size,
        "K": size,
        METRIC: value,
        f"{METRIC}_stddev": stddev,
        "Time (ms)": 2 * size**3 / value / 1e6 if value else 0.0,
    }
    chosen = default if metrics is None else metrics
    return Row(
        label=label, check=check, config=config, metrics=tuple(Named(name=n, value=v) for n, v in chosen.items())
    )


def make_rows(values: Mapping[str, float] | None = None, **shared) -> tuple[Row, ...]:
    """One row for each label -> metric."""
    return tuple(make_row(label, value, **shared) for label, value in (values or VALUES).items())


def make_benchmark(
    values: Mapping[str, float] | None = None,
    *,
    rows: Sequence[Row] | None = None,
    commit: str = CANDIDATE,
    level: str = "full",
    repeat: int = 0,
    **fields,
) -> Benchmark:
    """`values`: label -> metric, default VALUES; or whole `rows`."""
    return Benchmark(
        **{
            "commit": commit,
            "machine": MACHINE,
            "engine": "wall",
            "level": level,
            "repeat": repeat,
            "source": "quick",
            "rows": tuple(rows) if rows is not None else make_rows(values),
            "csv": make_artifact("benchmark.csv", f"{commit}{level}{repeat}"),
            "seconds": 1.0,
            **fields,
        }
    )


def make_scaled(factor: float, **fields) -> Benchmark:
    """The default benchmark of the candidate, every shape times `factor`."""
    return make_benchmark({label: value * factor for label, value in VALUES.items()}, **fields)


def make_machine(**fields) -> Machine:
    default = {
        "kind": "cpu",
        "name": "Test CPU",
        "arch": "x86_64",
        "fingerprint": MACHINE,
        "features": ("avx2", "fma"),
        "cores": 2,
        "l1d_bytes": 32768,
        "l2_bytes": 1 << 20,
        "l3_bytes": 32 << 20,
        "compiler": "gcc 12.2.0",
    }
    return Machine(**{**default, **fields})


def make_test(kind: str = "pass", commit: str = CANDIDATE, **fields) -> TestResult:
    default = {"passed": kind == "pass", "kind": kind, "commit": commit, "detail": kind, "seconds": 0.5}
    return TestResult(**{**default, **fields})


def make_profiled(counters: Mapping[str, float] | None = None, *, commit: str = CANDIDATE, **fields) -> Profiled:
    named = tuple(Named(name=n, value=v) for n, v in (counters or {"instructions": 1e6}).items())
    return Profiled(**{"commit": commit, "machine": MACHINE, "rung": "cachegrind", "counters": named, **fields})


def make_comparison(
    pairs: Mapping[str, Sequence[Sequence[float]]] | None = None,
    *,
    best: str = BASE,
    candidate: str = CANDIDATE,
    classes: Mapping[str, str] | None = None,
    **fields,
) -> Comparison:
    """`pairs`: label -> log-ratios [process pair][block]; default: three pairs near +5 per cent for each shape."""
    chosen = pairs or dict.fromkeys(VALUES, ((0.048, 0.05), (0.05, 0.052), (0.049, 0.051)))
    shapes = tuple(
        ShapePairs(
            label=label,
            config_class=(classes or {}).get(label, "all"),
            pairs=tuple(tuple(blocks) for blocks in rows),
            best_us=100.0,
            candidate_us=95.0,
        )
        for label, rows in chosen.items()
    )
    default = {
        "best": best,
        "candidate": candidate,
        "machine": MACHINE,
        "engine": "wall",
        "shapes": shapes,
        "raw": make_artifact("pairs.csv"),
        "seconds": 1.0,
    }
    return Comparison(**{**default, **fields})
