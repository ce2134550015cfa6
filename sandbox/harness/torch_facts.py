"""What only running a person's PyTorch file shows: its domain, what it reads, which of its tensors are constants.

Part of torch_host.py, in the same process; its answers are the fields of `RunFacts` in sandbox/judge/torch_source.py.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

SAMPLES = 12
"""Elements of each tensor that are changed one by one: a call reads all of a tensor whose every one of them matters."""
DONORS = 2
BUDGET_S = 20.0
"""For all of them; of a tensor that was not looked at until then nothing is claimed."""
KEPT_BITS = 3
"""Of the ends of a range: the judge turns lower bits of numbers, which keeps them between such ends."""


class Unrepeatable(Exception):
    """Equal inputs give different results."""


class Facts:
    """One instance of the file at some sizes, and another one whose random numbers are others."""

    def __init__(self, instance: Any, second: Any) -> None:
        self.torch, self.called, self.inputs = instance.torch, instance.called, instance.inputs
        self.is_module, self.instance, self.second = instance.is_module, instance, second
        self.forced = False

    def collect(self) -> dict[str, Any]:
        """In the process of a PyTorch file: all facts that running it shows. Raises Unrepeatable."""
        self._settle_mode()
        buffers, constants = self._buffers()
        return {
            "training": not self.forced,
            **self._domain(),
            "mutated": (mutated := self._mutated_places()),
            "blanks": [place for place in mutated if self._is_blank(place)],
            "buffers": buffers,
            "constant_buffers": sorted(constants),
            "parts": sorted(
                {name for name, _ in self._random(list(parts(self.torch, self.called)), self._other_parts())}
            )
            if self.is_module
            else [],
            "masks": [i for i, tensor in enumerate(self.inputs) if self._is_float(tensor) and self._is_mask(tensor)],
            "partial": self._partial(constants),
        }

    def _settle_mode(self) -> None:
        """In the process of a PyTorch file: leaves the module as it was made if that is repeatable, else in eval mode."""
        inputs = self._anew()
        if not self._chancy(inputs):
            return
        if self.is_module:
            self.called.eval()
            self.forced = True
        if not self.is_module or self._chancy(inputs):
            raise Unrepeatable("gives other results for the same inputs; take the randomness out of it")

    def _domain(self) -> dict[str, Any]:
        """In the process of a PyTorch file: which inputs may come from N(0,1), and the range that get_inputs() gives the others."""
        places = [i for i, tensor in enumerate(self.inputs) if self._is_float(tensor)]
        ranges = [self._range(tensor) if i in places else None for i, tensor in enumerate(self.inputs)]
        anew = self._anew()
        finite = self._finite(anew)
        inside: list[int] = []
        if not finite and self._finite(self.inputs):
            inside = [i for i in places if not self._finite([*self.inputs[:i], anew[i], *self.inputs[i + 1 :]])]
            rest = [tensor if i in inside else anew[i] for i, tensor in enumerate(self.inputs)]
            inside = inside if inside and self._finite(rest) else places
        return {"normal": finite, "input_ranges": ranges, "inside": inside}

    def _mutated_places(self) -> list[int]:
        inputs = self._anew()
        before = self._clone(inputs)
        self.instance.call(self.called, inputs)
        return [
            index
            for index, (old, new) in enumerate(zip(before, inputs, strict=True))
            if self._is_tensor(old) and not self._same([old], [new])
        ]

    def _is_blank(self, place: int) -> bool:
        """In the process of a PyTorch file: whether an input that a call changes is only memory for its result."""
        inputs, other = self._clone(self.inputs), self._clone(self.inputs)
        other[place] = other[place].zero_() if bool((other[place] != 0).any()) else self.torch.ones_like(other[place])
        results = [self.instance.outputs(self.instance.call(self.called, values)) for values in (inputs, other)]
        returned = any(result.data_ptr() == inputs[place].data_ptr() for result in results[0])
        return returned and self._same(*results)

    def _buffers(self) -> tuple[dict[str, str], set[str]]:
        """In the process of a PyTorch file: buffers that matter, with how another is drawn for each, and the constants of them.

        Where all are 0 or all are 1 they stand for what training leaves there; where chance made them they are no
        constant of the operator. Everything else, such as a causal mask or a table of angles, is.
        """
        if not self.is_module:
            return {}, set()
        buffers = [(name, tensor) for name, tensor in self.instance.state().items() if not self._is_parameter(tensor)]
        random = {name for name, _ in self._random(buffers, dict(self.second.state()))}
        inputs = self._anew()
        kinds: dict[str, str] = {}
        constants = set()
        for name, tensor in buffers:
            if self._matters(name, inputs):
                begun = bool((tensor == 0).all()) or bool((tensor == 1).all())
                kinds[name] = "positive" if begun or bool((tensor > 0).all()) else self._kind(tensor)
                constants |= set() if begun or name in random else {name}
        return kinds, constants

    def _kind(self, tensor: Any) -> str:
        return "mask" if self._is_mask(tensor) else "normal"

    def _random(self, tensors: list[tuple[str, Any]], second_tensors: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, tensor in tensors:
            if (
                name not in second_tensors
                or second_tensors[name].shape != tensor.shape
                or not self.torch.equal(tensor, second_tensors[name])
            ):
                yield name, tensor

    def _other_parts(self) -> dict[str, Any]:
        return dict(parts(self.torch, self.second.called))

    def _partial(self, constants: set[str]) -> list[str]:
        """In the process of a PyTorch file: inputs and state whose single elements do not matter: a call reads less than all."""
        until = time.monotonic() + BUDGET_S
        partial = []
        names = self.instance.names
        for place, tensor in enumerate(self.inputs):
            if (
                self._is_tensor(tensor)
                and tensor.numel()
                and not self._all_matter(self._of_input(place), tensor, until)
            ):
                partial.append(names[place])
        for name, tensor in self.instance.state().items():
            if name not in constants and tensor.numel() and not self._all_matter(self._of_state(tensor), tensor, until):
                partial.append(name)
        return partial

    def _of_input(self, place: int) -> Callable[[int, Any], list[Any]]:
        def call_with(index: int, value: Any) -> list[Any]:
            inputs = self._clone(self.inputs)
            inputs[place] = inputs[place].contiguous()
            inputs[place].view(-1)[index] = value
            return self._call_afresh(inputs)

        return call_with

    def _of_state(self, tensor: Any) -> Callable[[int, Any], list[Any]]:
        def call_with(index: int, value: Any) -> list[Any]:
            place = tuple(
                int(coordinate) for coordinate in self.torch.unravel_index(self.torch.tensor(index), tensor.shape)
            )
            before = tensor[place].clone()
            tensor[place] = value
            try:
                return self._call_afresh(self.inputs)
            finally:
                tensor[place] = before

        return call_with

    def _all_matter(self, call_with: Callable[[int, Any], list[Any]], tensor: Any, until: float) -> bool:
        flat = tensor.reshape(-1)
        before = call_with(0, flat[0].clone())
        for index in self.torch.randint(0, flat.numel(), (min(SAMPLES, 4 * flat.numel()),)).tolist():
            if time.monotonic() > until:
                return False
            if all(self._same(before, call_with(index, value)) for value in self._unlike_values(flat, index)):
                return False
        return True

    def _unlike_values(self, flat: Any, index: int) -> list[Any]:
        """In the process of a PyTorch file: legal values unlike the one that is there: of floats one far up and one far down."""
        if flat.dtype == self.torch.bool:
            return [~flat[index]]
        if flat.dtype.is_floating_point:
            step = 16 * (1 + float(flat.double().abs().mean()))
            value = self._widen(flat[index])
            return [value + step, value - step]
        unlike = flat[flat != flat[index]]
        return (
            [unlike[int(number)] for number in self.torch.randint(0, unlike.numel(), (DONORS,))]
            if unlike.numel()
            else []
        )

    def _anew(self) -> list[Any]:
        """In the process of a PyTorch file: inputs whose floats come from N(0,1)."""
        return [
            self.torch.randn_like(self._widen(value)).to(value.dtype) if self._is_float(value) else copy.copy(value)
            for value in self.inputs
        ]

    def _range(self, tensor: Any) -> tuple[float, float] | None:
        """In the process of a PyTorch file: ends of a tensor's values, as few bits inside them; None for one value, or no number."""
        tensor = self._widen(tensor)
        low, high = float(tensor.min()) if tensor.numel() else 0.0, float(tensor.max()) if tensor.numel() else 0.0
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        ends = -_below(-low), _below(high)
        return ends if ends[0] < ends[1] else None

    def _finite(self, inputs: list[Any]) -> bool:
        return all(bool(self.torch.isfinite(self._widen(output)).all()) for output in self._call_afresh(inputs))

    def _chancy(self, inputs: list[Any]) -> bool:
        return not self._same(self._call_afresh(inputs), self._call_afresh(inputs))

    def _call_afresh(self, inputs: list[Any]) -> list[Any]:
        """In the process of a PyTorch file: a call that leaves no trace."""
        changes = self.is_module and any(True for _ in self.called.buffers())
        fresh = copy.deepcopy(self.called) if changes else self.called
        outputs: list[Any] = self.instance.outputs(self.instance.call(fresh, self._clone(inputs)))
        return outputs

    def _same(self, left: list[Any], right: list[Any]) -> bool:
        pairs = ((self._widen(a).nan_to_num(), self._widen(b).nan_to_num()) for a, b in zip(left, right, strict=True))
        return all(self.torch.equal(a, b) for a, b in pairs)

    def _widen(self, tensor: Any) -> Any:
        """In the process of a PyTorch file: 8-bit floats in float32, for what PyTorch does not do with them."""
        return tensor.float() if tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1 else tensor

    def _matters(self, name: str, inputs: list[Any]) -> bool:
        before = self._call_afresh(inputs)
        buffer = self.called.get_buffer(name)
        original = buffer.clone()
        for replacement in (self.torch.rand_like(buffer) + 0.5, -original):
            buffer.copy_(replacement)
            after = self._call_afresh(inputs)
            buffer.copy_(original)
            if not self._same(before, after):
                return True
        return False

    def _clone(self, inputs: list[Any]) -> list[Any]:
        return [value.clone() if self._is_tensor(value) else value for value in inputs]

    def _is_parameter(self, state: Any) -> bool:
        return isinstance(state, self.torch.nn.Parameter)

    def _is_mask(self, tensor: Any) -> bool:
        return bool(((tensor == 0) | (tensor == 1)).all()) and tensor.numel() > 1

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def _is_float(self, value: Any) -> bool:
        return self._is_tensor(value) and value.dtype.is_floating_point


def parts(torch: Any, module: Any) -> Iterator[tuple[str, Any]]:
    """In the process of a PyTorch file: tensors of floats that a module holds, no parameters nor buffers, by dotted names."""
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            many = value if isinstance(value, list | tuple) else (value,)
            for tensor in many:
                if (
                    isinstance(tensor, torch.Tensor)
                    and not isinstance(tensor, torch.nn.Parameter)
                    and tensor.dtype.is_floating_point
                ):
                    yield f"{prefix}.{name}".lstrip("."), tensor


def _below(value: float) -> float:
    """In the process of a PyTorch file: the largest number of few bits that is not more."""
    fraction, power = math.frexp(value)
    return math.ldexp(math.floor(fraction * 2**KEPT_BITS), power - KEPT_BITS)
