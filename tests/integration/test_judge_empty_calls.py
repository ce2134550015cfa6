"""What an empty call takes is taken off every timed one: on a core that was busy when it was asked, only as much as later too."""

import statistics
from pathlib import Path

import yaml

from ridgeline.graph.judgment import TimedCall
from ridgeline.sandbox.judge import timing
from ridgeline.sandbox.judge.options import HERE, Options
from ridgeline.sandbox.judge.session import Session
from ridgeline.sandbox.judge.task_judge import time_pair

TASK = {
    "task": 1,
    "name": "total",
    "language": "c",
    "source": ["kernel.c"],
    "entry": "total",
    "inputs": [{"name": "x", "shape": ["rows", "cols"]}],
    "outputs": [{"name": "y", "shape": ["rows"]}],
    "shapes": [{"label": "s", "dims": {"rows": 100, "cols": 3000}}],
}
KERNEL = """#include <stdint.h>
void total(const float *x, float *y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) sum += x[r * cols + c];
        y[r] = sum;
    }
}
"""
BUSY_US = 5000.0
"""Far more than the call takes: nothing would be left of it. A machine goes from one pace to another by less."""


def time_calls(folder: Path) -> tuple[TimedCall, ...]:
    """Of the kernel against itself."""
    calls = time_pair(folder / "task.yaml", folder, folder, shapes=(), blocks=3, options=Options(), surroundings=HERE)
    assert isinstance(calls, tuple), calls
    return calls


def time_us(folder: Path) -> float:
    """Of the kernel against itself, the median of all calls."""
    return statistics.median(call.time_us for call in time_calls(folder))


def test_calls_are_not_told_too_short_where_the_core_was_busy_at_the_beginning_alone(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(TASK, sort_keys=False))
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "reference.py").write_text("def reference(x):\n    return x.sum(axis=1)\n")
    honest, asked = Session.ping_often, set[int]()
    calm_us = time_us(tmp_path)

    def ping_often(session: Session) -> list[float]:
        """Long when a worker is asked for the first time, as on a busy core."""
        first = id(session) not in asked
        asked.add(id(session))
        return [time + BUSY_US * first for time in honest(session)]

    monkeypatch.setattr(Session, "ping_often", ping_often)
    busy_us = time_us(tmp_path)
    assert len(asked) == 2
    assert busy_us > calm_us / 4, "all of it was taken off"


def test_calls_of_a_side_are_not_told_short_where_it_makes_its_own_empty_ones_long(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(TASK, sort_keys=False))
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "reference.py").write_text("def reference(x):\n    return x.sum(axis=1)\n")
    calm_us = time_us(tmp_path)
    honest, slow = Session.ping, list[int]()
    monkeypatch.setattr(timing, "PINGS_BETWEEN", 1)

    def ping(session: Session) -> float:
        """Long for the worker that is asked first, every time."""
        slow.append(id(session))
        return honest(session) + BUSY_US * (id(session) == slow[0])

    monkeypatch.setattr(Session, "ping", ping)
    calls = time_calls(tmp_path)
    times_us = [statistics.median(call.time_us for call in calls if call.side == side) for side in "ab"]
    assert min(times_us) > calm_us / 4, "what the other side's take was taken off"
    assert max(times_us) > min(times_us) + BUSY_US / 2, "and what it may have worked in its own is time of its calls"
