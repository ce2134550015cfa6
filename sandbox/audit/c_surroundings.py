"""C, C++, CUDA and HIP: reaching into the process, and looking at how the code is being run."""

import re
from collections.abc import Iterator

from ridgeline.sandbox.audit import c_names, c_writes
from ridgeline.sandbox.audit.c_names import ASM
from ridgeline.sandbox.audit.c_source import CCall, CSource, strings
from ridgeline.sandbox.audit.python_surroundings import REPORTED, TESTING
from ridgeline.sandbox.audit.rules import Hit

READ = r"clock_gettime|gettimeofday|clock|times|omp_get_wtime|timespec_get|(?:cu|cuda|hip)EventElapsedTime\w*"
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
EXEC = r"exec[lv]p?e?|execvpe|fexecve|execveat"
EXIT_CALLS = frozenset({"231", "60", "SYS_exit", "SYS_exit_group", "__NR_exit", "__NR_exit_group"})
HARMLESS = re.compile(r"(?:SYS|__NR)_(?:arch_prctl|gettid|futex|getcpu|sched_\w+|set_mempolicy|mbind)$")
"""Calls of the system that kernels make: permission for matrix tiles, threads, the placement of memory."""
REPORTS = frozenset({"printf", "fprintf", "puts", "write", "dprintf", "fputs"})
SELF_TEST = re.compile(
    r"(?:\w+_)?(?:SELF_?(?:TEST|CHECK)|STANDALONE|UNIT_?TESTS?|TEST_MAIN|WITH_MAIN|BUILD_MAIN|DEMO_MAIN|MAIN)(?:_\w+)?"
)
FOREIGN = frozenset(
    {"ptrace", "process_vm_writev", "process_vm_readv", "__builtin_frame_address", "__builtin_return_address"}
)
METHODS = frozenset(
    {"clock", "times", "open", "signal", "connect", "clone", "exec", "system", "async", "sleep", "rename"}
)
"""Names that are also common as somebody's own methods or functions."""


def hits(source: CSource) -> Iterator[Hit]:
    """Every look at, or hand on, what is around the kernel."""
    defined = {function.name for function in source.functions}
    for call in source.calls:
        yield from _called(source, call, defined)
        yield from _by_argument(source, call)
    yield from c_names.hits(source)
    yield from c_writes.hits(source)
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


def _called(source: CSource, call: CCall, defined: set[str]) -> Iterator[Hit]:
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
        and name not in source.own
        and re.search(r"^(?:ref|reference|oracle|golden)(?:_|$)|_(?:ref|reference)$", name)
    ):
        yield Hit(rule="reads-reference", line=call.line)


def _of_its_own(source: CSource, call: CCall) -> bool:
    """Memory that no file stands behind, and a question for the processor's instructions."""
    words = {token.text for token in source.arguments(call)}
    if call.name.startswith("mmap"):
        return bool({"MAP_ANONYMOUS", "MAP_ANON"} & words) and {"-", "1"} <= words and "MAP_FIXED" not in words
    return call.name == "getauxval" and words <= {"AT_HWCAP", "AT_HWCAP2"} and bool(words)


def _ending(source: CSource, call: CCall) -> str:
    """The rule for a call that ends the process: with success, or with what cannot be told; empty for any other."""
    words = [token.text for token in source.arguments(call) if token.kind != "string"]
    first = words[: words.index(",")] if "," in words else words
    if re.fullmatch(EXEC, call.name):
        return "ends-process"
    if call.name == "syscall":
        if set(first) & EXIT_CALLS:
            return "ends-process"
        return "" if len(first) == 1 and HARMLESS.search(first[0]) else "raw-syscall"
    if call.name in {"pthread_exit", "thrd_exit"}:
        return "may-exit"
    ends = call.name in EXITS or (call.name in MESSAGES and not _own_name(source, call.name))
    if not ends or _declares(source, call):
        return ""
    if first in (["0"], ["EXIT_SUCCESS"], ["NULL"], ["false"]):
        return "ends-process"
    failed = first == ["EXIT_FAILURE"] or (len(first) in (1, 2) and re.fullmatch(r"-?0*[1-9]\d*", "".join(first)))
    return "" if failed or _of_an_error(source, call, first) else "may-exit"


