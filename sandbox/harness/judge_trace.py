"""Inside a worker that is not timed: notes who computes, or replaces the candidate's own kernels by nothing.

What is noted is a claim, like everything that a worker says. With the kernels replaced, the claim is tested: the output
must turn wrong, and that the judge sees for itself; what their arguments hold then, others have put there.
Needs the standard library and the candidate's own stack.
"""

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

MOST_NAMES = 200
"""Of one kind in the report."""
EVENTS = {
    "ctypes.dlopen": "loads",
    "subprocess.Popen": "starts",
    "os.system": "starts",
    "os.exec": "starts",
    "os.fork": "starts",
    "os.posix_spawn": "starts",
    "socket.connect": "connects",
}
"""Events of `sys.audit` that are noted, and as what."""
COMPILERS = ("torch._inductor", "torch.utils.cpp_extension", "numba", "cupy", "jax", "tensorflow", "scipy", "cffi")
"""Modules that compute or compile; noted when the candidate has them loaded."""
METHODS = "dot sort argsort partition argpartition cumsum cumprod argmax argmin searchsorted take choose trace round"
"""Of arrays of NumPy that compute without telling a subclass."""
SEEN = "PythonDispatchMode"
"""The profiler's name for our list of operators: what ran outside of it was hidden from it."""
NO_WORK = ("resolve_conj", "resolve_neg", "requires_grad_", "retain_grad", "_version", "output_nr", "is_leaf")


class Log:
    """What was seen, by kind and name: how often, and of how many array elements."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, list[int]]] = {}
        self.quiet = 0
        """Above zero while the harness works, not the candidate."""
        self.compiling = 0
        """Above zero while a kernel may be compiled, which loads and starts things."""

    def add(self, kind: str, name: str, elements: int = 0) -> None:
        """Inside a traced worker: note one call."""
        names = self.counts.setdefault(kind, {})
        full = len(names) >= MOST_NAMES
        if self.quiet or (self.compiling and kind in EVENTS.values()) or (name not in names and full):
            return
        counted = names.setdefault(name, [0, 0])
        counted[0] += 1
        counted[1] += elements

    @contextlib.contextmanager
    def launching(self, compiled: bool) -> Iterator[None]:
        """Inside a traced worker: around a launch. An interpreted kernel is the candidate's code like any other."""
        self.compiling += compiled
        try:
            yield
        finally:
            self.compiling -= compiled


_log = Log()
_launches = import_module("judge_launches").Launches(_log)
_before: set[str] = set()
_profiles: list[Any] = []
_dead: list[bool] = []
"""Not empty where kernels are replaced."""


def install(mode: str) -> None:
    """Inside a traced worker: prepare this process before the candidate is imported. `mode`: trace or knockout."""
    for name in (__name__, "judge_launches"):
        sys.modules.pop(name, None)  # a candidate shall not see by a name how it is run
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    torch = import_module("torch") if find_spec("torch") else None
    if find_spec("triton"):
        _launches.hold(dead=mode == "knockout")
    if mode != "trace":
        _dead.append(True)
        return
    numpy = import_module("numpy") if find_spec("numpy") else None
    watched = _make_watched_array(numpy) if numpy is not None else None
    if torch is not None:
        _watch_operators(torch)
        _watch_escapes(torch, watched)
    _ask_ahead(torch)
    _before.update(sys.modules)
    sys.addaudithook(_audit)


def _ask_ahead(torch: Any) -> None:
    """Inside a traced worker: what PyTorch and Triton look up once for all: they load and start things for it, for whoever asks.

    A kernel that walks over tiles asks PyTorch how many multiprocessors there are, which loads NVML to count the cards; one
    that is tuned has Triton look for the driver's library.
    """
    if torch is None or not torch.cuda.is_initialized():
        return
    torch.cuda.get_device_properties(0)
    # no Triton, or another one: a candidate that asks is seen to load what it loads
    with contextlib.suppress(Exception):
        import_module("triton.runtime").driver.active.get_current_target()


