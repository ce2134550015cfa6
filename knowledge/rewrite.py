"""Applies a card's edits to source texts: pure, whole files in, changed files out, None where nothing applies."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, assert_never

from ridgeline.knowledge.definitions import read_definitions
from ridgeline.knowledge.pattern import ADVICE, Match, macro_arguments, search
from ridgeline.knowledge.source import Lang, Token, fresh_name, lang_of, tokens
from ridgeline.knowledge.steps import AnyEdit, Decorator, Edit, Flags, Insert, LoopPragma, Restrict, Substitute
from ridgeline.knowledge.sweeps import set_constant

SOURCES = {
    "c": (".c", ".h", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".hip", ".hpp"),
    "python": (".py",),
}
_PRAGMA = re.compile(r"#pragma GCC (?:target|optimize)\b.*")
"""Holds for every function behind it, to the end of the file."""
_ONLY_COMMENTS = re.compile(r"(?:[ \t]|/\*(?:(?!\*/).)*\*/)*")
_TRAIL = re.compile(r"(?:[ \t]|/\*(?s:(?!\*/).)*\*/)*(?://[^\n]*)?[ \t\r]*(?=\n|\Z)")
"""Behind a definition to its line's end: blanks and comments, and no code."""
_FAMILY = re.compile(r"-O\w*$|-(?:march|mtune|mcpu|mprefer-vector-width|std|fopenmp)\b")


def apply(
    edits: tuple[Edit, ...],
    sources: Mapping[str, str],
    *,
    flags_file: str | None,
    target: Mapping[str, int] | None = None,
    only: frozenset[str] | None = None,
) -> dict[str, str] | None:
    """All edits of a card in order. Returns the texts that changed, or None when one edit does not apply or nothing changes.

    `target` names the value of each swept constant. Flags that are already there do not stop the edits beside them.
    `only`: names of the definitions that may be changed; a pragma stands around each of them then. None: all of a file.
    """
    now = dict(sources)
    for edit in edits:
        changed = _apply(edit, now, flags_file, target or {}, only)
        if not changed and not (len(edits) > 1 and isinstance(edit, Flags)):
            return None
        now.update(changed)
    changed_all = {path: text for path, text in now.items() if sources.get(path) != text}
    return changed_all or None


def where_first(
    edits: tuple[Edit, ...], sources: Mapping[str, str], only: frozenset[str] | None = None
) -> tuple[str, int] | None:
    """File and character offset of a card's first structural match, for evidence; None when no edit has a pattern."""
    for edit in edits:
        if isinstance(edit, Substitute):
            for path, text in sources.items():
                for start, piece in list_pieces(path, text, only) if code(path) else ():
                    if matches := _matches(edit, path, piece)[1]:
                        return path, start + matches[0].start
    return None


def list_pieces(path: str, text: str, only: frozenset[str] | None) -> tuple[tuple[int, str], ...]:
    """Offset and text of each definition that a card edits, in order; the whole text where `only` is None."""
    if only is None:
        return ((0, text),)
    definitions = (item for item in read_definitions(text, lang_of(path)) if item.names & only)
    return tuple((item.start, text[item.start : item.end]) for item in definitions)


def code(path: str) -> bool:
    """Whether a file is source code that a card's edits other than flags may touch."""
    return path.endswith(tuple(suffix for group in SOURCES.values() for suffix in group))


def _apply(
    edit: AnyEdit,
    sources: Mapping[str, str],
    flags_file: str | None,
    target: Mapping[str, int],
    only: frozenset[str] | None,
) -> dict[str, str]:
    """Paths and texts that one edit of a card changes."""
    if isinstance(edit, Flags):
        return _flags(edit, sources, flags_file, only)
    changed: dict[str, str] = {}
    for path, text in sources.items():
        if path == flags_file or not code(path):
            continue
        new = _apply_edit(edit, path, text, target) if only is None else _edit_pieces(edit, path, text, target, only)
        if new != text:
            changed[path] = new
    return changed


