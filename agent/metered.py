"""How long a card was held for each answer of a port: written into the evidence, where the costs are added up."""

from typing import Any, TypeVar

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.gate import CardGate

Port = TypeVar("Port")


class Metered:
    """A port whose answers say the seconds that the gate's leases were held meanwhile."""

    def __init__(self, inner: Any, gate: CardGate) -> None:
        self._inner = inner
        self._gate = gate

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)

        def asked(*args: Any, **kwargs: Any) -> Any:
            before = self._gate.held_s
            found = call(*args, **kwargs)
            if isinstance(found, Value) and "gpu_s" in type(found).model_fields:
                return found.model_copy(update={"gpu_s": round(self._gate.held_s - before, 3)})
            return found

        return asked


def metered(port: Port, gate: CardGate | None) -> Port:
    """The same port; on a processor, where nothing is leased for long, the port itself."""
    return port if gate is None else Metered(port, gate)  # type: ignore[return-value]
