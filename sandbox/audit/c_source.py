"""One C, C++, CUDA or HIP file: its tokens and what they make up, functions, calls, scopes and conditions.

Every question is answered from indexes that are made once, so that reading a file takes time in proportion to it.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

from ridgeline.sandbox.audit.c_tokens import Macro, MacroPaster, Token, directives, join_lines, macros, quote, tokens

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = frozenset(OPEN.values())
NO_CALL = frozenset(
    [
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "catch",
        "alignof",
        "decltype",
        "defined",
        "__attribute__",
        "__launch_bounds__",
        "alignas",
    ]
)
T = TypeVar("T")
NOT_OF_CPP = {"restrict": "", "_Noreturn": "", "_Atomic": ""}
"""Words of C that are none of C++, on which the grammar is built."""
DEEPEST = 100
"""Brackets within brackets that are read; compilers stop at 256."""
TRIGRAPH = re.compile(r"\?\?[=/]")


@dataclass(frozen=True)
class CCall:
    """A name with brackets after it: a call, or a declaration of a function."""

    name: str
    at: int
    """Index of the name."""
    end: int
    """Index of the closing bracket."""
    line: int


@dataclass(frozen=True)
class CFunction:
    """A function that has a body; indices into the tokens."""

    name: str
    at: int
    head: tuple[Token, ...]
    """What stands between its brackets."""
    begin: int
    end: int
    before: tuple[str, ...]
    """Words before its name, back to the statement before."""

    @cached_property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The audit of C: the words of its head between commas: of each parameter, where no template has commas of its own."""
        words_by_part: list[list[str]] = [[]]
        for token in self.head:
            if token.text == ",":
                words_by_part.append([])
            else:
                words_by_part[-1].append(token.text)
        return tuple(map(tuple, words_by_part))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The audit of C: pointer parameters that are not to constant data."""
        changed = (part for part in self.parts if {"*", "["} & set(part) and "const" not in part)
        return tuple(part[-1] for part in changed if re.fullmatch(r"[A-Za-z_]\w*", part[-1]))

    @cached_property
    def works(self) -> bool:
        """The audit of C: whether it has inputs and outputs, as far as its pointers say."""
        return {"const" in part for part in self.parts if {"*", "["} & set(part)} == {True, False}

    @cached_property
    def pointers(self) -> frozenset[str]:
        """The audit of C: what stands right behind a star or a `restrict` in its head."""
        pairs = pairwise(token.text for token in self.head)
        return frozenset(name for sign, name in pairs if sign in {"*", "__restrict__", "restrict"})


def once_a_source(question: Callable[..., T]) -> Callable[..., T]:
    """The same question about an audited source, the answer kept with it: its other arguments are numbers and words."""

    @functools.wraps(question)
    def answer(source: "CSource", *about: object) -> T:
        key = (question, *about)
        if key not in source.answers:
            source.answers[key] = question(source, *about)
        return cast(T, source.answers[key])

    return answer


@dataclass(frozen=True)
class Condition:
    """An `if` with its brackets; indices into the tokens."""

    at: int
    close: int
    names: frozenset[str]


class CSource:
    """A file's tokens and what they make up. Anything is accepted: what cannot be read is no token of interest."""

    def __init__(self, text: str, own_names: frozenset[str] = frozenset(), borrowed: tuple[Macro, ...] = ()) -> None:
        self.own_names = own_names
        """Names that belong to other files of the candidate."""
        self.answers: dict[tuple[object, ...], object] = {}
        self.lines = text.split("\n")
        written = tokens(*join_lines(text))
        self._spans = directives(written)
        self.macros = macros(written, self._spans)
        """Every `#define`."""
        self.borrowed = borrowed
        """Macros of the candidate's files that this one includes."""
        pasting = MacroPaster((*borrowed, *self.macros))
        self.tokens, self.unread = pasting.put_in(written, self._spans)
        """`unread`: lines where a name is put together that this reading cannot tell."""
        if self.tokens is not written:
            self._spans = directives(self.tokens)
        self.unread += [token.line for token in self.tokens if _trigraph(token)]
        self._directed = frozenset(at for begin, end in self._spans for at in range(begin, end))
        self._closing, self.too_deep = _closings(self.tokens, self._spans)
        """`too_deep`: the line where brackets stand deeper than is read; 0 for none."""

    def text(self, at: int) -> str:
        """The audit of C: text of a C source's token; empty outside the file and for strings, which are never code."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) and self.tokens[at].kind != "string" else ""

    def closing(self, at: int) -> int:
        """The audit of C: index of the bracket that closes the one at `at`; where none does, the end of its branch of a `#if`."""
        return self._closing.get(at, self.branch_end(at))

    @cached_property
    def macro_names(self) -> frozenset[str]:
        """The audit of C: names of the macros that the file defines."""
        return frozenset(macro.name for macro in self.macros)

    @cached_property
    def calls(self) -> list[CCall]:
        """The audit of C: every C name with brackets after it, in order."""
        return [
            CCall(token.text, at, self.closing(at + 1), token.line)
            for at, token in enumerate(self.tokens)
            if token.kind == "name" and token.text not in NO_CALL and self.text(at + 1) == "("
        ]

    @cached_property
    def _call_starts(self) -> list[int]:
        return [call.at for call in self.calls]

    def calls_between(self, begin: int, end: int) -> list[CCall]:
        """The audit of C: calls whose names stand between two tokens, the first of which counts."""
        return self.calls[bisect_left(self._call_starts, begin) : bisect_left(self._call_starts, end)]

    @cached_property
    def _innermost(self) -> list[int]:
        """The audit of C: for each token: the index of the innermost call between whose brackets it stands; -1 for none."""
        indices: list[int] = []
        inside: list[int] = []
        calls = iter([*enumerate(self.calls), (-1, CCall("", len(self.tokens), 0, 0))])
        index, call = next(calls)
        for at in range(len(self.tokens)):
            while inside and self.calls[inside[-1]].end <= at:
                inside.pop()
            indices.append(inside[-1] if inside else -1)
            if at == call.at:
                inside.append(index)
                index, call = next(calls)
        return indices

    def holding(self, at: int) -> Iterator[CCall]:
        """The audit of C: C calls between whose brackets a token stands, the innermost first."""
        index = self._innermost[at]
        while index >= 0:
            yield self.calls[index]
            index = self._innermost[self.calls[index].at]

    @cached_property
    def own_functions(self) -> frozenset[str]:
        """The audit of C: names of the functions that have a body here."""
        return frozenset(function.name for function in self.functions)

    def arguments(self, call: CCall) -> tuple[Token, ...]:
        """The audit of C: the tokens between a call's brackets."""
        return tuple(self.tokens[call.at + 2 : call.end])

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The audit of C: where each word of a C source stands that is no string, in order."""
        where: dict[str, list[int]] = {}
        for at, token in enumerate(self.tokens):
            if token.kind != "string":
                where.setdefault(token.text, []).append(at)
        return where

    def within(self, word: str, begin: int, end: int) -> list[int]:
        """The audit of C: where a word of a C source stands between two tokens, the first of which counts."""
        where = self.places.get(word, [])
        return where[bisect_left(where, begin) : bisect_left(where, end)]

    @cached_property
    def functions(self) -> list[CFunction]:
        """The audit of C: every C function with a body, by the tokens, and by tree-sitter's tree where the tokens show none.

        The tree knows constructors, destructors and operators; the tokens what stands where the tree has an error.
        """
        plain = list(self._plain_functions())
        parsed = self._parsed_functions() if not self.too_deep else ()
        more = [function for function in parsed if not _overlaps(plain, function)]
        return sorted((*plain, *more), key=lambda function: function.begin)

    def _plain_functions(self) -> Iterator[CFunction]:
        end = -1
        for call in self.calls:
            if call.at < end:
                continue
            begin = self.body(call.end + 1)
            before = self._before(call.at) if begin is not None else ()
            if begin is None or not before or before[-1] in {"=", ".", "->", "return"}:
                continue
            end = self.closing(begin)
            yield CFunction(call.name, call.at, tuple(self.tokens[call.at + 2 : call.end]), begin, end, before)

    def _parsed_functions(self) -> Iterator[CFunction]:
        """The audit of C: of the tree: the outermost functions that have a name and brackets."""
        text, starts = self._normal()
        for definition in _definitions(text.encode("ascii", "replace")):
            head, body = definition.child_by_field_name("declarator"), definition.child_by_field_name("body")
            name = _declared_name(head) if head else None
            if name is None or body is None:
                continue
            at, begin = bisect_left(starts, name.start_byte), bisect_left(starts, body.start_byte)
            opened = next((i for i in range(at, begin) if self.text(i) == "(" and self.text(i - 1) != "operator"), None)
            if opened is None or self.text(begin) != "{":
                continue
            close = self.closing(opened)
            words = tuple(self.text(i) for i in range(bisect_left(starts, definition.start_byte), at))
            inner = tuple(self.tokens[opened + 1 : close])
            spelled = "".join(self.text(i) for i in range(at, opened))
            yield CFunction(spelled, at, inner, begin, self.closing(begin), words)

    def _normal(self) -> tuple[str, list[int]]:
        """The audit of C: the tokens as a text to be parsed, and where each begins: no comments, digraphs or pasting are left in it."""
        words: list[str] = []
        starts: list[int] = []
        size = 0
        for token in self.tokens:
            space = "\n" if token.opens else " "
            word = '""' if token.kind == "string" else NOT_OF_CPP.get(token.text, token.text)
            starts.append(size + 1)
            words += (space, word)
            size += 1 + len(word)
        return "".join(words), starts

    @cached_property
    def _begins(self) -> list[int]:
        return [function.begin for function in self.functions]

    def around(self, at: int) -> CFunction | None:
        """The audit of C: the C function that a token stands in."""
        index = bisect_right(self._begins, at) - 1
        return self.functions[index] if index >= 0 and at <= self.functions[index].end else None

    @cached_property
    def conditions(self) -> list[Condition]:
        """The audit of C: every `if` of a C source in order."""
        ifs = [at for at in self.places.get("if", []) if self.text(at + 1) == "("]
        spans = [(at, self.closing(at + 1)) for at in ifs]
        return [Condition(at, close, frozenset(self.names(at + 2, close))) for at, close in spans]

    @cached_property
    def unequal(self) -> dict[str, list[int]]:
        """The audit of C: where each word of a C source stands before a `!=`."""
        where: dict[str, list[int]] = {}
        for at in self.places.get("!=", []):
            where.setdefault(self.text(at - 1), []).append(at - 1)
        return where

    def conditions_before(self, at: int, reach: int) -> list[Condition]:
        """The audit of C: conditions that begin at most so many tokens before one."""
        return self.conditions[
            bisect_left(self.conditions, at - reach, key=lambda condition: condition.at) : bisect_left(
                self.conditions, at, key=lambda condition: condition.at
            )
        ]

    @cached_property
    def conditions_by_name(self) -> dict[str, list[Condition]]:
        """The audit of C: conditions by the names that they look at."""
        where: dict[str, list[Condition]] = {}
        for condition in self.conditions:
            for name in condition.names:
                where.setdefault(name, []).append(condition)
        return where

    @cached_property
    def scopes(self) -> list[str]:
        """The audit of C: for each token: `global`, `namespace`, or `inner` for what stands in a function, class or initializer."""
        kinds: list[str] = []
        inside: list[tuple[str, int]] = []  # the scope that each open brace makes, with what is around it, and its end
        for at, token in enumerate(self.tokens):
            while inside and inside[-1][1] <= at:
                inside.pop()
            now = inside[-1][0] if inside else "global"
            kinds.append(now)
            if token.kind == "op" and token.text == "{":
                kind = self._kind_of_block(at)
                scope = "inner" if "inner" in (now, kind) else "namespace" if "namespace" in (now, kind) else kind
                inside.append((scope, at if self.in_directive(at) and at not in self._closing else self.closing(at)))
        return kinds

    def bracket_around(self, at: int) -> int:
        """The audit of C: index of the innermost bracket that a token stands in, or closes; -1 for none."""
        return self._brackets[at] if 0 <= at < len(self._brackets) else -1

    @cached_property
    def _brackets(self) -> list[int]:
        spans = ((at, self._closing[at]) for at in sorted(self._closing))
        return _innermost_spans(spans, len(self.tokens))

    def block_end(self, at: int) -> int:
        """The audit of C: the brace that ends the block in which a token stands; the last token outside of every block."""
        opened = self.bracket_around(at)
        while opened >= 0 and self.text(opened) != "{":
            opened = self.bracket_around(opened)
        return self.closing(opened)

    def branch_end(self, at: int) -> int:
        """The audit of C: where the branch of a `#if` ends in which a token stands; the last token outside of every one."""
        begin = self._branches[at] if 0 <= at < len(self._branches) else -1
        return self._branch_ends.get(begin, len(self.tokens) - 1)

    @cached_property
    def _branch_ends(self) -> dict[int, int]:
        """The audit of C: first and last token of each branch of a conditional of the preprocessor."""
        ends: dict[int, int] = {}
        open_branches: list[int] = []
        for begin, end in self._spans:
            word = self.text(begin + 1) if begin + 1 < end else ""
            if word.startswith(("el", "endif")) and open_branches:
                ends[open_branches.pop()] = begin
            if word in {"if", "ifdef", "ifndef"} or word.startswith("el"):
                open_branches.append(begin)
        return ends

    @cached_property
    def _branches(self) -> list[int]:
        return _innermost_spans(sorted(self._branch_ends.items()), len(self.tokens))

    def _kind_of_block(self, at: int) -> str:
        if at > 1 and self.tokens[at - 1].kind == "string" and self.text(at - 2) == "extern":
            return "global"
        before = [self.text(step) for step in range(max(0, at - 6), at)]
        return "namespace" if "namespace" in before and ";" not in before else "inner"

    def names(self, begin: int, end: int) -> list[str]:
        """The audit of C: C names between two tokens."""
        return [token.text for token in self.tokens[begin:end] if token.kind == "name"]

    @cached_property
    def directives(self) -> list[tuple[int, str]]:
        """The audit of C: preprocessor lines with their line numbers, joined where they go on, without comments, `#` first."""
        return [(self.tokens[at].line, self._directive(at, end)) for at, end in self._spans]

    def _directive(self, at: int, end: int) -> str:
        """The audit of C: one directive in its words with a space between, strings in quotes; an included name in one piece."""
        words = [quote(token) for token in self.tokens[at + 1 : end]]
        glue = "" if words[:1] in (["include"], ["include_next"], ["import"]) else " "
        return "#" + " ".join(words[:1]) + (" " if words[1:] else "") + glue.join(words[1:])

    @cached_property
    def guards(self) -> list[tuple[int, tuple[str, ...]]]:
        """The audit of C: from each conditional's line on: the names that must be defined there; empty for any other condition."""
        guards_by_line: list[tuple[int, tuple[str, ...]]] = []
        inside: list[str] = []
        for line, text in self.directives:
            opened = re.match(r"#(?:ifdef (\w+)|if defined (?:\( )?(\w+)(?: \))?)$", text)
            if re.match(r"#if", text):
                inside.append((opened[1] or opened[2]) if opened else "")
            elif re.match(r"#el", text) and inside:
                inside[-1] = ""
            elif text == "#endif" and inside:
                inside.pop()
            else:
                continue
            guards_by_line.append((line, tuple(inside)))
        return guards_by_line

    def switches_around(self, line: int) -> tuple[str, ...]:
        """The audit of C: names that the conditionals around a line ask for."""
        index = bisect_left(self.guards, (line, ())) - 1
        return self.guards[index][1] if index >= 0 else ()

    def in_directive(self, at: int) -> bool:
        """The audit of C: whether a token stands in a line of the preprocessor."""
        return at in self._directed

    def directive_around(self, at: int) -> tuple[int, int]:
        """The audit of C: first token of the preprocessor's line that a token stands in or behind, and the one behind its last."""
        index = bisect_right(self._spans, (at, len(self.tokens))) - 1
        return self._spans[index] if index >= 0 else (0, 0)

    def in_macro(self, at: int) -> bool:
        """The audit of C: whether a token stands in what a macro stands for."""
        begin, end = self.directive_around(at)
        return begin + 2 < at < end and self.text(begin + 1) == "define"

    def body(self, at: int) -> int | None:
        """The audit of C: index of `{` of a body that follows a head, past `const`, `noexcept`, attributes and initializers."""
        for step in range(at, min(at + 24, len(self.tokens))):
            word = self.text(step)
            if self.in_directive(step):
                continue
            if word == "{":
                return step
            if word in {";", "=", ")", ",", "(", "}", "#", "?"} or self.tokens[step].kind in {"number", "string"}:
                return None
        return None

    def _before(self, at: int) -> tuple[str, ...]:
        words: list[str] = []
        for step in range(at - 1, max(-1, at - 40), -1):
            word = self.text(step)
            if (
                word in {";", "}", "{"}
                or step in self._directed
                or (word == ":" and words and words[-1] in {"public", "private"})
            ):
                break
            words.append(word)
        return tuple(reversed(words))


