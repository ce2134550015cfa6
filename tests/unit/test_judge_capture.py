"""Inside a worker on a card: graphs of calls, with PyTorch's rules for streams and for memory that graphs share played."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.sandbox.judge import pool as pools

HARNESS = Path(pools.__file__).parents[1] / "harness"


class Played:
    """What capturing meets of PyTorch: a current stream, a pool that lives while a graph of it does, one workspace."""

    def __init__(self) -> None:
        self.stream, self.users, self.fails, self.asked = "default", dict[int, int](), "", 0
        self.cuda = SimpleNamespace(
            CUDAGraph=lambda keep_graph: Graph(self),
            graph=self.capture,
            stream=self.on,
            current_stream=lambda: self.stream,
            memory_reserved=lambda: 0,
            memory_allocated=lambda: 0,
        )

    @contextlib.contextmanager
    def on(self, stream: str) -> Iterator[None]:
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @contextlib.contextmanager
    def capture(self, graph: "Graph", pool: int | None) -> Iterator[None]:
        """As `torch.cuda.graph`: its own stream is current until it ends well; a pool without graphs is refused."""
        self.stream = "capture"
        number = len(self.users) if pool is None else pool
        if self.users.get(number) == 0:
            raise RuntimeError("INTERNAL ASSERT FAILED: it->second->use_count > 0")
        self.users[number] = self.users.get(number, 0) + 1
        graph.number, self.asked = number, self.asked + 1
        try:
            yield
        finally:
            if self.fails == "at its end":
                raise RuntimeError("operation failed due to a previous error during capture")
            graph.ended, self.stream = True, "default"


class Graph:
    """One call as a graph."""

    def __init__(self, torch: Played) -> None:
        self._torch, self.number, self.ended = torch, -1, False

    def __del__(self) -> None:
        if self.ended:
            self._torch.users[self.number] -= 1

    def pool(self) -> int:
        if not self.ended:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self.number

    def raw_cuda_graph(self) -> int:
        return 1

    def instantiate(self) -> None:
        pass

    def replay(self) -> None:
        pass


@pytest.fixture
def torch() -> Played:
    return Played()


@pytest.fixture
def device(torch: Played, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker's card with two sizes and no graph yet."""
    monkeypatch.syspath_prepend(str(HARNESS))
    import judge_worker_cuda

    made = object.__new__(judge_worker_cuda.Device)
    made.torch, made.where, made._pool, made._unended = torch, "cuda", None, None
    made.driver = SimpleNamespace(sync=lambda: None, kinds=lambda graph: {"kernel": 1})
    made._places = {slot: SimpleNamespace(graphs={}) for slot in (0, 1)}
    return made


def capture(device: Any, slot: int, placement: int = 0, entry: Any = lambda: None) -> str:
    words: str = device.capture(SimpleNamespace(slot=slot, placement=placement), entry, ())
    return words


def test_graphs_that_are_there_share_their_memory(device: Any, torch: Played) -> None:
    assert [capture(device, slot, place).split()[0] for slot in (0, 1) for place in (0, 1)] == ["graph"] * 4
    assert torch.users == {0: 4}


def test_a_size_whose_arrays_are_given_anew_is_captured_again(device: Any, torch: Played) -> None:
    """What a product needs of cuBLAS stays in the memory of graphs that are gone, and PyTorch takes no graph into that."""
    assert capture(device, 0).startswith("graph")
    device._places[0] = SimpleNamespace(graphs={})
    assert capture(device, 0).startswith("graph")
    assert torch.users == {0: 0, 1: 1}


def test_a_capture_that_cannot_be_ended_leaves_the_stream_as_it_was_and_is_the_last(device: Any, torch: Played) -> None:
    torch.fails = "at its end"
    for words in ("eager RuntimeError: operation failed", "eager an earlier capture could not be ended"):
        assert capture(device, 0).startswith(words)
        assert torch.stream == "default"
    assert (torch.asked, device._unended.ended) == (1, False)


@pytest.mark.parametrize("error", [MemoryError, KeyError])
def test_what_a_version_raises_under_a_capture_alone_leaves_nothing_behind(
    device: Any, torch: Played, error: type[Exception]
) -> None:
    calls = []

    def entry() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise error("under a capture")

    assert capture(device, 0, entry=entry).startswith(f"eager {error.__name__}")
    assert (torch.stream, torch.users, device._unended) == ("default", {0: 0}, None)
    assert capture(device, 0).startswith("graph")
