"""What a kernel's name says: a short form for people, and whether it is the program's work or a helper's."""

import re
from collections.abc import Sequence

from ridgeline.graph.kernel_profile import KernelCategory

TORCH = "torch profiler"
"""The tool whose times and launches stand on a rung of their own."""
ESTIMATED = "est. achieved occupancy %"
"""What torch computes of a launch and measures nowhere."""
_ENDINGS = re.compile(r"(\s*\[clone [^\]]*\]|\s*\(\.kd\)|\.kd)+\s*$")
_LONG = 100
_PATTERNS: Sequence[tuple[KernelCategory, re.Pattern[str]]] = (
    ("comm", re.compile(r"nccl|rccl|mscclpp|all_?reduce|all_?gather|reduce_?scatter|cross_device_reduce", re.I)),
    ("copy", re.compile(r"copyBuffer|\bmemcpy|copyImage|direct_copy_kernel|float16_copy_kernel", re.I)),
    ("fill", re.compile(r"fillBuffer|\bmemset|fillImage|FillFunctor", re.I)),
    ("rng", re.compile(r"distribution_(elementwise|nullary)|philox|hiprand|curand|rocrand|random_(from|kernel)", re.I)),
    ("runtime", re.compile(r"^_*amd_rocclr_|^__hip_|^__ockl_|initHeap|gwsInit|^streamOps", re.I)),
)


def category(name: str) -> KernelCategory:
    """Reading a profile: what kind of work a kernel is, by the names that runtimes and frameworks give their helpers."""
    head = name if len(name) <= 2000 else name[:2000]
    return next((kind for kind, pattern in _PATTERNS if pattern.search(head)), "compute")


def display(name: str) -> str:
    """Reading a profile: the name without arguments, return type and `.kd`; template arguments only where they stay short."""
    text = _ENDINGS.sub("", name).strip()
    text = _without_arguments(text).removeprefix("void ")
    if len(text) > _LONG:
        text = _without_templates(text)
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."


def _without_arguments(text: str) -> str:
    """Reading a profile: cuts the last balanced pair of parentheses, if it is an argument list and not `(anonymous namespace)`."""
    close = text.rfind(")")
    if close < 0 or text[close + 1 :].strip() not in ("", "const"):
        return text
    depth = 0
    for at in range(close, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth == 0:
            inner = text[at : close + 1]
            return text if at == 0 or inner == "(anonymous namespace)" else text[:at].rstrip()
    return text


def _without_templates(text: str) -> str:
    pieces: list[str] = []
    depth = 0
    for letter in text.replace("(anonymous namespace)::", ""):
        if letter == "<":
            depth += 1
            pieces.extend("<...>" if depth == 1 else "")
        elif letter == ">" and depth:
            depth -= 1
        elif not depth:
            pieces.append(letter)
    return "".join(pieces) if not depth else text


# A function's own name, which every profiler tells, however much of the signature it writes around it.

_NAME_ENDINGS = re.compile(r"(\s*\[clone [^\]]*\]|\s*\(\.kd\)|\.kd)+\s*$")
_UNNAMED = re.compile(r"(<unnamed>|\(anonymous namespace\)|\{anonymous\})::")
_PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}


def own_name(name: str) -> str:
    """Reading a profile: `void at::f<4, T>(int) [clone .kd]` -> `f`: no return type, scope, templates, arguments or loader's ending.

    The name itself where nothing would be left.
    """
    plain = _UNNAMED.sub("", _NAME_ENDINGS.sub("", name.strip().removeprefix("; ").strip('"')))
    bare = _outside(plain)
    words = bare.rpartition("::")[2].split()
    return words[-1] if words else name


def _outside(text: str) -> str:
    """Reading a profile: what stands outside all brackets, up to the first one that opens arguments."""
    pieces: list[str] = []
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
            pieces.append(sign)
    return "".join(pieces)
