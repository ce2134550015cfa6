"""Waits for the timed core to rest, before a pair that other processes disturbed is timed again."""

import time
from collections.abc import Callable, Collection

from ridgeline.sandbox.timing.conditions.core_watch import TICK_S
from ridgeline.sandbox.timing.conditions.processor import Ticks, ticks, usable

RESTED = 0.1
"""Share of the core that others may use: well below what disturbs a block (`rules.FOREIGN_SHARE`)."""
LOOK_S = 1.0
"""One look: 100 of the kernel's steps."""
LOOKS = 3
"""In a row that must find it at rest: work that comes and goes would come again."""
TOTAL_S = 180.0
"""Longest of all waits of one comparison together: a machine that is never quiet must not stop a campaign."""

Look = Callable[[], Ticks | None]


class Quiet:
    """Patience of one comparison. Nothing of ours runs while it waits, so whatever the core does is others' work."""

    def __init__(
        self,
        core: int | None,
        *,
        total_s: float = TOTAL_S,
        look: Look | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`core` None watches all usable cores. `total_s` 0 never waits."""
        cores: Collection[int] = usable() if core is None else (core,)
        self._cores = len(cores)
        self._left_s = total_s
        self._look = look or (lambda: ticks(cores))
        self._sleep = sleep

    def wait(self) -> bool:
        """Until the core was at rest for `LOOKS` looks. False when patience ran out, or nothing can be seen."""
        rested = 0
        while self._left_s >= LOOK_S:
            before = self._look()
            self._sleep(LOOK_S)
            self._left_s -= LOOK_S
            after = self._look()
            if before is None or after is None:
                return False
            busy_s = (after.busy - before.busy + after.steal - before.steal) * TICK_S
            rested = rested + 1 if busy_s <= RESTED * LOOK_S * self._cores else 0
            if rested == LOOKS:
                return True
        return False
