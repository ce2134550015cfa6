"""Inside a worker that is not timed: the launches of Triton's kernels, counted, or replaced by nothing and looked at.

What the arguments of a replaced kernel hold, others than the kernel have put there.
"""

import base64
import inspect
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

SAMPLED = 64
"""Values of an argument that are told in its order, and of the same values sorted."""
MOST_HELD = 72
"""Arguments that are told of one call: the last ones. Fits into a report."""
MOST_SORTED = 1 << 26
"""Elements that are sorted in one call."""


class Launches:
    """What the candidate's launches of kernels were, and what their arguments held."""

    def __init__(self, log: Any) -> None:
        """`log` notes names and oddities."""
        self._log = log
        self.slot = 0
        """Of the size whose arrays are made now."""
        self.task_tensors: dict[int, list[tuple[int, int, Any]]] = {}
        """Tensors of the task by slot: from which address to which."""
        self.samples: deque[tuple[str, int, str]] = deque(maxlen=MOST_HELD)
        self.sampled_keys: set[tuple[int, bytes]] = set()

    def forget_tensors(self, slot: int) -> None:
        """Inside a traced worker: the slot is given anew: what lay there is unmapped, its addresses another tensor's."""
        self.slot = slot
        self.task_tensors.pop(slot, None)

    def hold(self, *, dead: bool) -> None:
        """Inside a traced worker: count launches of Triton's kernels, compiled or interpreted; dead ones launch nothing."""
        interpreter = import_module("triton.runtime.interpreter")
        jit = import_module("triton.runtime.jit")
        self._hold(interpreter.GridExecutor, "__call__", lambda self: getattr(self.fn, "__name__", "kernel"), dead=dead)
        self._hold(jit.JITFunction, "run", lambda self: str(getattr(self, "__name__", "kernel")), dead=dead)
        compiled = getattr(import_module("triton.compiler.compiler"), "CompiledKernel", None)
        if compiled is not None and dead:  # a kernel that was compiled ahead is launched without its function
            compiled.__getitem__ = lambda self, grid: lambda *args, **kwargs: None

    def _hold(self, owner: Any, method: str, name: Callable[[Any], str], *, dead: bool) -> None:
        """Inside a traced worker: put a counting or an idle method in the place of one. A grid that is a function is asked first."""
        original, log, look = getattr(owner, method), self._log, self._look
        interpreted = method == "__call__"

        def count_launch(launch: Any, *args: Any, **kwargs: Any) -> Any:
            grid = _grid(launch.grid if interpreted else kwargs.get("grid"), launch.fn, args, kwargs)
            if interpreted:
                launch.grid = grid
            else:
                kwargs["grid"] = grid
            log.add("kernels", name(launch))
            if dead:
                return look(name(launch), (*args, *kwargs.values()))
            for argument in (*args, *kwargs.values()):
                if not _plain(argument):
                    log.add("oddities", f"gives a kernel a {type(argument).__name__}")
            with log.launching(compiled=not interpreted):
                return original(launch, *args, **kwargs)

        count_launch.__name__, count_launch.__qualname__, count_launch.__module__ = (
            method,
            original.__qualname__,
            original.__module__,
        )
        setattr(owner, method, count_launch)

    def _look(self, kernel: str, values: Iterable[Any]) -> None:
        """Inside a traced worker: keep a sample of each tensor, as it lies and sorted: others than the kernel have put it there."""
        torch: Any = sys.modules["torch"]
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return
        for value in values:
            if isinstance(value, tuple | list):
                self._look(kernel, value)
            tensor = getattr(value, "base", value)
            if not isinstance(tensor, torch.Tensor) or not tensor.numel() or tensor.is_complex():
                continue
            at = tensor.data_ptr()
            task_tensors = (each for tensors in self.task_tensors.values() for each in tensors)
            base_tensor = next((task_tensor for start, end, task_tensor in task_tensors if start <= at < end), tensor)
            flat = base_tensor.detach().reshape(-1)
            size = flat.numel()
            places = [k * (size - 1) // (SAMPLED - 1) for k in range(SAMPLED)] if size > SAMPLED else [*range(size)]
            picked = torch.tensor(places, device=flat.device)
            bits = flat.view(torch.uint8) if flat.is_floating_point() and flat.element_size() == 1 else flat
            some = array("f", bits[picked].view(flat.dtype).float().tolist()).tobytes()
            if (size, some) in self.sampled_keys:
                continue
            self.sampled_keys.add((size, some))
            if sum(elements for elements, _ in self.sampled_keys) <= MOST_SORTED:
                some += array("f", flat.float().sort().values[picked].tolist()).tobytes()
            self.samples.append((kernel, size, base64.b64encode(some).decode()))


def _grid(grid: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inside a traced worker: a Triton launch's grid; what a function says of it where it is one."""
    if not callable(grid):
        return grid
    signature = inspect.signature(function)
    accepted = {key: value for key, value in kwargs.items() if key in signature.parameters}
    bound = signature.bind_partial(*args, **accepted)
    bound.apply_defaults()
    return grid(dict(bound.arguments))


def _plain(value: Any) -> bool:
    """Inside a traced worker: whether a launch's argument has no code of the candidate's: a value, a tensor, or Triton's own."""
    kind = type(value)
    if isinstance(value, tuple | list) and kind.__len__ in (tuple.__len__, list.__len__):
        return all(map(_plain, value))
    home = sys.modules.get(kind.__module__)
    ours = kind.__module__.partition(".")[0] in ("builtins", "torch", "triton", "enum")
    return ours and (getattr(home, kind.__name__, kind) is kind)
