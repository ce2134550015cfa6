"""One C, C++, CUDA or HIP file as tokens: comments gone, strings kept apart, so that only code is matched."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v\n]+|\\\r?\n|//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
 |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z))
 |(?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
 |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[a-zA-Z]*)
 |(?P<name>[A-Za-z_$]\w*)
 |(?P<op><<<|>>>|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|\#\#|[-+*/%&|^]=|.)
""",
    re.X | re.S,
)
OPEN = {"(": ")", "[": "]", "{": "}"}
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
SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
"""A line that goes on in the next one: a compiler joins the two before it looks for words."""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|u([0-9a-fA-F]{4})|(.))", re.S)
SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
LARGEST = 100_000
"""Tokens that are read of one file."""


@dataclass(frozen=True)
class Token:
    """One token; `text` of a string is its content without quotes."""

    kind: str
    text: str
    line: int


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


class CSource:
    """A file's tokens and what they make up. Anything is accepted: what cannot be read is no token of interest."""

    def __init__(self, text: str, own: frozenset[str] = frozenset()) -> None:
        self.own = own
        """Names that belong to other files of the candidate."""
        self.lines = text.split("\n")
        self.tokens = _tokens(text)
        self._closing = _closings(self.tokens)

    def text(self, at: int) -> str:
        """Text of a token; empty outside the file and for strings, which are never code."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) and self.tokens[at].kind != "string" else ""

    def closing(self, at: int) -> int:
        """Index of the bracket that closes the one at `at`; the last token's where none does."""
        return self._closing.get(at, len(self.tokens) - 1)

    @cached_property
    def calls(self) -> list[CCall]:
        """Every name with brackets after it, in order."""
        found = []
        for at, token in enumerate(self.tokens):
            if token.kind == "name" and token.text not in NO_CALL and self.text(at + 1) == "(":
                found.append(CCall(token.text, at, self.closing(at + 1), token.line))
        return found

    def arguments(self, call: CCall) -> tuple[Token, ...]:
        """The tokens between a call's brackets."""
        return tuple(self.tokens[call.at + 2 : call.end])

    @cached_property
    def functions(self) -> list[CFunction]:
        """Every function with a body."""
        found: list[CFunction] = []
        for call in self.calls:
            begin = self.body(call.end + 1)
            before = self._before(call.at)
            if (
                begin is None
                or (found and call.at < found[-1].end)
                or not before
                or before[-1] in {"=", ".", "->", "return"}
            ):
                continue
            head = tuple(self.tokens[call.at + 2 : call.end])
            found.append(CFunction(call.name, call.at, head, begin, self.closing(begin), before))
        return found

    def around(self, at: int) -> CFunction | None:
        """The function that a token stands in."""
        return next((function for function in self.functions if function.begin <= at <= function.end), None)

    @cached_property
    def scopes(self) -> list[str]:
        """For each token: `global`, `namespace`, or `inner` for what stands in a function, class or initializer."""
        found: list[str] = []
        inside: list[str] = []
        for at, token in enumerate(self.tokens):
            if token.kind == "op" and token.text == "}" and inside:
                inside.pop()
            found.append("inner" if "inner" in inside else "namespace" if "namespace" in inside else "global")
            if token.kind == "op" and token.text == "{":
                inside.append(self._kind_of_block(at))
        return found

    def _kind_of_block(self, at: int) -> str:
        if at > 1 and self.tokens[at - 1].kind == "string" and self.text(at - 2) == "extern":
            return "global"
        before = [self.text(step) for step in range(max(0, at - 6), at)]
        return "namespace" if "namespace" in before and ";" not in before else "inner"

    def names(self, begin: int, end: int) -> list[str]:
        """Names between two tokens."""
        return [token.text for token in self.tokens[begin:end] if token.kind == "name"]

    @cached_property
    def directives(self) -> list[tuple[int, str]]:
        """Preprocessor lines with their line numbers, joined where they go on, without comments, `#` first."""
        return [(self.tokens[at].line, self._directive(at)) for at in range(len(self.tokens)) if self._hashes(at)]

    @cached_property
    def guards(self) -> list[tuple[int, tuple[str, ...]]]:
        """From each conditional's line on: the names that must be defined there; empty for any other condition."""
        found: list[tuple[int, tuple[str, ...]]] = []
        inside: list[str] = []
        for line, text in self.directives:
            opened = re.match(r"#(?:ifdef (\w+)|if defined (?:\( )?(\w+)(?: \))?)$", text)
            if re.match(r"#if", text):
                inside.append((opened[1] or opened[2]) if opened else "")
            elif re.match(r"#el", text) and inside:
                inside[-1] = ""
            elif text == "#endif" and inside:
                inside.pop()
            found.append((line, tuple(inside)))
        return found

    def guarded(self, line: int) -> tuple[str, ...]:
        """Names that the conditionals around a line ask for."""
        return next((names for start, names in reversed(self.guards) if start < line), ())

    def _directive(self, at: int) -> str:
        """One directive in its words with a space between, strings in quotes; an included name in one piece."""
        last = self.tokens[at].line
        while last <= len(self.lines) and self.lines[last - 1].rstrip().endswith("\\"):
            last += 1
        words: list[str] = []
        for token in self.tokens[at + self._hashes(at) :]:
            if token.line > last:
                break
            words.append(f'"{token.text}"' if token.kind == "string" else token.text)
        glue = "" if words[:1] in (["include"], ["include_next"], ["import"]) else " "
        return "#" + " ".join(words[:1]) + (" " if words[1:] else "") + glue.join(words[1:])

    def _hashes(self, at: int) -> int:
        """How many tokens the sign of a directive takes at that place: `#`, or `%:`; 0 where there is none."""
        if not self._first(at):
            return 0
        return 1 if self.text(at) == "#" else 2 if (self.text(at), self.text(at + 1)) == ("%", ":") else 0

    def _first(self, at: int) -> bool:
        return at == 0 or self.tokens[at - 1].line < self.tokens[at].line

    def body(self, at: int) -> int | None:
        """Index of `{` of a body that follows a head, past `const`, `noexcept`, attributes and initializers."""
        for step in range(at, min(at + 24, len(self.tokens))):
            word = self.text(step)
            if word == "{":
                return step
            if word in {";", "=", ")", ",", "(", "}", "#", "?"} or self.tokens[step].kind in {"number", "string"}:
                return None
        return None

    def _before(self, at: int) -> tuple[str, ...]:
        words: list[str] = []
        for step in range(at - 1, max(-1, at - 40), -1):
            word = self.text(step)
            if word in {";", "}", "{"} or (word == ":" and words and words[-1] in {"public", "private"}):
                break
            words.append(word)
        return tuple(reversed(words))


