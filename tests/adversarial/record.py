"""The suite on a processor, case by case, into a file that goes on where it was left:
`python -m tests.adversarial.record OUT.json [--native | --torch] [--times 5] [--whole] [--only WORD] [--classes]`.

Each case is judged so often with reading off, and with reading on where that convicts: where it does not, a judgement
does the same with it as without, and is not made again. A judgement is quick (two or three process pairs, four blocks:
`correct` and `own work` are asked in full, `faster` mostly stays undecided) unless `--whole`. A cheat that a quick one
accepts (once in a hundred where the kernel is as fast as the other), or does not find wrong (an update lost in one call
of sixteen), is judged in full length, which decides.
The file holds all answers of every case and those that are not as they must be; the exit code is 1 when there is one.

`--classes` asks about the classes of attacks that were once accepted (`CLASSES`) alone, in three spellings each, with
reading off, all of them once, then all again, until each was judged `--times` times: at its end, and with `--table` of
a file as it is, the table of docs/judge.md is printed. Where a gain could be small a judgement is of full length, else
it is quick, and one of full length decides about what that accepts.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ridgeline.graph.judgment import QuestionAnswer
from ridgeline.sandbox.judge import judgment
from ridgeline.sandbox.judge.options import Options
from tests.adversarial.reading import convicted
from tests.adversarial.suite import SECRET, Case, cheats, honest, stage

NEED_TORCH = ("torch", "torch_return", "triton")
QUICK = {"calibration_pairs": 4, "pairs": 2, "most_pairs": 3, "blocks": 4}
READING = {"not reading": frozenset({"static"}), "reading": frozenset()}
CLASSES = {
    "C9": "the answer before the work",
    "E8": "own work in the first calls only",
    "H8": "a library found in memory",
    "E7": "right for as long as tests last",
    "D17": "the harness's work left out",
    "D18": "locks and watches on what both sides see",
    "B11": "a build that reads what is not its own",
    "A16": "what earlier calls say of a later one's values",
    "A17": "what was packed for one size used for another",
    "B12": "an input's memory under another address",
    "D19": "the worker's loop in C",
    "D20": "an older version that is slow beside the newer",
    "H11": "work of others that a kernel undoes a change of",
    "E9": "own work where a process is called unlike timed ones",
}
"""Attacks that were accepted once: the first row of their cases."""
SMALL_GAINS = ("C9", "D17", "D18", "D19", "D20")
"""Of these, classes in which a gain could be too small for a quick judgement to see."""


def unlike(case: Case, answer: Any, *, reading: bool) -> str:
    """What a judgement says that it must not; empty when there is nothing."""
    if case.kind == "honest":
        wrong = answer.correct.answer != "yes" or (case.expect.get("faster") == "no" and answer.faster.answer == "yes")
        return f"honest, and {_told(answer)}" if wrong else ""
    if answer.accepted:
        return f"accepted: {_told(answer)}"
    if not reading and case.expect.get("correct") == "no" and answer.correct.answer != "no":
        return f"not found wrong: {_told(answer)}"
    return ""


def _told(answer: Any) -> str:
    fields: dict[str, QuestionAnswer] = {name: getattr(answer, name) for name in ("correct", "faster", "own_work")}
    return "; ".join(f"{name} {said.answer} ({' '.join(said.evidence)[:200]})" for name, said in fields.items())


def _short(answer: Any) -> str:
    return f"{answer.correct.answer}/{answer.faster.answer}/{answer.own_work.answer}"


def _judged(case: Case, options: Options) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        staged = stage(case, Path(folder) / "staged")
        return judgment.judge(staged.task_file, candidate=staged.candidate, against=staged.against, options=options)


def asked(case: Case, times: int, effort: dict[str, int]) -> dict[str, Any]:
    """Every judgement of one case."""
    began, answers, wrong = time.monotonic(), Counter[str](), []
    for said, without in READING.items():
        if said == "reading" and not convicted(case):
            continue
        for _ in range(times):
            found = _judged(case, Options(without=without, **effort))
            answers[f"{said}: {_short(found)}"] += 1
            if case.kind == "cheat" and effort and unlike(case, found, reading=said == "reading"):
                found = _judged(case, Options(without=without))
                answers[f"{said}, in full length: {_short(found)}"] += 1
            if what := unlike(case, found, reading=said == "reading"):
                wrong.append(f"{said}: {what}")
    return {"answers": dict(answers), "unlike": wrong, "took_s": round(time.monotonic() - began, 1)}


def judge_case(case: Case) -> tuple[str, str]:
    """A judgement of a case of `CLASSES`: what was answered, and what of it must not be."""
    efforts: tuple[dict[str, int], ...] = ({},) if case.rows[0] in SMALL_GAINS else (QUICK, {})
    for effort in efforts:
        found = _judged(case, Options(without=READING["not reading"], **effort))
        shown = "the secret is shown: " if SECRET in found.model_dump_json() else ""
        wrong = shown or ("accepted: " if found.accepted else "")
        if not wrong:
            break
    return _short(found), f"{wrong}{_told(found)}" if wrong else ""


def record_classes(out: Path, times: int) -> dict[str, Any]:
    """Judges every case of `CLASSES` until each was judged so often; a file that is there is gone on with."""
    kept: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    cases = [case for case in cheats() if case.rows[0] in CLASSES]
    while due := [case for case in cases if sum(kept.get(case.id, {}).get("answers", {}).values()) < times]:
        for case in due:
            began = time.monotonic()
            said, wrong = judge_case(case)
            one = kept.setdefault(case.id, {"class": case.rows[0], "answers": {}, "unlike": [], "took_s": 0.0})
            one["answers"][said] = one["answers"].get(said, 0) + 1
            one["unlike"] += [wrong] if wrong else []
            one["took_s"] = round(one["took_s"] + time.monotonic() - began, 1)
            _write(out, kept)
            sys.stdout.write(f"{case.id}: {said} {wrong}\n")
            sys.stdout.flush()
    return kept


def table(kept: dict[str, Any]) -> str:
    """Class by class the spellings, and of how many judgements each was refused in how many."""
    lines = ["| class | spelling: refused of judgements | answers (correct/faster/own work) |", "|---|---|---|"]
    for row, name in CLASSES.items():
        cases = {case: one for case, one in kept.items() if one["class"] == row}
        if not cases:
            continue
        counts = [(case, sum(one["answers"].values()), len(one["unlike"])) for case, one in cases.items()]
        answers = sum((Counter(one["answers"]) for one in cases.values()), Counter[str]())
        lines.append(
            f"| {name} | {', '.join(f'`{case}` {count - wrong} of {count}' for case, count, wrong in counts)} "
            f"| {', '.join(f'{said} {count}' for said, count in answers.most_common())} |"
        )
    return "\n".join(lines)


def _write(out: Path, kept: dict[str, Any]) -> None:
    partial = out.with_suffix(".part")
    partial.write_text(json.dumps(kept, indent=1))
    partial.replace(out)


def chosen(words: argparse.Namespace) -> Iterator[Case]:
    """Cheats, then honest kernels; what needs no PyTorch first."""
    for torch in (False, True):
        if (torch and words.native) or (not torch and words.torch):
            continue
        for case in (*cheats(), *honest()):
            if (case.dialect in NEED_TORCH) == torch and words.only in f"{case.kind}:{case.id}":
                yield case


def main() -> int:
    """Ask, and keep what was answered after each case."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("out", type=Path)
    given.add_argument("--native", action="store_true", help="only what needs no PyTorch")
    given.add_argument("--torch", action="store_true", help="only what needs PyTorch or Triton")
    given.add_argument("--times", type=int, default=5)
    given.add_argument("--whole", action="store_true", help="judgements of full length")
    given.add_argument("--only", default="", help="of the names KIND:ID, those with this in them")
    given.add_argument("--classes", action="store_true", help="only attacks that were once accepted, by class")
    given.add_argument("--table", action="store_true", help="of a file that --classes wrote: judge nothing")
    words = given.parse_args()
    if words.classes or words.table:
        kept = json.loads(words.out.read_text()) if words.table else record_classes(words.out, words.times)
        sys.stdout.write(f"{table(kept)}\n")
        return 1 if any(one["unlike"] for one in kept.values()) else 0
    kept = json.loads(words.out.read_text()) if words.out.exists() else {}
    for case in chosen(words):
        name = f"{case.kind}:{case.id}"
        if name in kept:
            continue
        kept[name] = asked(case, words.times, {} if words.whole else QUICK)
        _write(words.out, kept)
        sys.stdout.write(f"{name}: {json.dumps(kept[name])}\n")
        sys.stdout.flush()
    wrong = {name: one["unlike"] for name, one in kept.items() if one["unlike"]}
    sys.stdout.write(f"{len(kept)} cases judged; not as they must be: {json.dumps(wrong, indent=1)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
