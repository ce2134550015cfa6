"""Inside a worker: a card of NVIDIA or AMD as the place where arrays lie and calls are timed.

Arrays lie in one stretch of the card's memory for each size, laid out as the shared memory is, guard bands included.
What this process says is a claim. Needs PyTorch for the card.
"""

import ctypes
import json
import math
import mmap
import os
import secrets
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

ROW = 4096
"""Elements of one row when outputs are summed with signs; the last row is filled up with zeros."""
SUBSET = 4096
SAMPLES = 256
"""Bytes of each output that are looked at just before a call."""
FLUSH_LEAST = 256 << 20
"""AMD's cards have a cache of that size behind the one they tell of."""
WIDE = 0x9E3779B97F4A7C15 - (1 << 64)
"""An odd constant of 64 bits, signed, that mixes positions into bits."""
HELD_CYCLES = 300_000
"""Of the card's clock, some 150 us: for so long it is kept busy while the processor starts a graph behind that."""
LEFT_OVER = 1 << 30
"""Bytes that PyTorch keeps for nobody, above which they are given back before a graph takes its own."""
RAISED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""By PyTorch where there is no graph, and by a candidate that does so under a capture alone."""
INTS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def laid(torch: Any, values: Any, over: Any, low: int, high: int) -> Any:
    """Inside a worker on a card: whole numbers over those of [low, high), as `around` of the judge's rings.py; in a wider type."""
    floats = values.is_floating_point()
    wide = (torch.float64 if values.itemsize == 8 else torch.float32) if floats else torch.int64
    values_wide, over_wide = values.to(wide), over.to(wide)
    sums, less = values_wide - over_wide, values_wide <= over_wide
    del values_wide, over_wide  # on a card, room matters
    bottom = low - 1 if floats or low > -(1 << 63) else (1 << 63) - 1  # sums go round at 64 bits
    ends = [sums.new_full((), float(end) if floats else end) for end in (high - 1, bottom)]
    sums += torch.where(less, *ends)
    return sums.clamp_(float(low), float(high - 1)) if floats else sums


