"""Inside a worker: a card whose arrays lie in segments that the judge owns, writes and reads itself.

Nothing is moved before a call or after it but what a candidate returns, and that outside the events. What this process
says is a claim. Needs PyTorch for the card.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

cuda = import_module("judge_worker_cuda")


class Place:
    """One size's segment, and the graphs of calls on it."""

    def __init__(self, segment: Any) -> None:
        self.segment, self.area = segment, segment.tensor
        self.graphs: dict[int, tuple[Callable[[], Any], Any]] = {}

    def close(self) -> None:
        """Inside a worker: the judge has taken the segment back."""
        self.graphs.clear()
        self.area = None
        self.segment.close()


class Device(cuda.Device):  # type: ignore[name-defined,misc]
    """The card that PyTorch sees first."""

    empties_cache = False  # the judge does

    def __init__(self, driver: Any = None, where: str = "cuda", memory: Any = None) -> None:
        """The candidate is not imported yet. Raises RuntimeError where there is no card."""
        super().__init__(driver, where)
        self._memory = memory

    def open(self, descriptor: int, layout: dict[str, Any]) -> Any:
        """Inside a worker: the card's segment behind the descriptor that came with a layout."""
        if self._memory is None:
            self._memory = import_module("judge_segments").open_card_memory(self.torch, layout["shared"])
        return self._memory.open(descriptor, layout["size"])

    def bind(self, slot: int, memory: Any, layout: dict[str, Any], wrap: Callable[..., Any]) -> Any:
        """Inside a worker: the arrays of a card's segments by name, for each placement. A slot may be given anew."""
        if slot in self._places:
            self._places.pop(slot).close()
        place = self._places[slot] = Place(memory)
        return [
            {
                each["name"]: wrap(place.area, each["dtype"], each["shape"], offsets[each["name"]])
                for each in layout["arrays"]
            }
            for offsets in layout["placements"]
        ]

    def run(self, frame: Any, entry: Callable[..., Any], arguments: Sequence[Any], finish: Any) -> tuple[int, str]:
        """Inside a worker: one call on a card's segment: ns by the device's events, why it gave no answer. The frame's text says how."""
        if frame.kind == self._frames.PING:
            return self._time_call(entry, ()), ""
        self.driver.no_persistence()
        self.driver.sync()
        if frame.text == "graph":
            call, result = self._places[frame.slot].graphs[frame.placement]
            self.hold_card()
            self.driver.start()
            call()
            self.driver.stop()
        else:
            self.driver.start()
            result = entry(*arguments)
            self.driver.stop()
        wrong = finish(result) if finish is not None else ""
        self.driver.sync()
        return self.driver.elapsed_ns(), wrong

    def run_chain(
        self, frame: Any, entry: Callable[..., Any], calls: Sequence[Any], finish: Any, times: int
    ) -> tuple[int, str]:
        """Inside a worker: calls in a row on a card's segment, each with arrays of its own, so many times: ns of all, and why
        one of the last gave no answer."""
        self.driver.no_persistence()
        self.driver.sync()
        replay, results = self._places[frame.slot].graphs.get(frame.placement, (None, []))
        if replay is not None:
            self.hold_card()
        self.driver.start()
        for _ in range(times):
            if replay is not None:
                replay()
                continue
            results.clear()
            results.extend(entry(*arguments) for arguments, _ in calls)
        self.driver.stop()
        wrong = finish(results)
        self.driver.sync()
        return self.driver.elapsed_ns(), wrong
