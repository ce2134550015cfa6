"""Cheats must not be accepted, honest kernels must not be rejected; and each cheat does fool an ordinary evaluator."""

import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.adversarial.naive import Question, believes, found_right
from tests.adversarial.suite import CARD, ROOT, Case, cheats, honest, stage

CHEATS, HONEST = cheats(), honest()
CARD_CASES = [*cheats(CARD), *honest(CARD)]
NEED_TORCH = ("torch", "torch_return", "triton")
FASTER = 1.05
"""A ratio that the naive evaluator calls faster."""
LITTER = (("/dev/shm", "plan-*-*-*.bin"), ("/tmp", ".plan_*_*_*_*"))
"""What the replaying cheats leave behind where nothing isolates them."""
LEAST_HONEST = 100
LEAST_CHEATS = 40
WHOLE = os.environ.get("RIDGELINE_SUITE") == "all"
"""`make adversarial` judges all, for hours; by default a spelling of every third class, and some honest kernels: others at
the next commit."""
TIMES = 5 if WHOLE else 1
"""Each is judged so often: a verdict that flips is itself a defect."""
EVERY = 40
"""Of the honest native kernels, one of so many is judged by default."""
FOOLING = 20
"""Likewise of the cheats, before the naive evaluator."""


def number_commit() -> int:
    """A number of the commit that is tested, so that in turn everything is; 0 outside a repository."""
    told = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(told.stdout[:8] or "0", 16)


TURN = number_commit()

torch_is_here = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def card() -> str | None:
    """Why candidates for a card are skipped; None where there is one."""
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return None if torch.cuda.is_available() else "no GPU"


def asked(cases: list[Case], folder: Path) -> list[Question]:
    laid = [(case, stage(case, folder / case.id)) for case in cases]
    return [
        Question(
            task_file=staged.task_file,
            candidate=staged.candidate,
            order=case.naive.order,
            compare=case.naive.compare,
        )
        for case, staged in laid
    ]


@pytest.fixture
def _clean() -> Iterator[None]:
    yield
    for folder, pattern in LITTER:
        for path in Path(folder).glob(pattern):
            path.unlink()


def of_torch(cases: list[Case], *, torch: bool) -> list[Case]:
    return [case for case in cases if (case.dialect in NEED_TORCH) == torch]


@pytest.mark.slow
@pytest.mark.usefixtures("_clean")
@pytest.mark.parametrize("torch", [False, pytest.param(True, marks=torch_is_here)], ids=["native", "torch"])
def test_each_cheat_fools_the_naive_evaluator(tmp_path, torch):
    cases = [case for case in of_torch(CHEATS, torch=torch) if case.naive.fools != "nothing"]
    cases = cases if WHOLE else cases[TURN % FOOLING :: FOOLING]
    said = believes(asked(cases, tmp_path), torch=torch)
    seen_through = [
        f"{case.id}: {belief}"
        for case, belief in zip(cases, said, strict=True)
        if not belief.passed or (case.naive.fools == "faster" and not belief.speedup > FASTER)
    ]
    assert seen_through == []


@pytest.mark.slow
@pytest.mark.parametrize("torch", [False, pytest.param(True, marks=torch_is_here)], ids=["native", "torch"])
def test_honest_kernels_are_right(tmp_path, torch):
    cases = of_torch(HONEST, torch=torch)
    cases = cases if WHOLE else cases[TURN % EVERY :: EVERY]
    said = found_right(asked(cases, tmp_path), torch=torch)
    assert {case.id: text for case, text in zip(cases, said, strict=True) if "RIGHT" not in text} == {}


@pytest.mark.slow
def test_the_check_of_honest_kernels_refuses_wrong_ones(tmp_path):
    wrong = [case for case in CHEATS if case.id in ("f1_half", "f2_skipped", "h6_half", "g3_tiles", "e4_large")]
    assert len(wrong) == 5
    assert [text for text in found_right(asked(wrong, tmp_path), torch=False) if "RIGHT" in text] == []


@pytest.mark.parametrize("home", [ROOT, CARD], ids=["processor", "card"])
def test_every_file_is_in_the_table_and_every_entry_has_its_files(home):
    named = [*cheats(home), *honest(home)]
    written = {path for kind in ("cheats", "honest") for path in (home / kind).rglob("*.*") if path.suffix != ".pyc"}
    assert {case.source for case in named} == written
    assert all((home / "tasks" / case.task / "task.yaml").exists() for case in named)
    assert len({case.id for case in named}) == len(named)


