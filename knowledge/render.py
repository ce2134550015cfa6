"""What a match is replaced by: holes filled, identifiers renamed inside them, the result indented like its place."""

import re

from ridgeline.knowledge.pattern import Match, macro_arguments
from ridgeline.knowledge.source import Lang, Token, fresh_name, tokens

_SLOT = re.compile(r"\$\{(\w+)((?:\|[^}|]+)*)\}|\$\((\w+)\)|\$(\w+)")
_FOR = re.compile(r"\$for\(")
_LEFT = frozenset({"(", "[", ",", "+", "="})
_RIGHT = frozenset({")", "]", ",", "+", ";"})


def render(text: str, match: Match, *, replace: str, lang: Lang) -> str:
    """The replacement of one match. `$x` is what hole x holds, `${x|i=i + 1}` the same with i renamed.

    `$(x)` is x in parentheses unless it is one token. A `$name` that no hole has is a fresh identifier: the name
    itself, numbered where the text already uses it.
    """
    names: dict[str, str] = {}

    def fill(slot: re.Match[str]) -> str:
        name = slot.group(1) or slot.group(3) or slot.group(4)
        if name not in match.bound:
            return names.setdefault(name, fresh_name(text, name))
        if slot.group(3) and len(match.bound[name]) > 1:
            return f"({hole_text(text, match, name, renames=[])})"
        renames = [part.split("=", 1) for part in (slot.group(2) or "").split("|") if part]
        return hole_text(
            text, match, name, renames=[(old.strip(), _SLOT.sub(fill, new.strip())) for old, new in renames]
        )

    filled = _SLOT.sub(fill, _loops(replace.strip("\n")))
    base = _base_indent(text, match.start)
    if lang == "python":
        lines = filled.split("\n")
        return "\n".join([lines[0], *(base + line if line.strip() else "" for line in lines[1:])])
    return indent_c(filled, base=base, unit=indent_unit(text))


def hole_text(text: str, match: Match, name: str, *, renames: list[tuple[str, str]]) -> str:
    """The source text of a hole; `renames` pairs (hole or identifier, new expression) apply to whole identifiers."""
    span = match.bound[name]
    if not span:
        return ""
    new = {_identifier(match, old): value for old, value in renames}
    out: list[str] = []
    at = span[0].start
    for index, token in enumerate(span):
        out.append(text[at : token.start])
        out.append(_rename(span, index, new) if token.text in new else text[token.start : token.end])
        at = token.end
    return "".join(out)


def _identifier(match: Match, name: str) -> str:
    bound = match.bound.get(name, ())
    return bound[0].text if len(bound) == 1 else name


def _rename(span: tuple[Token, ...], index: int, new: dict[str, str]) -> str:
    value = new[span[index].text]
    before = span[index - 1].text if index else "("
    after = span[index + 1].text if index + 1 < len(span) else ")"
    simple = re.fullmatch(r"\w+", value) is not None
    return value if simple or (before in _LEFT and after in _RIGHT) else f"({value})"


def _loops(replace: str) -> str:
    """`$for(i, a, n)` as a loop header that declares i exactly where the original did."""
    while (match := _FOR.search(replace)) is not None:
        args, end = macro_arguments(replace, match.end())
        i, start, stop = args[:3]
        step = f"${i} += {args[3]}" if len(args) > 3 else f"${i}++"
        header = f"for (${i}_type ${i} = {start}; ${i} < {stop}; {step})"
        replace = replace[: match.start()] + header + replace[end:]
    return replace.replace("( ", "(")


def _base_indent(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip())] if line.strip() else line


def indent_unit(text: str) -> str:
    """One level of indentation as the text does it: a tab, or its smallest run of blanks from two on."""
    if re.search(r"^\t", text, re.M):
        return "\t"
    widths = [len(run) for run in re.findall(r"^( {2,8})\S", text, re.M)]
    return " " * min(widths, default=4)


def indent_c(code: str, *, base: str, unit: str) -> str:
    """C lines indented by their braces; the first line stays where it is put."""
    out: list[str] = []
    depth = 0
    continued = False
    for raw in code.split("\n"):
        line = re.sub(r"\(\s+", "(", raw.strip()) if '"' not in raw else raw.strip()
        if not line:
            continue
        level = depth - line.startswith("}") + (continued and not line.startswith(("{", "}", "#")))
        out.append(line if not out else base + unit * max(level, 0) + line)
        code_only = "".join(t.text for t in tokens(line, "c") if t.kind == "op" and t.start < t.end)
        depth += code_only.count("{") - code_only.count("}")
        continued = not line.endswith((";", "{", "}", "*/", ":")) and not line.startswith(("#", "//"))
    return "\n".join(out)
