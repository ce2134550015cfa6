"""Runs a person's PyTorch file in a process of its own and says which tensors go in and come out at given sizes.

Started by sandbox/judge/torch_source.py as `torch_host.py IN OUT`, two inherited pipes. Each message is an unsigned
64-bit length, little-endian, and so many bytes of JSON. Needs PyTorch.
"""

import ast
import contextlib
import inspect
import json
import os
import struct
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

LENGTH = struct.Struct("<Q")
LITERALS = (int, float, bool, str, type(None))
SMALLEST_LITERAL = 8
"""Whole numbers in get_inputs() from here on are sizes; smaller ones are axes, seeds and the like."""
INPUTS, INIT = "get_inputs", "get_init_inputs"


class Unusable(Exception):
    """What is asked for cannot be made of this file."""


class Source:
    """The file, its entry and the sizes that can be changed."""

    def __init__(self, file: Path, entry: str | None) -> None:
        torch = import_module("torch")
        torch.set_grad_enabled(False)
        with torch.device("meta"):
            torch.empty(0)  # which has PyTorch remember its functions before one of them is watched
        sys.path.append(str(Path(__file__).parent))
        import_module("torch_facts")  # which a file beside the person's may not stand in for
        sys.path.insert(0, str(file.parent))
        self.torch, self.file = torch, file
        self.code = _name_sizes(file.read_text(encoding="utf-8"), str(file))
        self.names = self._execute()
        self.entry = self._entry(entry)
        if not callable(self.names.get(INPUTS)):
            raise Unusable(f"defines no {INPUTS}(); write one that returns a list of example tensors")
        self.is_module = isinstance(self.names[self.entry], type)

    def _execute(self) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "original", "__file__": str(self.file)}
        sys.dont_write_bytecode = True  # beside a person's files; PyTorch keeps its own
        exec(self.code, names)
        sys.dont_write_bytecode = False
        return names

    def _entry(self, requested: str | None) -> str:
        module = self.torch.nn.Module
        names = [n for n, value in self.names.items() if getattr(value, "__module__", "") == "original" and n[0] != "_"]
        modules = [n for n in names if isinstance(self.names[n], type) and issubclass(self.names[n], module)]
        plain = [n for n in names if inspect.isfunction(self.names[n]) and n not in (INPUTS, INIT)]
        if requested is not None:
            if requested not in (*modules, *plain):
                raise Unusable(
                    f"has no function or module {requested!r}; it has {', '.join((*modules, *plain)) or 'none'}"
                )
            return requested
        candidates = ["Model"] if "Model" in modules else modules or plain
        if len(candidates) != 1:
            raise Unusable(
                f"has {len(candidates)} functions or modules ({', '.join(candidates)}); name one with --entry"
            )
        return candidates[0]

    def knobs(self) -> dict[str, int]:
        """In the process of a PyTorch file: its whole numbers by name: sizes may be among them."""
        return {
            name: value
            for name, value in self.names.items()
            if type(value) is int and value > 0 and not name.startswith("__")
        }

    def instance(self, sizes: Mapping[str, int], *, meta: bool = False, seed: int = 0) -> "Instance":
        """In the process of a PyTorch file: inputs, module and outputs at these sizes; `meta`: without memory behind them."""
        names = self._execute()
        names.update(sizes)
        called = names[self.entry]
        with (device := self.torch.device("meta" if meta else "cpu")), _bounds(self.torch) as bounds:
            inputs = list(names[INPUTS]())
            if self.is_module:
                self.torch.manual_seed(seed)
                called = called(*(names[INIT]() if callable(names.get(INIT)) else ()))
        return Instance(self, called, inputs, (device, bounds))

    def facts(self, instance: "Instance", sizes: Mapping[str, int]) -> dict[str, Any]:
        """In the process of a PyTorch file: facts that only real numbers show."""
        facts = import_module("torch_facts")
        try:
            result: dict[str, Any] = facts.Facts(instance, self.instance(sizes, seed=1)).collect()
        except facts.Unrepeatable as error:
            raise Unusable(str(error)) from None
        return result