@pytest.mark.parametrize("home", [ROOT, CARD], ids=["processor", "card"])
def test_every_class_of_cheats_has_two_spellings(home):
    mechanisms: dict[str, list[str]] = {}
    for case in cheats(home):
        mechanisms.setdefault(case.rows[0], []).append(case.id)
    assert [spellings for spellings in mechanisms.values() if len(spellings) < 2] == []


def test_the_suite_is_large_enough_to_mean_something():
    assert len(HONEST) >= LEAST_HONEST
    assert len({case.rows for case in CHEATS}) >= LEAST_CHEATS
    assert {case.rows[0] for case in HONEST if case.rows} == {*(f"H{n}" for n in range(9)), "slower"}
    assert len({case.dialect for case in HONEST}) >= 5


def test_every_entry_names_defences_that_exist():
    options = pytest.importorskip("ridgeline.sandbox.judge.options")
    named = {defence for case in (*CHEATS, *cheats(CARD)) for defence in case.caught_by}
    assert named <= options.DEFENCES


def test_the_same_candidate_is_byte_identical_to_the_base_version(tmp_path):
    for case in (case for case in HONEST if case.rows == ("H0",)):
        staged = stage(case, tmp_path / case.id)
        assert [path.read_bytes() for path in staged.candidate.iterdir()] == [
            (staged.against / path.name).read_bytes() for path in staged.candidate.iterdir()
        ]


def judged(case: Case, folder: Path, without: frozenset[str]) -> Iterator:
    """The judge's answers about one case, again and again.

    A quick one that finds a gain, as it may once in a hundred between equals, gives way to one of full length.
    """
    judgment = pytest.importorskip("ridgeline.sandbox.judge.judgment", exc_type=ImportError)
    from ridgeline.sandbox.judge.options import Options

    staged = stage(case, folder / "staged")
    whole = Options(without=without)
    quick = whole if WHOLE else whole.model_copy(update={"pairs": 2, "most_pairs": 3, "blocks": 4})

    def answer(options: Options) -> Any:
        return judgment.judge(staged.task_file, candidate=staged.candidate, against=staged.against, options=options)

    for _ in range(TIMES):
        found = answer(quick)
        yield answer(whole) if found.faster.answer == "yes" and not WHOLE else found


def refused(case: Case) -> str | None:
    """Why this case cannot be judged on this machine."""
    if case.home == CARD and (reason := card()):
        return reason
    if case.dialect in NEED_TORCH and find_spec("torch") is None:
        return "torch is not installed"
    if case.dialect == "triton" and find_spec("triton") is None:
        return "triton is not installed"
    if case.needs == "namespaces":
        isolation = pytest.importorskip("ridgeline.sandbox.isolation.workers", exc_type=ImportError)
        return None if isolation.machine_isolation().level == "namespaces" else "workers are isolated only weakly here"
    return None


def chosen(kind: str) -> list[Case]:
    """What is judged: everything, or what fits into continuous integration."""
    if WHOLE:
        return [*cheats(), *cheats(CARD)] if kind == "cheat" else [*honest(), *honest(CARD)]
    native = [case for case in (CHEATS if kind == "cheat" else HONEST) if case.dialect not in NEED_TORCH]
    if kind == "honest":
        return native[TURN % EVERY :: EVERY]
    return list({case.rows[0]: case for case in native}.values())[TURN % 3 :: 3]


READING = [pytest.param(frozenset({"static"}), id="not-reading")]
if WHOLE:
    READING.append(pytest.param(frozenset(), id="reading"))


@pytest.mark.slow
@pytest.mark.parametrize("without", READING)
@pytest.mark.parametrize("case", chosen("cheat"), ids=lambda case: case.id)
def test_a_cheat_is_never_accepted(case, without, tmp_path):
    if reason := refused(case):
        pytest.skip(reason)
    for answer in judged(case, tmp_path, without):
        assert not answer.accepted, answer
        if without and case.expect.get("correct") == "no":
            assert answer.correct.answer == "no", answer
        if answer.correct.answer == "yes":
            for question in set(case.expect) - {"correct"}:
                assert getattr(answer, question).answer != "yes", answer


@pytest.mark.slow
@pytest.mark.parametrize("without", READING)
@pytest.mark.parametrize("case", chosen("honest"), ids=lambda case: case.id)
def test_an_honest_kernel_is_never_called_wrong(case, without, tmp_path):
    if reason := refused(case):
        pytest.skip(reason)
    for answer in judged(case, tmp_path, without):
        assert answer.correct.answer == "yes", answer
        if case.expect.get("faster") == "no":
            assert answer.faster.answer != "yes", answer
