"""C, C++, CUDA and HIP: reaching into the process, storing into its inputs, and looking at how it is being run."""

import functools
import re
from bisect import bisect_left
from collections.abc import Iterator

from ridgeline.sandbox.audit import c_names
from ridgeline.sandbox.audit.c_names import ASM, CHANNELS, CLOCKS, JUDGES
from ridgeline.sandbox.audit.c_source import CCall, CFunction, CSource, strings
from ridgeline.sandbox.audit.python_surroundings import REPORTED, TESTING
from ridgeline.sandbox.audit.rules import Hit

READ = r"clock_gettime|gettimeofday|clock|times|omp_get_wtime|timespec_get|(?:cu|cuda|hip)EventElapsedTime\w*"
STORES = re.compile(r"[-+*/%&|^]?=")
FILLS = frozenset({"memset", "memcpy", "memmove"})
OWN_MEMORY = re.compile(r"/proc/(?:self|\d+|%d|thread-self)/(?:mem|maps|fd|task)")
NAMED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        (
            "clock-read",
            READ + r"|__rdtscp?|_rdtsc|clock64|wall_clock64|__builtin_readcyclecounter|__globaltimer\w*",
        ),
        ("sleeps", r"usleep|nanosleep|sleep|clock_nanosleep|sleep_for|sleep_until|sched_yield"),
        ("starts-process", r"system|popen|_?fork|_Fork|vfork|clone|posix_spawnp?|daemon|setsid"),
        ("thread", r"pthread_create|thrd_create|async|jthread"),
        ("network", r"socket|connect|getaddrinfo|sendto|recvfrom"),
        ("native-load", r"dlopen|dlmopen|dlsym|cuModuleLoad\w*|hipModuleLoad\w*|LoadLibrary\w*"),
        (
            "file-access",
            r"fopen|fopen64|freopen|open|open64|openat|creat|mmap|mmap64|shm_open|memfd_create|ofstream|ifstream|fstream|shmget|rename|unlink"
            r"|mkdir|rmdir|opendir|semget|msgget|sem_open|mq_open",
        ),
        ("runs-at-load", r"atexit|at_quick_exit|on_exit|signal|sigaction"),
        (
            "clock-control",
            r"nvmlDeviceSet\w*|rsmi_dev_\w*_set|amdsmi_set_\w*|cudaDeviceSetLimit|hipDeviceSetLimit|cudaCtxResetPersistingL2Cache",
        ),
        ("global-setting", r"fesetround|_mm_setcsr|_MM_SET_\w+|cudaDeviceSetCacheConfig"),
        ("patched-library", r"mprotect|dup2|LD_PRELOAD|fopencookie|register_printf_\w+"),
        ("mode-branch", r"readlink|getppid|getpid|prctl|fcntl|fstat(?:64)?|isatty|getauxval"),
        ("capture-branch", r"(?:cuda|hip)Stream(?:IsCapturing|GetCaptureInfo\w*)|currentStreamCaptureStatus\w*"),
        ("reads-seed", r"srand|srandom|manual_seed"),
    )
)
EXITS = frozenset({"exit", "_exit", "_Exit", "quick_exit"})
MESSAGES = frozenset({"err", "errx", "verr", "verrx"})
"""Print a line and end the process with their first argument."""
NOT_OWN = frozenset(
    {"_IO_list_all", "_GLOBAL_OFFSET_TABLE_", "_r_debug", "__libc_stack_end", "__bss_start", "__data_start", "_edata"}
)
"""Variables of the C library and the linker, from which all of a process's streams, calls and data can be reached."""
EXEC = re.compile(r"exec[lv]p?e?|execvpe|fexecve|execveat")
ENDINGS = EXITS | MESSAGES | {"syscall", "pthread_exit", "thrd_exit"}
EXIT_CALLS = frozenset({"231", "60", "SYS_exit", "SYS_exit_group", "__NR_exit", "__NR_exit_group"})
HARMLESS = re.compile(r"(?:SYS|__NR)_(?:arch_prctl|gettid|futex|getcpu|sched_\w+|set_mempolicy|mbind)$")
"""Calls of the system that kernels make: permission for matrix tiles, threads, the placement of memory."""
REPORTS = frozenset({"printf", "fprintf", "puts", "write", "dprintf", "fputs"})
OPENING = frozenset({"fopen", "open", "open64", "openat", "fopen64", "opendir"})
STREAMS = frozenset({"ifstream", "ofstream", "fstream"})
TOLD = OPENING | REPORTS | {"setenv", "putenv", "getenv", "secure_getenv", "system", "popen"}
SELF_TEST = re.compile(
    r"(?:\w+_)?(?:SELF_?(?:TEST|CHECK)|STANDALONE|UNIT_?TESTS?|TEST_MAIN|WITH_MAIN|BUILD_MAIN|DEMO_MAIN|MAIN)(?:_\w+)?"
)
FOREIGN = frozenset(
    {"ptrace", "process_vm_writev", "process_vm_readv", "__builtin_frame_address", "__builtin_return_address"}
)
MOST_PIECES = 12
"""Tokens of a call that are put together to see whether they make a name."""
VALUE_AFTER = frozenset({"=", "(", ",", "&", "{", "return", "?", ":", ")", "["})
VALUE_BEFORE = frozenset({";", ")", ",", "}", ":", "]"})
"""Between what a function's name is a value, to be called elsewhere."""
SENSITIVE = re.compile(
    "|".join(
        (
            *(pattern.pattern for _, pattern in NAMED),
            CLOCKS.pattern,
            JUDGES.pattern,
            CHANNELS.pattern,
            EXEC.pattern,
            *FOREIGN,
        )
    )
)
METHODS = frozenset(
    {"clock", "times", "open", "signal", "connect", "clone", "exec", "system", "async", "sleep", "rename"}
)
"""Names that are also common as somebody's own methods or functions."""


