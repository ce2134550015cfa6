"""C, C++, CUDA and HIP: results kept between calls, streams nobody waits for, less work or less precision.

Workspaces are left from call to call as well: what a function fills before it hands it on is one.
"""

import re
from collections.abc import Iterable, Iterator

from ridgeline.sandbox.audit.c_source import CCall, CFunction, Condition, CSource, once_a_source, strings
from ridgeline.sandbox.audit.c_storage import LONGEST, QUALIFIERS, SCALARS, list_lasting_places
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
COMPILE_TIME = re.compile(r"\bconstexpr\b|#\s*define|\btemplate\b|static_assert")


def hits(source: CSource, *, dtype: str) -> Iterator[Hit]:
    """Audit of C work: every place where a call may do less than the whole work, now. `dtype`: of the contract's data."""
    yield from _tables(source)
    yield from find_kept_results(source)
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
    """The audit of C: tables by address: `std::unordered_map<const void*, ...>` in any spelling of the address."""
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


def _device_state(source: CSource) -> Iterator[Hit]:
    """The audit of C: changing variables of the device's own memory."""
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
    """The audit of C: casts to fewer bits than the data has: for float these are half types, for double also float."""
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
    """The audit of C: writes through a pointer and never looks at the data it is given."""
    pointers = _pointers(function)
    if not any(constant for _, constant in pointers) or all(constant for _, constant in pointers):
        return
    used = _variables(source, function)
    data = [name for name, constant in pointers if constant]
    written = any(name in used for name, constant in pointers if not constant)
    if data and written and not any(name in used for name in data):
        yield Hit(rule="constant-output", line=source.tokens[function.at].line)


def _variables(source: CSource, function: CFunction) -> set[str]:
    """Names in an audited C function's body that are no member of something else."""
    tokens = enumerate(source.tokens[function.begin : function.end], start=function.begin)
    return {t.text for at, t in tokens if t.kind == "name" and source.text(at - 1) not in {".", "->"}}


def _pointers(function: CFunction) -> list[tuple[str, bool]]:
    """Pointer parameters of audited C by name, and whether they are to constant data."""
    pointers: list[tuple[str, bool]] = []
    for part in function.parts:
        names = [w for w in part if re.fullmatch(r"[A-Za-z_]\w*", w)]
        if ("*" in part or "[" in part) and len(names) > 1:
            pointers.append((names[-1], "const" in part))
    return pointers


def _early(source: CSource, function: CFunction) -> Iterator[Hit]:
    """`if (n == 4096) return;` in audited C: a size against a number that is no border case."""
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


# What is left from an earlier call and given out, compared or counted.

COPIES = frozenset({"memcpy", "cudaMemcpy", "cudaMemcpyAsync", "hipMemcpy", "hipMemcpyAsync", "memmove", "copy_n"})

COMPARES = frozenset({"memcmp", "bcmp", "strcmp"})
VERSION = re.compile(r"v|ver\w*|\w*version|gen|generation|epoch|stamp|serial")
RESTRICTIONS = frozenset({"restrict", "__restrict__", "__restrict"})
LEAVES = frozenset({"return", "goto", "break", "continue", "longjmp"})


def find_kept_results(source: CSource) -> Iterator[Hit]:
    """The audit of C: a lasting variable is returned, copied to the output, compared with an argument, or counts the calls."""
    yield from _done_before(source)
    yield from _looks_at_output(source)
    reported: set[tuple[str, str]] = set()
    copies, compared = _arguments_of(source, COPIES), _arguments_of(source, COMPARES)
    for at in sorted(list_lasting_places(source)):
        if source.around(at) is None:
            continue
        token = source.tokens[at]
        rule = _use(source, at, token.text, copies.get(at), compared.get(at))
        if rule and (rule, token.text) not in reported:
            reported.add((rule, token.text))
            yield Hit(rule=rule, line=token.line)


def _arguments_of(source: CSource, functions: frozenset[str]) -> dict[int, CCall]:
    """The audit of C: for each token between the brackets of a call of one of those functions: the outermost such call."""
    where: dict[int, CCall] = {}
    end = -1
    for call in source.calls:
        if call.name in functions and call.at >= end:
            where |= dict.fromkeys(range(call.at + 1, call.end), call)
            end = call.end
    return where


def _use(source: CSource, at: int, name: str, copy: CCall | None, compared: CCall | None) -> str:
    before, after = source.text(at - 1), source.text(at + 1)
    is_returned = before == "return" and after in {";", "[", "."} and _gives_a_result(source, at)
    if (
        is_returned or _source_of_copy(source, at, copy) or _returns_before_filling(source, at, name)
    ) and not _workspace(source, at, name):
        return "kept-output"
    if compared and not (compared.name == "strcmp" and any(strings(source.arguments(compared)))):
        return "content-cache"
    if after == "=" and _remembers_pointer(source, at, name):
        return "address-cache"
    if "++" in (before, after) or (after == "+=" and source.text(at + 2) == "1"):
        return "call-count" if _decides(source, name) else ""
    if (before == "==" or after == "==") and _compared_with_argument(source, at):
        return "" if _of_a_version(source, at, name) else "address-cache"
    return ""


