"""Edits of C that need no pattern: a pragma before loops, `restrict` on pointer parameters. By tree-sitter's tree."""

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_BODIES = frozenset({"function_definition", "class_specifier", "struct_specifier", "union_specifier"})
_LOOPS = frozenset({"for_statement", "for_range_loop"})
_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma\b.*\n\Z")


def before_loops(text: str, pragma: str, *, innermost: bool) -> str:
    """The pragma on a line of its own before each innermost (or outermost) `for` that has no pragma yet."""
    changes: list[tuple[int, int, str]] = []
    for loop in _loops(_root(text), innermost=innermost):
        begin = text.rfind("\n", 0, loop.start_byte) + 1
        lead = text[begin : loop.start_byte]
        above = text.rfind("\n", 0, max(begin - 1, 0)) + 1
        if not lead.strip() and not _PRAGMA.match(text[above:begin]):
            changes.append((begin, begin, f"{lead}{pragma}\n"))
    return _replace_spans(text, changes)


def add_restrict(text: str, *, plain_c: bool) -> str:
    """Every function definition with two or more pointer parameters gets `restrict` on those that lack it."""
    word = "restrict" if plain_c else "__restrict__"
    stars = sorted(star for head in _heads(_root(text)) for star in _plain_pointers(text, head))
    names = [re.compile(r" *").match(text, star + 1) for star in stars]
    return _replace_spans(text, [(gap.start(), gap.end(), f"{word} ") for gap in names if gap])


def _replace_spans(text: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with other words in places of it, which are in order."""
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
    """The loops that hold no other, or that no other holds, first to last."""
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
    """Parameters of the functions that have a body and stand in no class and no other function."""
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
