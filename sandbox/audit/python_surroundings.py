"""Looking at or working on what is around a call: files, processes, clocks, the way it is being run."""

import ast
import re
from collections.abc import Iterator

from ridgeline.sandbox.audit.python_source import PythonSource
from ridgeline.sandbox.audit.rules import Hit

NAMED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        ("caller-look", r"inspect\.(?:stack|currentframe|getouterframes|trace)|sys\._current_frames"
         r"|traceback\.\w*stack\w*"),
        ("clock-read", r"time\.(?:time|perf_counter|monotonic|process_time)(?:_ns)?|timeit\..+"
         r"|datetime\.datetime\.(?:now|utcnow)"),
        ("sleeps", r"time\.sleep|torch\.cuda\._sleep|asyncio\.sleep|select\.select"),
        ("starts-process", r"subprocess\..+|os\.(?:system|popen|fork|forkpty"
            r"|spawn\w+|posix_spawnp?|setsid|kill|killpg)"
         r"|multiprocessing\..+"
         r"|concurrent\.futures\.ProcessPoolExecutor|torch\.multiprocessing\..+|pty\.\w+"),
        ("thread", r"threading\.(?:Thread|Timer)|_thread\.start_new_thread|concurrent\.futures\.ThreadPoolExecutor"),
        ("network", r"socket\..+|urllib\..+|requests\..+|httpx?\..+|ftplib\..+|aiohttp\..+|torch\.hub\..+"),
        ("native-load", r"ctypes\.(?:CDLL|PyDLL|cdll\..+|pydll\..+|WinDLL|util\..+)|cffi\..+"
         r"|torch\.ops\.load_library|torch\.classes\.load_library"),
        ("file-access", r"open|io\.open|os\.(?:open|mkdir|makedirs|listdir|scandir|remove|rename|unlink|replace|symlink"
         r"|link)|shutil\..+"
         r"|tempfile\..+|mmap\..+"
         r"|torch\.(?:load|save|from_file)|numpy\.(?:_?core\.\w+\.)?(?:load|save|memmap|fromfile|savez\w*|loadtxt|savetxt"
         r"|genfromtxt)|linecache\..+|pickle\.(?:load|dump)|shelve\..+|sqlite3\..+"
         r"|multiprocessing\.shared_memory\..+|pathlib\.Path"),
        ("reads-seed", r"torch\.(?:manual_seed|seed|initial_seed|get_rng_state|set_rng_state|random\..+"
         r"|cuda\.(?:manual_seed\w*|get_rng_state\w*|initial_seed))"
         r"|(?:numpy\.random|random)\.(?:seed|getstate|setstate|get_state|set_state)"),
        ("runs-at-load", r"atexit\.register|sys\.(?:settrace|setprofile|addaudithook)|faulthandler\..+"),
        ("clock-control", r"pynvml\..+Set.+|torch\.cuda\.(?:set_per_process_memory_fraction|cudart)"),
        ("patched-library", r"os\.(?:dup2|dup)|sys\.meta_path\..+|importlib\.reload|torch\.library\.(?:impl|Library)"),
    )
)  # fmt: skip
EXEC = re.compile(r"os\.exec\w+|pytest\.exit")
"""Puts another program in this one's place, or stops the tests."""
TESTING = re.compile(r"BENCH|PYTEST|^CI$|POPCORN|EVAL|GRADE|PROFIL|TIMING|HARNESS|GITHUB|KERNELBENCH", re.IGNORECASE)
WORDS = re.compile(r"bench|pytest|test|eval|grade|profil|timing|perf", re.IGNORECASE)
REFERENCE = re.compile(
    r"(?:^|\.)(?:ref|reference|oracle|golden|harness|grader|evaluator|eval|bench\w*|benchmark\w*|tests?|conftest|run_eval|task"
    r"|(?:test|ref|reference|bench|eval)_\w+|\w+_(?:ref|reference|test|bench|benchmark|oracle))(?:\.|$)"
)
REPORTED = re.compile(r"speed-?up|\bPASS(?:ED)?\b|\b(?:median|latency|tflops|gb/s)\b", re.IGNORECASE)


