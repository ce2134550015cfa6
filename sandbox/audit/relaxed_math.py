"""Options that let a compiler or a processor change what floating-point arithmetic means: NaN, infinity, subnormals, order.

`-ffast-math` and its like may stand in files of flags, build files, pragmas, attributes, strings that a program compiles
with, and in settings of a library; some processors have a mode that flushes subnormals for everybody in the process.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from ridgeline.sandbox.audit.c_tokens import Token, join_lines, tokens
from ridgeline.sandbox.audit.own_files import C_LIKE
from ridgeline.sandbox.audit.rules import Hit

RULE = "relaxed-math"
_PARTS = (
    "fast-math|unsafe-math-optimizations|finite-math-only|associative-math|reciprocal-math|no-signed-zeros"
    "|no-honor-nans|no-honor-infinities|approx-func|cx-limited-range|single-precision-constant"
)
_OPTION = (
    rf"-Ofast|-f(?:{_PARTS})|-ffp-model=(?:fast|aggressive)|-fp-model[ =]fast\S*|/fp:fast|-mrecip(?:=\S+)?|-mdaz-ftz"
    r"|-fdenormal-fp-math(?:-f32)?=(?!ieee)\S+|-f(?:cuda|gpu)-flush-denormals-to-zero"
    r"|-fno-hip-fp32-correctly-rounded-divide-sqrt|-menable-(?:no-nans|no-infs|unsafe-fp-math)|-enable-unsafe-fp-math"
    r"|--?use_fast_math|--?ftz=true|--?prec-(?:div|sqrt)=false"
    r"|-cl-(?:fast-relaxed-math|unsafe-math-optimizations|finite-math-only|denorms-are-zero|no-signed-zeros)"
    r"|crtfastmath(?:\.o)?|--?xla_\w*fast_math\w*=(?:true|1)"
)
OPTION = re.compile(rf"(?<![\w-])(?:{_OPTION})(?![\w-])")
"""As options are written where a compiler is called."""
_SETTING = re.compile(r"\bfastmath\s*=\s*(?!False\b)\S|\bset_flush_denormal\s*\(\s*True")
"""Of Numba and of PyTorch."""
_WORD = re.compile(rf"{_OPTION}|Ofast|f?(?:{_PARTS})|v?ldmxcsr")
"""As they are written in strings of attributes, pragmas and assembly, between commas or blanks."""
_MODES = frozenset(
    {
        *("_MM_SET_FLUSH_ZERO_MODE", "_MM_SET_DENORMALS_ZERO_MODE", "_mm_setcsr", "__builtin_ia32_ldmxcsr"),
        *("FE_DFL_DISABLE_SSE_DENORMS_ENV", "FE_DFL_DISABLE_DENORMS_ENV"),
    }
)
"""What sets a processor's mode for subnormals."""
_OPTIMIZE = frozenset({"optimize", "__optimize__"})
_ATTRIBUTES = frozenset({"__attribute__", "__attribute", "gnu", "GCC", "__gnu__", "define"})
NEAR = 8
"""Tokens before `optimize` that say whether it is an attribute or a pragma, and behind `fp`."""


def hits_of_source(stream: Sequence[Token]) -> Iterator[Hit]:
    """The audit: relaxed arithmetic in a C-like source, by its tokens: one hit for each line that has any, with all that the line has."""
    yield from _by_line(_of_tokens(stream))


def hits_of_text(text: str) -> Iterator[Hit]:
    """The audit: relaxed arithmetic in any other text: build files, flags, Python. Lines that are comments do not count."""
    lines = enumerate(text.splitlines(), start=1)
    yield from _by_line(
        (number, match[0])
        for number, line in lines
        if not line.lstrip().startswith("#")
        for pattern in (OPTION, _SETTING)
        for match in pattern.finditer(line)
    )


def list_options(path: str, text: str) -> tuple[str, ...]:
    """The audit: every option of relaxed arithmetic that a file names, in the order of its lines."""
    if PurePosixPath(path).suffix.lower() in C_LIKE:
        return tuple(hit.code for hit in hits_of_source(tokens(*join_lines(text))))
    return tuple(hit.code for hit in hits_of_text(text))


def find_new_option(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The audit: the first option of relaxed arithmetic that changed files newly name, as `path: option`; empty where none is."""
    for path, text in after.items():
        if before.get(path) != text:
            earlier = set(list_options(path, before.get(path, "")))
            if option := next((option for option in list_options(path, text) if option not in earlier), ""):
                return f"{path}: {option}"
    return ""


def _by_line(places: Iterable[tuple[int, str]]) -> Iterator[Hit]:
    """An audit hit for each line; the same options on a line that changed otherwise are the same finding."""
    options: dict[int, set[str]] = {}
    for line, option in places:
        options.setdefault(line, set()).add(" ".join(option.split()))
    for line, names in sorted(options.items()):
        yield Hit(rule=RULE, line=line, code=" ".join(sorted(names)))


def _of_tokens(stream: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """The audit: line and option of each place: strings, attributes whose text is not plain, pragmas of clang, modes."""
    for at, token in enumerate(stream):
        if token.kind == "string":
            yield from (
                (token.line, word) for word in re.split(r"""[\s,;()"\\]+""", token.text) if _WORD.fullmatch(word)
            )
        elif token.kind == "name" and token.text in _MODES:
            yield token.line, token.text
        elif token.kind == "name" and token.text in _OPTIMIZE:
            yield from _unclear_attribute(stream, at)
        elif token.text == "fp" and [item.text for item in stream[max(0, at - 3) : at]] == ["#", "pragma", "clang"]:
            words = [item.text for item in stream[at + 1 : at + NEAR]]
            names = [
                name for name, _, value in zip(words, words[1:], words[2:], strict=False) if value in ("on", "true")
            ]
            yield from ((token.line, f"clang fp {name}") for name in names if name in ("reassociate", "reciprocal"))


def _unclear_attribute(stream: Sequence[Token], at: int) -> Iterator[tuple[int, str]]:
    """The audit: an `optimize` of an attribute or a pragma whose options are no plain strings: nobody can tell what they are."""
    if not _ATTRIBUTES & {item.text for item in stream[max(0, at - NEAR) : at]}:
        return
    if at + 1 >= len(stream) or stream[at + 1].text != "(":
        return
    for item in stream[at + 2 :]:
        if item.text == ")" and item.kind == "op":
            return
        if item.kind == "name":
            yield item.line, f"optimize({item.text})"
            return
