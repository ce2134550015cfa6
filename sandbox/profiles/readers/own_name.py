"""A function's own name, which every profiler tells, however much of the signature it writes around it."""

import re

_ENDINGS = re.compile(r"(\s*\[clone [^\]]*\]|\s*\(\.kd\)|\.kd)+\s*$")
_UNNAMED = re.compile(r"(<unnamed>|\(anonymous namespace\)|\{anonymous\})::")
_PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}


def own_name(name: str) -> str:
    """`void at::f<4, T>(int) [clone .kd]` -> `f`: no return type, scope, templates, arguments or loader's ending.

    The name itself where nothing would be left.
    """
    plain = _UNNAMED.sub("", _ENDINGS.sub("", name.strip().removeprefix("; ").strip('"')))
    bare = _outside(plain)
    words = bare.rpartition("::")[2].split()
    return words[-1] if words else name


def _outside(text: str) -> str:
    """What stands outside all brackets, up to the first one that opens arguments."""
    kept: list[str] = []
    open_: list[str] = []
    for sign in text:
        if open_:
            if sign == open_[-1]:
                open_.pop()
            elif sign in _PAIRS:
                open_.append(_PAIRS[sign])
        elif sign == "(":
            break
        elif sign in _PAIRS:
            open_.append(_PAIRS[sign])
        else:
            kept.append(sign)
    return "".join(kept)
