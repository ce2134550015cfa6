"""Whether reading a case's source convicts it. Where it does not, a judgement does the same with reading as without."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from ridgeline.sandbox.judge.freeze import freeze_sources
from ridgeline.sandbox.judge.judgment import CandidateJudgment
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.references import Reference
from ridgeline.sandbox.judge.task_file import load_task
from tests.adversarial.suite import Case, stage


def convicted(case: Case) -> bool:
    """By the text of its files alone: nothing of it runs, on no device."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        staged = stage(case, Path(folder) / "staged")
        task, home = load_task(staged.task_file)
        new, old = (stack.enter_context(freeze_sources(task, one)) for one in (staged.candidate, staged.against))
        reference = Reference(task, home)  # which never starts
        judged = CandidateJudgment(task=task, reference=reference, new=new, old=old, options=Options(device="cpu"))
        return judged.convict_by_reading() is not None
