"""C, C++, CUDA and HIP as a compiler's preprocessor reads them: tokens without comments, macros, names that `##` pastes.

This is our own reading and no parser's. Of 1,544 texts with small damage, tree-sitter's tree has no leaf for some name in
88, because its recovery skips characters; and what a macro stands for, a line splice and a digraph are no part of it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v\n]+|\\\r?\n|//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
 |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z))
 |(?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
 |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[a-zA-Z]*)
 |(?P<name>[A-Za-z_$]\w*)
 |(?P<op>%:%:|%:|<%|%>|<:(?!:[^:>])|:>|<<<|>>>|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|\#\#|[-+*/%&|^]=|.)
""",
    re.X | re.S,
)
DIGRAPHS = {"%:%:": "##", "%:": "#", "<%": "{", "%>": "}", "<:": "[", ":>": "]"}
SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
"""A line that goes on in the next one: a compiler joins the two before it looks for words."""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|u([0-9a-fA-F]{4})|(.))", re.S)
SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
DEEPEST = 16
"""Macros within macros that are put in."""
LONGEST = 5000
"""Tokens that the macros of one place may come to."""
MOST_WORK = 20
"""Tokens looked at for each one of the file, while macros are put in."""


class Token(NamedTuple):
    """One token; `text` of a string is its content without quotes."""

    kind: str
    text: str
    line: int
    at: int
    """Characters before it in the text whose lines are joined."""
    opens: bool
    """First of its line, as the preprocessor counts lines."""


