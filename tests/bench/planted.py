"""Candidates whose truth is known, through the real judge on real CPU contracts: identical ones, and 3 % of work."""

import subprocess
import time
from pathlib import Path, PurePosixPath

from ridgeline.agent.campaign.wiring import Place, connect
from ridgeline.agent.contract_file import load
from ridgeline.graph.contract import Contract
from ridgeline.graph.limits import PRESETS
from ridgeline.graph.loop.round import take_measurement
from ridgeline.graph.ports import EditRefusal, Ports
from ridgeline.graph.rules import acceptance
from ridgeline.graph.rules.acceptance import choose_measurement
from ridgeline.graph.rules.shapes import core_shapes
from ridgeline.graph.standing import Standing
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.trial import Applied, Built, Drafted, Timed, Traced, Verified
from ridgeline.graph.values import FileEdit, Value
from ridgeline.graph.verdict import Verdict
from tests.builders import make_proposed
from tests.task_copies import whole_recorded

LIMITS = PRESETS["evidence"]
AT = "2026-01-01T00:00:00+00:00"
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
AGAIN = {
    "matmul_c": (
        """
static __attribute__((noinline)) void again(const float *a, const float *b, float *c, long extra, int n, int k) {
    for (long e = 0; e < extra; e++) {
        float sum = 0.0f;
        for (int p = 0; p < k; p++) {
            sum += a[e / n * k + p] * b[p * n + e % n];
        }
        c[e] = sum;
    }
}
""",
        "{\n    again(a, b, c, (long)(%g * m * n), n, k);",
    ),
    "softmax_c": (
        """
static __attribute__((noinline)) void again(const float *x, float *y, long extra) {
    for (long e = 0; e < extra; e++) {
        y[e] = expf(x[e] - x[0]);
    }
}
""",
        "{\n    again(x, y, (long)(1.2 * %g * rows * cols));",
    ),
}
"""Work done twice, by task: results computed a first time and overwritten; softmax's factor gives its share of time."""


class Try(Value):
    """One candidate: what was decided, in how many process pairs and seconds."""

    verdict: Verdict
    pairs: int
    seconds: float


class Bench:
    """One task in a repository of its own, with the version that candidates are compared to, and its noise."""

    def __init__(self, folder: Path, task: str, *, extra: float = 0.0) -> None:
        """`extra`: share of its work that the version to beat does twice."""
        repository = folder / task
        whole_recorded(task, repository)
        self._task, self._clean = task, (repository / "kernel.c").read_text()
        (repository / "kernel.c").write_text(self.planted(extra))
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*IDENTITY, "commit", "-q", "-m", "start")):
            subprocess.run(["git", *words], cwd=repository, check=True)
        contract = load(repository / "ridgeline.yaml").contract
        place = Place(repository=repository, contract_dir=PurePosixPath("."), campaign_dir=folder / f"{task}-campaign")
        place.campaign_dir.mkdir()
        self._ports = connect(place, contract, "catalog")
        self._best = _standing(self._ports, contract)
        self._tries = 0

    @property
    def sigma(self) -> float:
        """Standard deviation of a pair of identical versions, as a share."""
        return self._best.noise.sd if self._best.noise else 0.0

    def planted(self, extra: float) -> str:
        """The task's kernel, doing that share of its work twice."""
        if not extra:
            return self._clean
        function, call = AGAIN[self._task]
        first, body = self._clean.split("\n\nvoid", 1)
        head, rest = body.split("{", 1)
        return f"{first}\n{function}\nvoid{head}{call % extra}{rest}"

    def judged(self, source: str) -> Try:
        """A candidate of that source through the measurements and the verdict of preset `evidence`."""
        self._tries += 1
        began = time.monotonic()
        found = _measured(self._ports, self._best, f"{source}\n/* try {self._tries} */\n", number=self._tries + 1)
        pairs = sum(len(item.shapes[0].pairs) for item in found.timed.evidence if item.kind == "comparison")
        verdict = acceptance.decide_verdict(found, self._best, LIMITS, best_profile=None)
        return Try(verdict=verdict, pairs=pairs, seconds=time.monotonic() - began)


def _standing(ports: Ports, contract: Contract) -> Standing:
    base = ports.workspace.open("optimize/bench")
    full = ports.timer.benchmark(base.commit, level="full", source="quick", shapes=(), repeat=0, purpose="bench")
    assert full.kind == "benchmark", full
    labels = tuple(row.label for row in full.rows)
    alike = ports.timer.calibrate(
        base.commit,
        shapes=labels,
        pairs=LIMITS.calibration_pairs,
        blocks=LIMITS.blocks,
        budget_s=600,
        fresh=True,
        purpose="bench",
    )
    assert alike.kind == "comparison", alike
    return Standing(
        round=1,
        commit=base.commit,
        tree=base.tree,
        contract=contract,
        quick=full,
        full=full,
        shapes=labels,
        all_shapes=labels,
        core_shapes=core_shapes(contract, labels),
        noise=estimate_noise((alike,)),
    )


def _measured(ports: Ports, best: Standing, source: str, *, number: int) -> Traced:
    edits = (FileEdit(path="kernel.c", text=source),)
    done = ports.workspace.apply(round=number, parent=best.commit, edits=edits, at=AT)
    assert not isinstance(done, EditRefusal), done
    applied = Applied(drafted=Drafted(proposed=make_proposed(number), edits=edits), **done.model_dump())
    built = Built(applied=applied, build=ports.builder.build(done.commit))
    test = ports.checker.check(done.commit, purpose=f"round-{number}")
    assert test.passed, test.detail
    verified = Verified(built=built, test=test)
    trial: Verified | Timed = verified
    while want := choose_measurement(trial, best, LIMITS):
        found = take_measurement(
            ports, want, best=best, candidate=done.commit, purpose=f"round-{number}", blocks=LIMITS.blocks
        )
        trial = Timed(verified=verified, evidence=(*(trial.evidence if isinstance(trial, Timed) else ()), found))
    assert isinstance(trial, Timed)
    return Traced(timed=trial, profile=None)
