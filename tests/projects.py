"""A tiny project with a contract: shell scripts that play test and benchmark, no compiler."""

from collections.abc import Mapping
from typing import Any

import yaml

HEADER = "label,Check,GFLOPS,Time (ms)"
ROWS = ("small,PASS,1.0,2.0", "large,PASS,4.0,8.0")
TEST = "#!/bin/sh\necho PASS\n"
BENCH = '#!/bin/sh\ncp canned.csv "$2"\n'


def document(**changes: Any) -> dict[str, Any]:
    """A valid contract as a mapping; a change to None removes the field."""
    whole: dict[str, Any] = {
        "target_op": "toy_f32",
        "target_backend": "C",
        "target_gpu": "cpu",
        "kernel_source": ["kernel.c"],
        "test_command": "./test.sh",
        "benchmark_command": "./bench.sh --csv {csv}",
        "quick_command": "./bench.sh --csv {csv} --shapes {shapes}",
        "benchmark_output": {"columns": HEADER.split(",")},
        "scoring": {"primary_metric": "GFLOPS", "time_ms": "Time (ms)"},
        "execution_mode": "repo",
        "rebuild": {"required": False},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def files(*, csv: str = "\n".join((HEADER, *ROWS)) + "\n", test: str = TEST, **changes: Any) -> Mapping[str, str]:
    """Every file of the project, ready for `make_repository`."""
    return {
        "ridgeline.yaml": yaml.safe_dump(document(**changes), sort_keys=False),
        "kernel.c": "int answer(void) { return 42; }\n",
        "test.sh": test,
        "bench.sh": BENCH,
        "canned.csv": csv,
    }