def _source_of_copy(source: CSource, at: int, copy: CCall | None) -> bool:
    """The audit of C: `memcpy(out, kept, n)` and the like: the second argument."""
    return copy is not None and source.text(at - 1) == "," and len(source.within(",", copy.at, at)) == 1


def _returns_before_filling(source: CSource, at: int, name: str) -> bool:
    """The audit of C: `c[i] = kept[i];` where only what follows stores into `kept` what the function is given."""
    function = source.around(at)
    if function is None or not function.works or source.text(at + 1) != "[":
        return False
    begin = at
    earliest = max(function.begin, at - LONGEST)
    while source.text(begin - 1) not in {";", "{", "}", ")"} and begin > earliest:
        begin -= 1
    if source.text(begin) not in function.outputs or not _is_stored(source, begin):
        return False
    return _last_refill(source, function.begin, name) > at


@once_a_source
def _last_refill(source: CSource, begin: int, name: str) -> int:
    """The audit of C: the last place in a function where it stores into the variable what it is given; -1 for none."""
    function = source.around(begin)
    assert function is not None
    parameters = _parameters(function)
    for step in reversed(source.within(name, begin, function.end)):
        end = _end_of_statement(source, step)
        if _is_stored(source, step) and parameters & set(source.names(source.closing(step + 1), end)):
            return step
    return -1


def _compared_with_argument(source: CSource, at: int) -> bool:
    """The audit of C: whether the other side of `==` is a parameter, which is an address where it has a `*`."""
    function = source.around(at)
    operand = source.text(at + 2) if source.text(at + 1) == "==" else source.text(at - 2)
    if function is None:
        return False
    return operand in function.pointers or operand in {"data_ptr", "ptr", "key"}


def _done_before(source: CSource) -> Iterator[Hit]:
    """The audit of C: `if (seen[n]) return;` in a function with inputs and outputs: its work was done by an earlier call."""
    lasting = list_lasting_places(source)
    for condition in source.conditions:
        close = condition.close
        braced = source.text(close + 1) == "{"
        ends = source.text(close + 1 + braced) == "return" and source.text(close + 2 + braced) == ";"
        function = source.around(condition.at)
        if ends and function is not None and function.works and _asks(source, condition, lasting):
            yield Hit(rule="call-count", line=source.tokens[condition.at].line)


def _asks(source: CSource, condition: Condition, lasting: frozenset[int], names: Iterable[str] = ()) -> bool:
    """The audit of C: whether a condition looks at a lasting variable; of these names, where there are any."""
    places = (at for name in names or condition.names for at in source.within(name, condition.at, condition.close))
    return any(at in lasting for at in places)


@once_a_source
def _list_tests(source: CSource, name: str) -> tuple[Condition, ...]:
    """The audit of C: the conditions that look at a lasting variable of that name."""
    lasting = list_lasting_places(source)
    asking = source.conditions_by_name.get(name, ())
    return tuple(condition for condition in asking if _asks(source, condition, lasting, (name,)))


@once_a_source
def _chooses(source: CSource, name: str) -> bool:
    """The audit of C: whether a lasting variable of that name stands shortly before a `?`."""
    places = list_lasting_places(source) & {*source.places.get(name, ())}
    return any(source.within("?", at, at + 9) for at in places)


def _looks_at_output(source: CSource) -> Iterator[Hit]:
    """The audit of C: a comparison with what an output holds before anything was written to it, as a result of an earlier call."""
    for function in source.functions:
        if not function.works:
            continue
        for name in function.outputs:
            places = source.within(name, function.begin, function.end)
            if places and source.text(places[0] + 1) == "[" and not _is_stored(source, places[0]):
                end = _end_of_statement(source, places[0])
                if {"<", ">", "==", "!=", "<=", ">="} & {source.text(step) for step in range(places[0], end)}:
                    yield Hit(rule="reads-output", line=source.tokens[places[0]].line)


def _gives_a_result(source: CSource, at: int) -> bool:
    """The audit of C: whether what is returned can be a result of the function's inputs: no number, and it has inputs."""
    function = source.around(at)
    if function is None:
        return False
    number = "*" not in function.before and any(SCALARS.fullmatch(word) for word in function.before)
    return not number and any(token.text in {"*", "[", "Tensor"} or "ensor" in token.text for token in function.head)


def _asked_about(source: CSource, at: int, name: str) -> bool:
    """The audit of C: whether the place stands under an `if` that looks at the lasting thing of that name, or compares contents."""
    for condition in source.conditions_before(at, 400):
        close = condition.close
        block_end = source.closing(close + 1) if source.text(close + 1) == "{" else _end_of_statement(source, close + 1)
        if close < at <= block_end and (name in condition.names or not condition.names.isdisjoint(COMPARES)):
            return True
    return False


def _end_of_statement(source: CSource, at: int) -> int:
    return next(iter(source.within(";", at, at + LONGEST)), min(at + LONGEST, len(source.tokens) - 1))


