"""The gate with one defence switched off lets through the cheats that this defence keeps out, and no others."""

import os

import pytest

from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment
from ridgeline.sandbox.judge.options import Defence, Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.task_file import load_task
from tests.adversarial.suite import Case, cheats, stage

ALONE: dict[Defence, frozenset[str]] = {
    "fresh_values": frozenset({"a2_static", "a7_static"}),
    "guards": frozenset({"b6_after", "b6_before"}),
    "held_out": frozenset({"g3_public", "g3_tiles"}),
    "near_pairs": frozenset({"a5_hash"}),
    "poison": frozenset({"b2_nothing", "b3_plausible"}),
}
"""Cheats in C, so that this needs nothing but a compiler. Others fall to several defences at once."""
ALSO: dict[Defence, frozenset[str]] = {
    "fresh_values": frozenset({"a5_hash", "b3_plausible"}),
    "poison": frozenset({"g3_tiles"}),
}
"""What may get through besides: an answer that lies there already is right, where values never change."""
BY_ID = {case.id: case for case in cheats()}
WHOLE = os.environ.get("RIDGELINE_SUITE") == "all"
NAMES = sorted(frozenset().union(*ALONE.values()))


def is_correct(case: Case, tmp_path, *off: Defence) -> bool:
    """By the gate alone, without reading the source, without timing and without the long run.

    The long run draws fresh values, poison and places of its own, so it refuses what these defences do.
    """
    staged = stage(case, tmp_path / "-".join((case.id, *off)))
    task, folder = load_task(staged.task_file)
    options = Options(without=frozenset({"long_run", "own_work", "static", *off}))
    with Reference(task, folder) as reference, freeze_sources(task, staged.candidate) as version:
        judged = CandidateJudgment(task=task, reference=reference, new=version, old=version, options=options)
        return judged.judge_correctness().correct.answer == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("off", [None, *ALONE])
def test_each_defence_keeps_out_exactly_its_own(off, tmp_path):
    switched, wanted = (() if off is None else (off,)), (ALONE[off] if off else frozenset())
    possible = wanted | (ALSO.get(off, frozenset()) if off else frozenset())
    others = [name for name in NAMES if name not in possible]
    tried = others if off is None or WHOLE else others[:1]
    through = {name for name in (*wanted, *tried) if is_correct(BY_ID[name], tmp_path, *switched)}
    assert through == wanted
