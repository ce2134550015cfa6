"""The arenas of one session: one for each size, those used longest ago given up when there are too many bytes."""

from collections.abc import Mapping

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.arena import Arena, arena_bytes, rooms
from ridgeline.sandbox.judge.card_arena import CardArena

BUDGET_BYTES = 1 << 30
Key = tuple[tuple[str, int], ...]


def budget_bytes(task: Task) -> int:
    """All arenas together; room for two of the largest public size at least."""
    return max(BUDGET_BYTES, 2 * max(arena_bytes(rooms(task, shape.dims)) for shape in task.shapes))


class Arenas:
    """Each has a number, its slot, by which the worker knows it; a slot is given again when its arena is given up."""

    def __init__(self, task: Task, *, budget: int | None = None, card: bool = False) -> None:
        """`budget` in bytes; default: `budget_bytes`."""
        self._task, self._card = task, card
        self._budget = budget_bytes(task) if budget is None else budget
        self._held: dict[Key, tuple[int, Arena]] = {}

    def of(self, dims: Mapping[str, int]) -> tuple[int, Arena, bool]:
        """Slot and arena of that size, and whether it is new. Raises WorldError when there is no memory for it."""
        if self._held and (last := next(reversed(self._held.values())))[1].dims == dims:
            return *last, False
        key = tuple(sorted(dims.items()))
        new = key not in self._held
        if new:
            self._make_room(arena_bytes(rooms(self._task, dims)))
            slot = min(set(range(len(self._held) + 1)) - {slot for slot, _ in self._held.values()})
            self._held[key] = (slot, (CardArena if self._card else Arena)(self._task, dims))
        else:
            self._held[key] = self._held.pop(key)  # the order of the dict is that of use
        slot, arena = self._held[key]
        return slot, arena, new

    def close(self) -> None:
        """Give all of them up."""
        for _, arena in self._held.values():
            arena.close()
        self._held.clear()

    def _make_room(self, wanted: int) -> None:
        while self._held and sum(arena.size for _, arena in self._held.values()) + wanted > self._budget:
            _, arena = self._held.pop(next(iter(self._held)))
            arena.close()
