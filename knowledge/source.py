"""Source text as tokens: enough of C and Python to match code by its structure instead of by its spelling."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Lang = Literal["c", "python"]

_SHARED = r"""
  (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
 |(?P<name>[A-Za-z_]\w*)
 |(?P<op><<=|>>=|\.\.\.|\*\*=|//=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^@]=|:=|\*\*|[^\s\w])
"""
_C = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
 |(?P<directive>\#(?:[^\n\\]|\\.|\\\n)*)
 |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
 |"""
    + _SHARED,
    re.X | re.S,
)
_PYTHON = re.compile(
    r"""(?P<newline>\n)
 |(?P<skip>[ \t\r\f]+|\\\n|\#[^\n]*)
 |(?P<string>[rRbBfFuU]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
 |"""
    + _SHARED,
    re.X | re.S,
)
_OPEN = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    """One token and where it stands; a virtual brace has zero width."""

    kind: str
    text: str
    start: int
    end: int


def lang_of(path: str) -> Lang:
    """The tokenizer that a kernel's source needs, by its suffix; everything that is not Python is read as C."""
    return "python" if path.endswith(".py") else "c"


def scan(text: str, lang: Lang) -> Iterator[tuple[str, str, int, int]]:
    """Kind, text, start and end of each token of a kernel's source as it stands, without blanks and comments."""
    for match in (_C if lang == "c" else _PYTHON).finditer(text):
        if (kind := match.lastgroup or "op") != "skip":
            yield kind, match.group(), match.start(), match.end()


@lru_cache(maxsize=64)
def tokens(text: str, lang: Lang) -> tuple[Token, ...]:
    """Tokens of a kernel's source without blanks and comments. C bodies without braces get virtual braces."""
    stream: list[Token] = []
    depth = 0
    for kind, word, start, end in scan(text, lang):
        if kind == "newline" and depth > 0:
            continue
        depth += (word in _OPEN) - (word in _OPEN.values()) if kind == "op" else 0
        stream.append(Token(kind, word, start, end))
    return tuple(_Bracing(stream).run()) if lang == "c" else tuple(stream)


def closing(stream: tuple[Token, ...] | list[Token], at: int) -> int:
    """Index of the bracket that closes the one at `at` in a source's tokens; the last index when it is never closed."""
    depth = 0
    for index in range(at, len(stream)):
        if stream[index].kind == "op":
            depth += (stream[index].text in _OPEN) - (stream[index].text in _OPEN.values())
        if depth == 0:
            return index
    return len(stream) - 1


def line_of(text: str, offset: int) -> int:
    """Line number of an offset in a source, counted from 1."""
    return text.count("\n", 0, offset) + 1


def fresh_name(text: str, base: str) -> str:
    """An identifier for a rewritten source, numbered when the text already uses it."""
    name, number = base, 2
    used = _words(text)
    while name in used:
        name, number = f"{base}{number}", number + 1
    return name


@lru_cache(maxsize=16)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


class _Bracing:
    """Walks C statements and puts zero-width braces around unbraced bodies, so that patterns need only one form."""

    def __init__(self, stream: list[Token]) -> None:
        self.stream = stream
        self.at = 0
        self.out: list[Token] = []

    def run(self) -> list[Token]:
        while self.at < len(self.stream):
            self._statement()
        return self.out

    def _take(self) -> Token:
        token = self.stream[self.at]
        self.out.append(token)
        self.at += 1
        return token

    def _peek(self) -> str:
        return self.stream[self.at].text if self.at < len(self.stream) else ""

    def _group(self) -> None:
        """A bracketed group, copied whole."""
        end = closing(self.stream, self.at)
        while self.at <= end and self.at < len(self.stream):
            self._take()

    def _statement(self) -> None:
        word = self._peek()
        if word in ("for", "while", "if", "switch"):
            self._take()
            if self._peek() == "(":
                self._group()
            self._body()
            if word == "if" and self._peek() == "else":
                self._statement()
        elif word in ("else", "do"):
            self._take()
            self._body()
        elif word == "{":
            self._block()
        else:
            self._simple()

    def _block(self) -> None:
        self._take()
        while self.at < len(self.stream) and self._peek() != "}":
            self._statement()
        if self.at < len(self.stream):
            self._take()

    def _body(self) -> None:
        while self.at < len(self.stream) and self.stream[self.at].kind == "directive":
            self._take()
        if self.at >= len(self.stream) or self._peek() == "{":
            self._statement() if self.at < len(self.stream) else None
            return
        start = self.stream[self.at].start
        self.out.append(Token("op", "{", start, start))
        self._statement()
        end = self.out[-1].end
        self.out.append(Token("op", "}", end, end))

    def _simple(self) -> None:
        """One declaration or expression statement, a directive, or a function's header with its body."""
        before = ""
        while self.at < len(self.stream):
            word = self._peek()
            if word == "{" and before not in ("=", ",", "("):
                self._block()
                return
            if word in _OPEN:
                self._group()
            elif word == "}":
                self._take() if not before else None
                return
            elif self._take().kind == "directive" or word == ";":
                return
            before = self.out[-1].text
