"""Whether a test that ended with exit code 0 came to its end: the original's own passing runs are the yardstick.

A candidate that prints the original's lines itself is not found out here; one that only leaves early is.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ridgeline.graph.evidence import TestOutput

RELIABLE = 20
"""Last lines that are required of an output too long to keep, where nothing before them can be counted."""
WORD = re.compile(r"[\w#]+")
DENIAL = re.compile(
    r"\b(?:fail\w*|wrong|bad|mismatch\w*|errors?|incorrect\w*|differ\w*|not?|nok|ko|exceed\w*|broken|false|skip\w*|timeout)\b",
    re.IGNORECASE,
)
"""A line that says one of these is not another way to say what a line without it said."""
AFFIRMATION = re.compile(
    r"\b(?:pass\w*|ok\w*|right|correct\w*|match\w*|close|equal\w*|same|success\w*|good|fine|true|done|valid\w*|verif\w*|all)\b",
    re.IGNORECASE,
)
"""A line that says one of these may be the outcome of a check: no line in entirely other words stands for it."""
SILENT = (
    "the test prints nothing that every run repeats, so a run that ends early with exit code 0 cannot be told from one"
    " that passed; have the test print a last line, for example how many cases it compared"
)


def explain_early_end(originals: Sequence[TestOutput], candidate: TestOutput) -> str | None:
    """The rule on tests that end early: why a candidate's run with exit code 0 is no pass, in one line; None when it is one.

    `originals`: passing runs of the unmodified code. Only what all of them printed is required, in any order; a line
    in other words, which deny nothing, stands for one that is missing; in entirely other ones for one that affirms
    nothing, such as the kernel's name, where it alone is missing and the original's last line follows.
    """
    if new := _find_new_complaint(originals, candidate):
        return f"exit code 0, but the test printed what it never prints for the original: {new!r}; mend what it names"
    missing = _count_missing_lines(originals, candidate)
    if not missing:
        return None
    line, times = next(iter(missing.items()))
    is_repeated = originals[0].cut or any(printed.line == line for printed in candidate.lines)
    how = f"{times} more of the line" if is_repeated and not originals[0].cut else "the line"
    more_missing = f" (and {len(missing) - 1} other lines)" if len(missing) > 1 else ""
    return (
        f"the test ended early with exit code 0, let it run to its end: {how} {line!r}{more_missing}, which every run of"
        " the original prints, is missing (# is any number)"
    )


def note_silent_test(original: TestOutput | None) -> str:
    """The rule on tests that end early: what to say of a test whose output cannot show it; empty where it can."""
    return SILENT if original is not None and not original.lines else ""


def _find_new_complaint(originals: Sequence[TestOutput], candidate: TestOutput) -> str:
    usual = {printed.line for run in originals for printed in run.lines if printed.complains}
    return next((printed.line for printed in candidate.lines if printed.complains and printed.line not in usual), "")


def _count_missing_lines(originals: Sequence[TestOutput], candidate: TestOutput) -> dict[str, int]:
    """The rule on tests that end early: lines of the original's that the candidate's run lacks, and how often, in order."""
    there = _count_lines(candidate)
    if any(run.cut for run in (*originals, candidate)):
        printed = [printed.line for printed in originals[0].lines[-RELIABLE:]]
        runs_lines = [{printed.line for printed in run.lines} for run in originals]
        return {line: 1 for line in printed if line not in there and all(line in lines for lines in runs_lines)}
    required = _count_lines(originals[0])
    for run in originals[1:]:
        required &= _count_lines(run)
    usual = set().union(*(_count_lines(run) for run in originals))
    spare = Counter({line: times for line, times in there.items() if line not in usual})
    missing = {
        line: left
        for line, times in _list_lacking_lines(required, there)
        if (left := times - _count_stand_ins(line, times, spare))
    }
    return {} if _is_replaced(missing, tuple(required), spare, candidate) else missing


def _is_replaced(missing: dict[str, int], order: Sequence[str], spare: Counter[str], candidate: TestOutput) -> bool:
    """The rule on tests that end early: whether one line alone is missing, another stands for it as often, and the last follows."""
    if len(missing) != 1:
        return False
    line, times = next(iter(missing.items()))
    places = {printed.line: place for place, printed in enumerate(candidate.lines)}
    end = places.get(order[-1])
    if line in places or end is None or AFFIRMATION.search(line):
        return False
    return any(
        spare[stand_in] == times and places[stand_in] < end and not _denies_more(stand_in, line) for stand_in in spare
    )


def _list_lacking_lines(required: Counter[str], there: Counter[str]) -> Iterator[tuple[str, int]]:
    return ((line, times - there[line]) for line, times in required.items() if times > there[line])


def _count_stand_ins(line: str, times: int, spare: Counter[str]) -> int:
    """The rule on tests that end early: how many of `times` missing lines are there in other words; those are used up."""
    count = 0
    for stand_in in tuple(spare):
        if count < times and _is_alike(line, stand_in):
            used = min(times - count, spare[stand_in])
            spare[stand_in] -= used
            count += used
            if not spare[stand_in]:
                del spare[stand_in]
    return count


def _is_alike(line: str, stand_in: str) -> bool:
    """The rule on tests that end early: whether two lines share most words and the second denies nothing that the first did not."""
    ours, theirs = Counter(WORD.findall(line)), Counter(WORD.findall(stand_in))
    if _denies_more(stand_in, line):
        return False
    return 2 * (ours & theirs).total() > (ours | theirs).total()


def _denies_more(stand_in: str, line: str) -> bool:
    return len(DENIAL.findall(stand_in)) > len(DENIAL.findall(line))


def _count_lines(run: TestOutput) -> Counter[str]:
    counts = Counter[str]()
    for printed in run.lines:
        counts[printed.line] += printed.times
    return counts
