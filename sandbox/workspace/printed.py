"""What a test prints every time: its lines without the numbers, times, addresses and paths that change from run to run.

A test that ends early with exit code 0 looks like one that passed. What it did not print any more gives it away.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from ridgeline.graph.evidence import Printed, PrintedLine

MOST = 300
"""Different lines that are kept, the last ones: what an early end takes away stands at the end."""
LONGEST = 160
"""Characters of a line that are kept."""
LEFT_OUT = re.compile(r"\[\.\.\. \d+ bytes left out \.\.\.\]")
"""What stands in an output that was too long to keep."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLACES = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?/[^\s:,;'\"()\[\]<>]+|\btmp[\w-]*(?:[A-Z0-9_]|\d)[\w-]*")
"""Whole paths, and names as `tempfile` makes them."""
CODES = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,})\b")
"""Addresses, digests and identifiers."""
LONG_TIMES = re.compile(r"\s\(\d+:\d\d:\d\d\)")
"""Added to times of more than a minute."""
NUMBERS = re.compile(
    r"(?<![A-Za-z_])[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s?(?:[num\u00b5\u03bc]?s|min|h)\b)?"
    r"|\d+|(?<!\w)[-+]?(?:nan|inf|infinity)\b",
    re.IGNORECASE,
)
RUNS = re.compile(r"([^\w\s#])\1+")
"""Rules and bars, as long as the numbers beside them leave room for."""
COMMANDS = re.compile(
    r"(?:\S*/)?(?:[\w-]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|ar|ld|ranlib|rustc|cython|cmake|ninja)(?:-[\d.]+)?\s"
    r"|make(?:\[\d+\])?:|\[\s*\d+(?:%|/\d+)\]\s+(?:Building|Built|Linking|Compiling|Generating|Scanning|Copying)"
)
"""What a build says: which files it names is the candidate's to change."""
WARNING = re.compile(r"warning|deprecat|\bnote:", re.IGNORECASE)
CONTEXT = re.compile(r"\s*\d*\s*\|")
"""The source beside a compiler's warning."""
FILE = re.compile(r"(?:[\w.+-]+/)*[\w.+-]+\.[A-Za-z]\w*")
FAILED = re.compile(r"(?<![\d.])[1-9]\d*\s+(?:tests?\s+)?(?:failed|failures?)\b", re.IGNORECASE)
"""How runners of tests count what failed."""
NONE_FAILED = re.compile(r"(?<![\d.])0+\s+(?:\w+\s+)?fail|\bfail\w*\s*[:=]\s*0+(?![\d.])", re.IGNORECASE)


def printed(output: str, *, csv: str, own: Callable[[str], bool], patterns: tuple[str, ...]) -> Printed:
    """The lines of a test's output and of the CSV it wrote, masked and counted, in the order of their last place.

    Left out is what depends on the candidate's own text and not on how far the test came: builds, warnings and lines
    that name a file which is the candidate's `own` to change. `patterns`: words that complain, from the contract.
    """
    found = Counter[PrintedLine]()
    for line in (*_said(output), *csv.splitlines()):
        if kept := _masked(line, own):
            one = PrintedLine(line=kept, complains=_complains(line, patterns))
            count = found.pop(one, 0)  # put back at the end: the order is that of the last time
            found[one] = count + 1
    cut = len(found) > MOST or LEFT_OUT.search(output) is not None
    last = list(found.items())[-MOST:]
    return Printed(lines=tuple(one.model_copy(update={"times": times}) for one, times in last), cut=cut)


def _said(output: str) -> Iterator[str]:
    """Lines as a terminal shows them in the end, without warnings and the source that is quoted below them."""
    quoting, summary = False, False
    for raw in ESCAPES.sub("", output).split("\n"):
        line = raw.rstrip("\r").rsplit("\r", 1)[-1]
        if "warnings summary" in line:  # pytest's, up to its last line
            summary = True
        if summary:
            summary = "docs.pytest.org" not in line
        elif WARNING.search(line) and not FAILED.search(line) and " passed" not in line:
            quoting = True
        elif quoting and (line.startswith((" ", "\t")) or CONTEXT.match(line)):
            continue
        else:
            quoting = False
            yield line


def _masked(line: str, own: Callable[[str], bool]) -> str:
    """The line without what changes; empty where nothing is left that a run could be known by."""
    if COMMANDS.match(line.lstrip()) or LEFT_OUT.search(line) or _names(line, own):
        return ""
    short = re.sub(r",?\s*\d+ warnings?", "", line[: 4 * LONGEST])
    for mask, sign in ((LONG_TIMES, ""), (PLACES, "<path>"), (CODES, "#"), (NUMBERS, "#"), (RUNS, r"\1")):
        short = mask.sub(sign, short)
    short = " ".join(short.split())[:LONGEST]
    return short if any(letter.isalnum() or letter == "#" for letter in short) else ""


def _names(line: str, own: Callable[[str], bool]) -> bool:
    """Whether the line speaks of a file that the candidate may change: `src/kernel.c:12`, `(kern/op.py)`."""
    words = (word.strip("'\"`();,").split(":")[0] for word in line.split() if "." in word)
    return any(own(word) for word in words if FILE.fullmatch(word))


def _complains(line: str, patterns: tuple[str, ...]) -> bool:
    return bool(FAILED.search(line)) or (has(line, patterns) and not NONE_FAILED.search(line))


def has(line: str, patterns: tuple[str, ...]) -> bool:
    """A pattern in lower case is meant in any case, one with capitals as written: FAIL, but not `failed to open`."""
    return any(word in (line.lower() if word.islower() else line) for word in patterns)
