"""A worker whose card is played by the processor: the driver's functions are fakes, all else is the product's.

Started in the place of the harness's own program; its first argument is the folder of the harness's files.
"""

import ctypes
import sys
import time
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HARNESS = next(path for path in (ROOT / "ridgeline/sandbox/harness", ROOT / "sandbox/harness") if path.is_dir())
"""Under the name by which the product was imported: a worker sees no other."""
sys.path.insert(0, str(HARNESS))
import judge_worker  # noqa: E402


class Processor:
    """What a card's driver does, at once and in this process's memory."""

    def start(self) -> None:
        self._started = time.perf_counter_ns()

    def stop(self) -> None:
        self._stopped = time.perf_counter_ns()

    def elapsed_ns(self) -> int:
        return self._stopped - self._started

    def sync(self) -> None:
        pass

    def copy(self, target: int, source: int, count: int) -> None:
        ctypes.memmove(target, source, count)

    def fill(self, target: int, word: int, count: int) -> None:
        ctypes.memset(target, word & 0xFF, count)

    def pin(self, at: int, count: int) -> bool:
        return True

    def unpin(self, at: int) -> None:
        pass

    def no_persistence(self) -> None:
        pass

    def kinds(self, graph: int) -> dict[str, int]:
        return {"kernel": 1}


def _beside(name: str) -> object:
    module = _real(name)
    device = getattr(module, "Device", None)
    if name == "judge_worker_cuda":

        class Played(device):
            def __init__(self, *_: object) -> None:
                super().__init__(Processor(), "cpu")

        module.Device = Played
    elif name == "judge_worker_segment":
        module.Device = lambda: device(memory=sys.modules["judge_segments"].HostMemory(import_module("torch")))
    return module


_real = judge_worker._beside
judge_worker._beside = _beside

if __name__ == "__main__":
    judge_worker.main()
