"""C, C++, CUDA and HIP: results kept between calls, streams nobody waits for, less work or less precision."""

import re
from collections.abc import Iterator

from ridgeline.sandbox.audit import c_kept
from ridgeline.sandbox.audit.c_source import OPEN, CFunction, CSource
from ridgeline.sandbox.audit.c_tokens import Token
from ridgeline.sandbox.audit.python_work import GROUPED, width
from ridgeline.sandbox.audit.rules import Hit

TABLES = frozenset({"map", "unordered_map", "flat_hash_map", "robin_map", "set", "unordered_set"})
POINTER_KEYS = frozenset(
    {"uintptr_t", "intptr_t", "void", "float", "half", "__half", "double", "scalar_t", "at", "torch"}
)
STREAM_MAKERS = re.compile(r"(?:cuda|hip)StreamCreate\w*|cuStreamCreate\w*|getStreamFromPool")
JOINS = re.compile(
    r"(?:cuda|hip)(?:StreamWaitEvent|StreamSynchronize|DeviceSynchronize|EventSynchronize)|cuStreamWaitEvent|cuStreamSynchronize"
    r"|block|synchronize|synchronize_stream"
)
LIBRARY = re.compile(
    r"(?:cublas|cudnn|cusparse|cusolver|hipblas|rocblas|miopen|hipsparse|cblas|mkl|dnnl|LAPACKE)\w*[A-Z_]\w*|[sdcz]gemm_?"
)
TORCH_WORK = frozenset(
    [
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "einsum",
        "linear",
        "softmax",
        "layer_norm",
        "conv2d",
        "scaled_dot_product_attention",
        "cumsum",
        "sort",
        "topk",
    ]
)
NARROWING = re.compile(
    r"__(?:float|float2|floats)2(?:half|bfloat16|bfloat162|half2)\w*|__nv_cvt_\w+|_mm\d*_cvtps_ph|_cvtss_sh|__double2half|__half22?float2?_rn"
    r"|__expf|__fdividef|__sinf|__cosf|__logf|__powf|__fsqrt_rn_ftz|CUBLAS_COMPUTE_32F_FAST\w*"
)
HALF_TYPES = frozenset(
    {"half", "__half", "_Float16", "__fp16", "__nv_bfloat16", "nv_bfloat16", "__hip_bfloat16", "tf32", "__bf16"}
)
LONGEST = 500
"""Tokens of a declaration that are looked at."""
COMPILE_TIME = re.compile(r"\bconstexpr\b|#\s*define|\btemplate\b|static_assert")
QUALIFIERS = frozenset({"const", "constexpr", "__constant__"})


def hits(source: CSource, *, dtype: str) -> Iterator[Hit]:
    """Every place where a call may do less than the whole work, now. `dtype`: of the contract's data."""
    statics = _statics(source)
    yield from _tables(source)
    yield from c_kept.hits(source, statics)
    yield from _device_state(source)
    yield from _streams(source)
    yield from _narrow(source, dtype)
    yield from _library(source)
    for function in source.functions:
        yield from _constant(source, function)
        yield from _early(source, function)
    compile_time = {number for number, line in enumerate(source.lines, start=1) if COMPILE_TIME.search(line)}
    for token in source.tokens:
        if token.line in compile_time and token.kind == "name" and GROUPED.fullmatch(token.text):
            yield Hit(rule="uniform-groups", line=token.line)


def _tables(source: CSource) -> Iterator[Hit]:
    """Tables by address: `std::unordered_map<const void*, ...>` in any spelling of the address."""
    takes_addresses = not source.places.keys().isdisjoint({"data_ptr", "reinterpret_cast", "const_data_ptr"})
    for at, token in enumerate(source.tokens):
        if token.kind != "name" or token.text not in TABLES or source.text(at + 1) != "<":
            continue
        key = _until(source, at + 2, {",", ">", ";"})
        by_address = "*" in key or POINTER_KEYS & {"uintptr_t", "intptr_t"} & set(key) or "Tensor" in key
        if by_address or (
            takes_addresses and set(key) & {"int64_t", "uint64_t", "size_t", "long", "string", "tuple", "pair"}
        ):
            yield Hit(rule="address-cache", line=token.line)


