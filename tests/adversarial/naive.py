"""An evaluator as they are often written, and what is wrong with it: the suite's cheats must fool it.

naive_process.py loads the candidate into its own process, compares with `allclose` on one seed, and times the same
inputs over and over with a clock that the candidate can reach. Here is the parent, which believes what that prints.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 900
MODES = ("test", "bench")
MARK = "--- one child ---"
PROGRAM = Path(__file__).with_name("naive_process.py")


@dataclass(frozen=True)
class Belief:
    """What the evaluator took from the candidate's process."""

    passed: bool
    speedup: float
    output: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """One candidate, and the form of the evaluator that is asked about it."""

    task_file: Path
    candidate: Path
    order: str = "first"
    compare: str = "allclose"

    def words(self, mode: str) -> list[str]:
        """Command line of the evaluator in one of its two modes."""
        flags = [f"--order={self.order}", f"--compare={self.compare}"]
        return [mode, str(self.task_file), str(self.candidate), *flags]


def found_right(questions: list[Question], *, torch: bool) -> list[str]:
    """What the check of honest kernels prints for each: RIGHT, or what is wrong."""
    if not torch:
        return [_process(one.words("check"), one.candidate) for one in questions]
    return _process(["serve"], Path.cwd(), "\n".join(json.dumps(one.words("check")) for one in questions)).split(MARK)[
        1:
    ]


def believes(questions: list[Question], *, torch: bool) -> list[Belief]:
    """Tests and then times each candidate, believing what is printed.

    `torch`: PyTorch is imported once, and every candidate has forked processes; otherwise it has processes of its own.
    """
    if not torch:
        return [_belief(*(_process(one.words(mode), one.candidate) for mode in ("test", "bench"))) for one in questions]
    said = _process(
        ["serve"], Path.cwd(), "\n".join(json.dumps(one.words(mode)) for one in questions for mode in MODES)
    )
    parts = said.split(MARK)[1:]
    return [_belief(*parts[at : at + 2]) for at in range(0, len(parts), 2)]


def _belief(tested: str, timed: str) -> Belief:
    speedup = re.search(r"speedup: ([0-9.e+]+)x", timed)
    return Belief("PASSED" in tested, float(speedup.group(1)) if speedup else 0.0, tested + timed)


def _process(words: list[str], folder: Path, text: str = "") -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "OMP_NUM_THREADS": "1",
        "NAIVE_MODE": words[0],
        "TRITON_INTERPRET": "1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        input=text,
        errors="replace",
        timeout=LIMIT_S,
        env=environment,
        cwd=folder,
        check=False,
    )
    return done.stdout
