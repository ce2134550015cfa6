"""Stands in for torch in a target's interpreter: a card whose clock runs as fast as the rates below say, and no faster.

Copied as `torch.py` beside its metadata by `install`; `FAKE_TORCH` says what is wrong with it. Its profiler exports
the file that `FAKE_TORCH_TRACE` names. Standard library only.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

__version__ = "9.9.0+fake"
MODE = os.environ.get("FAKE_TORCH", "")
GB, TERA = 1e9, 1e12
COPY, READ, WRITE = 3000 * GB, 3100 * GB, 3200 * GB
MATRIX = {"tf32": 400 * TERA, "float32": 50 * TERA, "float16": 650 * TERA, "bfloat16": 640 * TERA, "int8": 1300 * TERA}
WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
float32, float16, bfloat16, int8 = "float32", "float16", "bfloat16", "int8"
NOW = [0.0]
PRECISION = ["highest"]


def install(folder: Path) -> Path:
    """A folder to put on PYTHONPATH, with this file as the installed package torch."""
    folder.mkdir(parents=True)
    (folder / "torch.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "torch-9.9.0.dist-info").mkdir()
    (folder / "torch-9.9.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.0\n")
    return folder


if __name__ == "torch":
    if MODE == "broken":
        raise ImportError("libcudart.so.12: cannot open shared object file")
    if MODE == "noisy":
        sys.stdout.write("warning: a library of the driver says something\n")
    if MODE == "dies":
        sys.stderr.write("Segmentation fault, as it were\n")
        os._exit(139)
    if MODE == "babbles":
        sys.stdout.write('{"ok": true, "torch": "9.9.0"}\n')
        sys.exit(0)


class Tensor:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def size(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count * WIDTH[self.dtype]

    def to(self, dtype):
        return Tensor(self.shape, dtype)

    def t(self):
        return Tensor(self.shape[::-1], self.dtype)

    def fill_(self, _):
        NOW[0] += self.size / WRITE
        return self

    def sum(self):
        NOW[0] += self.size / READ
        return self

    def copy_(self, _):
        NOW[0] += 2 * self.size / COPY
        return self


def empty(shape, *, dtype, device):
    assert device == "cuda"
    if MODE == "no-memory":
        raise RuntimeError("CUDA out of memory.\nTried to allocate")
    return Tensor((shape,) if isinstance(shape, int) else shape, dtype)


randn = empty


def randint(_low, _high, shape, *, dtype, device):
    return empty(shape, dtype=dtype, device=device)


def set_float32_matmul_precision(precision):
    PRECISION[0] = precision


def mm(a, b, out):
    kind = "tf32" if a.dtype == "float32" and PRECISION[0] == "high" else a.dtype
    # the smallest of the shapes does not fill the card
    NOW[0] += 2 * a.shape[0] * a.shape[1] * b.shape[1] / MATRIX[kind] * (1.25 if a.shape[0] < 8192 else 1)
    return out


def _int_mm(a, b):
    return mm(a, b, None)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = NOW[0]

    def elapsed_time(self, other):
        return 1e3 * (other.at - self.at)


class cuda:
    Event = Event

    @staticmethod
    def is_available():
        return MODE != "no-gpu"

    @staticmethod
    def get_device_properties(_):
        return SimpleNamespace(name="NVIDIA H100 80GB HBM3", major=9, minor=0)

    @staticmethod
    def is_initialized():
        return MODE != "no-gpu"

    @staticmethod
    def mem_get_info():
        return (80 << 30, 80 << 30)

    @staticmethod
    def synchronize():
        if MODE == "lost-card":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


version = SimpleNamespace(hip=None)


class Recorder:
    """torch.profiler.profile: which activities it was asked for stands in what it exports."""

    def __init__(self, activities):
        self.activities, self.running = activities, False

    def start(self):
        if MODE == "no-profiler":
            raise RuntimeError("Kineto is not available")
        self.running = True

    def stop(self):
        assert self.running
        self.running = False

    def export_chrome_trace(self, path):
        assert not self.running
        text = Path(os.environ["FAKE_TORCH_TRACE"]).read_text(encoding="utf-8")
        Path(path).write_text(text.replace("ACTIVITIES", ",".join(self.activities)), encoding="utf-8")


if __name__ == "torch" and MODE != "old":
    kinds = SimpleNamespace(CPU="CPU", CUDA="CUDA")
    sys.modules["torch.profiler"] = SimpleNamespace(profile=Recorder, ProfilerActivity=kinds)
