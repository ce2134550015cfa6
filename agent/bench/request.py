"""The command line of `ridgeline bench`, as a value."""

from pathlib import Path

from ridgeline.graph.values import Value


class Request(Value):
    """Each field is the option of that name; None where it was not given and the default depends on the rest."""

    a: str
    b: str
    alpha: float | None = None
    margin: float | None = None
    max_minutes: float = 10.0
    max_pairs: int = 30
    calibration_pairs: int | None = None
    blocks: int | None = None
    metric_regex: str | None = None
    csv: str | None = None
    label: str | None = None
    higher_is_better: bool = False
    engine: str | None = None
    threads: int | None = None
    gpu: bool = False
    timeout: float = 600.0
    seed: int = 0
    plot: Path | None = None
    raw: Path | None = None
    quiet: bool = False
    as_json: bool = False