def _until(source: CSource, at: int, ends: set[str]) -> list[str]:
    words: list[str] = []
    while at < len(source.tokens) and source.text(at) not in ends and len(words) < 24:
        words.append(source.text(at))
        at += 1
    return words


def _statics(source: CSource) -> dict[str, Token]:
    """Variables that live from call to call and may change: `static` ones, and those of the file."""
    variables: dict[str, Token] = {}
    for at, token in enumerate(source.tokens):
        if token.text not in {"static", "thread_local"} or token.kind != "name":
            continue
        words = _until(source, at + 1, {";", "=", "{", "("})
        names = [w for w in words if re.fullmatch(r"[A-Za-z_]\w*", w)]
        is_variable = names and not _unchanging(words) and source.text(at + 1 + len(words)) != "("
        if is_variable:
            variables[_of_a_struct(source, at + 1 + len(words)) if "struct" in words else _variable(words)] = token
            variables.update(dict.fromkeys(_further(source, at + 1), token))
    for at, token in enumerate(source.tokens):
        if token.text in {";", "="} and token.kind == "op" and source.scopes[at] != "inner":
            words = _statement(source, at)
            if len(words) > 1 and not _unchanging(words) and "using" not in words and "typedef" not in words:
                variables.setdefault(_variable(words), token)
                for name in _further(source, at - len(words)) if token.text == ";" else ():
                    variables.setdefault(name, token)
    variables.pop("", None)
    return variables


def _further(source: CSource, at: int) -> Iterator[str]:
    """The second and later variables of the declaration that begins at a token; none for a function or a template."""
    in_initializer, step = False, at
    kinds = {"struct", "union", "enum"}
    latest = min(at + LONGEST, len(source.tokens) - 1)
    while step < latest and source.text(step) not in {";", "<", "#"}:
        word = source.text(step)
        in_initializer = in_initializer or word == "=" or word in kinds
        if word == "{" and not in_initializer:
            return
        if word in OPEN:
            step = source.closing(step)
        elif word == ",":
            while source.text(step + 1) in {"*", "const", "restrict", "__restrict__", "volatile"}:
                step += 1
            if re.fullmatch(r"[A-Za-z_]\w*", source.text(step + 1)):
                yield source.text(step + 1)
        step += 1


def _of_a_struct(source: CSource, at: int) -> str:
    """The variable behind `static struct { ... } room;`; what stands before the brace of another one."""
    if source.text(at) != "{":
        return source.text(at - 1)
    after = _until(source, source.closing(at) + 1, {";", "=", "{", "("})
    return after[0] if after else ""


def _unchanging(words: list[str]) -> bool:
    """Whether a declaration is of a constant; a pointer to constant data may itself be moved."""
    after = words[words.index("*") :] if "*" in words else words
    return bool(QUALIFIERS & set(after)) or bool({"constexpr", "__constant__"} & set(words))


def _variable(words: list[str]) -> str:
    """The name that a declaration is about: the last one before an array's bracket."""
    plain = words[: words.index("[")] if "[" in words else words
    names = [word for word in plain if re.fullmatch(r"[A-Za-z_]\w*", word)]
    return names[-1] if len(names) > 1 or (names and "*" in plain) else ""


def _statement(source: CSource, at: int) -> list[str]:
    words: list[str] = []
    for step in range(at - 1, max(-1, at - 24), -1):
        word = source.text(step)
        if word in {";", "}", "{", ")", "#", "="}:
            break
        words.append(word)
    return list(reversed(words))


def _device_state(source: CSource) -> Iterator[Hit]:
    """Changing variables of the device's own memory."""
    for at, token in enumerate(source.tokens):
        if token.text == "__device__" and source.scopes[at] != "inner":
            words = _until(source, at + 1, {";", "=", "{", "("})
            end = source.text(at + 1 + len(words))
            if end in {";", "=", "{"} and not QUALIFIERS & set(words) and "__forceinline__" not in words:
                yield Hit(rule="device-state", line=token.line)