def strings(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Contents of the strings among tokens."""
    return (token.text for token in tokens if token.kind == "string")


def _tokens(text: str) -> list[Token]:
    """Every token with the line where it begins, which splices before it do not move."""
    found: list[Token] = []
    text, joined = _spliced(text)
    line, last, end, directive = 1, 0, 0, False
    for match in _TOKEN.finditer(text):
        kind = "string" if match.lastgroup == "mark" else match.lastgroup or "op"
        if kind == "skip":
            continue
        line += text.count("\n", last, match.start())
        last = match.start()
        word = match.group()
        token = Token(kind, _content(word) if kind == "string" else word, line + bisect_right(joined, match.start()))
        if "\n" in text[end : match.start()] or not found:
            apart, directive = directive, word in {"#", "%"}
        else:
            apart = False  # only what follows a directive's line is never joined to it
        end = match.end()
        if kind == "string" and found and found[-1].kind == "string" and not apart:
            found[-1] = Token("string", found[-1].text + token.text, found[-1].line)
            continue
        found.append(token)
        if len(found) >= LARGEST:
            break
    return found


def _spliced(text: str) -> tuple[str, list[int]]:
    """The text with its lines joined where they go on, and the places in it where that was done."""
    parts: list[str] = []
    places: list[int] = []
    last = size = 0
    for match in SPLICE.finditer(text):
        parts.append(text[last : match.start()])
        size += len(parts[-1])
        places.append(size)
        last = match.end()
    return "".join((*parts, text[last:])), places


def _content(word: str) -> str:
    body = word[word.find('"') + 1 :]
    if word[: word.find('"')].endswith("R"):
        return body[body.find("(") + 1 : body.rfind(")")]
    return ESCAPE.sub(_meant, body.removesuffix('"'))


def _meant(match: re.Match[str]) -> str:
    """What an escape in a string stands for."""
    code = int(match[1] or match[3], 16) if match[1] or match[3] else int(match[2], 8) if match[2] else None
    if code is None:
        return SIMPLE.get(match[4], match[4])
    return chr(code & 0xFF) if match[3] is None else chr(code)


def _closings(tokens: list[Token]) -> dict[int, int]:
    found: dict[int, int] = {}
    waiting: list[tuple[int, str]] = []
    for at, token in enumerate(tokens):
        if token.kind != "op":
            continue
        if token.text in OPEN:
            waiting.append((at, OPEN[token.text]))
        elif waiting and token.text == waiting[-1][1]:
            found[waiting.pop()[0]] = at
    return found
