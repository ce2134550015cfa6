"""How much of the machine one worker may use."""

import os
import resource
from dataclasses import dataclass

_MIB = 1 << 20
_PER_THREAD_MB = 136
"""Address space that glibc reserves for a thread's heap (two times 64 MiB, one given back) and stack; hardly any of it
is memory. Without it a library that starts a thread for each processor would fail on large machines."""

_CARD_FILES = 1024
"""A card's driver opens one for each stretch of memory that it shares."""


@dataclass(frozen=True, kw_only=True)
class WorkerLimits:
    """Sizes in MiB unless the name says bytes. Above any of them the worker fails; nobody else does."""

    memory_mb: int = 4096
    """Of all its processes together where control groups can be made, and of each one's address space otherwise and
    also (RLIMIT_AS, plus what threads reserve). Not of address space with a card: its driver reserves terabytes."""
    processes: int = 64
    """Processes and threads beyond two for each processor of the machine."""
    file_mb: int = 64
    """Largest file it may write."""
    scratch_mb: int = 1024
    """All that it may write, in a file system in memory; not held where there are no namespaces."""
    output_bytes: int = 64_000
    """Of what it prints, head and tail are kept to this size. It may print more."""
    open_files: int = 256

    @property
    def tasks(self) -> int:
        """Processes and threads, as the kernel counts them."""
        return self.processes + 2 * (os.cpu_count() or 1)

    def resources(self, *, gpu: bool) -> list[tuple[int, int]]:
        """Resources and their limits as setrlimit(2) has them."""
        held = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, self.file_mb * _MIB),
            (resource.RLIMIT_NOFILE, max(self.open_files, _CARD_FILES) if gpu else self.open_files),
        ]
        if not gpu:
            reserved = _PER_THREAD_MB * (os.cpu_count() or 1)
            held.append((resource.RLIMIT_AS, (self.memory_mb + reserved) * _MIB))
        return held
