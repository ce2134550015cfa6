"""Control groups: a bound on what all processes of one worker use together."""

import secrets
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ridgeline.sandbox.judge.limits import WorkerLimits


def make(limits: WorkerLimits, wanted: Collection[str]) -> tuple[list[str], list[str]]:
    """New groups beneath that of this process, and which of the wanted controllers (memory, pids) none holds.

    One group for each hierarchy; ask for no more than is needed, as joining one of the old kind takes milliseconds.
    Whoever uses them removes them. Nothing is left behind for controllers that are not to be had.
    """
    name = f"ridgeline-{secrets.token_hex(8)}"
    made: list[str] = []
    held: set[str] = set()
    for parent in dict.fromkeys(_parents(wanted)):
        group = parent / name
        with suppress(OSError):
            group.mkdir()
            if bound := _bound(group, limits):
                held |= bound
                made.append(str(group))
            else:
                group.rmdir()
    return made, [controller for controller in wanted if controller not in held]


def remove(groups: list[str]) -> None:
    """Remove groups that have no processes any more; those that are gone or in use are left."""
    for group in groups:
        with suppress(OSError):
            Path(group).rmdir()


def _bound(group: Path, limits: WorkerLimits) -> set[str]:
    """Which controllers hold the group now."""
    held = set()
    size = str(limits.memory_mb << 20)
    for controller, name, value in (
        ("memory", "memory.max", size),
        ("", "memory.swap.max", "0"),
        ("memory", "memory.limit_in_bytes", size),
        ("pids", "pids.max", str(limits.tasks)),
    ):
        if (group / name).exists():
            with suppress(OSError):
                (group / name).write_text(value, encoding="ascii")
                held.add(controller)
    return held - {""}


def _parents(wanted: Collection[str]) -> Iterator[Path]:
    """Folders of this process's own groups, for wanted controllers of the old kind and for the new hierarchy."""
    mine: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        mine.update(dict.fromkeys(controllers.split(","), path))
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, where = before.split()[3:5]
        known = {"": kind == "cgroup2"} | {name: kind == "cgroup" and name in options.split(",") for name in wanted}
        for controller, here in known.items():
            path = mine.get(controller, "")
            if here and path and (path + "/").startswith(root.rstrip("/") + "/"):
                yield Path(where + path.removeprefix(root.rstrip("/")))
