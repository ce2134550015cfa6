"""Inside a worker that is not timed: notes who computes, or replaces the candidate's own kernels by nothing.

What is noted is a claim, like everything that a worker says. With the kernels replaced, the claim is tested: the output
must turn wrong, and that the judge sees for itself. Needs the standard library and the candidate's own stack.
"""

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
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


class Log:
    """What was seen, by kind and name: how often, and of how many array elements."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, list[int]]] = {}
        self.quiet = 0
        """Above zero while the harness or an interpreter works, not the candidate."""

    def add(self, kind: str, name: str, elements: int = 0) -> None:
        """Note one call."""
        names = self.seen.setdefault(kind, {})
        if self.quiet or (name not in names and len(names) >= MOST_NAMES):
            return
        counted = names.setdefault(name, [0, 0])
        counted[0] += 1
        counted[1] += elements

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Around what is not the candidate's."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1


_log = Log()
_before: set[str] = set()


def install(mode: str) -> None:
    """Prepare this process before the candidate is imported. `mode`: trace or knockout."""
    torch = import_module("torch") if find_spec("torch") else None
    if find_spec("triton"):
        _hold_kernels(dead=mode == "knockout")
    if mode != "trace":
        return
    numpy = import_module("numpy") if find_spec("numpy") else None
    watched = _watched(numpy) if numpy is not None else None
    if torch is not None:
        _watch_operators(torch)
        _watch_escapes(torch, watched)
    _before.update(sys.modules)
    sys.addaudithook(_heard)


def adopt(language: Any, mode: str) -> None:
    """Have arrays of NumPy that the candidate is given watched as well; what it returns is looked at by nobody."""
    if mode != "trace":
        return
    language.returns = False
    if find_spec("numpy") is None:
        return
    numpy, wrap = import_module("numpy"), language.wrap
    watched = _watched(numpy)

    def wrapped(*arguments: Any) -> Any:
        array = wrap(*arguments)
        return array.view(watched) if type(array) is numpy.ndarray else array

    language.wrap = wrapped


def only_calls(language: Any) -> None:
    """On a card the harness uses operators of PyTorch between calls: note nothing but what a call itself does."""
    entry = language.entry
    _log.quiet += 1

    def heard(*arguments: Any) -> Any:
        _log.quiet -= 1
        try:
            return entry(*arguments)
        finally:
            _log.quiet += 1

    language.entry = heard


def report() -> bytes:
    """Everything noted since `install`, as JSON."""
    loaded = [name for name in sys.modules if name not in _before and name in COMPILERS]
    for name in loaded:
        _log.seen.setdefault("modules", {})[name] = [1, 0]
    return json.dumps(_log.seen).encode()


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    """A hook of `sys.audit`: called for everything that the interpreter does to the outside."""
    if event in EVENTS:
        _log.add(EVENTS[event], str(arguments[0] if arguments else "")[:200])


def _size(value: Any) -> int:
    """Elements of the arrays in an argument or a result."""
    if isinstance(value, list | tuple):
        return sum(_size(one) for one in value)
    counted = getattr(value, "numel", None)
    if callable(counted):
        return int(counted())
    size = getattr(value, "size", 0)
    return size if isinstance(size, int) else 0


def _watch_operators(torch: Any) -> None:
    """Note the operators of PyTorch, in every thread."""

    def dispatched(mode: Any, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        _log.add("operators", str(getattr(operator, "overloadpacket", operator)), max(_size(args), _size(result)))
        return result

    made = import_module("torch.utils._python_dispatch").TorchDispatchMode
    # else the first operator would import the compiler of PyTorch, which takes seconds
    body = {"__torch_dispatch__": dispatched, "_should_skip_dynamo": classmethod(lambda cls: False)}
    kind = type("Mode", (made,), body)
    kind().__enter__()
    run = threading.Thread.run

    def running(thread: threading.Thread) -> None:
        with kind():
            run(thread)

    threading.Thread.run = running  # type: ignore[method-assign, assignment]


def _watch_escapes(torch: Any, watched: Any) -> None:
    """Tensors that the candidate takes to NumPy are watched there."""
    plain = torch.Tensor.numpy

    def numpy(tensor: Any, **options: Any) -> Any:
        array = plain(tensor, **options)
        return array if _log.quiet or watched is None else array.view(watched)

    torch.Tensor.numpy = numpy


def _watched(numpy: Any) -> Any:
    """A subclass of ndarray that notes which functions of NumPy are called with it."""
    bare = numpy.ndarray

    def opened(value: Any) -> Any:
        if isinstance(value, bare):
            return value.view(bare)
        return type(value)(map(opened, value)) if type(value) in (list, tuple) else value

    def closed(value: Any) -> Any:
        if isinstance(value, bare):
            return value.view(kind)
        return tuple(map(closed, value)) if type(value) is tuple else value

    def ufunc(self: Any, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        result = getattr(function, method)(*opened(inputs), **{name: opened(one) for name, one in options.items()})
        _log.add("functions", f"numpy.{function.__name__}", max(_size(inputs), _size(result)))
        return closed(result)

    def function(self: Any, called: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = called(*opened(args), **{name: opened(one) for name, one in kwargs.items()})
        _log.add("functions", f"numpy.{called.__name__}", max(_size(args), _size(result)))
        return closed(result)

    kind = type("ndarray", (bare,), {"__array_ufunc__": ufunc, "__array_function__": function})
    return kind


def _hold_kernels(*, dead: bool) -> None:
    """Count the launches of Triton's kernels, compiled or interpreted; dead ones launch nothing."""
    interpreter = import_module("triton.runtime.interpreter")
    jit = import_module("triton.runtime.jit")
    _hold(interpreter.GridExecutor, "__call__", lambda self: getattr(self.fn, "__name__", "kernel"), dead=dead)
    _hold(jit.JITFunction, "run", lambda self: str(getattr(self, "__name__", "kernel")), dead=dead)
    compiled = getattr(import_module("triton.compiler.compiler"), "CompiledKernel", None)
    if compiled is not None and dead:  # a kernel that was compiled ahead is launched without its function
        compiled.__getitem__ = lambda self, grid: lambda *args, **kwargs: None


def _hold(owner: Any, method: str, name: Callable[[Any], str], *, dead: bool) -> None:
    """Put a counting or an idle method in the place of one."""
    original = getattr(owner, method)

    def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        _log.add("kernels", name(self))
        if dead:
            return None
        with _log.silent():
            return original(self, *args, **kwargs)

    held.__name__, held.__qualname__, held.__module__ = method, original.__qualname__, original.__module__
    setattr(owner, method, held)