def strings(stream: tuple[Token, ...]) -> Iterator[str]:
    """The audit of C: contents of the strings among C tokens."""
    return (token.text for token in stream if token.kind == "string")


def _trigraph(token: Token) -> bool:
    """The audit of C: whether a compiler that is asked to would read another character there, after which strings end elsewhere."""
    return token.kind in {"string", "char"} and TRIGRAPH.search(token.text) is not None


def _innermost_spans(spans: Iterable[tuple[int, int]], size: int) -> list[int]:
    """The audit of C: for each of so many tokens: where the innermost span begins that it stands in or ends; -1 for none.

    The spans are in order and lie within each other or apart. A span's first token stands in the one around.
    """
    begins: list[int] = []
    inside: list[tuple[int, int]] = []
    waiting = iter([*spans, (size, size)])
    begin, end = next(waiting)
    for at in range(size):
        while inside and inside[-1][1] < at:
            inside.pop()
        begins.append(inside[-1][0] if inside else -1)
        if at == begin:
            inside.append((begin, end))
            begin, end = next(waiting)
    return begins


def _overlaps(plain: list[CFunction], function: CFunction) -> bool:
    index = bisect_right(plain, function.end, key=lambda candidate: candidate.begin) - 1
    return index >= 0 and plain[index].end >= function.begin