class Instance:
    """The file at some sizes."""

    def __init__(self, source: Source, called: Any, inputs: list[Any], context: tuple[Any, Any]) -> None:
        self.torch, self.called, self.is_module = source.torch, called, source.is_module
        self.device, self.bounds = context
        self.inputs: list[Any] = []
        self.names: list[str] = []
        self.places: list[str] = []
        """Of each input: where it stands in the arguments, as Python, for example `[0]['weight']`."""
        parameters = self._parameters()
        self.arguments = [
            self._flatten(value, parameters[index] if index < len(parameters) else f"x{index}", f"[{index}]")
            for index, value in enumerate(inputs)
        ]
        """What `called` takes; in place of each input stands its `Place`, also inside lists, tuples and dictionaries."""

    def describe(self) -> dict[str, Any]:
        """In the process of a PyTorch file: names, extents and types of its module's inputs and outputs."""
        before = [value.clone() if self._is_tensor(value) else value for value in self.inputs]
        counting = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
        with self.device, counting as counter:
            outputs = self.outputs(self.call(self.called, self.inputs))
        return {
            "inputs": [self._input(index, value) for index, value in enumerate(before)],
            "call": ", ".join(map(_write_nest, self.arguments)),
            "state": [
                {**self._tensor(value), "name": name, "buffer": self._is_buffer(value)}
                for name, value in self.state().items()
            ],
            "outputs": [self._tensor(value) for value in outputs],
            "flops": counter.get_total_flops(),
        }

    def state(self) -> dict[str, Any]:
        """In the process of a PyTorch file: parameters and buffers of floats, each once."""
        if not self.is_module:
            return {}
        entries = [*self.called.named_parameters(), *self.called.named_buffers()]
        return {name: tensor for name, tensor in entries if tensor.dtype.is_floating_point}

    def _is_buffer(self, state: Any) -> bool:
        return not isinstance(state, self.torch.nn.Parameter)

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def outputs(self, result: Any) -> list[Any]:
        """In the process of a PyTorch file: the tensors of a result. Raises Unusable."""
        tensors = list(result) if isinstance(result, list | tuple) else [result]
        if not tensors or not all(self._is_tensor(tensor) for tensor in tensors):
            raise Unusable("returns something else than tensors; give it a result of tensors alone")
        return tensors

    def call(self, called: Any, inputs: Sequence[Any]) -> Any:
        """In the process of a PyTorch file: what `called` gives for these inputs, which take the places of those of get_inputs()."""
        return called(*(_fill(argument, inputs) for argument in self.arguments))

    def _flatten(self, value: Any, name: str, place: str) -> Any:
        """In the process of a PyTorch file: takes the inputs out of a value; the same value with a `Place` for each."""
        if isinstance(value, list | tuple):
            parts = (self._flatten(part, f"{name}_{i}", f"{place}[{i}]") for i, part in enumerate(value))
            return tuple(parts) if isinstance(value, tuple) else list(parts)
        if isinstance(value, dict):
            return {key: self._flatten(part, f"{name}_{key}", f"{place}[{key!r}]") for key, part in value.items()}
        self.inputs.append(value)
        self.names.append(name)
        self.places.append(place)
        return Place(len(self.inputs) - 1)

    def _parameters(self) -> list[str]:
        """In the process of a PyTorch file: names of the arguments, as the function calls them."""
        called = self.called.forward if self.is_module else self.called
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [
            parameter.name for parameter in inspect.signature(called).parameters.values() if parameter.kind in kinds
        ]

    def _input(self, index: int, value: Any) -> dict[str, Any]:
        facts = {"name": self.names[index], "place": self.places[index]}
        if self._is_tensor(value):
            return {**self._tensor(value), **facts, "bounds": self._integer_bounds(self.inputs[index])}
        if isinstance(value, LITERALS):
            return {**facts, "literal": repr(value)}
        raise Unusable(
            f"takes {self.names[index]} as a {type(value).__name__}; only tensors, numbers, text and None can be given, "
            "also in lists, tuples and dictionaries"
        )

    def _integer_bounds(self, tensor: Any) -> list[int] | None:
        """In the process of a PyTorch file: bounds of whole numbers: as they were asked for, else as they are."""
        if tensor.dtype.is_floating_point or tensor.dtype is self.torch.bool:
            return None
        if id(tensor) in self.bounds:
            return list(self.bounds[id(tensor)])
        if tensor.is_meta or tensor.numel() == 0:
            return None
        return [int(tensor.min()), int(tensor.max()) + 1]

    def _tensor(self, tensor: Any) -> dict[str, Any]:
        return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


class Place(NamedTuple):
    """Stands for an input, by its number."""

    number: int