def hits(source: CSource) -> Iterator[Hit]:
    """Audit of C surroundings: every look at, or hand on, what is around the kernel."""
    defined = {function.name for function in source.functions}
    for call in source.calls:
        yield from _hits_of_call(source, call, defined)
        if call.end - call.at < MOST_PIECES and call.name not in defined and _puts_together(source, call):
            yield Hit(rule="hidden-name", line=call.line)
        yield from _by_argument(source, call)
    yield from c_names.hits(source)
    yield from _writes(source)
    yield from _mentions(source)
    yield from (Hit(rule="hidden-name", line=line) for line in source.unread)
    if source.too_deep:
        yield Hit(rule="unreadable", line=source.too_deep, code="brackets too deep to be read")
    yield from _handed_on(source)
    for at, token in enumerate(source.tokens):
        if token.kind == "name" and token.text in {
            "program_invocation_name",
            "__progname",
            "program_invocation_short_name",
        }:
            yield Hit(rule="mode-branch", line=token.line)
        elif token.kind == "name" and token.text in NOT_OWN:
            yield Hit(rule="foreign-memory", line=token.line)
        elif token.kind == "name" and token.text in ASM:
            yield from _assembly(source, at)
        elif token.text == "thread" and source.text(at - 1) == "::" and source.text(at - 2) == "std":
            yield Hit(rule="thread", line=token.line)


def _hits_of_call(source: CSource, call: CCall, defined: set[str]) -> Iterator[Hit]:
    name = call.name
    before = source.text(call.at - 1)
    method = before in {".", "->"} or name in defined or (name in METHODS and _declares(source, call))
    if name.endswith("ifstream") or source.text(call.at - 1) == "ifstream":
        method = False
    if name in FOREIGN and not method:
        yield Hit(rule="foreign-memory", line=call.line)
        return
    if not method and (ending := _ending(source, call)):
        yield Hit(rule=ending, line=call.line, soft=_switched_off(source, call.line))
        return
    if name == "kill" and not method and source.text(call.at + 2) == "getppid":
        yield Hit(rule="kills-others", line=call.line)
    if method:
        return
    for rule, pattern in NAMED:
        if pattern.fullmatch(name) and not _of_its_own(source, call):
            yield Hit(rule=rule, line=call.line)
            return
    standard = before == "::" and source.text(call.at - 2) == "std"
    if (
        not standard
        and name not in source.own_names
        and re.search(r"^(?:ref|reference|oracle|golden)(?:_|$)|_(?:ref|reference)$", name)
    ):
        yield Hit(rule="reads-reference", line=call.line)