class Macro(NamedTuple):
    """A `#define`."""

    name: str
    line: int
    parameters: tuple[str, ...] | None
    """None for one without brackets. A variable number of arguments is `__VA_ARGS__`, or the name before the dots."""
    body: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The audit of C: what a C macro stands for, with a space between its words."""
        return " ".join(quote(token) for token in self.body)

    @property
    def pastes(self) -> bool:
        """The audit of C: whether it puts names together."""
        return any(token.kind == "op" and token.text == "##" for token in self.body)


def join_lines(text: str) -> tuple[str, list[int]]:
    """The audit of C: a C text with its lines joined where they go on, and the places in it where that was done."""
    parts: list[str] = []
    places: list[int] = []
    end = size = 0
    for match in SPLICE.finditer(text):
        parts.append(text[end : match.start()])
        size += len(parts[-1])
        places.append(size)
        end = match.end()
    return "".join((*parts, text[end:])), places


def tokens(text: str, splices: list[int]) -> list[Token]:
    """The audit of C: every C token of a joined text with the line where it begins, which splices before it do not move."""
    stream: list[Token] = []
    strings: list[str] = []  # contents of the strings that stand one behind the other
    line, position, end, directive = 1, 0, 0, False
    for match in _TOKEN.finditer(text):
        kind = "string" if match.lastgroup == "mark" else match.lastgroup or "op"
        if kind == "skip":
            continue
        start = match.start()
        line += text.count("\n", position, start)
        opens = not stream or "\n" in text[end:start]
        position, end = start, match.end()
        word = match.group()
        word = _content(word) if kind == "string" else DIGRAPHS.get(word, word)
        separate = opens and directive  # what follows a directive's line is never joined to it
        if opens:
            directive = word == "#" and kind == "op"
        if kind == "string" and strings and not separate:
            strings.append(word)
            continue
        if len(strings) > 1:
            stream[-1] = stream[-1]._replace(text="".join(strings))
        strings = [word] if kind == "string" else []
        stream.append(Token(kind, word, line + bisect_right(splices, start), start, opens))
    if len(strings) > 1:
        stream[-1] = stream[-1]._replace(text="".join(strings))
    return stream


def directives(stream: Sequence[Token]) -> list[tuple[int, int]]:
    """The audit of C: first token, which is the `#`, and the one behind the last of each preprocessor line."""
    starts = [at for at, token in enumerate(stream) if token.opens] + [len(stream)]
    return [(at, end) for at, end in pairwise(starts) if stream[at].kind == "op" and stream[at].text == "#"]


def macros(stream: Sequence[Token], lines: Iterable[tuple[int, int]]) -> list[Macro]:
    """The audit of C: every `#define` of the directives of a stream."""
    definitions: list[Macro] = []
    for at, end in lines:
        if end - at < 3 or stream[at + 1].text != "define" or stream[at + 2].kind != "name":
            continue
        name, step, parameters = stream[at + 2], at + 3, None
        bracket = step < end and stream[step].text == "(" and stream[step].at == name.at + len(name.text)
        if bracket:
            close = next((i for i in range(step, end) if stream[i].text == ")"), end - 1)
            words = [token.text for token in stream[step + 1 : close]]
            names = [word for word in words if word not in {",", "."}]
            parameters = (
                (*names, "__VA_ARGS__") if words[-3:] == ["."] * 3 and words[-4:-3] in ([], [","]) else (*names,)
            )
            step = close + 1
        definitions.append(Macro(name.text, name.line, parameters, tuple(stream[step:end])))
    return definitions


def quote(token: Token) -> str:
    """The audit of C: a C token as it is written, strings in plain quotes."""
    return f'"{token.text}"' if token.kind == "string" else token.text


_COMMA = Token("op", ",", 0, 0, opens=False)


class MacroPaster:
    """Puts in the macros of a file that paste names together, directly or through others; no other macro."""

    def __init__(self, definitions: Iterable[Macro]) -> None:
        versions: dict[str, dict[str, Macro]] = {}
        self._plain: dict[str, Token] = {}
        for macro in definitions:
            versions.setdefault(macro.name, {})[f"{macro.parameters} {macro.text}"] = macro
            if macro.parameters is None and len(macro.body) == 1 and macro.body[0].kind in {"name", "number"}:
                self._plain[macro.name] = macro.body[0]
        self._macros: dict[str, tuple[Macro, ...]] = {}
        """What is put in, each with all its definitions: a condition may choose any of them."""
        grown = True
        while grown:
            reaching = [
                name
                for name, bodies in versions.items()
                if name not in self._macros
                and any(
                    version.pastes or any(word.text in self._macros for word in version.body)
                    for version in bodies.values()
                )
            ]
            self._macros |= {name: tuple(versions[name].values()) for name in reaching}
            grown = bool(reaching)
        self._left = 0

    def put_in(self, stream: list[Token], lines: Iterable[tuple[int, int]]) -> tuple[list[Token], list[int]]:
        """The audit of C: the stream with the macros put in outside of directives, and lines where what comes out is not certain."""
        if not self._macros:
            return stream, []
        self._left = MOST_WORK * len(stream)
        expanded: list[Token] = []
        unread: list[int] = []
        position = 0
        for at, end in (*lines, (len(stream), len(stream))):
            self._code(stream[position:at], expanded, unread)
            expanded += stream[at:end]
            position = end
        return expanded, unread

    def _code(self, code: Sequence[Token], expanded: list[Token], unread: list[int]) -> None:
        step = 0
        while step < len(code):
            token = code[step]
            if token.kind != "name" or token.text not in self._macros:
                expanded.append(token)
                step += 1
                continue
            try:
                put, end = self._use(code, step, 0)
            except _UncertainError:
                unread.append(token.line)
                put, end = [token], step + 1
            expanded += (each._replace(line=token.line, at=token.at, opens=False) for each in put)
            step = end

    def _use(self, code: Sequence[Token], at: int, depth: int) -> tuple[list[Token], int]:
        """The audit of C: what the macro at a place stands for, and the place behind its use. Raises _UncertainError."""
        self._spend(1)
        versions = [self._version(macro, code, at, depth) for macro in self._macros[code[at].text]]
        if any([each.text for each in words] != [each.text for each in versions[0][0]] for words, _ in versions):
            raise _UncertainError
        put, end = versions[0]
        name = put[-1].text if put and put[-1].kind == "name" else ""
        if depth > DEEPEST or name not in self._macros or name == code[at].text or end >= len(code):
            return put, end
        if code[end].text != "(":
            return put, end
        _, close = self._arguments(code, end)  # of a macro that is called by another's name
        more, _ = self._use([put[-1], *code[end:close]], 0, depth + 1)
        return [*put[:-1], *more], close

    def _version(self, macro: Macro, code: Sequence[Token], at: int, depth: int) -> tuple[list[Token], int]:
        if depth > DEEPEST:
            raise _UncertainError
        if macro.parameters is None:
            return self._expand(_paste(_spread(macro.body, {}, {})), depth), at + 1
        if at + 1 >= len(code) or code[at + 1].text != "(":
            return [code[at]], at + 1
        arguments, end = self._arguments(code, at + 1)
        if macro.parameters[-1:] == ("__VA_ARGS__",):
            most = len(macro.parameters) - 1
            rest = [token for argument in arguments[most:] for token in (*argument, _COMMA)][:-1]
            arguments = [*arguments[:most], rest]
        raw = dict(zip(macro.parameters, arguments, strict=False))
        expanded = {name: self._expand(words, depth) for name, words in raw.items()}
        return self._expand(_paste(_spread(macro.body, raw, expanded)), depth), end

    def _expand(self, words: Sequence[Token], depth: int) -> list[Token]:
        """The audit of C: the words with the macros put in that came up, and with those of one word, of which a name may be made."""
        self._spend(len(words))
        expanded: list[Token] = []
        step = 0
        while step < len(words):
            token = words[step]
            if token.kind == "name" and token.text in self._macros:
                put, step = self._use(words, step, depth + 1)
                self._spend(len(put))
                expanded += put
                continue
            for _ in range(DEEPEST):
                if token.kind != "name" or token.text not in self._plain:
                    break
                token = self._plain[token.text]
            expanded.append(token)
            step += 1
        if len(expanded) > LONGEST:
            raise _UncertainError
        return expanded

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _UncertainError

    def _arguments(self, code: Sequence[Token], at: int) -> tuple[list[list[Token]], int]:
        """The audit of C: the arguments behind the bracket at `at`, and the place behind the closing one."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        for step in range(at, min(len(code), at + LONGEST)):
            word = code[step].text if code[step].kind == "op" else ""
            depth += (word in {"(", "[", "{"}) - (word in {")", "]", "}"})
            if depth == 0:
                self._spend(step - at)
                return arguments, step + 1
            if word == "," and depth == 1:
                arguments.append([])
            elif step > at:
                arguments[-1].append(code[step])
        self._spend(LONGEST)
        raise _UncertainError


