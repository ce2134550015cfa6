"""What a function takes and gives, read from its source: C, C++, CUDA and HIP by their tokens and tree, Python by `ast`."""

import ast
import copy
import doctest
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Literal

from ridgeline.agent.errors import UserError
from ridgeline.graph.values import Value
from ridgeline.sandbox.audit.c_source import CFunction, CSource

Language = Literal["c", "c++", "cuda", "hip", "python", "torch", "triton"]
Role = Literal["input", "output", "inout", "size", "end", "scalar", "struct", "unread"]
LANGUAGES: Mapping[str, Language] = {
    ".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".h": "c", ".hh": "c++", ".hpp": "c++", ".inl": "c++",
    ".cu": "cuda", ".cuh": "cuda", ".hip": "hip", ".py": "python",
}  # fmt: skip
"""By extension; a header is C++ where it holds what is none of C, and a Python file may use torch or Triton."""
OF_CPP = re.compile(r"\b(?:template\s*<|namespace\b|class\s+\w+\s*[{:]|std::|constexpr\b)")
KINDS: Mapping[str, str] = {
    "float": "F32", "double": "F64", "char": "I8", "signed char": "I8", "unsigned char": "U8", "bool": "U8",
    "_Bool": "U8", "short": "I16", "unsigned short": "U16", "int": "I32", "signed": "I32", "unsigned": "U32",
    "unsigned int": "U32", "long": "I64", "unsigned long": "U64", "long long": "I64", "unsigned long long": "U64",
    "int8_t": "I8", "uint8_t": "U8", "int16_t": "I16", "uint16_t": "U16", "int32_t": "I32", "uint32_t": "U32",
    "int64_t": "I64", "uint64_t": "U64", "size_t": "U64", "ptrdiff_t": "I64", "ssize_t": "I64", "intptr_t": "I64",
    "uintptr_t": "U64", "void": "U8", "std::byte": "U8",
}  # fmt: skip
"""How the harness stores an element, by its type as 64-bit Linux has it; `void` is taken for bytes."""
ITEM_BYTES = {
    "F32": 4,
    "F64": 8,
    "I8": 1,
    "U8": 1,
    "I16": 2,
    "U16": 2,
    "I32": 4,
    "U32": 4,
    "I64": 8,
    "U64": 8,
    "RAW": 1,
}
QUALIFIERS = frozenset(
    {"const", "volatile", "restrict", "__restrict__", "__restrict", "register", "static", "inline", "extern", "struct",
     "__inline", "__inline__", "__forceinline__", "__device__", "__host__", "__global__", "constexpr", "typename",
     "enum", "local", "ZEXPORT", "noexcept"}
)  # fmt: skip
SIZE_NAME = re.compile(
    r"(?:n|m|k|w|h|len|length|size|count|num|width|height|rows?|cols?|columns?|channels|depth|batch|dim|dims|nx|ny|nz"
    r"|stride|pitch|radius|ksize|taps|order|samples|elements|capacity|[bctdlsv]|nh|hs)(?:_?\d)?"
    r"|(?:n|num|nb|len)_?[a-z]\w*|\w+_?(?:len|length|size|count|width|height|stride|pitch|rows|cols|dim|capacity|bytes)|\w+_n",
    re.IGNORECASE,
)
STRIDE = re.compile(r"\w*(?:stride|pitch|step)\w*|ld[abc]?", re.IGNORECASE)
WINDOWS = frozenset({"radius", "ksize", "order", "taps"})
"""Sizes of what is moved over an array: no factor of how long that is."""
ACROSS = re.compile(r"\w*(?:width|cols|columns)\w*|w|nx", re.IGNORECASE)
"""Sizes along a row, which a stride takes the place of."""
SMALL: Mapping[str, int] = {"channels": 3, "radius": 2, "ksize": 3, "taps": 8, "order": 4, "depth": 4}
"""Sizes that are small numbers wherever they stand."""
CHANGES = frozenset({"=", "+=", "*=", "&=", "|=", "^=", ">>=", "<<=", "%=", "/="})
"""After a name that is no size: nobody computes with the length itself, except to count it down."""
ASSIGNS = re.compile(r"(?:[-+*/%&|^]|<<|>>)?=|\+\+|--")
"""After what is changed."""
NO_VARIABLE = frozenset({"const", "constexpr", "typedef", "using"})
"""Words of a declaration at file scope whose name no call can find changed."""
TAGS = frozenset({"struct", "class", "union", "enum"})
"""Words before the name of a type: alone with it they declare the type."""
HEIGHTS = {"w": "h", "width": "height", "cols": "rows", "columns": "rows"}
"""The ends of two names that are the sides of one image: `sw` and `sh`, `src_width` and `src_height`."""
MOST_PASSED = 4
"""Calls within the file that a pointer is followed through."""
COMPARES = frozenset({"<", "<=", ">", ">=", "!="})
CHARACTER = re.compile(r"'(?:\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|([^\\]))'", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b"}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
ENDS_OPERAND = frozenset({"&&", "||", ",", ";", "?", ":", "!", "return", "{", "}", "==", "-=", *COMPARES, *CHANGES})
NEAR = 24
"""Words between the two comparisons with the ends of a range."""
NUMBER = re.compile(r"-?[\d.]+(?:[eE][-+]?\d+)?[fFuUlL]*|0[xX]\w+")


class CallSite(Value):
    """A call of the function somewhere in its project."""

    arguments: str
    """What stands between the brackets."""
    place: str = ""
    """`file:line`, from the project's root."""
    constants: Mapping[str, str] = {}
    """Numbers that stand for names in that file."""


class CalledShape(Value):
    """Sizes that some caller passes, all of them."""

    sizes: Mapping[str, int]
    place: str


class Parameter(Value):
    """One parameter as the harness sees it."""

    name: str
    type: str = ""
    """As it is written, without the name: what a call casts to."""
    kind: str = ""
    """Of an array's elements, or of a plain number; empty for what is neither."""
    element: str = ""
    """Type of the elements where the pointer's own does not tell it: what the body makes of a `void *`."""
    role: Role
    extents: tuple[str, ...] = ()
    """Sizes whose product is the number of elements, or numbers; empty for one."""
    text: bool = False
    """Letters, with a zero at the end in C."""
    ranges: tuple[str, ...] = ()
    """First and last of the characters between which its elements are asked to lie, as `AZ`."""
    letters: str = ""
    """Other characters that its elements are compared with."""
    is_index: bool = False
    """Whether its numbers stand in the brackets of another array."""
    by_value: bool = False
    """A plain value that the harness draws, or a reference: an array of one, whose element the call passes."""
    by_pointer: bool = False
    """A size that is passed by its address."""
    is_flag: bool = False
    """A size in name only: it is asked whether it is 0, and both answers are tested."""
    end_of: str = ""
    """The array behind whose last element it points."""
    literal: str | None = None
    """A value that a caller or a default gives."""
    literal_from: str = ""
    """Where that caller stands."""
    member: str = ""
    """The field of a struct that it stands for: the struct is made for the call, and passed by its address."""
    member_of: str = ""
    why: str = ""
    """What could not be understood about it."""

    @property
    def is_array(self) -> bool:
        return self.role in ("input", "output", "inout")


class Signature(Value):
    """A function and where it lies."""

    name: str
    """As a call writes it: with its namespace and template arguments."""
    file: Path
    line: int
    language: Language
    result: str = "void"
    result_kind: str = ""
    parameters: tuple[Parameter, ...]
    static: bool = False
    kernel: bool = False
    """A `__global__` function, or one that Triton compiles: a call needs a launch."""
    sizes: tuple[str, ...] = ()
    """Every size, those that the harness adds too."""
    unsized: tuple[tuple[str, str], ...] = ()
    """Integer arguments that places in an array are computed with, each with that array: sizes by their use, unless a
    person gives their values."""
    called: tuple[CalledShape, ...] = ()
    """Sizes of calls in the project that are plain numbers there."""
    notes: tuple[str, ...] = ()
    """What was assumed."""
    gaps: tuple[str, ...] = ()
    """What could not be understood, one line each: the user fills a marked place."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Of a function to scaffold: sizes of which only 0 and 1 are meant."""
        return tuple(parameter.name for parameter in self.parameters if parameter.is_flag)

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.is_array)

    @property
    def slug(self) -> str:
        """A name for the scaffolded function's files."""
        return (
            re.sub(r"\W+", "_", self.name.rpartition("::")[2].partition("<")[0].rpartition(".")[2]).strip("_").lower()
        )