def _edit_pieces(edit: AnyEdit, path: str, text: str, target: Mapping[str, int], only: frozenset[str]) -> str:
    """The text with an edit of the named definitions alone; what they need at the top goes there."""
    if isinstance(edit, Insert) and edit.where != "before":
        pieces = list_pieces(path, text, only)
        if edit.only_if and not any(re.search(edit.only_if, piece, re.M) for _, piece in pieces):
            return text
        block = edit.text.strip()
        return _enclose(block, path, text, only) if _PRAGMA.fullmatch(block) else _insert(edit, text)
    once = isinstance(edit, Insert) or (isinstance(edit, Substitute) and edit.count == "first")
    return _replace_pieces(path, text, only, lambda piece: _apply_edit(edit, path, piece, target), once=once)


def _replace_pieces(
    path: str, text: str, only: frozenset[str], make: Callable[[str], str], *, once: bool = False
) -> str:
    """The text with `make` of each definition that a card edits in its place; `once`: of the first that it changes."""
    changes = [(start, piece, make(piece)) for start, piece in list_pieces(path, text, only)]
    changes = [change for change in changes if change[1] != change[2]]
    for start, piece, new in reversed(changes[:1] if once else changes):
        text = text[:start] + new + text[start + len(piece) :]
    return text


def _enclose(pragma: str, path: str, text: str, only: frozenset[str]) -> str:
    """A pragma that would hold to the file's end, put around each named function; where it stands already, nothing."""
    if pragma in text:
        return text
    functions = {
        item.start for item in read_definitions(text, lang_of(path)) if item.kind == "function" and item.names & only
    }
    for start, piece in reversed(list_pieces(path, text, only)):
        if start in functions:
            first, behind = _widen_to_lines(text, start, start + len(piece))
            line_begin = "" if first == 0 or text[first - 1] == "\n" else "\n"
            line_end = "" if text[behind : behind + 1] in {"", "\n"} else "\n"
            around = f"{line_begin}#pragma GCC push_options\n{pragma}\n{text[first:behind]}\n#pragma GCC pop_options"
            text = text[:first] + around + line_end + text[behind:]
    return text


def _widen_to_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The offsets with the comments that stand on the same lines, before and behind, even where one goes on below."""
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    trail = _TRAIL.match(text, end)
    return start - len(lead) if _ONLY_COMMENTS.fullmatch(lead) else start, trail.end() if trail else end


def _apply_edit(edit: AnyEdit, path: str, text: str, target: Mapping[str, int]) -> str:
    match edit:
        case Insert():
            return _insert(edit, text)
        case Substitute():
            return _substitute(edit, path, text)
        case LoopPragma():
            return before_loops(text, edit.text, innermost=edit.loops == "innermost")
        case Restrict():
            return add_restrict(text, plain_c=path.endswith(".c"))  # a header may be C++'s
        case Decorator():
            return re.sub(rf"^([ \t]*)(?={edit.above})", rf"\1{_literal(edit.text)}\n\1", text, flags=re.M)
        case Flags():
            return text
        case _:
            return set_constant(text, edit, target=target) if edit.kind == "constant" else assert_never(edit)


def _literal(text: str) -> str:
    return text.strip().replace("\\", r"\\")


def _flags(
    edit: Flags, sources: Mapping[str, str], flags_file: str | None, only: frozenset[str] | None
) -> dict[str, str]:
    """For a card's edit: the flags file with the flags; without one, the C sources with the pragma."""
    if flags_file is None or flags_file not in sources:
        if not edit.pragma:
            return {}
        changed = {
            path: _pragma(edit.pragma, text) if only is None else _enclose(edit.pragma, path, text, only)
            for path, text in sources.items()
            if path.endswith((".c", ".cpp"))
        }
        return {path: text for path, text in changed.items() if text != sources[path]}
    old = sources[flags_file]
    had = re.sub(r"(?m)(?:^|\s)#.*", "", old).split()
    flags = list(had)
    for new in edit.add:
        family = _FAMILY.match(new)
        flags = [flag for flag in flags if flag != new and not (family and _same_family(flag, new))]
        flags.append(new)
    text = " ".join(flags) + "\n"
    return {} if set(flags) == set(had) else {flags_file: text}