def _own_name(source: CSource, name: str) -> bool:
    """Whether this file gives the name a meaning of its own, as a macro or as a function object."""
    bound = any(t.text == name and source.text(at - 1) in {"auto", "&"} for at, t in enumerate(source.tokens))
    return bound or any(macro.name == name for macro in c_names.macros(source))


def _of_an_error(source: CSource, call: CCall, words: list[str]) -> bool:
    """`if (code != cudaSuccess) ... exit(code)`: what is handed on was compared with success before."""
    around = source.around(call.at)
    begin = around.begin if around else max(0, call.at - 60)
    tested = {source.text(at - 1) for at in range(begin, call.at) if source.text(at) == "!="}
    return bool(words) and words[0] in tested and len(words) == 1


def _switched_off(source: CSource, line: int) -> bool:
    """Whether a line is only there for a program of its own, whose switch this file does not set."""
    own = {macro.name for macro in c_names.macros(source)}
    return any(SELF_TEST.fullmatch(name) and name not in own for name in source.guarded(line))


def _handed_on(source: CSource) -> Iterator[Hit]:
    """`atexit(exit)` or `void (*end)(int) = _exit`: the function itself, to be called by somebody."""
    for at, token in enumerate(source.tokens):
        named = token.kind == "name" and token.text in EXITS and source.text(at - 1) in {"=", "(", ",", "&", "{"}
        if named and source.text(at + 1) in {";", ")", ",", "}"}:
            yield Hit(rule="may-exit", line=token.line, soft=_switched_off(source, token.line))


def _declares(source: CSource, call: CCall) -> bool:
    """Whether a type stands before the name: then it is somebody's own, not the system's."""
    before = source.tokens[call.at - 1] if call.at else None
    return before is not None and before.kind == "name" and before.text not in {"return", "else", "do", "throw"}


def _by_argument(source: CSource, call: CCall) -> Iterator[Hit]:
    """What a call does is in the string that it is given."""
    told = list(strings(source.arguments(call)))
    if call.name in {"setenv", "putenv"} and any(text.startswith(("LD_PRELOAD", "LD_AUDIT")) for text in told[:1]):
        yield Hit(rule="preload", line=call.line)
    elif call.name in {"getenv", "secure_getenv"} and (not told or TESTING.search(told[0])):
        yield Hit(rule="mode-branch", line=call.line)
    elif call.name in {"system", "popen"} and any(re.search(r"\b(?:pkill|killall)\b", text) for text in told):
        yield Hit(rule="kills-others", line=call.line)
    elif call.name in {"fopen", "open", "open64", "openat", "fopen64", "opendir"} or source.text(call.at - 1) in {
        "ifstream",
        "ofstream",
        "fstream",
    }:
        yield from _path(told, call.line)
    elif call.name in REPORTS and any(REPORTED.search(t) for t in told) and not _switched_off(source, call.line):
        yield Hit(rule="fake-report", line=call.line)


def _path(told: list[str], line: int) -> Iterator[Hit]:
    for text in told[:1]:
        if OWN_MEMORY.search(text):
            yield Hit(rule="foreign-memory", line=line)
        elif text.startswith("/proc/self/cmdline") or text.startswith("/proc/self/environ"):
            yield Hit(rule="mode-branch", line=line)


def _assembly(source: CSource, at: int) -> Iterator[Hit]:
    """Assembly that is more than a name for a symbol."""
    step = at + 1
    while source.text(step) in {"volatile", "__volatile__", "goto", "inline"}:
        step += 1
    if source.text(step) == "(":
        told = " ".join(strings(tuple(source.tokens[step : source.closing(step)])))
        timed = re.search(r"\brdtscp?\b|globaltimer|s_memtime|s_memrealtime|%clock", told)
        system = re.search(
            r"\b(?:syscall|sysenter|svc)\b|\bint\s*\$?(?:0x80|128)\b|\.byte\s*(?:0x0?f|15|017)\s*,\s*(?:0x0?5|0?5)\b",
            told,
        )
        other = re.search(r"^\s*\.(?:include|incbin)\b|[;\n]\s*\.(?:include|incbin)\b", told)
        rule = "hidden-syscall" if system else "native-load" if other else "clock-read" if timed else "inline-asm"
        yield Hit(rule=rule, line=source.tokens[at].line)
