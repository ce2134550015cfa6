"""What only running a person's PyTorch file shows: its domain, what it reads, which of its tensors are constants.

Part of torch_host.py, in the same process; its answers are the fields of `Facts` in sandbox/judge/torch_source.py.
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

    def __init__(self, instance: Any, other: Any) -> None:
        self.torch, self.called, self.inputs = instance.torch, instance.called, instance.inputs
        self.is_module, self.instance, self.other = instance.is_module, instance, other
        self.forced = False

    def found(self) -> dict[str, Any]:
        """All of it. Raises Unrepeatable."""
        self._settled()
        buffers, kept = self._buffers()
        return {
            "training": not self.forced,
            **self._domain(),
            "mutated": self._mutated(),
            "buffers": buffers,
            "kept": sorted(kept),
            "parts": sorted(
                {name for name, _ in self._random(list(parts(self.torch, self.called)), self._other_parts())}
            )
            if self.is_module
            else [],
            "masks": [i for i, one in enumerate(self.inputs) if self._is_float(one) and self._is_mask(one)],
            "partial": self._partial(kept),
        }

    def _settled(self) -> None:
        """Leaves the module as it was made if that is repeatable, else in eval mode."""
        given = self._anew()
        if not self._chancy(given):
            return
        if self.is_module:
            self.called.eval()
            self.forced = True
        if not self.is_module or self._chancy(given):
            raise Unrepeatable("gives other results for the same inputs; take the randomness out of it")

    def _domain(self) -> dict[str, Any]:
        """Which inputs may come from N(0,1), and the range that get_inputs() gives the others, if it gives one."""
        places = [i for i, one in enumerate(self.inputs) if self._is_float(one)]
        seen = [self._range(one) if i in places else None for i, one in enumerate(self.inputs)]
        anew = self._anew()
        finite = self._finite(anew)
        inside: list[int] = []
        if not finite and self._finite(self.inputs):
            inside = [i for i in places if not self._finite([*self.inputs[:i], anew[i], *self.inputs[i + 1 :]])]
            rest = [one if i in inside else anew[i] for i, one in enumerate(self.inputs)]
            inside = inside if inside and self._finite(rest) else places
        return {"normal": finite, "seen": seen, "inside": inside}

    def _mutated(self) -> list[int]:
        given = self._anew()
        before = self._cloned(given)
        self.called(*given)
        return [
            index
            for index, (old, new) in enumerate(zip(before, given, strict=True))
            if self._is_tensor(old) and not self.torch.equal(self.torch.nan_to_num(old), self.torch.nan_to_num(new))
        ]

    def _buffers(self) -> tuple[dict[str, str], set[str]]:
        """Those that matter, with how another is drawn in their place; and those of them that are constants.

        Where all are 0 or all are 1 they stand for what training leaves there; where chance made them they are no
        constant of the operator. Everything else, such as a causal mask or a table of angles, is.
        """
        if not self.is_module:
            return {}, set()
        own = [(name, one) for name, one in self.instance.state().items() if not self._is_parameter(one)]
        random = {name for name, _ in self._random(own, dict(self.other.state()))}
        given = self._anew()
        drawn: dict[str, str] = {}
        kept = set()
        for name, one in own:
            if self._matters(name, given):
                begun = bool((one == 0).all()) or bool((one == 1).all())
                drawn[name] = "positive" if begun or bool((one > 0).all()) else self._kind(one)
                kept |= set() if begun or name in random else {name}
        return drawn, kept

    def _kind(self, tensor: Any) -> str:
        return "mask" if self._is_mask(tensor) else "normal"

    def _random(self, own: list[tuple[str, Any]], other: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, one in own:
            if name not in other or other[name].shape != one.shape or not self.torch.equal(one, other[name]):
                yield name, one

    def _other_parts(self) -> dict[str, Any]:
        return dict(parts(self.torch, self.other.called))

    def _partial(self, kept: set[str]) -> list[str]:
        """Names of inputs and of state of which single elements do not matter: a call reads less than all of them."""
        until = time.monotonic() + BUDGET_S
        found = []
        names = self.instance.arguments()
        for place, one in enumerate(self.inputs):
            if self._is_tensor(one) and one.numel() and not self._all_matter(self._of_input(place), one, until):
                found.append(names[place])
        for name, one in self.instance.state().items():
            if name not in kept and one.numel() and not self._all_matter(self._of_state(one), one, until):
                found.append(name)
        return found

    def _of_input(self, place: int) -> Callable[[int, Any], list[Any]]:
        def changed(index: int, value: Any) -> list[Any]:
            given = self._cloned(self.inputs)
            given[place] = given[place].contiguous()
            given[place].view(-1)[index] = value
            return self._again(given)

        return changed

    def _of_state(self, tensor: Any) -> Callable[[int, Any], list[Any]]:
        def changed(index: int, value: Any) -> list[Any]:
            place = tuple(int(one) for one in self.torch.unravel_index(self.torch.tensor(index), tensor.shape))
            kept = tensor[place].clone()
            tensor[place] = value
            try:
                return self._again(self.inputs)
            finally:
                tensor[place] = kept

        return changed

    def _all_matter(self, changed: Callable[[int, Any], list[Any]], tensor: Any, until: float) -> bool:
        flat = tensor.reshape(-1)
        before = changed(0, flat[0].clone())
        for index in self.torch.randint(0, flat.numel(), (min(SAMPLES, 4 * flat.numel()),)).tolist():
            if time.monotonic() > until:
                return False
            if all(self._same(before, changed(index, value)) for value in self._others(flat, index)):
                return False
        return True

    def _others(self, flat: Any, index: int) -> list[Any]:
        """Legal values unlike the one that is there: of floats one far up and one far down."""
        if flat.dtype == self.torch.bool:
            return [~flat[index]]
        if flat.dtype.is_floating_point:
            far = 16 * (1 + float(flat.double().abs().mean()))
            return [flat[index] + far, flat[index] - far]
        unlike = flat[flat != flat[index]]
        return [unlike[int(one)] for one in self.torch.randint(0, unlike.numel(), (DONORS,))] if unlike.numel() else []

    def _anew(self) -> list[Any]:
        """Inputs whose floats come from N(0,1)."""
        return [self.torch.randn_like(one) if self._is_float(one) else copy.copy(one) for one in self.inputs]

    def _range(self, tensor: Any) -> tuple[float, float] | None:
        """Ends of its values, as few bits inside them; None where they are one value, or no number."""
        low, high = float(tensor.min()) if tensor.numel() else 0.0, float(tensor.max()) if tensor.numel() else 0.0
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        ends = -_below(-low), _below(high)
        return ends if ends[0] < ends[1] else None

    def _finite(self, given: list[Any]) -> bool:
        return all(bool(self.torch.isfinite(one).all()) for one in self._again(given))

    def _chancy(self, given: list[Any]) -> bool:
        return not self._same(self._again(given), self._again(given))

    def _again(self, given: list[Any]) -> list[Any]:
        """A call that leaves no trace."""
        changes = self.is_module and any(True for _ in self.called.buffers())
        fresh = copy.deepcopy(self.called) if changes else self.called
        outputs: list[Any] = self.instance.outputs(fresh(*self._cloned(given)))
        return outputs

    def _same(self, left: list[Any], right: list[Any]) -> bool:
        return all(self.torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(left, right, strict=True))

    def _matters(self, name: str, given: list[Any]) -> bool:
        before = self._again(given)
        buffer = self.called.get_buffer(name)
        kept = buffer.clone()
        for other in (self.torch.rand_like(buffer) + 0.5, -kept):
            buffer.copy_(other)
            after = self._again(given)
            buffer.copy_(kept)
            if not self._same(before, after):
                return True
        return False

    def _cloned(self, given: list[Any]) -> list[Any]:
        return [one.clone() if self._is_tensor(one) else one for one in given]

    def _is_parameter(self, state: Any) -> bool:
        return isinstance(state, self.torch.nn.Parameter)

    def _is_mask(self, tensor: Any) -> bool:
        return bool(((tensor == 0) | (tensor == 1)).all()) and tensor.numel() > 1

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor)

    def _is_float(self, value: Any) -> bool:
        return self._is_tensor(value) and value.dtype.is_floating_point


def parts(torch: Any, module: Any) -> Iterator[tuple[str, Any]]:
    """Tensors of floats that a module simply holds, as neither parameters nor buffers, by dotted names."""
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            many = value if isinstance(value, list | tuple) else (value,)
            for one in many:
                if (
                    isinstance(one, torch.Tensor)
                    and not isinstance(one, torch.nn.Parameter)
                    and one.dtype.is_floating_point
                ):
                    yield f"{prefix}.{name}".lstrip("."), one


def _below(value: float) -> float:
    """The largest number of few bits that is not more."""
    fraction, power = math.frexp(value)
    return math.ldexp(math.floor(fraction * 2**KEPT_BITS), power - KEPT_BITS)