def _same_family(flag: str, other_flag: str) -> bool:
    a, b = _FAMILY.match(flag), _FAMILY.match(other_flag)
    return (
        bool(a and b)
        and flag[:2] == other_flag[:2]
        and (flag[:2] == "-O" or flag.split("=")[0] == other_flag.split("=")[0])
    )


def _pragma(pragma: str, text: str) -> str:
    return text if pragma in text else f"{pragma}\n{text}"


def _insert(edit: Insert, text: str) -> str:
    block = edit.text.strip("\n")
    if block in text or (edit.only_if and not re.search(edit.only_if, text, re.M)):
        return text
    if edit.where == "top":
        return f"{block}\n{text}"
    if edit.where == "before":
        anchor = re.search(rf"^.*(?:{edit.match})", text, re.M)
        return text if anchor is None else f"{text[: anchor.start()]}{block}\n{text[anchor.start() :]}"
    at = 0
    for line in re.finditer(r"^[ \t]*#[ \t]*include\b.*\n", text, re.M):
        at = line.end()
    gap = "" if text[at : at + 1] == "\n" else "\n"
    return f"{text[:at]}\n{block}\n{gap}{text[at:]}"


@lru_cache(maxsize=512)
def _matches(edit: Substitute, path: str, text: str) -> tuple[str, tuple[Match, ...]]:
    """Matches of a card's pattern; asked of every card in every round, mostly of a text that is as it was."""
    lang = lang_of(path)
    for case in edit.cases:
        matches = search(text, case.find, lang=lang, where=case.where)
        if inside := tuple(match for match in matches if _inside(edit.within, text, match.start)):
            return case.replace, inside
    return "", ()


def _inside(decorator: str, text: str, offset: int) -> bool:
    """Whether the innermost top-level definition before an offset carries the decorator."""
    if not decorator:
        return True
    heads = [m.start() for m in re.finditer(r"^(?=[^\s#)\]}])", text, re.M) if m.start() <= offset]
    if not heads or not text.startswith(("def ", "class ", "async "), heads[-1]):
        return False
    decorators = list(takewhile(lambda start: text[start] == "@", reversed(heads[:-1])))
    return bool(decorators) and re.search(decorator, text[decorators[-1] : heads[-1]]) is not None


def _substitute(edit: Substitute, path: str, text: str) -> str:
    replace, matches = _matches(edit, path, text)
    if edit.count == "first":
        matches = matches[:1]
    new = text
    for match in reversed(matches):
        fresh = render(text, match, replace=replace, lang=lang_of(path))
        new = new[: _start_with_pragma(text, match.start)] + fresh + new[match.end :]
    return new


def _start_with_pragma(text: str, start: int) -> int:
    """Where what is replaced begins: with the loop pragma on the lines before it, which was about the old loop."""
    while True:
        line = text.rfind("\n", 0, start)
        above = text.rfind("\n", 0, max(line, 0)) + 1
        if line < 0 or text[line:start].strip() or not ADVICE.match(text[above:line]):
            return start
        start = above + len(text[above:line]) - len(text[above:line].lstrip())


# Edits of C that need no pattern: a pragma before loops, `restrict` on pointer parameters. By tree-sitter's tree.

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_BODIES = frozenset({"function_definition", "class_specifier", "struct_specifier", "union_specifier"})
_LOOPS = frozenset({"for_statement", "for_range_loop"})
_LOOPS_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma\b.*\n\Z")


def before_loops(text: str, pragma: str, *, innermost: bool) -> str:
    """A card's pragma on a line of its own before each innermost (or outermost) `for` that has no pragma yet."""
    changes: list[tuple[int, int, str]] = []
    for loop in _loops(_root(text), innermost=innermost):
        begin = text.rfind("\n", 0, loop.start_byte) + 1
        lead = text[begin : loop.start_byte]
        above = text.rfind("\n", 0, max(begin - 1, 0)) + 1
        if not lead.strip() and not _LOOPS_PRAGMA.match(text[above:begin]):
            changes.append((begin, begin, f"{lead}{pragma}\n"))
    return _replace_spans(text, changes)


