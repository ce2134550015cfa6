"""Shared memory: arrays apart from each other, at two places, with bands that tell of writes beside them."""

import ctypes
import itertools
import mmap
import os

import numpy as np
import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.shared_buffers import (
    FULL_CHECK_EVERY,
    GUARD_BYTES,
    PLACEMENTS,
    SharedBuffers,
    SharedBuffersCache,
    buffer_specs,
    shared_bytes,
)
from tests.session_tasks import task, x

MIXED = Task(
    name="mixed",
    language="c",
    source=("kernel.c",),
    entry="mixed",
    inputs=(
        Input(name="a", shape=("n", "2*m"), dtype="float32"),
        Input(name="w", shape=("m",), dtype="bfloat16", constness="const"),
        Input(name="s", shape=("n",), dtype="float64", constness="mutated"),
        Input(name="f", shape=("3",), dtype="bool", values="mask"),
    ),
    outputs=(Output(name="c", shape=("n", "m"), dtype="float16"), Output(name="i", shape=("n",), dtype="int64")),
    shapes=(Shape(label="s", dims={"n": 7, "m": 5}),),
)
DIMS = {"n": 7, "m": 5}


def _inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    return {
        "a": rng.standard_normal((7, 10)).astype(np.float32),
        "w": rng.integers(0, 1 << 16, 5, dtype=np.uint16),
        "s": rng.standard_normal(7),
        "f": rng.integers(0, 2, 3, dtype=np.uint8),
    }


def _worker_view(arena: SharedBuffers, name: str, placement: int) -> np.ndarray:
    """The array as another process that was given the descriptor sees it."""
    memory = mmap.mmap(arena.descriptor, arena.size)
    room = next(one for one in arena.rooms if one.name == name)
    count = int(np.prod(room.shape))
    return np.frombuffer(memory, room.storage, count, arena.offsets[placement][name]).reshape(room.shape)


def test_every_array_has_a_band_on_either_side_and_begins_where_vectors_want() -> None:
    arena = SharedBuffers(MIXED, DIMS)
    sizes = {room.name: room.nbytes for room in arena.rooms}
    spans = sorted((at, at + sizes[name]) for places in arena.offsets for name, at in places.items())
    assert len(spans) == PLACEMENTS * 6
    assert spans[0][0] >= GUARD_BYTES
    assert arena.size - spans[-1][1] >= GUARD_BYTES
    assert all(start - end >= GUARD_BYTES for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(start % 64 == 0 for start, _ in spans)
    assert len({start % 4096 for start, _ in spans}) == 6
    assert arena.size == shared_bytes(buffer_specs(MIXED, DIMS))


@pytest.mark.parametrize("placement", range(PLACEMENTS))
def test_what_is_written_arrives_and_what_is_left_is_copied(placement: int) -> None:
    arena, inputs = SharedBuffers(MIXED, DIMS), _inputs()
    arena.write(inputs, placement)
    arena.poison(None, placement)
    for name, array in inputs.items():
        assert _worker_view(arena, name, placement).tobytes() == array.tobytes()
    view = _worker_view(arena, "c", placement)
    view[:] = 1.5
    _worker_view(arena, "s", placement)[:] = 4
    found = arena.outputs(placement)
    view[:] = 2
    assert sorted(found) == ["c", "i", "s"]
    assert (found["c"] == 1.5).all()
    assert (found["s"] == 4).all()
    assert arena.list_changed_inputs(inputs, placement) == ()
    assert arena.list_broken_guards(placement) == ()


@pytest.mark.parametrize("name", ["a", "w", "f"])
def test_a_changed_input_is_named(name: str) -> None:
    arena, inputs = SharedBuffers(MIXED, DIMS), _inputs()
    arena.write(inputs, 0)
    view = _worker_view(arena, name, 0).reshape(-1).view(np.uint8)
    view[-1] ^= 1
    assert arena.list_changed_inputs(inputs, 0) == (name,)


@pytest.mark.parametrize(
    ("name", "beyond", "told"),
    [
        ("a", -1, ("a",)),
        ("a", 280, ("a", "w")),
        ("i", -1, ("c", "i")),
        ("i", 56, ("i",)),
        ("i", 56 + GUARD_BYTES - 1, ("i",)),
        ("a", -GUARD_BYTES, ("a",)),
    ],
)
def test_a_byte_beside_an_array_is_told_once(name: str, beyond: int, told: tuple[str, ...]) -> None:
    arena = SharedBuffers(MIXED, DIMS)
    memory = mmap.mmap(arena.descriptor, arena.size)
    memory[arena.offsets[1][name] + beyond] ^= 0x55
    assert arena.list_broken_guards(0) == ()
    assert arena.list_broken_guards(1) == told
    assert arena.list_broken_guards(1) == ()


def test_a_byte_far_from_any_array_is_told_when_whole_bands_are_looked_at() -> None:
    arena = SharedBuffers(task(), {"n": 1000})
    memory = mmap.mmap(arena.descriptor, arena.size)
    assert arena.list_broken_guards(0) == ()
    memory[arena.offsets[0]["x"] - GUARD_BYTES // 2] ^= 1
    told = [arena.list_broken_guards(0) for _ in range(2 * FULL_CHECK_EVERY)]
    assert told.count(("x",)) == 1
    assert told.index(("x",)) == FULL_CHECK_EVERY - 1


def test_poison_is_what_is_given_or_random() -> None:
    arena = SharedBuffers(task(), {"n": 1000})
    given = {"y": np.full(1000, 3, dtype=np.float32)}
    arena.poison(given, 0)
    assert (arena.outputs(0)["y"] == 3).all()
    arena.poison(None, 0)
    first = arena.outputs(0)["y"].tobytes()
    arena.poison(None, 0)
    assert arena.outputs(0)["y"].tobytes() != first


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(999, np.float32), np.zeros(1000), np.zeros(2000, np.float32)[::2], np.zeros((1000, 1), np.float32)],
    ids=["length", "type", "strides", "axes"],
)
def test_arrays_that_are_not_what_the_task_says_are_the_judges_own_mistake(wrong: np.ndarray) -> None:
    arena = SharedBuffers(task(), {"n": 1000})
    with pytest.raises(ValueError, match="is wanted"):
        arena.write({"x": wrong}, 0)
    with pytest.raises(ValueError, match="is wanted"):
        arena.poison({"y": wrong}, 0)