def _mentions(source: CSource) -> Iterator[Hit]:
    """The audit of C: `#define K fopen`, `p = fopen;` and `(fopen)(...)`: the function under a name or in a place that calls may use."""
    for word, where in source.places.items():
        rule = rule_of(word)
        if not rule or word in source.own_functions:
            continue
        for at in where:
            value = source.text(at - 1) in VALUE_AFTER and source.text(at + 1) in VALUE_BEFORE
            if source.text(at + 1) != "(" and (value or source.in_macro(at)):
                yield Hit(rule=rule, line=source.tokens[at].line)


@functools.lru_cache(maxsize=4096)
def rule_of(word: str) -> str:
    """The audit of C: the rule for calling a function of the system; empty for other names, and for those that anybody may use."""
    return "" if word in METHODS else next((rule for rule, pattern in NAMED if pattern.fullmatch(word)), "")


def _puts_together(source: CSource, call: CCall) -> bool:
    """The audit of C: `__CONCAT(fo, pen)`: arguments that a macro from elsewhere would make a name of, which falls under some rule."""
    inside = source.tokens[call.at + 2 : call.end]
    words, commas = inside[::2], inside[1::2]
    if len(words) < 2 or len(words) != len(commas) + 1 or any(token.text != "," for token in commas):
        return False
    joined = "".join(token.text for token in words if token.kind in {"name", "number"})
    pieces = all(token.kind in {"name", "number"} for token in words)
    return pieces and joined not in source.own_functions and SENSITIVE.fullmatch(joined) is not None


def _of_its_own(source: CSource, call: CCall) -> bool:
    """The audit of C: memory that no file stands behind, and a question for the processor's instructions."""
    words = {token.text for token in source.arguments(call)}
    if call.name.startswith("mmap"):
        return bool({"MAP_ANONYMOUS", "MAP_ANON"} & words) and {"-", "1"} <= words and "MAP_FIXED" not in words
    return call.name == "getauxval" and words <= {"AT_HWCAP", "AT_HWCAP2"} and bool(words)


def _ending(source: CSource, call: CCall) -> str:
    """The audit of C: the rule for a call that ends the process: with success, or with what cannot be told; empty for any other."""
    if EXEC.fullmatch(call.name):
        return "ends-process"
    if call.name not in ENDINGS:
        return ""
    words = [token.text for token in source.arguments(call) if token.kind != "string"]
    status = words[: words.index(",")] if "," in words else words
    if call.name == "syscall":
        if set(status) & EXIT_CALLS:
            return "ends-process"
        if status[:1] == ["long"] and "long" not in source.macro_names | {macro.name for macro in source.borrowed}:
            return ""  # what declares it says a type, where a call gives a number
        return "" if len(status) == 1 and HARMLESS.search(status[0]) else "raw-syscall"
    if call.name in {"pthread_exit", "thrd_exit"}:
        return "may-exit"
    ends = call.name in EXITS or (call.name in MESSAGES and not _own_name(source, call.name))
    if not ends or _declares(source, call):
        return ""
    if status in (["0"], ["EXIT_SUCCESS"], ["NULL"], ["false"]):
        return "ends-process"
    failed = status == ["EXIT_FAILURE"] or (len(status) in (1, 2) and re.fullmatch(r"-?0*[1-9]\d*", "".join(status)))
    return "" if failed or _of_an_error(source, call, status) else "may-exit"


def _own_name(source: CSource, name: str) -> bool:
    """Whether an audited C file gives the name a meaning of its own, as a macro or as a function object."""
    return name in source.macro_names or any(source.text(at - 1) in {"auto", "&"} for at in source.places[name])