def language_of(file: Path, text: str) -> Language | None:
    """Language of a function to scaffold, by extension and text; None for what holds no function that is known here."""
    language = LANGUAGES.get(file.suffix.lower())
    if language == "c" and file.suffix != ".c" and OF_CPP.search(text):
        return "c++"
    if language == "python":
        triton = re.search(r"^\s*(?:import triton|from triton)", text, re.MULTILINE)
        return (
            "triton"
            if triton
            else "torch"
            if re.search(r"^\s*(?:import|from) torch\b", text, re.MULTILINE)
            else language
        )
    return language


def read_signature(
    file: Path, text: str, name: str, *, calls: Sequence[CallSite] = (), sizes: Set[str] = frozenset()
) -> Signature | None:
    """The function of that name, or `name:line` of several; None where the file does not define it.

    `sizes`: integer arguments of a function in C that are sizes because a person says so.

    Raises `UserError` for one that no harness can call.
    """
    language = language_of(file, text)
    if language in ("python", "torch", "triton"):
        return _read_python(file, text, name, language, calls)
    return None if language is None else _read_c(file, text, name, language, calls, sizes)


# C, C++, CUDA and HIP.


def _read_c(
    file: Path, text: str, name: str, language: Language, calls: Sequence[CallSite], sizes: Set[str]
) -> Signature | None:
    named, line = split_line(name)
    bare, _, instance = named.partition("<")
    source = CSource(text)
    bare_name = bare.rpartition("::")[2].strip()
    functions = [function for function in source.functions if function.name.rpartition("::")[2] == bare_name]
    lines = [source.tokens[function.at].line for function in functions]
    if not functions:
        return None
    if line is not None and line not in lines:
        raise UserError(f"--function: {bare_name} is defined in lines {', '.join(map(str, lines))} of {file}; name one")
    # of several under conditions of the preprocessor the last is the plain one
    function = functions[-1] if line is None else functions[lines.index(line)]
    before = tuple(word for word in function.before)
    arguments = tuple(word.strip() for word in instance.rstrip("> ").split(",") if word.strip())
    template = _template_names(before)
    types, notes = _instantiate(template, arguments, bare_name)
    spelled = bare.strip() if "::" in bare else "::".join((*_namespaces(source, function), bare_name))
    if template:
        spelled = f"{spelled}<{', '.join(types[parameter] for parameter in template)}>"
        before = before[before.index(">") + 1 :] if ">" in before else before
    if len(functions) > 1 and line is None:
        notes = (*notes, f"{bare_name} is defined in lines {', '.join(map(str, lines))} of {file.name}; the last is read,"
                 f" another with --function {bare_name}:{lines[0]}")  # fmt: skip
    return _CReading(source, function, types, calls, sizes).signature(
        name=spelled, file=file, language=language, before=before, notes=notes
    )


def split_line(name: str) -> tuple[str, int | None]:
    """A function's name, and the line of `name:line`, which tells overloads apart."""
    match = re.fullmatch(r"(.*[^:]):(\d+)", name)
    return (match[1], int(match[2])) if match else (name, None)


def _template_names(before: tuple[str, ...]) -> list[str]:
    """Of a function to scaffold: names of a template's parameters, those with a default too."""
    if before[:1] != ("template",):
        return []
    head = before[2 : _closing_angle(before)]
    names: list[str] = []
    for place, word in enumerate(head):
        ends = place + 1 == len(head) or head[place + 1] in (",", "=")
        if ends and re.fullmatch(r"[A-Za-z_]\w*", word) and (place == 0 or head[place - 1] != "="):
            names.append(word)
    return names


def _closing_angle(words: tuple[str, ...]) -> int:
    depth = 0
    for place, word in enumerate(words):
        depth += {"<": 1, ">": -1, ">>": -2}.get(word, 0)
        if place and depth <= 0 and word in (">", ">>"):
            return place
    return len(words)