def hits(source: PythonSource) -> Iterator[Hit]:
    """Audit of Python surroundings: every look at them; what only runs when the file is started as a program is left alone."""
    for node in source.nodes:
        if not isinstance(node, ast.expr | ast.stmt) or source.is_guarded(node):
            continue
        match node:
            case ast.Call():
                yield from _hits_of_call(source, node)
            case ast.Attribute():
                yield from _hits_of_attribute(source, node)
                yield from _handed_on(source, node)
            case ast.Name(ctx=ast.Load()):
                yield from _handed_on(source, node)
            case ast.Raise(exc=ast.Name(id="SystemExit")):
                yield Hit(rule="may-exit", line=node.lineno)
            case ast.Import() | ast.ImportFrom():
                yield from _reference_imports(source, node)


def _reference_imports(source: PythonSource, node: ast.Import | ast.ImportFrom) -> Iterator[Hit]:
    """The audit of Python: the reference, the test or the benchmark as a module."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        is_reference = any(REFERENCE.search(name) and name not in source.own_names for name in names)
    else:
        module = node.module or ""
        if "." * node.level + module in source.own_names:
            return
        full_name = bool(REFERENCE.search(module)) or any(REFERENCE.fullmatch(name) for name in names)
        is_reference = bool(module) and not _is_framework(module) and full_name
    if is_reference:
        yield Hit(rule="reads-reference", line=node.lineno)


def _is_framework(module: str) -> bool:
    """The audit of Python: modules of the frameworks themselves, some of which have such words in their names."""
    return module.split(".")[0] in {"torch", "triton", "numpy", "typing", "collections", "functools", "jax"}


def _hits_of_call(source: PythonSource, call: ast.Call) -> Iterator[Hit]:
    name, line = source.dotted(call.func), call.lineno
    for rule, pattern in NAMED:
        if name and pattern.fullmatch(name) and not (_building(source, call, rule) or _registering(source, call, name)):
            yield Hit(rule=rule, line=line)
            break
    else:
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"tofile", "fromfile"}:
            yield Hit(rule="file-access", line=line)
    yield from _find_exits(source, call, name)
    yield from _find_mode_probes(source, call, name)
    yield from _find_report_words(source, call)


def _handed_on(source: PythonSource, node: ast.Attribute | ast.Name) -> Iterator[Hit]:
    """The audit of Python: `atexit.register(os._exit, 0)`: the function itself, to be called by somebody."""
    around = source.parents.get(node)
    if isinstance(around, ast.Attribute) or (isinstance(around, ast.Call) and around.func is node):
        return
    if isinstance(node, ast.Name) and not isinstance(source.binding(node, node.id), str):
        return
    name = source.dotted(node)
    if name == "os._exit" or EXEC.fullmatch(name):
        yield Hit(rule="ends-process", line=node.lineno)


def _building(source: PythonSource, call: ast.Call, rule: str) -> bool:
    """The audit of Python: a path that is only put together, as extensions do to name their sources."""
    return (
        rule == "file-access"
        and source.dotted(call.func) == "pathlib.Path"
        and not isinstance(source.parents.get(call), ast.Attribute)
    )


def _registering(source: PythonSource, call: ast.Call, name: str) -> bool:
    """The audit of Python: operators of a library of one's own."""
    own_handler = len(call.args) > 1 and source.constant(call.args[1]) in {"DEF", "FRAGMENT"}
    return name == "torch.library.Library" and own_handler


