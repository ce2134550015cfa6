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
        self.stream, self.users, self.fails, self.stuck = "default", dict[int, int](), False, False
        self.cuda = SimpleNamespace(
            CUDAGraph=lambda keep_graph: Graph(self),
            graph=self.capture,
            stream=self.on,
            current_stream=lambda: self.stream,
            memory_reserved=lambda: 2 << 30,
            memory_allocated=lambda: 0,
            empty_cache=self.empty,
        )

    def empty(self) -> None:
        """As PyTorch's allocator, for which a capture that failed goes on."""
        if self.stuck:
            raise RuntimeError("INTERNAL ASSERT FAILED: captures_underway.empty()")

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
        graph.number = number
        yield
        if self.fails:
            self.stuck = True
            raise RuntimeError("operation failed due to a previous error during capture")
        self.stream = "default"


class Graph:
    """One call as a graph."""

    def __init__(self, torch: Played) -> None:
        self._torch, self.number = torch, -1

    def __del__(self) -> None:
        if self.number >= 0:
            self._torch.users[self.number] -= 1

    def pool(self) -> int:
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
    made.torch, made.where, made._pool, made._failed = torch, "cuda", None, []
    made.driver = SimpleNamespace(sync=lambda: None, kinds=lambda graph: {"kernel": 1})
    made._places = {slot: SimpleNamespace(graphs={}) for slot in (0, 1)}
    return made


def capture(device: Any, slot: int, placement: int = 0) -> str:
    words: str = device.capture(SimpleNamespace(slot=slot, placement=placement), lambda: None, ())
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


def test_a_call_of_which_there_is_no_graph_leaves_the_stream_as_it_was(device: Any, torch: Played) -> None:
    torch.fails = True
    for place in (0, 1):
        assert capture(device, 0, place).startswith("eager RuntimeError")
        assert torch.stream == "default"
