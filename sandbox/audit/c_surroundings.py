"""C, C++, CUDA and HIP: reaching into the process, and looking at how the code is being run."""

import re
from collections.abc import Iterator

from sandbox.audit.c_source import CCall, CSource, strings
from sandbox.audit.python_surroundings import REFERENCE, REPORTED, TESTING
from sandbox.audit.rules import Hit

CLOCKS = re.compile(
    r"clock_gettime|gettimeofday|clock|times|omp_get_wtime|timespec_get|clock_getres"
    r"|(?:cu|cuda|hip)Event(?:ElapsedTime|Record|RecordWithFlags|Synchronize|Query)(?:_v2|_ptsz|_spt)?|(?:cuda|hip)(?:DeviceSynchronize|StreamSynchronize)"
    r"|cu(?:CtxSynchronize|StreamSynchronize)|mach_absolute_time|QueryPerformanceCounter"
)
READ = r"clock_gettime|gettimeofday|clock|times|omp_get_wtime|timespec_get|(?:cu|cuda|hip)EventElapsedTime\w*"
JUDGES = re.compile(r"memcmp|strcmp|fabs|fabsf|printf|puts|exit")
OWN_MEMORY = re.compile(r"/proc/(?:self|\d+|%d|thread-self)/(?:mem|maps|fd|task)")
ASM = frozenset({"asm", "__asm__", "__asm"})
NAMED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        (
            "clock-read",
            READ + r"|__rdtscp?|_rdtsc|clock64|wall_clock64|__builtin_readcyclecounter|__globaltimer\w*",
        ),
        ("sleeps", r"usleep|nanosleep|sleep|clock_nanosleep|sleep_for|sleep_until|sched_yield"),
        ("starts-process", r"system|popen|fork|vfork|clone|exec[lv]p?e?|posix_spawnp?|daemon|setsid"),
        ("thread", r"pthread_create|thrd_create|async|jthread"),
        ("network", r"socket|connect|getaddrinfo|sendto|recvfrom"),
        ("native-load", r"dlopen|dlmopen|dlsym|cuModuleLoad\w*|hipModuleLoad\w*|LoadLibrary\w*"),
        (
            "file-access",
            r"fopen|fopen64|freopen|open|open64|openat|creat|mmap|mmap64|shm_open|memfd_create|ofstream|ifstream|fstream|shmget|rename|unlink",
        ),
        ("runs-at-load", r"atexit|at_quick_exit|on_exit|signal|sigaction"),
        (
            "clock-control",
            r"nvmlDeviceSet\w*|rsmi_dev_\w*_set|amdsmi_set_\w*|cudaDeviceSetLimit|hipDeviceSetLimit|cudaCtxResetPersistingL2Cache",
        ),
        ("global-setting", r"fesetround|_mm_setcsr|_MM_SET_\w+|cudaDeviceSetCacheConfig"),
        ("patched-library", r"mprotect|dup2|LD_PRELOAD"),
        ("mode-branch", r"readlink|getppid|getpid|prctl"),
        ("capture-branch", r"(?:cuda|hip)Stream(?:IsCapturing|GetCaptureInfo\w*)|currentStreamCaptureStatus\w*"),
        ("reads-seed", r"srand|srandom|manual_seed"),
    )
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
    yield from _defined(source)
    yield from _directives(source)
    for at, token in enumerate(source.tokens):
        if token.kind == "name" and token.text in {
            "program_invocation_name",
            "__progname",
            "program_invocation_short_name",
        }:
            yield Hit(rule="mode-branch", line=token.line)
        elif token.kind == "name" and token.text in ASM:
            yield from _assembly(source, at)
        elif (
            token.kind == "name"
            and token.text in {"constructor", "destructor", "init_priority"}
            and source.text(at - 1) == "("
        ):
            yield Hit(rule="runs-at-load", line=token.line)
        elif token.text == "thread" and source.text(at - 1) == "::" and source.text(at - 2) == "std":
            yield Hit(rule="thread", line=token.line)


