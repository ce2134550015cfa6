"""Text of models, kernels and tools as HTML that is only ever text: our Markdown, and diffs."""

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

DIFF = 60_000
"""Characters of a diff that a page shows; the rest is in the evidence pack."""

_FENCE = re.compile(r"(`{3,})(\w*)\s*$")
_HEADING = re.compile(r"(#{1,6}) +(.*)")
_ITEM = re.compile(r"(?:[-*]|(\d+)\.) +(.*)")
_INLINE = re.compile(
    r"`(?P<code>[^`\n]{1,2000})`|\*\*(?P<bold>[^*\n]{1,2000})\*\*|\[(?P<label>[^\[\]\n]{1,500})\]\([^()\s]{0,500}\)"
    r"|\\(?P<mark>[\\`*_\[\]()#+\-.!|>~=])"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0001-\U000e007f]"
)
_KINDS = (("+++", "file"), ("---", "file"), ("diff ", "file"), ("@@", "hunk"), ("+", "plus"), ("-", "minus"))


def plain(text: str) -> Markup:
    """A report's text, escaped, in which what a reader could not see, such as a change of writing direction, is named."""
    parts, end = [], 0
    for match in _HIDDEN.finditer(text):
        parts += [escape(text[end : match.start()]), Markup("<b class=hidden>U+{:04X}</b>").format(ord(match[0]))]
        end = match.end()
    return Markup("").join((*parts, escape(text[end:])))


def diff(text: str, limit: int = DIFF) -> Markup:
    """A unified diff as a page's HTML, a line a span; what is longer than `limit` is cut, and that is said."""
    left_out = len(text) - limit
    lines = text[:limit].rstrip("\n").replace("\r\n", "\n").split("\n")
    body = Markup("\n").join(_diff_line(line) for line in lines)
    cut = Markup("\n<b>[... {} characters left out]</b>").format(left_out) if left_out > 0 else ""
    return Markup("<pre class=diff>{}{}</pre>").format(body, cut)


def _diff_line(line: str) -> Markup:
    kind = next((name for start, name in _KINDS if line.startswith(start)), "")
    return Markup('<span class="{}">{}</span>').format(kind, plain(line)) if kind else plain(line)


def markdown(text: str) -> Markup:
    """The HTML of a report's Markdown: headings, tables, lists, fences, bold, code. Links lose their target.

    Whatever else stands in the text stays text.
    """
    return Markup("\n").join(_blocks(text.split("\n")))


def _blocks(lines: Sequence[str]) -> Iterator[Markup]:
    """HTML of each block of a text: fence, table, list, heading, paragraph."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if match := _FENCE.match(line):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].rstrip() == match[1]), len(lines))
            yield _render_fence("\n".join(lines[at + 1 : end]), match[2])
            at = end + 1
            continue
        kind = _kind(line)
        end = at + 1
        while kind in ("table", "list", "text") and end < len(lines) and _kind(lines[end]) == kind:
            end += 1
        yield from _block(kind, lines[at:end])
        at = end


def _kind(line: str) -> str:
    """The kind of block of a report's Markdown that a line belongs to."""
    if not line.strip():
        return "empty"
    if line.startswith("|"):
        return "table"
    if _FENCE.match(line):
        return "fence"
    if _HEADING.match(line):
        return "heading"
    return "list" if _ITEM.match(line) else "text"


def _block(kind: str, lines: Sequence[str]) -> Iterator[Markup]:
    """HTML of consecutive lines of one kind; nothing for empty ones."""
    match kind:
        case "table":
            yield _table(lines)
        case "list":
            yield _list(lines)
        case "heading" if match := _HEADING.match(lines[0]):
            level = min(6, len(match[1]) + 1)
            yield Markup("<h{0}>{1}</h{0}>").format(level, _inline(match[2]))
        case "text":
            yield Markup("<p>{}</p>").format(Markup("<br>").join(_inline(line) for line in lines))


def _render_fence(text: str, language: str) -> Markup:
    return diff(text) if language == "diff" else Markup("<pre>{}</pre>").format(plain(text))


def _table(lines: Sequence[str]) -> Markup:
    """HTML of a table; its first row is the head where a rule follows it."""
    rows = [_cells(line) for line in lines]
    ruled = len(rows) > 1 and all(set(cell) <= set("-: ") for cell in rows[1])
    head = _row(rows[0], "th") if ruled and any(rows[0]) else Markup("")
    body = Markup("").join(_row(row, "td") for row in (rows[2:] if ruled else rows))
    return Markup("<div class=wide><table><thead>{}</thead><tbody>{}</tbody></table></div>").format(head, body)


def _cells(line: str) -> list[str]:
    """Columns of a row of a report's Markdown; an escaped mark is text."""
    inside = line.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith("\\|") else inside
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inside)]


def _row(cells: Sequence[str], tag: str) -> Markup:
    """In a report's Markdown: HTML of a table's row; `tag`: th or td."""
    inner = Markup("").join(Markup("<{0}>{1}</{0}>").format(Markup(tag), _inline(cell)) for cell in cells)
    return Markup("<tr>{}</tr>").format(inner)


def _list(lines: Sequence[str]) -> Markup:
    """In a report's Markdown: HTML of a list, numbered where its first item is."""
    match = [item for line in lines if (item := _ITEM.match(line))]
    tag = Markup("ol" if match[0][1] else "ul")
    items = Markup("").join(Markup("<li>{}</li>").format(_inline(_render_code_span(item[2]))) for item in match)
    return Markup("<{0}>{1}</{0}>").format(tag, items)


def _render_code_span(text: str) -> str:
    """Text of an inline code span; a box of a check list as a sign."""
    return text.replace("[x] ", "\u2713 ", 1).replace("[ ] ", "\u2717 ", 1) if text.startswith("[") else text


def _inline(text: str) -> Markup:
    """In a report's Markdown: HTML of a line's text with its code, links and emphasis."""
    parts: list[Markup] = []
    end = 0
    for match in _INLINE.finditer(text):
        parts.append(_words(text[end : match.start()]))
        parts.append(_render_mark(match))
        end = match.end()
    return Markup("").join((*parts, _words(text[end:])))


def _render_mark(match: re.Match[str]) -> Markup:
    match match.lastgroup:
        case "code":
            return Markup("<code>{}</code>").format(_words(match["code"]))
        case "bold":
            return Markup("<strong>{}</strong>").format(_words(match["bold"]))
        case "label":
            return _words(match["label"])
        case _:
            return _words(match["mark"])


def _words(text: str) -> Markup:
    """Escaped text of a report's Markdown."""
    # our Markdown defuses tags by `&lt;`, here the whole text is escaped
    return plain(text.replace("&lt;", "<"))