def _streams(source: CSource) -> Iterator[Hit]:
    joined = any(JOINS.fullmatch(call.name) for call in source.calls)
    for call in source.calls:
        if STREAM_MAKERS.fullmatch(call.name) and not joined:
            yield Hit(rule="side-stream", line=call.line)


def _narrow(source: CSource, dtype: str) -> Iterator[Hit]:
    """Casts to fewer bits than the data has: for float these are half types, for double also float."""
    bits = width(dtype)
    if bits <= 16:
        return
    lines: set[int] = set()
    for at, token in enumerate(source.tokens):
        if token.kind != "name":
            continue
        cast = source.text(at - 1) == "(" and source.text(at + 1) == ")" and not _parameter_list(source, at)
        is_template_cast = source.text(at - 1) == "<" and source.text(at - 2) in {"static_cast", "__float2half"}
        narrow = token.text in HALF_TYPES or (bits > 32 and token.text == "float")
        tensor32 = token.text == "tf32" and source.text(at - 1) == "::"
        if (
            NARROWING.fullmatch(token.text) or tensor32 or (narrow and (cast or is_template_cast))
        ) and token.line not in lines:
            lines.add(token.line)
            yield Hit(rule="downgrade", line=token.line)


def _parameter_list(source: CSource, at: int) -> bool:
    return source.text(at + 2) in {";", "{"}


def _library(source: CSource) -> Iterator[Hit]:
    for call in source.calls:
        spaced = source.text(call.at - 1) == "::" and source.text(call.at - 2) in {"at", "torch", "functional"}
        handles = re.search(r"Create|Destroy|SetStream|Handle|GetErrorString|SetWorkspace", call.name)
        if (LIBRARY.fullmatch(call.name) and not handles) or (spaced and call.name in TORCH_WORK):
            yield Hit(rule="library-call", line=call.line)


def _constant(source: CSource, function: CFunction) -> Iterator[Hit]:
    """Writes through a pointer and never looks at the data it is given."""
    pointers = _pointers(function)
    if not any(constant for _, constant in pointers) or all(constant for _, constant in pointers):
        return
    used = _variables(source, function)
    data = [name for name, constant in pointers if constant]
    written = any(name in used for name, constant in pointers if not constant)
    if data and written and not any(name in used for name in data):
        yield Hit(rule="constant-output", line=source.tokens[function.at].line)


def _variables(source: CSource, function: CFunction) -> set[str]:
    """Names in a function's body that are no member of something else."""
    tokens = enumerate(source.tokens[function.begin : function.end], start=function.begin)
    return {t.text for at, t in tokens if t.kind == "name" and source.text(at - 1) not in {".", "->"}}


def _pointers(function: CFunction) -> list[tuple[str, bool]]:
    """Pointer parameters by name, and whether they are to constant data."""
    pointers: list[tuple[str, bool]] = []
    for part in function.parts:
        names = [w for w in part if re.fullmatch(r"[A-Za-z_]\w*", w)]
        if ("*" in part or "[" in part) and len(names) > 1:
            pointers.append((names[-1], "const" in part))
    return pointers


def _early(source: CSource, function: CFunction) -> Iterator[Hit]:
    """`if (n == 4096) return;`: a size against a number that is no border case."""
    for condition in source.conditions_before(function.end, function.end - function.begin):
        at, close = condition.at, condition.close
        inside = source.tokens[at + 2 : close]
        big = any(
            t.kind == "number" and re.fullmatch(r"\d+[uUlL]*", t.text) and int(t.text.rstrip("uUlL")) >= 64
            for t in inside
        )
        shifted = any(t.text == "<<" for t in inside)
        first_word = source.text(close + 1 + (source.text(close + 1) == "{"))
        if (
            (big or shifted)
            and first_word == "return"
            and not any(t.text in {"threadIdx", "blockIdx", "tid"} for t in inside)
        ):
            yield Hit(rule="size-branch", line=source.tokens[at].line)
