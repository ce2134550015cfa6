"""Turn data into text that cannot break the document around it: bounded, on one line or fenced, numbers with units."""

import re
import shlex
from collections.abc import Iterable, Sequence
from math import floor

LINE = 600
"""Characters of foreign text that a paragraph, a bullet or a table cell may hold."""
BLOCK = 4000
"""Characters of foreign text that a fenced block may hold."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_OPENER = re.compile(r"^(?:#{1,6}(?=\s|$)|[-+*](?=\s|$)|[>|]|~{3,}|`{3,}|[-=_*](?:\s?[-=_*])*$|\d+[.)](?=\s|$))")
"""What begins a Markdown block: heading, list, quote, table, fence, rule. `-O3` is none."""
_UNITS = ("TFLOPS", "GFLOPS", "MFLOPS", "TB/s", "GB/s", "MB/s")


def line(text: str, limit: int = LINE) -> str:
    """Foreign text on one line: white space folded, block marks and HTML defused, cut at `limit`."""
    flat = _flat(text, limit)
    if opener := _OPENER.match(flat):
        at = opener.end() - 1 if opener[0][0].isdigit() else 0
        flat = f"{flat[:at]}\\{flat[at:]}"
    return flat


def _flat(text: str, limit: int) -> str:
    """Foreign text for a page without control characters and tags on one line, cut at `limit`, with what was left out."""
    # Cut before anything is searched: the text may be a megabyte.
    head = " ".join(_CONTROL.sub(" ", text[: 4 * limit]).split())
    cut = head[:limit]
    left_out = len(text) - len(cut) if len(text) > 4 * limit else len(head) - len(cut)
    return _TAG.sub("&lt;", cut) + (f" [... {left_out} characters left out]" if left_out > 0 else "")


def clip(text: str, limit: int) -> str:
    """Foreign text on one line of at most `limit` characters, for subjects and titles; the cut shows as `...`."""
    folded = " ".join(_CONTROL.sub(" ", text[: 4 * limit]).split())
    return folded if len(folded) <= limit else folded[: limit - 3].rstrip() + "..."


def cell(text: str, limit: int = 200) -> str:
    """Foreign text inside a table: one line, column marks and stray code marks escaped; a dash when empty."""
    safe = _flat(text, limit).replace("|", "\\|")
    return (safe.replace("`", "'") if safe.count("`") % 2 else safe) or "-"


def code(text: str, limit: int = LINE) -> str:
    """Foreign text as inline code, for commands and names."""
    folded = " ".join(_CONTROL.sub(" ", text[: 4 * limit]).split())[:limit].replace("`", "'").replace("|", "\\|")
    return f"`{folded}`" if folded else "-"


def fence(text: str, limit: int = BLOCK) -> str:
    """Foreign text as a fenced block whose fence is longer than any inside; the middle is cut, and that is said."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    text = _CONTROL.sub(" ", text.replace("\r\n", "\n")).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{text}\n{marks}"


def row(cells: Iterable[str]) -> str:
    """One line of a Markdown table; the cells are already safe."""
    return "| " + " | ".join(cells) + " |"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table without a closing newline; the cells are already safe."""
    return "\n".join((row(header), "|" + "---|" * len(header), *(row(cells) for cells in rows)))


def percent(gain: float | None, digits: int = 2) -> str:
    """A relative change such as 0.0836 as a page shows it, `+8.36%`; a dash when it was not measured."""
    return "-" if gain is None else f"{100 * gain:+.{digits}f}%"


def interval(gain: float | None, lower: float | None, upper: float | None) -> str:
    """A gain with its confidence bounds as a page shows them, as far as they are known: `+8.36% [+6.10%, +10.70%]`."""
    if gain is None or (lower is None and upper is None):
        return percent(gain)
    return f"{percent(gain)} [{percent(lower)}, {percent(upper)}]"


def number(value: float | None, digits: int = 3) -> str:
    """A measured quantity on a page with fixed decimals, four digits where these would leave one or none; a dash when it was not
    measured.
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if 0 < abs(value) < 10.0 ** (1 - digits) else f"{value:.{digits}f}"


def quantity(value: float | None) -> str:
    """A number of any size on a page, in at most six significant digits; a dash when there is none."""
    return "-" if value is None else f"{value:.6g}"


def times(speedup: float | None, digits: int = 3) -> str:
    """A speedup such as 1.2 on a page as `1.200x`; a dash when there is none."""
    return "-" if speedup is None else f"{speedup:.{digits}f}x"


def times_at_least(lower: float | None, digits: int = 3) -> str:
    """A speedup's lower bound on a page, rounded down so that it says no more than was shown: 0.9996 is `0.999x`."""
    scale = 10**digits
    return times(None if lower is None else floor(lower * scale + 1e-6) / scale, digits)


def minute(stamp: str) -> str:
    """`YYYY-MM-DD HH:MM` for a page, cut out of an ISO-8601 stamp."""
    return stamp.replace("T", " ")[:16]


def unit(column: str) -> str:
    """For a page: unit of a throughput column such as `Forward TFLOPS`; the column's own name when it carries none."""
    return next((word for word in _UNITS if column.endswith(word)), column)


def command(argv: Iterable[str]) -> str:
    """An argument list on a page as a person would type it; placeholders such as `{csv}` stay readable."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word) for word in argv)