def _find_exits(source: PythonSource, call: ast.Call, name: str) -> Iterator[Hit]:
    """Findings of a candidate that ends itself with success, or other processes."""
    status = call.args[0] if call.args else None
    failed = isinstance(status, ast.Constant) and isinstance(status.value, int) and status.value != 0
    if (name == "os._exit" and not failed) or EXEC.fullmatch(name):
        yield Hit(rule="ends-process", line=call.lineno)
    elif (
        name == "sys._getframe" and status is not None and not (isinstance(status, ast.Constant) and status.value == 0)
    ):
        yield Hit(rule="caller-look", line=call.lineno)
    elif name in {"sys.exit", "os.abort"} or (_own_word(source, call.func) in {"exit", "quit", "SystemExit"}):
        yield Hit(rule="may-exit", line=call.lineno)
    elif name == "os.kill" and _someone_else(source, status):
        yield Hit(rule="kills-others", line=call.lineno)
    elif name in {"os.system", "subprocess.run", "subprocess.call", "subprocess.Popen", "os.popen"}:
        words = " ".join(text for node in ast.walk(call) if (text := source.constant(node)))
        if re.search(r"\b(?:pkill|killall)\b", words):
            yield Hit(rule="kills-others", line=call.lineno)


def _own_word(source: PythonSource, node: ast.expr) -> str:
    """Whether a name of audited Python has no meaning in the file: a builtin."""
    return node.id if isinstance(node, ast.Name) and source.binding(node, node.id) is None else ""


def _someone_else(source: PythonSource, who: ast.expr | None) -> bool:
    return isinstance(who, ast.Call) and source.dotted(who.func) == "os.getppid"


def _find_mode_probes(source: PythonSource, call: ast.Call, name: str) -> Iterator[Hit]:
    """Findings of a candidate that reads environment variables that say what the run is for."""
    if name in {"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.__contains__"} and call.args:
        variable = source.constant(call.args[0])
        if variable is None or TESTING.search(variable):
            yield Hit(rule="mode-branch", line=call.lineno)
    elif name.endswith("is_current_stream_capturing"):
        yield Hit(rule="capture-branch", line=call.lineno)
    elif name in {"psutil.Process", "os.getppid"}:
        yield Hit(rule="mode-branch", line=call.lineno)


def _hits_of_attribute(source: PythonSource, node: ast.Attribute) -> Iterator[Hit]:
    """The audit of Python: `sys.argv`, `os.environ["CI"]`, and loaded modules asked for by name."""
    name = source.dotted(node)
    around = source.parents.get(node)
    if name in {"sys.argv", "sys.orig_argv"}:
        yield Hit(rule="mode-branch", line=node.lineno)
    elif name == "os.environ" and not isinstance(around, ast.Attribute):
        member = source.constant(around.slice) if isinstance(around, ast.Subscript) else _member(source, around)
        reads = not (isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Store | ast.Del))
        if reads and (member is None or TESTING.search(member)):
            yield Hit(rule="mode-branch", line=node.lineno)
    elif (name == "sys.modules" and (member := _member(source, around)) and WORDS.search(member)) or name in {
        "__main__.__file__",
        "ctypes.pythonapi",
    }:
        yield Hit(rule="mode-branch", line=node.lineno)


def _member(source: PythonSource, around: ast.AST | None) -> str | None:
    return source.constant(around.left) if isinstance(around, ast.Compare) else None


def _find_report_words(source: PythonSource, call: ast.Call) -> Iterator[Hit]:
    """Findings of a candidate that prints words that stand in a benchmark's report."""
    called = source.dotted(call.func) or (call.func.id if isinstance(call.func, ast.Name) else "")
    writes = called in {"print", "os.write", "sys.stdout.write", "sys.stderr.write"}
    texts = (n.value for arg in call.args for n in ast.walk(arg) if isinstance(n, ast.Constant))
    if writes and any(
        REPORTED.search(t if isinstance(t, str) else t.decode("latin1")) for t in texts if isinstance(t, str | bytes)
    ):
        yield Hit(rule="fake-report", line=call.lineno)