def _of_an_error(source: CSource, call: CCall, words: list[str]) -> bool:
    """The audit of C: `if (code != cudaSuccess) ... exit(code)`: what is handed on was compared with success before."""
    around = source.around(call.at)
    begin = around.begin if around else max(0, call.at - 60)
    tested = source.unequal.get(words[0], []) if len(words) == 1 else []
    return bisect_left(tested, begin) < bisect_left(tested, call.at)


def _switched_off(source: CSource, line: int) -> bool:
    """The audit of C: whether a line is only there for a program of its own, whose switch this file does not set."""
    is_self_test = (
        SELF_TEST.fullmatch(name) and name not in source.macro_names for name in source.switches_around(line)
    )
    return any(is_self_test)


def _handed_on(source: CSource) -> Iterator[Hit]:
    """The audit of C: `atexit(exit)` or `void (*end)(int) = _exit`: the function itself, to be called by somebody."""
    for at in sorted(at for name in EXITS for at in source.places.get(name, ())):
        token = source.tokens[at]
        is_value = token.kind == "name" and source.text(at - 1) in {"=", "(", ",", "&", "{"}
        if is_value and source.text(at + 1) in {";", ")", ",", "}"}:
            yield Hit(rule="may-exit", line=token.line, soft=_switched_off(source, token.line))


def _declares(source: CSource, call: CCall) -> bool:
    """The audit of C: whether a type stands before the name: then it is somebody's own, not the system's."""
    before = source.tokens[call.at - 1] if call.at else None
    return before is not None and before.kind == "name" and before.text not in {"return", "else", "do", "throw"}


def _by_argument(source: CSource, call: CCall) -> Iterator[Hit]:
    """Audit hits for C calls of which the string that they are given says what they do."""
    if call.name not in TOLD and source.text(call.at - 1) not in STREAMS:
        return
    texts = list(strings(source.arguments(call)))
    if call.name in {"setenv", "putenv"} and any(text.startswith(("LD_PRELOAD", "LD_AUDIT")) for text in texts[:1]):
        yield Hit(rule="preload", line=call.line)
    elif call.name in {"getenv", "secure_getenv"} and (not texts or TESTING.search(texts[0])):
        yield Hit(rule="mode-branch", line=call.line)
    elif call.name in {"system", "popen"} and any(re.search(r"\b(?:pkill|killall)\b", text) for text in texts):
        yield Hit(rule="kills-others", line=call.line)
    elif call.name in OPENING or source.text(call.at - 1) in STREAMS:
        yield from _path(texts, call.line)
    elif call.name in REPORTS and any(REPORTED.search(t) for t in texts) and not _switched_off(source, call.line):
        yield Hit(rule="fake-report", line=call.line)


def _path(texts: list[str], line: int) -> Iterator[Hit]:
    for text in texts[:1]:
        if OWN_MEMORY.search(text):
            yield Hit(rule="foreign-memory", line=line)
        elif text.startswith("/proc/self/cmdline") or text.startswith("/proc/self/environ"):
            yield Hit(rule="mode-branch", line=line)


def _assembly(source: CSource, at: int) -> Iterator[Hit]:
    """The audit of C: assembly that is more than a name for a symbol."""
    step = at + 1
    while source.text(step) in {"volatile", "__volatile__", "goto", "inline"}:
        step += 1
    if source.text(step) == "(":
        instructions = " ".join(strings(tuple(source.tokens[step : source.closing(step)])))
        timed = re.search(r"\brdtscp?\b|globaltimer|s_memtime|s_memrealtime|%clock", instructions)
        system = re.search(
            r"\b(?:syscall|sysenter|svc)\b|\bint\s*\$?(?:0x80|128)\b|\.byte\s*(?:0x0?f|15|017)\s*,\s*(?:0x0?5|0?5)\b",
            instructions,
        )
        includes_file = re.search(r"^\s*\.(?:include|incbin)\b|[;\n]\s*\.(?:include|incbin)\b", instructions)
        rule = (
            "hidden-syscall" if system else "native-load" if includes_file else "clock-read" if timed else "inline-asm"
        )
        yield Hit(rule=rule, line=source.tokens[at].line)