def forget_tensors(slot: int) -> None:
    """Inside a traced worker: forgets the tensors of a slot: its arrays are made anew."""
    _launches.forget_tensors(slot)


def adopt(language: Any, mode: str) -> None:
    """Inside a traced worker: know the task's tensors, and watch arrays and calls. What is returned there is looked at by nobody."""
    wrap, torch = language.wrap, sys.modules.get("torch")
    watched = _make_watched_array(import_module("numpy")) if mode == "trace" and find_spec("numpy") else None

    def wrap_and_note(*arguments: Any) -> Any:
        array = wrap(*arguments)
        if torch is not None and type(array) is torch.Tensor:
            tensors = _launches.task_tensors.setdefault(_launches.slot, [])
            tensors.append((array.data_ptr(), array.data_ptr() + array.nbytes, array))
        return array.view(watched) if watched is not None and type(array) is watched.__base__ else array

    language.wrap = wrap_and_note
    if mode == "knockout":
        _survive(language)
    if mode == "trace":
        language.returns = False
        if torch is not None:
            _record_calls(language, torch)


def _survive(language: Any) -> None:
    """Inside a worker without kernels: what a candidate raises ends nothing: it could be raised to hide what they were given."""
    entry, finishing = language.entry, language.finish
    raised: list[bool] = []

    def run_guarded(*arguments: Any) -> Any:
        raised[:] = [True]
        with contextlib.suppress(Exception, SystemExit):
            result = entry(*arguments)
            raised.clear()
            return result
        return None

    def finish(*facts: Any) -> Any:
        finisher = finishing(*facts)
        return lambda result: "" if raised else finisher(result)

    language.entry, language.finish = run_guarded, finish


def _record_calls(language: Any, torch: Any) -> None:
    """Inside a traced worker: have PyTorch's profiler, below Python and in every thread, note the operators of each call."""
    entry = language.entry
    profile = import_module("torch.autograd.profiler").profile
    settings = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)

    def record(*arguments: Any) -> Any:
        profiler = profile(record_shapes=True, experimental_config=settings)
        profiler.__enter__()
        try:
            return entry(*arguments)
        finally:
            try:
                profiler.__exit__(None, None, None)
                _profiles.append(profiler)
            except (RuntimeError, AssertionError):
                _log.add("oddities", "ends the profiler")

    language.entry = record


def _hidden(events: Iterable[Any]) -> None:
    """Inside a traced worker: note operators that no list saw: neither the event itself, nor one in it."""
    for event in events:
        space, _, name = event.name.rpartition("::")
        if event.name == SEEN:
            continue
        if not space or _saw(event):
            _hidden(event.cpu_children)
        elif space not in ("profiler", "autograd") and name not in NO_WORK:
            _log.add("operators", f"{space}.{name}", sum(map(_elements, event.input_shapes or ())))


def _saw(event: Any) -> bool:
    return event.name == SEEN or any(map(_saw, event.cpu_children))


def _elements(shape: Any) -> int:
    """Inside a traced worker: elements of one argument, which may be a list of tensors; of a number, none."""
    if any(isinstance(part, list | tuple) for part in shape):
        return sum(map(_elements, shape))
    return math.prod(shape) if shape else 0


def only_calls(language: Any) -> None:
    """Inside a traced worker: note nothing but what a call itself does: on a card the harness uses PyTorch between calls."""
    entry = language.entry
    _log.quiet += 1

    def call_noted(*arguments: Any) -> Any:
        _log.quiet -= 1
        try:
            return entry(*arguments)
        finally:
            _log.quiet += 1

    language.entry = call_noted