def _is_stored(source: CSource, at: int) -> bool:
    """The audit of C: `name[...] = ` or `name[...] +=`; a plain `name = ` gives it a place and no contents."""
    step = at + 1
    while source.text(step) == "[":
        step = source.closing(step) + 1
    return step > at + 1 and bool(re.fullmatch(r"[-+*/|&^]?=", source.text(step)))


def _remembers_pointer(source: CSource, at: int, name: str) -> bool:
    """The audit of C: `last = x;` for a parameter that is a pointer, where some condition asks about `last`."""
    function = source.around(at)
    if function is None or source.text(at + 3) != ";":
        return False
    tested = _list_tests(source, name) or _chooses(source, name)
    return source.text(at + 2) in function.pointers and bool(tested) and not _of_a_version(source, at, name)


@once_a_source
def _decides(source: CSource, name: str) -> bool:
    """Whether some condition of audited C asks for the counter, other than to keep it within its table or to set one up once."""
    has_condition = any(not _bookkeeping(source, condition.at, name) for condition in _list_tests(source, name))
    return has_condition or _chooses(source, name)


def _bookkeeping(source: CSource, at: int, name: str) -> bool:
    """The audit of C: `if (++next == 4) next = 0;`, `if (n < MOST) table[n++] = entry;` and `if (!ready++)` before a table's loop."""
    close = source.closing(at + 1)
    begin, end = _body(source, close + 1)
    if source.text(end + 1) == "else":
        return False
    words = [token.text for token in source.tokens[begin:end]]
    while words[-1:] == [";"]:
        words.pop()
    function = source.around(at)
    parameters = _parameters(function) if function else set()
    if words == [name, "=", "0"]:
        return True
    if words[1:6] == ["[", name, "++", "]", "="]:
        return words[0] not in parameters and ";" not in words
    once = [token.text for token in source.tokens[at + 2 : close]] == ["!", name, "++"]
    return (
        once
        and not (_handed_on(source, parameters) | parameters | LEAVES) & set(words)
        and not _calls(source, begin, end)
    )


def _parameters(function: CFunction) -> set[str]:
    """The audit of C: names of what a C function takes: each the last one before a comma, or before an array's bracket."""
    names: set[str] = set()
    name = ""
    for token in function.head:
        if token.text == "," and name:
            names.add(name)
        name = (
            token.text if token.kind == "name" and token.text not in RESTRICTIONS else "" if token.text == "," else name
        )
    return names | ({name} if name else set())


def _body(source: CSource, at: int) -> tuple[int, int]:
    """The audit of C: the C statement that begins at a token: its first token, and the `;` or bracket that ends it."""
    begin = at
    while source.text(at) in {"for", "while"} and source.text(at + 1) == "(":
        at = source.closing(at + 1) + 1
    if source.text(at) == "{":
        return (begin + 1 if at == begin else begin), source.closing(at)
    return begin, _end_of_statement(source, at)


def _handed_on(source: CSource, parameters: set[str]) -> set[str]:
    """The audit of C: names that a parameter was assigned to anywhere: through them a body reaches what it is given."""
    uses = (at for name in parameters for at in source.places.get(name, ()))
    return {source.text(at - 2) for at in uses if source.text(at - 1) == "="}


def _calls(source: CSource, begin: int, end: int) -> bool:
    """Whether functions of the audited C file are called in between, which may do anything."""
    return any(call.name in source.own_functions for call in source.calls_between(begin, end))


def _of_a_version(source: CSource, at: int, name: str) -> bool:
    """The audit of C: whether every condition on the pointer asks for a version that the caller gives as well: a packed weight."""
    function = source.around(at)
    return function is not None and _asked_with_a_version(source, function.begin, name)


@once_a_source
def _asked_with_a_version(source: CSource, begin: int, name: str) -> bool:
    function = source.around(begin)
    assert function is not None
    version_names = {token.text for token in function.head if token.kind == "name" and VERSION.fullmatch(token.text)}
    conditions = source.conditions_by_name.get(name, ())
    tested_names = [test.names for test in conditions if function.begin <= test.at < function.end]
    return bool(tested_names) and all(version_names & names for names in tested_names)


def _workspace(source: CSource, at: int, name: str) -> bool:
    """The audit of C: whether the function filled the variable on the way to this place, which does not hang on what it held before."""
    function = source.around(at)
    return (
        function is not None and not _asked_about(source, at, name) and _first_fill(source, function.begin, name) < at
    )


@once_a_source
def _first_fill(source: CSource, begin: int, name: str) -> int:
    """The audit of C: the first place in a function behind which it has stored into the variable or handed it to a call.

    The number of tokens where there is none. A call that only compares does not fill.
    """
    function = source.around(begin)
    assert function is not None
    names = {name} | {
        source.text(step - 2)  # `float *p = kept;`
        for step in source.within(name, begin + 3, function.end)
        if [source.text(step + by) for by in (-3, -1, 1)] == ["*", "=", ";"]
    }
    stored = (
        step for variable in names for step in source.within(variable, begin, function.end) if _is_stored(source, step)
    )
    passed = (
        call.end
        for step in source.within(name, begin, function.end)
        for call in source.holding(step)
        if begin < call.at and call.name not in COMPARES
    )
    return min((*stored, *passed), default=len(source.tokens))