def _writes(source: CSource) -> Iterator[Hit]:
    """The audit of C: `((float *)x)[i] = 0` and its kin, for a parameter that is a pointer to constant data."""
    for function in source.functions:
        constant, through = _constant(function), dict[str, int]()
        if constant:
            for start, end in _casts(source, function, constant):
                if _is_stored(source, start, end) or _stored_by_name(source, function, start, through):
                    yield Hit(rule="foreign-memory", line=source.tokens[start].line)


def _constant(function: CFunction) -> set[str]:
    """The audit of C: parameters that are pointers to constant data; a constant pointer to data is none."""
    names: set[str] = set()
    for part in function.parts:
        star = part.index("*") if "*" in part else len(part)
        if {"*", "["} & set(part) and "const" in part[:star] and part.count("*") < 2:
            names |= set([name for name in part if re.fullmatch(r"[A-Za-z_]\w*", name)][-1:])
    return names


def _casts(source: CSource, function: CFunction, constant: set[str]) -> Iterator[tuple[int, int]]:
    """First and last token of each cast of a parameter to a pointer that is not to constant data, in audited C."""
    for at in source.within("(", function.begin, function.end):
        close = source.closing(at)
        is_pointer_cast = source.text(close - 1) == "*" and source.text(close + 1) in constant
        if is_pointer_cast and not source.within("const", at + 1, close):
            yield at, close + 1
    for at in source.within("const_cast", function.begin, function.end):
        step = next(iter(source.within("(", at, min(at + 100, function.end))), at)
        if source.text(step + 1) in constant and source.closing(step) == step + 2:
            yield at, step + 2


def _is_stored(source: CSource, start: int, end: int) -> bool:
    """The audit of C: whether the expression is assigned to at once, or filled by a function of the C library."""
    while source.text(start - 1) == "(" and source.text(start - 2) not in FILLS and source.text(end + 1) == ")":
        start, end = start - 1, end + 1
    after = source.text(end + 1)
    if after == "[":
        return _is_assigned(source, source.closing(end + 1) + 1)
    if source.text(start - 1) == "(" and source.text(start - 2) in FILLS:
        return True
    if source.text(start - 1) == "(" and source.text(start - 2) == "*" and _begins(source, start - 2):
        return _is_assigned(source, source.closing(start - 1) + 1)
    return source.text(start - 1) == "*" and _begins(source, start - 1) and _is_assigned(source, end + 1)


def _stored_by_name(source: CSource, function: CFunction, start: int, through: dict[str, int]) -> bool:
    """The audit of C: `float *room = (float *)x;` and later `room[i] = 0` or `*room = 0`.

    `through` keeps the last such place of each name.
    """
    if source.text(start - 1) != "=" or source.tokens[start - 2].kind != "name":
        return False
    name = source.text(start - 2)
    if name not in through:
        through[name] = _last_store(source, function, name)
    return through[name] >= start


def _last_store(source: CSource, function: CFunction, name: str) -> int:
    """The audit of C: the last place in a function where something is stored through a pointer; -1 for none."""
    for at in reversed(source.within(name, function.begin, function.end)):
        step = at + 1 + (source.text(at + 1) in {"++", "--"})
        if source.text(step) == "[" and _is_assigned(source, source.closing(step) + 1):
            return at
        if source.text(at - 1) == "*" and _begins(source, at - 1) and _is_assigned(source, step):
            return at
    return -1


def _is_assigned(source: CSource, at: int) -> bool:
    return bool(STORES.fullmatch(source.text(at))) or source.text(at) in {"++", "--"}


def _begins(source: CSource, at: int) -> bool:
    """The audit of C: whether a `*` in C stands where a statement begins: there it is no product and no declaration."""
    return source.text(at - 1) in {";", "{", "}", ")", "else", "do"}