def add_restrict(text: str, *, plain_c: bool) -> str:
    """A card's edit: every function definition with two or more pointer parameters gets `restrict` on those that lack it."""
    word = "restrict" if plain_c else "__restrict__"
    stars = sorted(star for head in _heads(_root(text)) for star in _plain_pointers(text, head))
    names = [re.compile(r" *").match(text, star + 1) for star in stars]
    return _replace_spans(text, [(gap.start(), gap.end(), f"{word} ") for gap in names if gap])


def _replace_spans(text: str, changes: list[tuple[int, int, str]]) -> str:
    """The text that a card edits, with other words in places of it, which are in order."""
    ends = [0, *(end for _, end, _ in changes)]
    unchanged = (text[end:start] for end, (start, _, _) in zip(ends, changes, strict=False))
    return (
        "".join(part for pair in zip(unchanged, (new for _, _, new in changes), strict=True) for part in pair)
        + text[ends[-1] :]
    )


@functools.cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _root(text: str) -> "Node":
    """The tree of a C, C++, CUDA or HIP source; its bytes count the text's characters."""
    plain = re.sub(r"[^\x00-\x7f]", "x", text)
    return _parser().parse(re.sub(r"\brestrict\b", " " * len("restrict"), plain).encode()).root_node


def _loops(root: "Node", *, innermost: bool) -> list["Node"]:
    """The loops of a source to rewrite that hold no other, or that no other holds, first to last."""
    chosen: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type not in _LOOPS:
            waiting += reversed(node.children)
        elif innermost and (inner := [loop for child in node.children for loop in _loops(child, innermost=True)]):
            chosen += inner
        else:
            chosen.append(node)
    return chosen


def _heads(root: "Node") -> Iterator["Node"]:
    """Parameters of the functions in a source to rewrite that have a body and stand in no class and no other function."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type not in _BODIES:
            waiting += node.children
        elif node.type == "function_definition":
            inner = node.child_by_field_name("declarator")
            while inner is not None and inner.type != "function_declarator":
                inner = inner.child_by_field_name("declarator")
            head = inner.child_by_field_name("parameters") if inner else None
            if head is not None:
                yield head


def _plain_pointers(text: str, head: "Node") -> list[int]:
    """Where the star of each pointer to data stands, when there are at least two; none if one says restrict."""
    if re.search(r"\b(?:__)?restrict(?:__)?\b", text[head.start_byte : head.end_byte]):
        return []
    stars: list[int] = []
    for parameter in head.named_children:
        node = parameter.child_by_field_name("declarator")
        name = node.child_by_field_name("declarator") if node and node.type == "pointer_declarator" else None
        if node and name and name.type == "identifier" and not text[node.start_byte + 1 : name.start_byte].strip():
            stars.append(node.start_byte)
    return stars if len(stars) >= 2 else []


# What a match is replaced by: holes filled, identifiers renamed inside them, the result indented like its place.

_SLOT = re.compile(r"\$\{(\w+)((?:\|[^}|]+)*)\}|\$\((\w+)\)|\$(\w+)")
_FOR = re.compile(r"\$for\(")
_LEFT = frozenset({"(", "[", ",", "+", "="})
_RIGHT = frozenset({")", "]", ",", "+", ";"})


def render(text: str, match: Match, *, replace: str, lang: Lang) -> str:
    """A card's replacement of one match. `$x` is what hole x holds, `${x|i=i + 1}` the same with i renamed.

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

    filled = _SLOT.sub(fill, _render_loops(replace.strip("\n")))
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


def _render_loops(replace: str) -> str:
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
    """One level of indentation as the text to rewrite does it: a tab, or its smallest run of blanks from two on."""
    if re.search(r"^\t", text, re.M):
        return "\t"
    widths = [len(run) for run in re.findall(r"^( {2,8})\S", text, re.M)]
    return " " * min(widths, default=4)


def indent_c(code: str, *, base: str, unit: str) -> str:
    """Rewritten C lines indented by their braces; the first line stays where it is put."""
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