class Place:
    """The arrays of one size."""

    def __init__(self, device: "Device", memory: mmap.mmap, facts: dict[str, Any]) -> None:
        self._torch, self._driver, self._where = device.torch, device.driver, device.where
        self.memory, self.facts = memory, facts
        self._host = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._pinned = self._driver.pin(self._host, len(memory))
        self.area = self._torch.empty(facts["spans"][-1][1], dtype=self._torch.uint8, device=self._where)
        self._at: int = self.area.data_ptr()
        self._driver.copy(self._at, self._host, len(self.area))
        self._kinds = {array["name"]: getattr(self._torch, array["dtype"]) for array in facts["arrays"]}
        self._counts: dict[str, int] = {array["name"]: math.prod(array["shape"]) for array in facts["arrays"]}
        self._early = {name: self._rows(name) for name in facts["seconds"]}
        self._poisons: dict[str, Any] = {}
        self._consts: dict[tuple[str, int], Any] = {}
        self.stock: Any = None
        self.graphs: dict[int, tuple[Callable[[], Any], Any]] = {}
        self._driver.sync()
        self._bands = [self._band_bytes(number) for number in range(len(facts["bands"]))]

    def close(self) -> None:
        """Inside a worker on a card: the shared memory will be another's."""
        if self._pinned:
            self._driver.unpin(self._host)

    def words(self) -> Any:
        """Inside a worker on a card: what the judge asks of this call."""
        start = self.facts["words"]
        return json.loads(self.memory[start : len(self.memory)].rstrip(b"\0"))

    def load(self, placement: int) -> None:
        """Inside a worker on a card: inputs, outputs and bands as they are in the shared memory."""
        start, end = self.facts["spans"][placement]
        self._driver.copy(self._at + start, self._host + start, end - start)
        for name, rows in self._early.items():
            self._driver.copy(rows.data_ptr(), self._at + self._offset(name, placement), self._nbytes(name))
            self._poisons[name] = self._ints(rows, name)[: self._counts[name]]

    def draw(self, placement: int, request: dict[str, Any]) -> None:
        """Inside a worker on a card: inputs and outputs from what is kept there, at the places that the judge now names."""
        assert self.stock is not None
        self.stock.renew(request["decoy"])
        for name, (start, over_start) in request["inputs"].items():
            if name in request["const"] and self._consts.get((name, placement)) == [start, over_start]:
                continue
            self._consts[name, placement] = [start, over_start]
            count, target = self._counts[name], self.array(name, placement)
            values = self._ints(self.stock.of(f"values/{name}"), name)[start : start + count]
            if (over := self.stock.of(f"over/{name}")) is None:
                target.copy_(values)
                continue
            over = self._ints(over, name)[over_start : over_start + count]
            if (ring := request["rings"].get(name)) is None:
                self._torch.bitwise_xor(values, over, out=target)
            else:
                kind = self._kinds[name]
                target.view(kind).copy_(laid(self._torch, values.view(kind), over.view(kind), *ring))
        for name, (kind, start) in request["poison"].items():
            poison = self._ints(self.stock.of(f"{kind}/{name}"), name)
            self._poisons[name] = poison[start : start + self._counts[name]]
            self.array(name, placement).copy_(self._poisons[name])

    def intact(self, placement: int) -> bool:
        """Inside a worker on a card: whether the outputs still hold what they were filled with, at some places."""
        outputs = [name for name in self._poisons if name not in self.facts["mutated"]]
        return all(self._alike(name, placement) for name in outputs if self._counts[name])

    def keep(self, placement: int) -> None:
        """Inside a worker on a card: a copy of what the call left, in stream order: work that was put off is not in it."""
        for name, rows in self._early.items():
            self._driver.copy(rows.data_ptr(), self._at + self._offset(name, placement), self._nbytes(name))

    def bring(self, placement: int) -> None:
        """Inside a worker on a card: everything into the shared memory: what lies here now, and early copies in the outputs' places."""
        start, end = self.facts["spans"][placement]
        self._driver.copy(self._host + start, self._at + start, end - start)
        for name, rows in self._early.items():
            here = self._at + self._offset(name, placement)
            self._driver.copy(self._host + self.facts["seconds"][name], here, self._nbytes(name))
            self._driver.sync()
            self._driver.copy(self._host + self._offset(name, placement), rows.data_ptr(), self._nbytes(name))
        self._driver.sync()

    def proof(self, placement: int, request: dict[str, Any]) -> dict[str, Any]:
        """Inside a worker on a card: sums with signs and bits at places that were not known before the call had ended."""
        inputs = [name for name in self._kinds if name not in self._early]
        return {
            "outputs": {name: self._output_proof(name, placement, request) for name in self._early},
            "inputs": {name: self._total(name, placement) for name in inputs},
            "guards": bool(self._torch.equal(self._band_bytes(placement), self._bands[placement])),
        }

    def array(self, name: str, placement: int) -> Any:
        """Inside a worker on a card: the array's elements as whole numbers, in one row."""
        start = self._offset(name, placement)
        return self._ints(self.area[start : start + self._nbytes(name)], name)

    def _output_proof(self, name: str, placement: int, request: dict[str, Any]) -> dict[str, Any]:
        torch, rows, now = self._torch, self._early[name], self.array(name, placement)
        early = self._ints(rows, name)[: self._counts[name]]
        numbers = rows.view(self._kinds[name]).view(-1, ROW).double()
        signs = self.stock.signs if self.stock is not None else ()
        places = torch.tensor(request["places"], dtype=torch.int64, device=self._where)
        across = signs[places[:, :1] + torch.arange(ROW, device=self._where)]
        down = signs[places[:, 1:] + torch.arange(len(numbers), device=self._where)]
        sums = ((numbers @ across.T) * down.T).sum(0)
        return {
            "sums": [value.hex() for value in sums.tolist()],
            "same": bool(torch.equal(early, now)),
            "bits": [self._bits(early, *request["subset"]), self._bits(now, *request["subset"])],
        }

    def _bits(self, ints: Any, step: int, start: int) -> int:
        at = (step * self._torch.arange(SUBSET, device=self._where) + start) % max(len(ints), 1)
        return int((ints[at].long() * ((at * WIDE + start) | 1)).sum()) if len(ints) else 0

    def _total(self, name: str, placement: int) -> int:
        return int(self.array(name, placement).sum(dtype=self._torch.int64))

    def _alike(self, name: str, placement: int) -> bool:
        now, before = self.array(name, placement), self._poisons[name]
        # drawn here: a candidate's capture may have left the card's own generator unusable
        at = self._torch.tensor([secrets.randbelow(len(now)) for _ in range(SAMPLES)], device=self._where)
        return bool(self._torch.equal(now[at], before[at]))

    def _band_bytes(self, placement: int) -> Any:
        return self._torch.cat([self.area[start : start + count] for start, count in self.facts["bands"][placement]])

    def _rows(self, name: str) -> Any:
        count = -(-max(self._counts[name], 1) // ROW) * ROW
        return self._torch.zeros(count * self._kinds[name].itemsize, dtype=self._torch.uint8, device=self._where)

    def _ints(self, raw: Any, name: str) -> Any:
        return raw.view(getattr(self._torch, INTS[self._kinds[name].itemsize]))

    def _nbytes(self, name: str) -> int:
        return self._counts[name] * int(self._kinds[name].itemsize)

    def _offset(self, name: str, placement: int) -> int:
        return int(self.facts["placements"][placement][name])


def _is_ended(graph: Any) -> bool:
    """Inside a worker on a card: whether PyTorch has done with that capture: only then does a graph say its pool."""
    if graph is None:
        return True
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


class Device:
    """The card that PyTorch sees first."""

    empties_cache = True
    """Whether the card's cache is emptied here, before a call that is to find it cold."""

    def __init__(self, driver: Any = None, where: str = "cuda") -> None:
        """The candidate is not imported yet. Raises RuntimeError where there is no card."""
        self.torch, self.where = import_module("torch"), where
        if driver is None:
            self.torch.cuda.init()
            self.torch.zeros(1, device=where)  # the card's context is made by this, and belongs to this thread now
            driver = import_module("judge_card").Driver(hip=bool(self.torch.version.hip))
        self.driver = driver
        self._frames = import_module("judge_frames")
        self._sleep = (
            None if where == "cpu" else getattr(self.torch._C, "_cuda_sleep", None)
        )  # before the candidate can replace it
        self._pool: Any = None
        self._unended: Any = None
        """A graph whose capture failed at its end: to PyTorch's allocator it goes on, so there are no more."""
        size = self._cache_bytes() if self.empties_cache else 0
        self._flush = self.torch.empty(size, dtype=self.torch.uint8, device=where)
        self._places: dict[int, Place] = {}

    def open(self, descriptor: int, layout: dict[str, Any]) -> mmap.mmap:
        """Inside a worker on a card: the memory that came with a layout."""
        memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        return memory

    def bind(self, slot: int, memory: mmap.mmap, layout: dict[str, Any], wrap: Callable[..., Any]) -> Any:
        """In a CUDA worker: the arrays on the card by name, for each placement, as the candidate's language has them."""
        if slot in self._places:
            self._places.pop(slot).close()
        place = self._places[slot] = Place(self, memory, layout)
        return [
            {
                array["name"]: wrap(place.area, array["dtype"], array["shape"], offsets[array["name"]])
                for array in layout["arrays"]
            }
            for offsets in layout["placements"]
        ]

    def stock(self, slot: int, memory: mmap.mmap, layout: dict[str, Any]) -> None:
        """Inside a worker on a card: keep these values on the card for calls of that size."""
        self._places[slot].stock = import_module("judge_card").Stock(self, memory, layout)

    def move(self, target: int, source: int, count: int) -> None:
        """Inside a worker on a card: take what a call returned to where its output belongs, in stream order."""
        self.driver.copy(target, source, count)

    def run(self, frame: Any, entry: Callable[..., Any], arguments: Sequence[Any], finish: Any) -> tuple[int, str]:
        """Inside a worker on a card: one call: its time in ns by the device's events, and why it gave no answer."""
        if frame.kind == self._frames.PING:
            return self._time_call(entry, ()), ""
        place, from_stock = self._places[frame.slot], frame.text == "drawn"
        request = place.words() if from_stock else {"graph": False, "cold": False}
        if from_stock:
            place.draw(frame.placement, request)
        else:
            place.load(frame.placement)
        self.driver.no_persistence()
        if request["cold"]:
            self.driver.fill(self._flush.data_ptr(), frame.nonce[0], len(self._flush))
        self.driver.sync()
        intact = place.intact(frame.placement)
        call, result = place.graphs[frame.placement] if request["graph"] else (lambda: entry(*arguments), None)
        if request["graph"]:
            self.hold_card()
        self.driver.start()
        returned = call()
        self.driver.stop()
        wrong = finish(result if request["graph"] else returned) if finish is not None else ""
        place.keep(frame.placement)
        self.driver.sync()
        took = self.driver.elapsed_ns()
        if not from_stock:
            place.bring(frame.placement)
        return took, wrong or ("" if intact else "outputs were written before the call began")

    def hold_card(self) -> None:
        """Keep the card busy until the events and the graph lie behind each other on it, so that between the events
        there is no time of the processor's. Of graphs alone: what runs of itself on another stream could begin early.
        """
        if self._sleep is not None:
            self._sleep(HELD_CYCLES)

    def prove(self, frame: Any) -> None:
        """Inside a worker on a card: what the judge wants to know of the last call at that placement, into the place for words."""
        place = self._places[frame.slot]
        request = place.words()
        answer = json.dumps(place.proof(frame.placement, request)).encode() if request["places"] else b"{}"
        if request["whole"]:
            place.bring(frame.placement)
        start = place.facts["words"]
        place.memory[start : len(place.memory)] = answer.ljust(len(place.memory) - start, b"\0")

    def capture(self, frame: Any, entry: Callable[..., Any], arguments: Sequence[Any]) -> str:
        """Inside a worker on a card: make a graph of one call: `graph` and nodes by kind, or `eager` and why there is none."""
        place, torch = self._places[frame.slot], self.torch
        if not place.graphs:  # the next need nothing compiled any more, and would take the call's own arrays once more
            entry(*arguments)
            self.driver.sync()
        if self._unended is not None:
            return "eager an earlier capture could not be ended"
        graph = None
        try:
            if self.where != "cpu" and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > LEFT_OVER:
                torch.cuda.empty_cache()
            graph = torch.cuda.CUDAGraph(keep_graph=True)
            # a capture that fails would leave its own stream to all that follows, which no event of ours is on
            with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, pool=self._live_pool()):
                result = entry(*arguments)
            kinds = self.driver.kinds(graph.raw_cuda_graph())
            if odd := sorted(set(kinds) - import_module("judge_card").PLAIN):
                return f"eager {', '.join(odd)} nodes"
            if not kinds:
                return "eager nothing in the graph"
            graph.instantiate()
            self._pool = graph.pool()
        except RAISED as error:
            # one that has no end is kept: PyTorch's allocator asks it whose memory is taken
            self._unended = None if _is_ended(graph) else graph
            return f"eager {type(error).__name__}: {error}"
        place.graphs[frame.placement] = (graph.replay, result)
        return f"graph {json.dumps(kinds)}"

    def _live_pool(self) -> Any:
        """Inside a worker on a card: memory that graphs share, since one runs after the other: what one needs, the next can use.

        None, for one of its own, where no graph is left: PyTorch refuses a pool whose graphs are gone while anything else
        lies in it, as cuBLAS's workspace does for as long as the process lives.
        """
        return self._pool if any(place.graphs for place in self._places.values()) else None

    def _time_call(self, entry: Callable[..., Any], arguments: Sequence[Any]) -> int:
        self.driver.start()
        entry(*arguments)
        self.driver.stop()
        self.driver.sync()
        return int(self.driver.elapsed_ns())

    def _cache_bytes(self) -> int:
        if self.where == "cpu":
            return ROW
        properties = self.torch.cuda.get_device_properties(0)
        twice_l2_bytes = 2 * int(getattr(properties, "L2_cache_size", 0))
        return max(twice_l2_bytes, 2 * FLUSH_LEAST if self.torch.version.hip else 0, ROW)