class _UncertainError(Exception):
    """What a macro comes to cannot be told, or is too long."""


def _spread(
    body: Sequence[Token], raw: Mapping[str, Sequence[Token]], expanded: Mapping[str, Sequence[Token]]
) -> Iterator[Token]:
    """The audit of C: a C macro's body with the arguments in their places: as they are written beside `##` and `#`, else put in."""
    signs = [token.text if token.kind == "op" else "" for token in body]
    for at, token in enumerate(body):
        before, after = signs[at - 1] if at else "", signs[at + 1] if at + 1 < len(body) else ""
        if token.kind != "name" or token.text not in raw:
            if not (signs[at] == "#" and at + 1 < len(body) and body[at + 1].text in raw):
                yield token
        elif before == "#":
            yield token._replace(kind="string", text=" ".join(quote(each) for each in raw[token.text]))
        elif "##" in (before, after):
            yield from raw[token.text] or [token._replace(kind="empty", text="")]
        else:
            yield from expanded[token.text]


def _paste(words: Iterable[Token]) -> list[Token]:
    """The audit of C: the words with those at both sides of each `##` made one, where that is a word."""
    words_out: list[Token] = []
    joining = False
    for token in words:
        if token.kind == "op" and token.text == "##" and words_out:
            joining = True
            continue
        text = words_out[-1].text + token.text if joining else ""
        if joining and (re.fullmatch(r"[\w$]*", text) or "empty" in (words_out[-1].kind, token.kind)):
            kind = (
                "name"
                if re.fullmatch(r"[A-Za-z_$]\w*", text)
                else words_out[-1].kind
                if words_out[-1].text
                else token.kind
            )
            words_out[-1] = words_out[-1]._replace(kind=kind, text=text)
        else:
            words_out.append(token)
        joining = False
    return [token for token in words_out if token.text or token.kind == "string"]


def _content(word: str) -> str:
    body = word[word.find('"') + 1 :]
    if word[: word.find('"')].endswith("R"):
        return body[body.find("(") + 1 : body.rfind(")")]
    return ESCAPE.sub(_meant, body.removesuffix('"'))


def _meant(match: re.Match[str]) -> str:
    """The audit of C: what an escape in a C string stands for."""
    code = int(match[1] or match[3], 16) if match[1] or match[3] else int(match[2], 8) if match[2] else None
    if code is None:
        return SIMPLE.get(match[4], match[4])
    return chr(code & 0xFF) if match[3] is None else chr(code)