def report() -> bytes:
    """Inside a traced worker, as JSON: everything noted since `install`; without kernels, what their arguments held since."""
    if _dead:
        text = json.dumps({"held": [*_launches.samples]}).encode()
        _launches.samples.clear()
        _launches.sampled_keys.clear()
        return text
    while _profiles:
        _hidden(event for event in _profiles.pop().function_events if event.cpu_parent is None)
    loaded = [name for name in sys.modules if name not in _before and name in COMPILERS]
    for name in loaded:
        _log.counts.setdefault("modules", {})[name] = [1, 0]
    return json.dumps(_log.counts).encode()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Inside a traced worker: a hook of `sys.audit`: called for everything that the interpreter does to the outside."""
    if event in EVENTS:
        _log.add(EVENTS[event], str(arguments[0] if arguments else "")[:200])


def _size(value: Any) -> int:
    """Inside a traced worker: elements of the arrays in an argument or a result."""
    if isinstance(value, list | tuple):
        return sum(_size(part) for part in value)
    counted = getattr(value, "numel", None)
    if callable(counted):
        return int(counted())
    size = getattr(value, "size", 0)
    return size if isinstance(size, int) else 0


def _watch_operators(torch: Any) -> None:
    """Inside a traced worker: note PyTorch's operators in this thread, with results. The profiler sees those of others."""

    def dispatch(mode: Any, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        _log.add("operators", str(getattr(operator, "overloadpacket", operator)), max(_size(args), _size(result)))
        return result

    base = import_module("torch.utils._python_dispatch").TorchDispatchMode
    # else the first operator would import the compiler of PyTorch, which takes seconds
    body = {"__torch_dispatch__": dispatch, "_should_skip_dynamo": classmethod(lambda cls: False)}
    kind = type("Mode", (base,), body)
    kind().__enter__()


def _watch_escapes(torch: Any, watched: Any) -> None:
    """Inside a traced worker: note tensors taken to where their operators are not PyTorch's; NumPy's are watched there."""

    def leaving(method: str) -> Callable[..., Any]:
        plain = getattr(torch.Tensor, method)

        def left(tensor: Any, *arguments: Any, **options: Any) -> Any:
            result = plain(tensor, *arguments, **options)
            if _log.quiet or sys._getframe(1).f_globals.get("__name__", "").startswith("triton."):
                return result
            _log.add("escapes", f"Tensor.{method}", tensor.numel())
            return result.view(watched) if method == "numpy" and watched is not None else result

        return left

    for method in ("numpy", "__array__", "__dlpack__"):
        setattr(torch.Tensor, method, leaving(method))


def _make_watched_array(numpy: Any) -> Any:
    """Inside a traced worker: a subclass of ndarray that notes which functions of NumPy are called with it."""
    bare = numpy.ndarray

    def unwrap(value: Any) -> Any:
        if isinstance(value, bare):
            return value.view(bare)
        return type(value)(map(unwrap, value)) if type(value) in (list, tuple) else value

    def rewrap(value: Any) -> Any:
        if isinstance(value, bare):
            return value.view(kind)
        return tuple(map(rewrap, value)) if type(value) is tuple else value

    def ufunc(self: Any, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        result = getattr(function, method)(*unwrap(inputs), **{name: unwrap(part) for name, part in options.items()})
        _log.add("functions", f"numpy.{function.__name__}", max(_size(inputs), _size(result)))
        return rewrap(result)

    def function(self: Any, called: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = called(*unwrap(args), **{name: unwrap(part) for name, part in kwargs.items()})
        name = f"numpy.{called.__name__}" + ("_where" if kwargs.get("where", True) is not True else "")
        _log.add("functions", name, max(_size(args), _size(result)))
        return rewrap(result)

    def noting(method: str) -> Callable[..., Any]:
        def note(self: Any, *args: Any, **options: Any) -> Any:
            result = getattr(unwrap(self), method)(*unwrap(args), **options)
            _log.add("functions", f"numpy.{method}", max(_size(self), _size(args), _size(result)))
            return rewrap(result)

        return note

    methods = {method: noting(method) for method in METHODS.split()}
    kind = type("ndarray", (bare,), {"__array_ufunc__": ufunc, "__array_function__": function, **methods})
    return kind