def _called(source: CSource, call: CCall, defined: set[str]) -> Iterator[Hit]:
    name = call.name
    before = source.text(call.at - 1)
    method = before in {".", "->"} or name in defined or (name in METHODS and _declares(source, call))
    if name.endswith("ifstream") or source.text(call.at - 1) == "ifstream":
        method = False
    if name in {"ptrace", "process_vm_writev", "process_vm_readv"} and not method:
        yield Hit(rule="foreign-memory", line=call.line)
        return
    if name in {"_exit", "_Exit", "quick_exit"} and not method and source.text(call.at + 2) == "0":
        yield Hit(rule="ends-process", line=call.line)
    elif name == "kill" and not method and source.text(call.at + 2) == "getppid":
        yield Hit(rule="kills-others", line=call.line)
    if method:
        return
    for rule, pattern in NAMED:
        if pattern.fullmatch(name):
            yield Hit(rule=rule, line=call.line)
            return
    if re.search(r"^(?:ref|reference|oracle|golden)(?:_|$)|_(?:ref|reference)$", name):
        yield Hit(rule="reads-reference", line=call.line)


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
    elif call.name in {"printf", "fprintf", "puts", "write", "dprintf", "fputs"} and any(
        REPORTED.search(t) for t in told
    ):
        yield Hit(rule="fake-report", line=call.line)


def _path(told: list[str], line: int) -> Iterator[Hit]:
    for text in told[:1]:
        if OWN_MEMORY.search(text):
            yield Hit(rule="foreign-memory", line=line)
        elif text.startswith("/proc/self/cmdline") or text.startswith("/proc/self/environ"):
            yield Hit(rule="mode-branch", line=line)


def _defined(source: CSource) -> Iterator[Hit]:
    """Functions under a name that the harness calls; at file scope they take the place of the system's."""
    for function in source.functions:
        words = function.before
        hidden = "static" in words or "::" in words or "inline" in words or "__device__" in words
        if hidden or source.scopes[function.at] != "global":
            continue
        line = source.tokens[function.at].line
        common = function.name in {"clock", "times"} and "clock_t" not in words  # a kernel may be called `times`
        if CLOCKS.fullmatch(function.name) and not common:
            yield Hit(rule="replaced-clock", line=line)
        elif JUDGES.fullmatch(function.name):
            yield Hit(rule="replaced-judge", line=line)
        elif function.name in {
            "malloc",
            "free",
            "calloc",
            "realloc",
            "memcpy",
            "memset",
            "dlsym",
            "cudaMalloc",
            "hipMalloc",
        }:
            yield Hit(rule="patched-library", line=line)


def _directives(source: CSource) -> Iterator[Hit]:
    for line, text in source.directives:
        defined = re.match(r"#\s*define\s+(\w+)", text)
        included = re.match(r"#\s*include\s*[<\"]([^>\"]+)", text)
        if defined and _renamed(text):
            continue
        if defined and CLOCKS.fullmatch(defined[1]):
            yield Hit(rule="replaced-clock", line=line)
        elif defined and JUDGES.fullmatch(defined[1]) and defined[1] not in {"printf", "puts"}:
            yield Hit(rule="replaced-judge", line=line)
        elif included and REFERENCE.search(re.sub(r"\.\w+$", "", included[1]).replace("/", ".")):
            yield Hit(rule="reads-reference", line=line)
        elif re.match(r"#\s*pragma\b.*(?:fast-?math|Ofast|unsafe-math|fp_contract\s*\(\s*fast)", text):
            yield Hit(rule="downgrade", line=line)


def _renamed(text: str) -> bool:
    """A macro that gives one runtime's call the name of another's, as ports between CUDA and HIP do."""
    match = re.match(r"#\s*define\s+(?:cuda|hip|cu)?(\w+)\s+(.*)", text)
    return bool(match and re.search(rf"\b(?:cuda|hip|cu)?{re.escape(match[1])}\b", match[2]))


def _assembly(source: CSource, at: int) -> Iterator[Hit]:
    """Assembly that is more than a name for a symbol."""
    step = at + 1
    while source.text(step) in {"volatile", "__volatile__", "goto", "inline"}:
        step += 1
    if source.text(step) == "(":
        told = " ".join(strings(tuple(source.tokens[step : source.closing(step)])))
        timed = re.search(r"\brdtscp?\b|globaltimer|s_memtime|s_memrealtime|%clock", told)
        yield Hit(rule="clock-read" if timed else "inline-asm", line=source.tokens[at].line)