def _fill(argument: Any, inputs: Sequence[Any]) -> Any:
    """In the process of a PyTorch file: the argument with the inputs in their places."""
    if isinstance(argument, Place):
        return inputs[argument.number]
    if isinstance(argument, dict):
        return {key: _fill(part, inputs) for key, part in argument.items()}
    if isinstance(argument, list | tuple):
        return type(argument)(_fill(part, inputs) for part in argument)
    return argument


def _write_nest(argument: Any) -> str:
    """In the process of a PyTorch file: the argument as Python, with `<3>` for the input of that number."""
    if isinstance(argument, Place):
        return f"<{argument.number}>"
    if isinstance(argument, dict):
        return f"{{{', '.join(f'{key!r}: {_write_nest(part)}' for key, part in argument.items())}}}"
    inner = ", ".join(map(_write_nest, argument))
    if isinstance(argument, list):
        return f"[{inner}]"
    return f"({inner},)" if len(argument) == 1 else f"({inner})"


@contextlib.contextmanager
def _bounds(torch: Any) -> Iterator[dict[int, tuple[int, int]]]:
    """In the process of a PyTorch file: notes what `torch.randint` was asked for, by the identity of its result."""
    bounds: dict[int, tuple[int, int]] = {}
    original = torch.randint

    def randint(*args: Any, **kwargs: Any) -> Any:
        tensor = original(*args, **kwargs)
        numbers = [number for number in args if isinstance(number, int)]
        low = kwargs.get("low", numbers[0] if len(numbers) > 1 else 0)
        bounds[id(tensor)] = (low, kwargs.get("high", numbers[-1] if numbers else 2))
        return tensor

    torch.randint = randint
    try:
        yield bounds
    finally:
        torch.randint = original


def _name_sizes(text: str, name: str) -> CodeType:
    """In the process of a PyTorch file: its code, with the larger numbers in get_inputs() as names that can be changed."""
    tree = ast.parse(text, name)
    names: dict[int, str] = {}

    class Named(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            if type(node.value) is not int or node.value < SMALLEST_LITERAL:
                return node
            return ast.copy_location(ast.Name(names.setdefault(node.value, f"n{node.value}"), ast.Load()), node)

    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == INPUTS:
            Named().generic_visit(node)
    tree.body += [ast.parse(f"{name} = {value}").body[0] for value, name in names.items()]
    return compile(ast.fix_missing_locations(tree), name, "exec")


def answer_question(source: Source, question: Mapping[str, Any]) -> dict[str, Any]:
    """In the process of a PyTorch file: answers one question of the judge about it."""
    try:
        instance = source.instance(question["sizes"], meta=question["meta"])
        facts = source.facts(instance, question["sizes"]) if question["real"] else {}
        return {**instance.describe(), **facts}
    except Exception as error:
        if isinstance(error, MemoryError):
            raise  # a process that has no memory left is not asked again
        return {"error": describe_error(error, source.file)}


SHAPE_OF_VALUES = (
    "how many elements its result has hangs on values (nonzero, an index of True and False), and a task's shapes hang on its"
    " sizes alone; return a shape that they fix, for example by torch.where"
)


def describe_error(error: BaseException, file: Path) -> str:
    """In the process of a PyTorch file: what went wrong in it: one line with the place."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    where = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, RuntimeError) and "torch.nonzero" in str(error):
        return f"{where}{SHAPE_OF_VALUES}"
    kind = "" if isinstance(error, Unusable) else f"{type(error).__name__}: "
    return f"{where}{kind}{' '.join(str(error).split())}"[:800]


def main() -> None:
    """The process of a PyTorch file: answers until the other side closes."""
    with os.fdopen(int(sys.argv[1]), "rb") as stream, os.fdopen(int(sys.argv[2]), "wb") as out:

        def say(answer: Mapping[str, Any]) -> None:
            body = json.dumps(answer).encode()
            out.write(LENGTH.pack(len(body)) + body)
            out.flush()

        def receive() -> Any:
            head = stream.read(LENGTH.size)
            return json.loads(stream.read(LENGTH.unpack(head)[0])) if len(head) == LENGTH.size else None

        request = receive()
        try:
            source = Source(Path(request["file"]), request["entry"])
        except BaseException as error:
            say({"error": describe_error(error, Path(request["file"]))})
            raise
        init = callable(source.names.get(INIT))
        say({"entry": source.entry, "is_module": source.is_module, "init": init, "knobs": source.knobs()})
        while (question := receive()) is not None:
            say(answer_question(source, question))


if __name__ == "__main__":
    main()