def test_a_constant_input_is_put_in_place_once_and_stays() -> None:
    arena, inputs = SharedBuffers(task(constness="const"), {"n": 1000}), x(1000)
    arena.write(inputs, 0)
    _worker_view(arena, "x", 0)[3] = 77
    arena.write({"x": inputs["x"].copy()}, 0)
    assert arena.list_changed_inputs(inputs, 0) == ("x",)
    arena.write(inputs, 1)
    assert arena.list_changed_inputs(inputs, 1) == ()
    with pytest.raises(ValueError, match="constant"):
        arena.write(x(1000), 1)


@pytest.mark.parametrize("size", [0, 4096, 1 << 30])
def test_nobody_can_change_the_size_of_the_memory(size: int) -> None:
    arena = SharedBuffers(task(), {"n": 1000})
    with pytest.raises(PermissionError):
        os.ftruncate(arena.descriptor, size)


def test_pages_that_the_worker_gives_back_read_as_zeros_and_kill_nobody() -> None:
    arena, inputs = SharedBuffers(task(), {"n": 1000}), x(1000)
    arena.write(inputs, 0)
    punch = 1 | 2  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.fallocate(arena.descriptor, punch, ctypes.c_long(0), ctypes.c_long(arena.size)) == 0
    assert (arena.outputs(0)["y"] == 0).all()
    assert arena.list_changed_inputs(inputs, 0) == ("x",)
    assert arena.list_broken_guards(0) == ("x", "y")


def test_arenas_are_kept_by_size_and_given_up_in_the_order_of_use() -> None:
    one = task()
    size = shared_bytes(buffer_specs(one, {"n": 10}))
    arenas = SharedBuffersCache(one, budget=2 * size)
    first, arena, new = arenas.open_size({"n": 10})
    assert (first, new) == (0, True)
    assert arenas.open_size({"n": 11})[0] == 1
    assert arenas.open_size({"n": 10}) == (0, arena, False)
    assert arenas.open_size({"n": 12})[0] == 1
    assert arenas.open_size({"n": 10})[2] is False
    assert arenas.open_size({"n": 11})[::2] == (1, True)
    arenas.close()
