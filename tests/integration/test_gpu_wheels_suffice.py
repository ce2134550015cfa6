"""A campaign on a machine that has the GPU machine's wheels alone: everything else is as if it were not installed."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from tests.gpu_wheels import needed
from tests.task_copies import timed_at_two_shapes

LIMITS = ("looks=1,2,3", "calibration_pairs=2", "blocks=2", "final_pairs=3")
QUICK = ("--max-rounds", "1", *(word for limit in LIMITS for word in ("--set", limit)))
ONLY = """
import sys

ABSENT = set(sys.argv.pop(1).split(","))


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from ridgeline.agent.__main__ import main

main()
"""


def absent() -> str:
    """Modules that only distributions outside the set hold."""
    kept = {*needed(f"3.{sys.version_info.minor}"), "ridgeline", "pip", "setuptools"}
    names = {name.lower().replace("_", "-").replace(".", "-") for name in kept}
    owners = metadata.packages_distributions().items()
    gone = {
        module
        for module, distributions in owners
        if not names & {each.lower().replace("_", "-").replace(".", "-") for each in distributions}
    }
    return ",".join(sorted(gone))


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(("--model", "mailbox"), 3), (("--planner", "catalog"), 0)])
def test_a_campaign_needs_nothing_else(tmp_path, words, code):
    repository = timed_at_two_shapes(tmp_path / "kernel")
    assert {"litellm", "scipy", "numpy", "matplotlib", "zstandard"} <= set(absent().split(","))
    command = (sys.executable, "-c", ONLY, absent(), "run", str(repository), *QUICK, *words)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == code, done.stderr
