"""Candidates that must never be accepted, through the real judge on the real matmul task."""

import shutil
import subprocess
import time
from importlib.resources import files
from pathlib import Path, PurePosixPath

from agent.contract_file import load
from agent.wiring import Place, connect
from graph.limits import PRESETS
from graph.nodes.round.measure import take
from graph.policy import accept
from graph.policy.measure import wanted
from graph.policy.shapes import core_shapes
from graph.ports import Ports, Refused
from graph.standing import Standing
from graph.trial import Applied, Built, Drafted, Timed, Traced, Verified
from graph.values import FileEdit
from graph.verdict import Verdict
from tests.builders import make_proposed

SHAPES = ("sq48", "mid96", "wide16")
BLOCKS = 3
"""A part of the shapes and blocks, so that many tries take minutes; the rule and its limits are the default's."""
AT = "2026-01-01T00:00:00+00:00"
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")


def identical_tries(folder: Path, tries: int) -> tuple[int, float]:
    """(accepted, seconds): the best version with another comment, which compiles to the same code."""
    ports, best = _opened(folder)
    source = _kernel(ports, best.commit)
    began = time.monotonic()
    verdicts = [_judged(ports, best, f"{source}\n/* try {n} */\n", number=n + 2) for n in range(tries)]
    return sum(verdict.accepted for verdict in verdicts), time.monotonic() - began


def planted_tries(folder: Path, tries: int, *, slowdown: float) -> tuple[int, float]:
    """(accepted, seconds): every call repeats a part of its rows, `slowdown` times the work."""
    ports, best = _opened(folder)
    source = _kernel(ports, best.commit)
    loop = "for (int i = 0; i < m; i++) {"
    again = f"for (int again = 0; again < (int)(m * {slowdown - 1:g}) + 1; again++) {{ int i = again % m;"
    body = source[source.index(loop) + len(loop) : source.rindex("}")]
    slow = source[: source.rindex("}")] + f"    {again}{body}}}\n"
    began = time.monotonic()
    verdicts = [_judged(ports, best, f"{slow}/* try {n} */\n", number=n + 2) for n in range(tries)]
    return sum(verdict.accepted for verdict in verdicts), time.monotonic() - began


def _opened(folder: Path) -> tuple[Ports, Standing]:
    repository = folder / "kernels"
    shutil.copytree(Path(str(files("evals") / "tasks" / "matmul_c")), repository)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*IDENTITY, "commit", "-q", "-m", "start")):
        subprocess.run(["git", *words], cwd=repository, check=True)
    contract = load(repository / "ridgeline.yaml").contract
    place = Place(repository=repository, contract_dir=PurePosixPath("."), campaign_dir=folder / "campaign")
    place.campaign_dir.mkdir()
    ports = connect(place, contract, "catalog")
    base = ports.workspace.open("optimize/bench")
    full = ports.timer.benchmark(base.commit, level="full", source="quick", shapes=SHAPES, repeat=0, purpose="bench")
    assert full.kind == "benchmark", full
    labels = tuple(row.label for row in full.rows)
    best = Standing(
        round=1,
        commit=base.commit,
        tree=base.tree,
        contract=contract,
        quick=full,
        full=full,
        shapes=labels,
        all_shapes=labels,
        core_shapes=core_shapes(contract, labels),
    )
    return ports, best


def _judged(ports: Ports, best: Standing, source: str, *, number: int) -> Verdict:
    edits = (FileEdit(path="kernel.c", text=source),)
    limits = PRESETS["evidence"]
    done = ports.workspace.apply(round=number, parent=best.commit, edits=edits, at=AT)
    assert not isinstance(done, Refused), done
    applied = Applied(drafted=Drafted(proposed=make_proposed(number), edits=edits), **done.model_dump())
    built = Built(applied=applied, build=ports.builder.build(done.commit))
    test = ports.checker.check(done.commit, purpose=f"round-{number}")
    assert test.passed, test.detail
    verified = Verified(built=built, test=test)
    trial: Verified | Timed = verified
    while want := wanted(trial, best, limits):
        purpose = f"round-{number}"
        found = take(ports, want, best=best, candidate=done.commit, purpose=purpose, blocks=BLOCKS)
        trial = Timed(verified=verified, evidence=(*(trial.evidence if isinstance(trial, Timed) else ()), found))
    assert isinstance(trial, Timed)
    return accept.judge(Traced(timed=trial, profile=None), best, limits, best_profile=None)


def _kernel(ports: Ports, commit: str) -> str:
    return next(file.text or "" for file in ports.workspace.sources(commit) if file.path == "kernel.c")