def _instantiate(template: list[str], arguments: tuple[str, ...], name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What each template parameter stands for: what was asked, else float."""
    if not template:
        return {}, ()
    types = dict(zip(template, (*arguments, *("float" for _ in template[len(arguments) :])), strict=False))
    if len(arguments) == len(template):
        return types, ()
    instance = ", ".join(types[parameter] for parameter in template)
    return types, (f"{name} is a template: {name}<{instance}> is timed; name another with --function '{name}<...>'",)


def _namespaces(source: CSource, function: CFunction) -> list[str]:
    """Names of the namespaces around a function, outermost first. Raises `UserError` for a member of a class."""
    names: list[str] = []
    at = function.at
    depth = 0
    for step in range(at, -1, -1):
        word = source.text(step)
        depth += {"}": 1, "{": -1}.get(word, 0)
        if depth >= 0:
            continue
        depth = 0
        before = [source.text(place) for place in range(max(0, step - 8), step)]
        if "namespace" in before:
            names.insert(0, before[-1] if before[-1] != "namespace" else "")
        elif {"class", "struct"} & set(before):
            keyword = max(place for place, word in enumerate(before) if word in ("class", "struct"))
            if "static" in function.before and before[keyword + 1 :]:
                names.insert(0, before[keyword + 1])
                continue
            raise UserError(
                f"--function: {function.name} is a member of a class; write a free function that makes the object and "
                "calls it, and name that one"
            )
    return [name for name in names if name]


class _CReading:
    """One function's parameters with what its body says of them."""

    def __init__(
        self,
        source: CSource,
        function: CFunction,
        types: Mapping[str, str],
        calls: Sequence[CallSite],
        named_sizes: Set[str],
    ) -> None:
        self.source, self.function, self.types, self.named_sizes = source, function, types, named_sizes
        self.body = [token.text for token in source.tokens[function.begin : function.end]]
        self.words = [self._split(part) for part in self._parts()]
        self.names = [name for _, name in self.words]
        self.calls = [
            (arguments, call) for call in calls if len(arguments := split_arguments(call.arguments)) == len(self.words)
        ]

    def _parts(self) -> list[tuple[str, ...]]:
        """Words of each parameter of the scaffolded C function; commas within brackets belong to one."""
        parts: list[list[str]] = [[]]
        depth = 0
        for token in self.function.head:
            depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(token.text, 0)
            if token.text == "," and depth == 0:
                parts.append([])
            else:
                parts[-1].append(token.text)
        listed = [tuple(part) for part in parts if part]
        return [] if listed in ([("void",)], []) else listed

    def _split(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Type and name of a parameter of the scaffolded C function."""
        words = words[: words.index("=")] if "=" in words else words
        if "(" in words:
            inner = words[words.index("(") + 1 : words.index(")")]
            return words, next((word for word in reversed(inner) if re.fullmatch(r"[A-Za-z_]\w*", word)), "callback")
        bracket = words.index("[") if "[" in words else len(words)
        head = words[:bracket]
        return (*head[:-1], *words[bracket:]), head[-1]

    def signature(
        self, *, name: str, file: Path, language: Language, before: tuple[str, ...], notes: tuple[str, ...]
    ) -> Signature:
        parameters = [self._parameter(place) for place in range(len(self.words))]
        if any(parameter.is_array and not self._read_fields(parameter.name) for parameter in parameters):
            parameters = [part for parameter in parameters for part in self._with_members(parameter)]
        has_arrays = any(parameter.is_array for parameter in parameters)
        parameters = [part for parameter in parameters for part in self._with_members_by_value(parameter, has_arrays)]
        flags = [parameter.name for parameter in parameters if parameter.is_flag]
        sizes = [parameter.name for parameter in parameters if parameter.role == "size" and not parameter.is_flag]
        if not has_arrays:  # nothing else could differ between two calls
            parameters = [_draw_by_value(parameter) for parameter in parameters]
            if not sizes and any(parameter.why for parameter in parameters if parameter.role == "scalar"):
                sizes = ["n"]
                notes = (*notes, "no parameter is a size: `n` is the harness's own, for what you make in call.h")
        elif not sizes:
            sizes = ["n"]
            notes = (*notes, "no parameter is a size: `n` is the harness's own, the number of elements of each array")
        shaped = [
            parameter.model_copy(update={"extents": self._extents(parameter, sizes)})
            if parameter.is_array and not parameter.extents
            else parameter
            for parameter in parameters
        ]
        shaped = [self._with_letters(parameter) for parameter in _with_heights(shaped, sizes)]
        notes = (*notes, *self._say_lengths(parameters, shaped, sizes))
        result = " ".join(self._spell(word) for word in before if word not in QUALIFIERS - {"const"} and _is_type(word))
        kernel = "__global__" in before
        gaps = [f"{parameter.name}: {parameter.why}" for parameter in shaped if parameter.why]
        if kernel:
            gaps.append("launch: a kernel needs a grid and a block")
        gaps += [f"global {word}: is changed elsewhere" for word in self._unset_globals()]
        return Signature(
            name=name,
            file=file,
            line=self.source.tokens[self.function.at].line,
            language=language,
            result=result or "void",
            result_kind=self.kind_of(result) if result and result != "void" else "",
            parameters=tuple(shaped),
            static="static" in before or "local" in before,
            kernel=kernel,
            sizes=(*sizes, *flags),
            unsized=tuple(self._find_unsized(parameters)),
            called=tuple(self._called_shapes(parameters)),
            notes=notes,
            gaps=tuple(gaps),
        )

    def _called_shapes(self, parameters: Sequence[Parameter]) -> Iterator[CalledShape]:
        """Calls whose sizes are numbers, or names of numbers in the caller's file."""
        places = [place for place, parameter in enumerate(parameters) if parameter.role == "size"]
        if any(parameter.member for parameter in parameters):
            return  # what a caller's struct holds stands elsewhere
        for arguments, call in self.calls:
            numbers = [_number_of(arguments[place], call.constants) for place in places]
            sizes = {self.names[place]: number for place, number in zip(places, numbers, strict=True) if number}
            if sizes and len(sizes) == len(places):
                yield CalledShape(sizes=sizes, place=call.place)

    def _spell(self, word: str) -> str:
        return self.types.get(word, word)

    def kind_of(self, spelled: str) -> str:
        """How elements of a C type of the scaffolded function are stored; empty where its name says nothing."""
        words = [self._spell(word) for word in spelled.split() if word not in QUALIFIERS]
        joined = " ".join(words).replace(" :: ", "::").removeprefix("std::")
        short = joined if joined in KINDS else re.sub(r"\b(?:int|signed) ?(?!\w)", "", joined).strip() or joined
        return KINDS.get(joined, KINDS.get(short, ""))

    def _parameter(self, place: int) -> Parameter:
        words, name = self.words[place]
        spelled = " ".join(self._spell(word) for word in words).replace(" :: ", "::")
        if "(" in words:
            return Parameter(name=name, type=spelled, role="unread", why=f"is a callback ({spelled})")
        stars = words.count("*") + words.count("[") + words.count("&")
        if stars == 1 and "*" in words:  # behind the star stand qualifiers, macros of the project too
            words = words[: words.index("*") + 1]
            spelled = " ".join(self._spell(word) for word in words).replace(" :: ", "::")
        element = " ".join(word for word in spelled.split() if word not in ("*", "&", "[", "]") and not word.isdigit())
        kind = self.kind_of(element)
        if words[-1:] == ("&",) and kind and stars == 1:
            role: Role = "input" if "const" in words else "inout"
            plain = spelled.replace("&", "").replace("const", "").strip()
            return Parameter(name=name, type=plain, kind=kind, role=role, extents=("1",), by_value=True)
        if stars > 1 or "&" in words or "std::" in spelled.replace("std::size_t", "").replace("std::ptrdiff_t", ""):
            return Parameter(
                name=name, type=spelled, role="unread", why=f"is a {spelled}, which no plain array stands for"
            )
        if stars:
            return self._array(name, words, spelled, kind)
        if "struct" in words or (not kind and self._has_fields(name)):
            return Parameter(name=name, type=spelled, role="scalar")
        literal, literal_from = self._literal(place)
        if literal is None and (default := self._default(place)):
            literal, literal_from = default, "its default"
        if kind[:1] in ("I", "U") and name not in self.named_sizes and self._is_flag(name):
            return Parameter(name=name, type=spelled, kind=kind, role="size", is_flag=True)
        if kind not in ("F32", "F64") and self._is_size(name):  # a type that only the compiler knows may be a size too
            return Parameter(name=name, type=spelled, kind=kind, role="size")
        return Parameter(name=name, type=spelled, kind=kind, role="scalar", literal=literal, literal_from=literal_from)

    def _array(self, name: str, words: tuple[str, ...], spelled: str, kind: str) -> Parameter:
        if base := self._base_of_end(name, words):
            return Parameter(name=name, type=spelled, kind=kind, role="end", end_of=base)
        if kind[:1] in ("I", "U") and self._is_size(name) and self._only_dereferenced(name) and "const" in words:
            return Parameter(name=name, type=re.sub(r"\*|\bconst\b", "", spelled).strip(), kind=kind, role="size",
                             by_pointer=True)  # fmt: skip
        if "void" in words and (number := self._number_behind(name)):
            return Parameter(name=name, type=number, kind=self.kind_of(number), role="size", by_pointer=True)
        element = self._cast_of(name) if "void" in words else ""
        kind = self.kind_of(element) if element else kind
        constant = "const" in words[: words.index("*") if "*" in words else len(words)]
        role: Role = "input" if constant else "output" if self._only_written(name) else "inout"
        fixed = tuple(word for word in words if word.isdigit())
        pointer = re.sub(r"\s*\[.*", " *", spelled) if "[" in words else spelled
        pointer = re.sub(r"\b(?:restrict|__restrict__|__restrict)\b", "", pointer).strip()
        is_text = "char" in words and "unsigned" not in words and not self._integers()
        if kind and not fixed and not is_text and _is_one_value(self.source, self.function, name):
            fixed = ("1",)
        is_index = kind[:1] in ("I", "U") and ("[", name) in {*zip(self.body, self.body[1:], strict=False)}
        return Parameter(name=name, type=pointer, kind=kind, element=element, role=role, extents=fixed, text=is_text,
                         is_index=is_index)  # fmt: skip

    def _with_members(self, parameter: Parameter) -> Iterator[Parameter]:
        """A struct of which the body only reads plain fields as those fields; any other parameter as it is."""
        fields = [] if parameter.kind or not parameter.is_array else self._read_fields(parameter.name)
        if not fields:
            yield parameter
            return
        yield from self._make_members(parameter, re.sub(r"\bconst\b", "", parameter.type).strip(), fields)

    def _with_members_by_value(self, parameter: Parameter, has_arrays: bool) -> Iterator[Parameter]:
        """A struct that is passed by value as the plain fields that the body uses, or a place for a person to fill; any other as it is."""
        if parameter.role != "scalar" or parameter.kind or not self._has_fields(parameter.name):
            yield parameter
            return
        fields = self._read_fields(parameter.name, ".")
        is_drawn = not has_arrays and "struct" not in parameter.type and not any(map(SIZE_NAME.fullmatch, fields))
        if fields and is_drawn:  # all of it: nothing in it says how long a call takes
            yield parameter
        elif fields:
            plain = re.sub(r"\bconst\b", "", parameter.type).strip()
            yield from self._make_members(parameter, f"{plain} *", fields)
        else:
            behind = next(self._find_followed(parameter.name), "")
            why = f"whose field {behind} is no plain number" if behind else "of which more is used than plain fields"
            yield parameter.model_copy(update={"why": f"is a {parameter.type} by value, {why}"})

    def _has_fields(self, name: str) -> bool:
        """Whether the body uses `name.field`: a struct that is passed by value."""
        return (name, ".") in {*zip(self.body, self.body[1:], strict=False)}

    def _find_followed(self, name: str) -> Iterator[str]:
        """Fields of a struct that is passed by value with something behind them: a subscript, a field of their own, a call."""
        for at, word in enumerate(self.body[:-3]):
            if word == name and self.body[at + 1] == "." and self.body[at + 3] in ("->", ".", "[", "("):
                yield self.body[at + 2]

    def _make_members(self, parameter: Parameter, pointer: str, fields: Sequence[str]) -> Iterator[Parameter]:
        """A struct that is made for the call, and its fields as values of their own."""
        yield parameter.model_copy(update={"role": "struct"})
        for field in fields:
            of_field = f"__typeof__((({pointer})0)->{field})"
            is_size = SIZE_NAME.fullmatch(field) or f"{parameter.name}_{field}" in self.named_sizes
            role: Role = "size" if is_size else "scalar"
            yield Parameter(name=f"{parameter.name}_{field}", type=of_field, element=of_field, role=role, member=field,
                            member_of=parameter.name)  # fmt: skip

    def _read_fields(self, name: str, sign: str = "->") -> list[str]:
        """The fields that `name->field` reads, where every use is such; else none. What is passed by value may be written."""
        behind = {"->", ".", "[", "("} | (CHANGES | {"++", "--"} if sign == "->" else set())
        fields: dict[str, None] = {}
        for at, word in enumerate(self.body):
            if word != name:
                continue
            before, after = self.body[max(0, at - 2) : at], self.body[at + 1 : at + 4]
            is_read = after[:1] == [sign] and len(after) == 3 and after[2] not in behind
            is_address = before[-1:] == ["&"] and not re.fullmatch(r"\w+|\)|\]", before[0])
            if not is_read or is_address or before[-1:] in (["++"], ["--"], ["->"], ["."]):
                return []
            fields[after[1]] = None
        return list(fields)

    def _base_of_end(self, name: str, words: tuple[str, ...]) -> str:
        """The array whose end a pointer is: of the same type, compared with it, and never read itself."""
        before, after = " ".join(words[: words.index("*")] if "*" in words else ()).split(), {"[", "->"}
        places = [at for at, word in enumerate(self.body) if word == name]
        if not before or any(self.body[at + 1] in after for at in places):
            return ""
        for other, (others, _) in zip(self.names, self.words, strict=True):
            head = list(others[: others.index("*")]) if "*" in others else []
            is_same = [word for word in head if word != "const"] == [word for word in before if word != "const"]
            if other == name or not is_same or not head:
                continue
            around = {(self.body[at - 2], self.body[at - 1]) for at in places}
            around |= {(self.body[at + 2], self.body[at + 1]) for at in places if at + 2 < len(self.body)}
            if any(word == other and sign in {*COMPARES, "-"} for word, sign in around) and (
                re.search(r"end|limit|last|stop|max", name, re.IGNORECASE)
            ):
                return other
        return ""

    def _only_dereferenced(self, name: str) -> bool:
        """Whether every use is `*name`: a number that is passed by its address."""
        places = [at for at, word in enumerate(self.body) if word == name]
        return bool(places) and all(
            self.body[at - 1] == "*" and self.body[at + 1] not in ("[", "++", "+")
            and not re.fullmatch(r"[A-Za-z_]\w*|\)|\]", self.body[at - 2])
            for at in places
        )  # fmt: skip

    def _number_behind(self, name: str) -> str:
        """The type of the one whole number behind a `void *` that every use reads as `*((size_t *)name)`; else empty."""
        text = " ".join(self.body)
        reads = re.findall(rf"= \* \(? ?\( (?:const )?((?:\w+ )+)\* \) {re.escape(name)}\b", text)
        types = {" ".join(word for word in spelled.split() if word not in QUALIFIERS) for spelled in reads}
        if len(types) != 1 or len(reads) != self.body.count(name):
            return ""
        return next(iter(types)) if self.kind_of(next(iter(types)))[:1] in ("I", "U") else ""

    def _cast_of(self, name: str) -> str:
        """What the body takes the elements behind a `void *` for; empty where it says nothing or several things."""
        text = " ".join(self.body)
        casts = set(re.findall(rf"\( (?:const )?((?:\w+ )+)\*(?: const)? \) {re.escape(name)}\b", text))
        casts |= set(re.findall(rf"(?:const )?((?:\w+ )+)\* (?:\w+ )?\w+ = {re.escape(name)} [;,]", text))
        types = {
            " ".join(word for word in cast.split() if word not in QUALIFIERS) for cast in casts
        } - {"void", "char", ""}  # fmt: skip
        return types.pop() if len(types) == 1 else ""

    def _integers(self) -> bool:
        """Whether any parameter is a whole number: then text has a length, and needs no zero at its end."""
        return any(
            not {"*", "[", "(", "&"} & set(words) and self.kind_of(" ".join(words)) not in ("", "F32", "F64")
            for words, _ in self.words
        )

    def _literal(self, place: int) -> tuple[str | None, str]:
        """A plain number that some caller of the scaffolded function writes there, another than 0 if one does, and where."""
        numbers = [
            (arguments[place], call.place) for arguments, call in self.calls if NUMBER.fullmatch(arguments[place])
        ]
        return next((item for item in numbers if item[0].strip("0.fFuUlL")), numbers[0] if numbers else (None, ""))

    def _default(self, place: int) -> str:
        """The plain value that a scaffolded function's parameter has where a call leaves it out; empty where it has none."""
        words = self._parts()[place]
        value = "".join(words[words.index("=") + 1 :]) if "=" in words else ""
        return value if NUMBER.fullmatch(value) or value in ("true", "false") else ""

    def _is_flag(self, name: str) -> bool:
        """Whether a parameter is only asked if it is 0: before `?`, behind `!`, alone between the brackets of an `if`."""
        places = [at for at, word in enumerate(self.body) if word == name]
        return bool(places) and all(self._is_asked(at) for at in places)

    def _is_asked(self, at: int) -> bool:
        before, behind = self.body[at - 1 : at], self.body[at + 1 : at + 2]
        if behind == ["?"]:
            return before[:1] in (["="], ["("], ["return"], [","])
        opened = before == ["("] and self.body[at - 2 : at - 1] in (["if"], ["while"])
        return (opened or before[:1] in (["!"], ["&&"], ["||"])) and behind[:1] in ([")"], ["&&"], ["||"], ["?"], [";"])

    def _is_size(self, name: str) -> bool:
        """Whether a parameter is a size: by its name, or because the body compares something with it, counts it down, or clamps to it."""
        if SIZE_NAME.fullmatch(name) or name in self.named_sizes:
            return True
        if any(word == name and after in CHANGES for word, after in zip(self.body, self.body[1:], strict=False)):
            return False
        triples = zip(self.body, self.body[1:], self.body[2:], strict=False)
        bounds = any(
            name in (a, b) and sign in COMPARES and _is_variable(b if a == name else a) for a, sign, b in triples
        )
        return (
            bounds
            or name in _find_clamps(self.body)
            or any(name in pair and "--" in pair for pair in zip(self.body, self.body[1:], strict=False))
        )

    def _only_written(self, name: str) -> bool:
        """Whether every use of a parameter is an element that a plain `=` sets."""
        places = [at for at, word in enumerate(self.body) if word == name]
        return bool(places) and all(self._is_set(at) for at in places)

    def _is_set(self, at: int) -> bool:
        if self.body[at + 1 : at + 2] == ["["]:
            end = _close(self.body, at + 1)
            return self.body[end + 1 : end + 2] == ["="]
        return self.body[at - 1] == "*" and self.body[at - 2] in (";", "{", "}") and self.body[at + 1] == "="

    def _extents(self, parameter: Parameter, sizes: Sequence[str]) -> tuple[str, ...]:
        """The sizes that an array parameter's subscripts reach, by the bounds of the loops they count; all of them where none does."""
        if len(sizes) == 1:
            return tuple(sizes)
        used = {size for name in self._subscripts(parameter.name) for size in self._reach(name, sizes)}
        if strides := [size for size in used if STRIDE.fullmatch(size)]:
            used = {
                size for size in used if size in strides[:1] or not (STRIDE.fullmatch(size) or ACROSS.fullmatch(size))
            }
            used |= {size for size in sizes if re.fullmatch(r"\w*(?:height|rows)\w*|h|ny", size, re.IGNORECASE)}
        reached = [size for size in sizes if size in used]
        moved = WINDOWS - self._subscripts(parameter.name)  # over the array; what subscripts name is a part of it
        reached = [size for size in reached if size not in moved] or reached
        plain = [size for size in sizes if not STRIDE.fullmatch(size) and size not in WINDOWS]
        return tuple(reached or plain or sizes)

    def _say_lengths(
        self, parameters: Sequence[Parameter], shaped: Sequence[Parameter], sizes: Sequence[str]
    ) -> Iterator[str]:
        """Of a C function to scaffold: a line with the lengths of arrays that no subscript says."""
        guessed = [
            f"{after.name} {' * '.join(after.extents)}"
            for before, after in zip(parameters, shaped, strict=True)
            if after.is_array and not before.extents and sizes != ["n"]
            if not any(self._reach(name, sizes) for name in self._subscripts(after.name))
        ]
        if guessed:
            yield f"lengths guessed, no subscript says them: {', '.join(guessed)}; others: elements_ in problem.h"
        ones = [array.name for array in shaped if array.extents == ("1",) and not array.by_value]
        if ones:
            yield f"taken for a pointer to one, as only *{ones[0]} is used: {', '.join(ones)}; others: elements_ in problem.h"

    def _subscripts(self, name: str) -> set[str]:
        """Names in the subscripts of an array and of pointers made of it."""
        return {word for part in self._subscript_parts(name) for word in part}

    def _subscript_parts(self, name: str) -> list[list[str]]:
        """The words of each subscript of an array and of pointers made of it."""
        parts: list[list[str]] = []
        aliases = {name}
        for _ in range(2):
            for at, word in enumerate(self.body):
                if word == "=" and self.body[at - 2 : at - 1] == ["*"]:
                    end = next((i for i in range(at, len(self.body)) if self.body[i] in (";", ",")), len(self.body))
                    if aliases & set(self.body[at + 1 : end]):
                        aliases.add(self.body[at - 1])
                        parts.append(self.body[at + 1 : end])
        for at, word in enumerate(self.body):
            if word in aliases and self.body[at + 1 : at + 2] in (["["], ["+"]):
                end = _close(self.body, at + 1) if self.body[at + 1] == "[" else at + 8
                parts.append(self.body[at + 1 : end])
        return parts

    def _find_unsized(self, parameters: Sequence[Parameter]) -> Iterator[tuple[str, str]]:
        """Integer arguments of unknown value that coordinates of an array are scaled with, each with the first such array."""
        unknown = [
            item.name
            for item in parameters
            if item.role == "scalar" and item.kind[:1] in ("I", "U") and item.literal is None and not item.member
            if not re.fullmatch(r"inc\w?", item.name)  # a step of BLAS is one unless somebody says otherwise
        ]
        arrays = (
            {array.name: self._coordinates(array.name) for array in parameters if array.is_array} if unknown else {}
        )
        for name in unknown:
            if array := next((array for array, parts in arrays.items() if _is_scaled(name, parts)), ""):
                yield name, array

    def _coordinates(self, array: str, depth: int = 4) -> list[list[str]]:
        """The words of its subscripts, and of what the names in them were computed of."""
        parts, followed = self._subscript_parts(array), {array}
        newest = parts
        for _ in range(depth):
            names = {word for part in newest for word in part if re.fullmatch(r"[A-Za-z_]\w*", word)} - followed
            followed |= names
            newest = [
                self.body[at + 2 : self._statement_end(at)]
                for at, word in enumerate(self.body[:-1])
                if word in names and self.body[at + 1] == "="
            ]
            parts = [*parts, *newest]
        return parts

    def _statement_end(self, at: int) -> int:
        return next((i for i in range(at, len(self.body)) if self.body[i] == ";"), len(self.body))

    def _reach(self, name: str, sizes: Sequence[str], depth: int = 2) -> set[str]:
        """Sizes of a scaffolded function that a name stands for: itself, or what it is compared with or made of."""
        if name in sizes:
            return {name}
        reached: set[str] = set()
        for at, word in enumerate(self.body[:-1]):
            if word == name and self.body[at + 1] in (COMPARES | {"="}):
                end = next((i for i in range(at, len(self.body)) if self.body[i] in (";", ")", "&&", "||")), at)
                if self.body[at + 1] == "=":
                    clamps = _find_clamps(self.body[at + 2 : self._statement_end(at)]) & set(sizes)
                    if clamps:  # whatever it is computed of, it stays below these
                        reached |= clamps
                        continue
                whole = self.body[at + 2 : end]
                inner = set(_without_divisors(whole))
                reached |= inner & set(sizes)
                is_ratio = bool(
                    inner & set(sizes) and (set(whole) - inner) & set(sizes)
                )  # `y * sh / dh` stays below sh
                if depth and self.body[at + 1] == "=" and not is_ratio:
                    names = {word_ for word_ in inner - {name} if re.fullmatch(r"[A-Za-z_]\w*", word_)}
                    reached |= {size for word_ in names for size in self._reach(word_, sizes, depth - 1)}
        return reached

    def _with_letters(self, parameter: Parameter) -> Parameter:
        """An array that goes in, with the characters that its elements are compared with, also in functions of the file that get it."""
        if not parameter.is_array or parameter.role == "output" or parameter.kind not in ("I8", "U8", ""):
            return parameter
        asked = [item for function, name in self._follow_argument(parameter.name)
                 for item in _find_asked(_words_of(self.source, function), name)]  # fmt: skip
        ranges = tuple(dict.fromkeys(item for item in asked if len(item) == 2))
        inside = {chr(code) for ends in ranges for code in range(ord(ends[0]), ord(ends[1]) + 1)}
        letters = "".join(dict.fromkeys(item for item in asked if len(item) == 1 and item not in inside))
        return parameter.model_copy(update={"ranges": ranges, "letters": letters.replace("\0", "")})

    def _follow_argument(self, name: str) -> list[tuple[CFunction, str]]:
        """The scaffolded C function with an array, and those of the file that get it or elements of it, with their names for it."""
        homes = {function.name: function for function in self.source.functions}
        followed = {(self.function.name, name): (self.function, name)}
        waiting = [(self.function, name, 0)]
        for function, inner, depth in waiting:
            made = _find_made(_words_of(self.source, function), inner)
            for call in self.source.calls_between(function.begin, function.end):
                home = homes.get(call.name)
                given = split_arguments(" ".join(token.text for token in self.source.arguments(call)))
                for argument, part in zip(given, home.parts if home else (), strict=False):
                    names = [word for word in part if re.fullmatch(r"[A-Za-z_]\w*", word)]
                    is_new = home and names and depth < MOST_PASSED and (home.name, names[-1]) not in followed
                    if home and is_new and made & set(argument.split()):
                        followed[home.name, names[-1]] = (home, names[-1])
                        waiting.append((home, names[-1], depth + 1))
        return [*followed.values()]

    def _unset_globals(self) -> list[str]:
        """Variables at file scope without `const` and without a value that the body uses."""
        used = {word for word in self.body if re.fullmatch(r"[A-Za-z_]\w*", word)} - set(self.names)
        names: list[str] = []
        for at, token in enumerate(self.source.tokens[:-1]):
            outside = token.text in used and self.source.scopes[at] != "inner"
            if not outside or self.source.text(at + 1) not in (";", "[") or self.source.in_macro(at):
                continue
            end = (
                _close([item.text for item in self.source.tokens], at + 1) + 1
                if self.source.text(at + 1) == "["
                else at + 1
            )
            before = [self.source.text(i) for i in range(max(0, at - 6), at)]
            statement = before[max((i for i, word in enumerate(before) if word in (";", "}")), default=-1) + 1 :]
            is_variable = bool(statement) and not NO_VARIABLE & set(statement) and statement[-1] not in TAGS
            is_plain = "*" not in statement and end == at + 1
            is_own = is_variable and "extern" not in statement and self._sets_itself(token.text, is_plain)
            if self.source.text(end) == ";" and is_variable and not is_own:
                names.append(token.text)
        return sorted(set(names))

    def _sets_itself(self, name: str, is_plain: bool) -> bool:
        """Whether a variable at file scope is changed by the scaffolded function and those of the file that it calls, and by no other."""
        places = [at for at in self.source.places.get(name, []) if self.source.scopes[at] == "inner"]
        changing = {self.source.around(at) for at in places if self._may_change(at, is_plain)}
        return bool(changing) and changing <= {*self._reached}

    def _may_change(self, at: int, is_plain: bool) -> bool:
        """Whether a variable is set at a place of the file, or its address taken; an array or pointer also where it is handed on."""
        text = self.source.text
        end = at + 1
        while text(end) in ("[", ".", "->"):
            end = self.source.closing(end) + 1 if text(end) == "[" else end + 2
        is_address = text(at - 1) == "&" and not re.fullmatch(r"\w+|\)|\]", text(at - 2))
        is_handed_on = text(at - 1) in ("(", ",", "=") and text(end) in (",", ")", ";", "+") and end == at + 1
        is_asked = text(at - 1) == "(" and text(at - 2) in ("if", "while", "sizeof", "switch")
        return (
            ASSIGNS.fullmatch(text(end)) is not None
            or text(at - 1) in ("++", "--")
            or is_address
            or (is_handed_on and not is_asked and not is_plain)
        )

    @cached_property
    def _reached(self) -> list[CFunction]:
        """The scaffolded C function and those of its file that it names, directly or through others."""
        reached, homes = [self.function], {function.name: function for function in self.source.functions}
        homes.pop(self.function.name, None)
        for function in reached:
            words = {token.text for token in self.source.tokens[function.begin : function.end] if token.kind == "name"}
            reached += [homes.pop(name) for name in sorted(words & homes.keys())]
        return reached


def _words_of(source: CSource, function: CFunction) -> list[str]:
    """Of a function to scaffold, or one that it calls: the words of its body; what stands in strings is none."""
    return [source.text(at) for at in range(function.begin, function.end)]


def _find_made(words: Sequence[str], name: str) -> set[str]:
    """An array of a function to scaffold, and names of what is made of its elements and of pointers into it."""
    made = {name}
    for _ in range(2):
        for at, word in enumerate(words):
            if at and re.fullmatch(r"[|&+]?=", word) and re.fullmatch(r"[A-Za-z_]\w*", words[at - 1]):
                end = next((i for i in range(at, len(words)) if words[i] in (";", "{")), len(words))
                made |= {words[at - 1]} if made & set(words[at + 1 : end]) else set()
    return made


def _find_asked(words: Sequence[str], name: str) -> Iterator[str]:
    """The characters with which a function to scaffold compares elements of an array: one, or first and last of a range."""
    made = _find_made(words, name)
    is_switched = any(word == "switch" and made & set(_operand(words, at + 2, 1)) for at, word in enumerate(words))
    before: tuple[int, list[str], str, str] | None = None
    for at, word in enumerate(words):
        letter = _read_character(word)
        if not letter or not 0 < at < len(words) - 1:
            continue
        if words[at - 1] == "case" and is_switched:
            last = next((item for item in words[at + 1 : at + 5] if item.strip(".")), "")
            yield letter + _read_character(last)
        elif words[at - 1] == "-" and made & set(_operand(words, at - 2, -1)):
            yield from _read_width(letter, words[at + 1 : at + 6])
        else:
            is_right = words[at - 1] in {*COMPARES, "=="}
            sign = words[at - 1] if is_right else words[at + 1]
            operand = _operand(words, at - 2, -1) if is_right else [*reversed(_operand(words, at + 2, 1))]
            if sign not in {*COMPARES, "=="} or not made & set(operand):
                continue
            sign = sign if is_right else TURNED.get(sign, sign)
            if sign in ("==", "!="):
                yield letter
            elif before and at - before[0] < NEAR and before[1] == operand and before[2][0] != sign[0]:
                yield min(before[3], letter) + max(before[3], letter)
                before = None
            else:
                if before:
                    yield before[3]
                before = (at, operand, sign, letter)
    if before:
        yield before[3]


def _operand(words: Sequence[str], at: int, step: int) -> list[str]:
    """What a function to scaffold compares: the words from a place on, to the right or the left, to the end of the expression."""
    found: list[str] = []
    depth = 0
    while 0 <= at < len(words):
        depth += step * ((words[at] in ("(", "[")) - (words[at] in (")", "]")))
        if depth < 0 or (depth == 0 and words[at] in ENDS_OPERAND):
            break
        found.append(words[at])
        at += step
    return found


def _read_width(first: str, behind: Sequence[str]) -> Iterator[str]:
    """Of a function to scaffold: the range of `c - 'A' < 26` or `(unsigned)(c - 'A') <= 25`, by what stands behind its first character."""
    rest = [word for word in behind if word != ")"]
    number = re.fullmatch(r"(\d{1,3})[uUlL]*", rest[1]) if len(rest) > 1 and rest[0] in TURNED else None
    width = int(number[1]) - (rest[0] in ("<", ">=")) if number else 0
    if width > 0 and ord(first) + width < 256:
        yield first + chr(ord(first) + width)


def _read_character(word: str) -> str:
    """The character that a literal of C stands for; empty for any other word."""
    match = CHARACTER.fullmatch(word)
    if match is None:
        return ""
    if match[1] or match[2]:
        return chr(int(match[1] or match[2], 16 if match[1] else 8) & 255)
    letter = ESCAPES.get(match[3], match[3]) or match[4]
    return letter if ord(letter) < 256 else ""


def _find_clamps(words: Sequence[str]) -> set[str]:
    """Names whose `name - 1` is an argument of a call, as in `clamp(x, 0, width - 1)`: the last place of a row."""
    clamps: set[str] = set()
    for at in range(1, len(words) - 3):
        is_last = words[at + 1 : at + 3] == ["-", "1"] and re.fullmatch(r"[A-Za-z_]\w*", words[at])
        starts = words[at - 1] == "," or (words[at - 1] == "(" and re.fullmatch(r"[A-Za-z_]\w*", words[at - 2]))
        is_whole = (words[at - 1] == "," and words[at + 3] == ")") or (starts and words[at + 3] == ",")
        if is_last and is_whole and words[at - 2] not in ("if", "while", "for", "return"):
            clamps.add(words[at])
    return clamps


def _without_divisors(words: Sequence[str]) -> list[str]:
    """The words without the names that are divided by: a place grows with what stands above the line only."""
    plain: list[str] = []
    for word in words:
        behind = next((earlier for earlier in reversed(plain) if earlier not in ("(", "float", "double")), "")
        if behind != "/" or word in ("(", "float", "double"):
            plain.append(word)
        else:
            plain.append("1")
    return plain


def _is_scaled(name: str, parts: Sequence[Sequence[str]]) -> bool:
    """Whether coordinates are multiplied with it, or it is divided by something, as in a ratio of two widths."""
    for part in parts:
        plain = " ".join(part)
        plain = re.sub(r"\( (?:const )?(?:unsigned |signed )?(?:\w*_t|int|long|float|double|unsigned) \) ", "", plain)
        word = re.escape(name)
        if re.search(
            rf"(?:\b[A-Za-z_]\w*|\)) \* {word}\b|\b{word} \* (?:[A-Za-z_]|\()|\b{word} / (?:[A-Za-z_]|\()", plain
        ):
            return True
    return False


def _with_heights(parameters: Sequence[Parameter], sizes: Sequence[str]) -> list[Parameter]:
    """Arrays of images also get the height beside their width, where nothing else says what it is the height of."""
    reached = {extent for parameter in parameters for extent in parameter.extents}
    heights = {
        name: name[: -len(across)] + down
        for name in sizes
        for across, down in HEIGHTS.items()
        if name.endswith(across) and name[: -len(across)] + down in set(sizes) - reached
    }
    return [
        parameter.model_copy(
            update={"extents": (*parameter.extents, *(heights[name] for name in parameter.extents if name in heights))}
        )
        if parameter.is_array and heights
        else parameter
        for parameter in parameters
    ]


def _is_one_value(source: CSource, function: CFunction, name: str, depth: int = MOST_PASSED) -> bool:
    """Whether `name` is used as `*name` alone, here and in the functions of the file that it is passed to."""
    begin, end = function.begin, function.end
    places = source.within(name, begin, end)
    passed: dict[int, bool] = {}
    for call in source.calls if depth else ():
        if not begin <= call.at < end or call.name == function.name:
            continue
        words = [token.text for token in source.arguments(call)]
        arguments = split_arguments(" ".join(words))
        if name not in arguments:
            continue
        homes = [other for other in source.functions if other.name == call.name and len(other.parts) == len(arguments)]
        behind = [part[-1] for other in homes[-1:] for part, argument in zip(other.parts, arguments, strict=True)
                  if argument == name]  # fmt: skip
        is_one = bool(behind) and all(_is_one_value(source, homes[-1], other, depth - 1) for other in behind)
        passed |= {at: is_one for at in source.within(name, call.at, call.end) if source.text(at - 1) in ("(", ",")
                   and source.text(at + 1) in (")", ",")}  # fmt: skip
    return bool(places) and all(
        passed.get(at, source.text(at - 1) == "*" and source.text(at + 1) not in ("[", "++", "--", "->", "."))
        for at in places
    )


def _number_of(text: str, constants: Mapping[str, str]) -> int | None:
    """A whole number that an argument of a call of the scaffolded function stands for: digits, a constant, or a product."""
    product = 1
    for factor in re.sub(r"\((?:size_t|u?int\d*(?:_t)?|unsigned|long)\)|[()]", "", text).split("*"):
        word = constants.get(factor.strip(), factor.strip())
        if not re.fullmatch(r"\d+[uUlL]*|0[xX][0-9a-fA-F]+[uUlL]*", word):
            return None
        product *= int(word.rstrip("uUlL"), 16 if word[:2].lower() == "0x" else 10)
    return product


def read_constants(text: str) -> dict[str, str]:
    """Names in C that one number stands for: macros, and variables that are set once."""
    pairs = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d\w*)\)?[ \t]*(?:/[/*].*)?$", text, re.MULTILINE)
    pairs += re.findall(
        r"\b(?:int|size_t|long|unsigned|u?int\d+_t|enum \{)[ \t]+(\w+)[ \t]*=[ \t]*(\d\w*)[ \t]*[;,}]", text
    )
    values: dict[str, set[str]] = {}
    for name, number in pairs:
        values.setdefault(name, set()).add(number)
    return {name: next(iter(numbers)) for name, numbers in values.items() if len(numbers) == 1}


def _draw_by_value(parameter: Parameter) -> Parameter:
    """Of a function to scaffold: a plain number as an array of one."""
    if parameter.role != "scalar" or not parameter.type or parameter.why:
        return parameter
    if "struct" in parameter.type and not parameter.member:
        return parameter
    return parameter.model_copy(update={"role": "input", "extents": ("1",), "by_value": True})


def _is_variable(word: str) -> bool:
    """Whether a word of the scaffolded function is no number, and no constant by its capital letters."""
    return re.fullmatch(r"[A-Za-z_]\w*", word) is not None and not word.isupper()


def _is_type(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*|\*|::", word) is not None and not word.startswith("__") and not word.isupper()


def _close(words: Sequence[str], at: int) -> int:
    """Where the bracket at a place of the scaffolded function's source is closed."""
    depth = 0
    for place in range(at, len(words)):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return place
    return len(words) - 1


def split_arguments(text: str) -> list[str]:
    """For scaffolding: arguments between the commas of a call's source."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


# Python.

ANNOTATED: Mapping[str, str] = {
    "str": "text", "bytes": "octets", "bytearray": "octets", "float": "real", "int": "whole", "bool": "flag",
    "list[float]": "reals", "List[float]": "reals", "Sequence[float]": "reals", "Iterable[float]": "reals",
    "list[int]": "wholes", "List[int]": "wholes", "Sequence[int]": "wholes", "Iterable[int]": "wholes",
    "np.ndarray": "array", "numpy.ndarray": "array", "ndarray": "array", "NDArray": "array",
    "torch.Tensor": "tensor", "Tensor": "tensor", "Sequence[str]": "text", "list[str]": "texts",
}  # fmt: skip
"""Kind of values by annotation; `|None` and what stands in brackets of an array type do not matter."""


def _read_python(file: Path, text: str, name: str, language: Language, calls: Sequence[CallSite]) -> Signature | None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UserError(f"{file}:{error.lineno}: is no Python ({error.msg}); correct that line") from None
    body: Sequence[ast.stmt] = tree.body
    *outer, bare = name.split(".")
    for part in outer:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == part), [])
    function = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == bare), None)
    if function is None:
        return None
    if outer and not any(ast.unparse(item) == "staticmethod" for item in function.decorator_list):
        if function.decorator_list or _needs_arguments(body):
            raise UserError(
                f"--function: {name} is a method; write a function that makes the object and calls it, and name that one"
            )
        function = _without_self(function)
    decorators = [ast.unparse(item) for item in function.decorator_list]
    jitted = any("triton" in decorator or decorator.startswith("jit") for decorator in decorators)
    if jitted:
        host = _launcher(tree, bare)
        if host is not None:
            read_host = _read_python(file, text, host, language, calls)
            assert read_host is not None
            note = f"{bare} is compiled by Triton; {host}, which launches it, is timed"
            return read_host.model_copy(update={"notes": (note, *read_host.notes)})
    return _PythonReading(function, [*calls, *_doctest_calls(function, bare)]).signature(file, name, language, jitted)


def _needs_arguments(body: Sequence[ast.stmt]) -> bool:
    """Whether objects of a class cannot be made without arguments, as far as the class itself says."""
    made = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    if made is None:
        return False
    listed, by_name = [*made.args.posonlyargs, *made.args.args], made.args.kw_defaults
    return len(listed) - len(made.args.defaults) > 1 or None in by_name


def _without_self(method: ast.FunctionDef) -> ast.FunctionDef:
    """Of a method to scaffold: it as a function of its other arguments."""
    function = copy.deepcopy(method)
    del (function.args.posonlyargs or function.args.args)[:1]
    return function


def list_methods(text: str, name: str) -> list[str]:
    """`Class.name` of every class of a Python source that has such a method; none where that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return [
        f"{node.name}.{name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(item, ast.FunctionDef) and item.name == name for item in node.body)
    ]


def _launcher(tree: ast.Module, kernel: str) -> str | None:
    """The function of the file that launches a kernel, `kernel[grid](...)`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and inner.value.id == kernel
            for inner in ast.walk(node)
        ):
            return node.name
    return None


def _doctest_calls(function: ast.FunctionDef, name: str) -> Iterator[CallSite]:
    """What the examples of the scaffolded function's docstring call it with."""
    try:
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(function) or "")
    except ValueError:
        return
    for example in examples:
        yield from python_calls(example.source, name, "its docstring")


def python_calls(text: str, name: str, place: str) -> list[CallSite]:
    """For scaffolding: every call of that name; none where the text is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    bare = name.rpartition(".")[2]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    of_module = [node for node in _list_own_nodes(tree) if isinstance(node, ast.Assign)]
    calls: list[CallSite] = []
    for scope in (tree, *functions):
        nodes = list(_list_own_nodes(scope))
        assigned = [*of_module, *(node for node in nodes if isinstance(node, ast.Assign) and scope is not tree)]
        for node in nodes:
            if isinstance(node, ast.Call) and not node.keywords:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called == bare:
                    values = {
                        item.targets[0].id: item.value
                        for item in assigned
                        if isinstance(item.targets[0], ast.Name) and item.lineno < node.lineno
                    }
                    arguments = ", ".join(ast.unparse(_put_values(argument, values)) for argument in node.args)
                    at = f"{place}:{node.lineno}" if "." in place else place
                    calls.append(CallSite(arguments=arguments, place=at))
    return calls


def _list_own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a module or function, without the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _list_own_nodes(node)


MOST_STEPS = 3
"""Names that are followed from a call to where their value is made."""


class _ValuePutter(ast.NodeTransformer):
    """Puts the values of names in their places."""

    def __init__(self, values: Mapping[str, ast.expr], steps: int) -> None:
        self.values = values
        self.steps = steps

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.values.get(node.id)
        return node if value is None or self.steps == 0 else _put_values(value, self.values, self.steps - 1)


def _put_values(expression: ast.expr, values: Mapping[str, ast.expr], steps: int = MOST_STEPS) -> ast.expr:
    """The expression of a caller with the values of its names, as far as they are known."""
    replaced = _ValuePutter(values, steps).visit(copy.deepcopy(expression))
    assert isinstance(replaced, ast.expr)
    return replaced


MAKERS = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "reshape"), 9),
    **dict.fromkeys(("full", "random", "standard_normal"), 1),
    **dict.fromkeys(("normal", "uniform", "integers", "randint"), 0),
}
"""What makes arrays of sizes that it is told, and how many of its first arguments may be sizes."""
LIBRARIES = {"np": "array", "numpy": "array", "torch": "tensor", "range": "wholes"}
"""Kinds of values by the library that makes them."""


def read_extents(value: ast.expr) -> tuple[int, ...]:
    """Sizes of an array, list or text as a caller's expression makes it; empty where it does not say."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str | bytes):
        return (len(value.value),)
    if isinstance(value, ast.List | ast.Tuple):
        return (len(value.elts),)
    if isinstance(value, ast.ListComp) and len(value.generators) == 1:
        return read_extents(value.generators[0].iter)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        extents, times = read_extents(value.left), _read_whole(value.right)
        return (extents[0] * times,) if len(extents) == 1 and times else ()
    if isinstance(value, ast.Call):
        return _read_made(value)
    return ()


def _read_made(call: ast.Call) -> tuple[int, ...]:
    """Sizes of an array that a call such as `torch.randn(...)` makes."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called in ("list", "tuple", "sorted", "array", "asarray") and len(call.args) == 1:
        return read_extents(call.args[0])
    if called in ("range", "arange"):
        told = call.args if len(call.args) == 1 else []
    elif called in MAKERS:
        told = [word.value for word in call.keywords if word.arg in ("size", "shape")] or call.args[: MAKERS[called]]
    else:  # a conversion of what stands before the dot
        return read_extents(call.func.value) if isinstance(call.func, ast.Attribute) else ()
    whole = told[0].elts if told and isinstance(told[0], ast.Tuple | ast.List) else told
    sizes = [size for item in whole if (size := _read_whole(item))]
    return tuple(sizes) if len(sizes) == len(whole) else ()


def _read_whole(value: ast.expr) -> int | None:
    """For scaffolding: a number above 0 that is written out, or a product of such."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        left, right = _read_whole(value.left), _read_whole(value.right)
        return left * right if left and right else None
    number = value.value if isinstance(value, ast.Constant) else None
    return number if isinstance(number, int) and number > 0 else None


def _kind_of_maker(value: ast.expr) -> str:
    """Kind of values that an expression makes; empty where it does not say."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        try:
            return _kind_of_value(ast.literal_eval(value.left))
        except (ValueError, TypeError):
            return ""
    if not read_extents(value) or isinstance(value, ast.ListComp):
        return ""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return next((kind for name, kind in LIBRARIES.items() if name in names), "")


class _PythonReading:
    """One Python function's parameters."""

    def __init__(self, function: ast.FunctionDef, calls: Sequence[CallSite]) -> None:
        self.function = function
        self.examples = [*filter(None, (_literals(call.arguments) for call in calls))]
        self.calls = [(_parse_arguments(call.arguments), call.place) for call in calls]
        self.shapes = {
            node.value.value.id: [
                name.id
                for item in node.targets[0].elts
                if isinstance(name := item.value if isinstance(item, ast.Starred) else item, ast.Name)
            ]
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
            if isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and isinstance(node.value.value, ast.Name)
        }

        self.matrices = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and node.attr in ("T", "dtype", "ndim", "shape", "astype")
            if isinstance(node.value, ast.Name)
        }

    def signature(self, file: Path, name: str, language: Language, jitted: bool) -> Signature:
        arguments = self.function.args
        listed = [*arguments.posonlyargs, *arguments.args]
        required = listed[: len(listed) - len(arguments.defaults)]
        optional = listed[len(required) :]
        useful = {"text", "octets", "reals", "wholes", "array", "tensor"}
        extra = [
            argument
            for argument in optional
            if argument.annotation and _kind_of_annotation(argument.annotation) in useful and not required
        ]
        parameters = [self._parameter(place, argument, language) for place, argument in enumerate((*required, *extra))]
        sizes = dict.fromkeys(size for parameter in parameters for size in parameter.extents)
        gaps = [f"{parameter.name}: {parameter.why}" for parameter in parameters if parameter.why]
        gaps += [f"{argument.arg}: must be given by name" for argument, default in
                 zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]  # fmt: skip
        gaps += ["launch: a kernel of Triton needs a function that launches it"] if jitted else []
        left = [argument.arg for argument in optional if argument not in extra]
        return Signature(
            name=name,
            file=file,
            line=self.function.lineno,
            language=language,
            parameters=tuple(parameters),
            kernel=jitted,
            sizes=tuple(sizes) or ("n",),
            called=tuple(self._called_shapes(parameters)),
            notes=(f"{', '.join(left)}: left at the default",) if left else (),
            gaps=tuple(gaps),
        )

    def _called_shapes(self, parameters: Sequence[Parameter]) -> Iterator[CalledShape]:
        """For scaffolding: calls that say how long each array is, all sizes alike."""
        names = {name for parameter in parameters for name in parameter.extents}
        for arguments, place in self.calls:
            sizes: dict[str, int] = {}
            fits = len(arguments) >= len(parameters)
            for argument, parameter in zip(arguments, parameters, strict=False):
                extents = read_extents(argument) if parameter.extents else ()
                fits = fits and len(extents) == len(parameter.extents)
                for name, size in zip(parameter.extents, extents, strict=False):
                    fits = fits and sizes.setdefault(name, size) == size
            if fits and names and set(sizes) == names:
                yield CalledShape(sizes=sizes, place=place)

    def _parameter(self, place: int, argument: ast.arg, language: Language) -> Parameter:
        kind = _kind_of_annotation(argument.annotation) if argument.annotation else ""
        examples = [example[place] for example in self.examples if len(example) > place]
        kind = kind or next(filter(None, map(_kind_of_value, examples)), "")
        made = [arguments[place] for arguments, _ in self.calls if len(arguments) > place]
        kind = kind or next(filter(None, map(_kind_of_maker, made)), "")
        kind = kind or _kind_of_description(ast.get_docstring(self.function) or "", argument.arg)
        kind = kind or ("tensor" if language in ("torch", "triton") and not SIZE_NAME.fullmatch(argument.arg) else "")
        kind = kind or ("array" if argument.arg in self.shapes or argument.arg in self.matrices else "")
        literal = next((repr(value) for value in examples if isinstance(value, int | float)), None)
        if kind in ("real", "whole", "flag"):
            why = "" if literal is not None else "is a plain value that no caller in the repository gives"
            return Parameter(name=argument.arg, kind=kind, role="scalar", literal=literal, why=why)
        if not kind:
            return Parameter(
                name=argument.arg, role="unread", why="has no annotation, and no caller gives a plain value"
            )
        usual = next(iter(self.shapes.values()), []) if argument.arg in self.matrices else []
        names = tuple(self.shapes.get(argument.arg, usual)) or ("n",)
        return Parameter(name=argument.arg, kind=kind, role="input", extents=names, text=kind == "text")


def _kind_of_annotation(annotation: ast.expr) -> str:
    """Kind of values by an annotation; empty for one that is not known."""
    text = ast.unparse(annotation).strip("'\"").replace("typing.", "")
    text = re.sub(r"\s*\|\s*None|^Optional\[(.*)\]$", r"\1", text)
    return ANNOTATED.get(text, ANNOTATED.get(text.partition("[")[0], ""))


DESCRIBED: Mapping[str, str] = {
    r"\b(?:arrays?|ndarray|array[-_]like)\b": "array",
    r"(?=.*\b(?:list|sequence|iterable|container|tuple)\b).*\b(?:ints?|integers?|indices|degrees|counts)\b": "wholes",
    r"(?=.*\b(?:list|sequence|iterable|container|tuple)\b).*\b(?:floats?|reals?|numbers?|weights)\b": "reals",
    r"(?=.*\b(?:list|sequence|iterable|container|tuple)\b).*\b(?:str|strings?)\b": "texts",
    r"\b(?:str|strings?)\b": "text",
    r"\bbytes\b": "octets",
}
"""Kind of values by what NumPy's or Google's style of docstrings says of an argument."""


def _kind_of_description(docstring: str, name: str) -> str:
    """Kind of values by the entry of an argument, `name : type` or `name (type):` with its lines; else empty."""
    entry = re.search(
        rf"^([ \t]*){re.escape(name)}(?:[ \t]*:|[ \t]*\()(.*(?:\n(?:\1[ \t]+\S.*|[ \t]*(?=\n)))*)",
        docstring,
        re.MULTILINE,
    )
    text = " ".join(entry[2].split()).lower() if entry else ""
    return next((kind for pattern, kind in DESCRIBED.items() if re.search(pattern, text)), "")


def _parse_arguments(call: str) -> Sequence[ast.expr]:
    """For scaffolding: the arguments of a call; none where that is no Python."""
    try:
        tree = ast.parse(f"f({call})", mode="eval").body
    except SyntaxError:
        return ()
    assert isinstance(tree, ast.Call)
    return tree.args


def _literals(call: str) -> tuple[object, ...]:
    """The arguments of a caller as values; what is no literal is None there."""
    values: list[object] = []
    for argument in _parse_arguments(call):
        try:
            values.append(ast.literal_eval(argument))
        except (ValueError, TypeError):
            values.append(None)
    return tuple(values)


def _kind_of_value(value: object) -> str:
    """For scaffolding: kind of values that an example is one of."""
    if isinstance(value, bool):
        return "flag"
    for sort, kind in ((str, "text"), (bytes, "octets"), (int, "whole"), (float, "real")):
        if isinstance(value, sort):
            return kind
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, int) for item in value):
            return "wholes"
        if all(isinstance(item, int | float) for item in value):
            return "reals"
    return ""