@functools.cache
def _parser() -> "Parser":
    """The audit of C: reads CUDA, which holds C++ and most of C. Made where it is first asked for: most commands read no source."""
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _definitions(text: bytes) -> "Iterator[Node]":
    """The audit of C: the outermost function definitions of a C text."""
    cursor = _parser().parse(text).walk()
    while True:
        node = cursor.node
        if node is not None and node.type == "function_definition":
            yield node
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _declared_name(node: "Node") -> "Node | None":
    """The audit of C: the name that a declarator is about; None for one that has none."""
    while True:
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if inner is None and node.type in {"parenthesized_declarator", "reference_declarator"}:
            inner = next(iter(node.named_children), None)
        if inner is None:
            names = {"identifier", "field_identifier", "operator_name", "destructor_name", "operator_cast"}
            return node if node.type in names else None
        node = inner


def _closings(stream: list[Token], lines: list[tuple[int, int]]) -> tuple[dict[int, int], int]:
    """The audit of C: the closing bracket of each opening one of a C source, and the line where they stand too deep; 0 for none.

    A directive's brackets are its own. Each branch of a conditional begins with what was open before the first.
    """
    pairs: dict[int, int] = {}
    waiting: list[tuple[int, str]] = []
    branches: list[list[tuple[int, str]]] = []
    ends = dict(lines)
    deep, until, outside = 0, 0, waiting
    for at, token in enumerate(stream):
        if at == until:
            waiting = outside
        if at in ends:
            outside = _brackets_at_branch(stream[at + 1].text if at + 1 < ends[at] else "", waiting, branches)
            waiting, until = [], ends[at]
        if token.kind == "op" and token.text in OPEN and len(waiting) >= DEEPEST:
            deep = deep or token.line
            pairs[at] = at
        elif token.kind == "op" and token.text in OPEN:
            waiting.append((at, OPEN[token.text]))
        elif token.kind == "op" and token.text in CLOSE:
            pairs |= dict.fromkeys(_brackets_to_close(waiting, token.text), at)
    return pairs, deep


def _brackets_at_branch(
    word: str, waiting: list[tuple[int, str]], branches: list[list[tuple[int, str]]]
) -> list[tuple[int, str]]:
    """The audit of C: the brackets that are open behind a directive of that word."""
    if word in {"if", "ifdef", "ifndef"}:
        branches.append(list(waiting))
    elif word.startswith("el") and branches:
        return list(branches[-1])
    elif word == "endif" and branches:
        branches.pop()
    return waiting


def _brackets_to_close(waiting: list[tuple[int, str]], sign: str) -> Iterator[int]:
    """The audit of C: the open brackets that a closing one ends: its own, and with a brace whatever was left open inside of it."""
    if sign == "}" and any(bracket == "}" for _, bracket in waiting):
        while waiting[-1][1] != "}":
            yield waiting.pop()[0]
    if waiting and waiting[-1][1] == sign:
        yield waiting.pop()[0]
