"""What a worker sees of this machine: systems programs and libraries, its interpreter, and what it was given."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.harness.isolate.plan import Mounts

_PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "include", "share")
"""Of /usr and /usr/local. Not the whole of them: there are images in which projects lie in /usr/src."""
_LOCAL = ("cuda*", "nvidia*", "rocm*")
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "python3*",
    "passwd",
    "group",
    "nsswitch.conf",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_STREAMS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_GPU_DEVICES = ("nvidia*", "kfd", "dri")
_GPU_FOLDERS = ("etc/OpenCL", "etc/vulkan", "opt/rocm*", "run/opengl-driver")
_FACTS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
_INSTALLATION = (*_PARTS, "etc", "nvvm", "targets", "*-conda-linux-gnu", "pyvenv.cfg")
"""Of a Python installation. Not the whole of it: a virtual environment can be a project's own folder."""
CACHES = {
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "cache/config",
    "XDG_DATA_HOME": "cache/data",
    "TRITON_HOME": "cache",
    "TRITON_CACHE_DIR": "cache/triton",
    "TORCH_HOME": "cache/torch",
    "TORCH_EXTENSIONS_DIR": "cache/torch_extensions",
    "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
    "CUDA_CACHE_PATH": "cache/cuda",
    "NUMBA_CACHE_DIR": "cache/numba",
    "FLYDSL_RUNTIME_CACHE_DIR": "cache/flydsl",
    "PYTHONPYCACHEPREFIX": "cache/python",
}
"""Variables that name a folder for compiled code, and where it lies in a worker's own folder."""
OWN = ("home", "tmp", "cache")


def told(private: Path, program: Path, extra: dict[str, str]) -> dict[str, str]:
    """All that a worker is told, the same for every purpose that it may be started for."""
    return {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(private / "home"),
        "TMPDIR": str(private / "tmp"),
        **{name: str(private / place) for name, place in CACHES.items()},
        **extra,
    }


def mounts(program: Path, *, readable: Sequence[Path], private: Path, gpu: bool) -> Mounts:
    """The whole of the worker's file system, parents before children."""
    found: Mounts = [("processes", "", "/proc")]
    found += [("scratch", "tmp", "/tmp"), ("scratch", "shm", "/dev/shm"), ("link", "/tmp", "/var/tmp")]
    found += [("scratch", "own", str(private)), *(("folder", "", str(private / name)) for name in OWN)]
    found += [("link", f"/proc/self/{target}", f"/dev/{name}") for name, target in _STREAMS.items()]
    devices = [*(Path("/dev") / name for name in _DEVICES), *(_matching("/dev", _GPU_DEVICES) if gpu else ())]
    found += [("device", str(path), str(path)) for path in devices if path.exists()]
    links, folders = _system(gpu=gpu)
    found += [("link", os.readlink(link), str(link)) for link in links]  # noqa: PTH115 (not as a path: kept as it is)
    found += [("read", os.path.realpath(path), str(path)) for path in (*folders, *installation(program), *readable)]
    return sorted(dict.fromkeys(found), key=lambda mount: mount[2].count("/"))


@cache
def installation(program: Path) -> tuple[Path, ...]:
    """The parts of the Python installations that the program belongs to: a virtual environment, and what it is made of.

    None for a program that is no interpreter, or is the system's own. What was found is remembered.
    """
    prefixes: list[Path] = []
    for hop in _hops(program):
        prefix = hop.parent.parent
        configuration = prefix / "pyvenv.cfg"
        if configuration.is_file():
            prefixes += [prefix, *_base(configuration)]
        elif any((prefix / "lib").glob("python3*")):
            prefixes.append(prefix)
    found = [
        prefix for prefix in dict.fromkeys(prefixes) if os.path.realpath(prefix) not in ("/", "/usr", "/usr/local")
    ]
    return tuple(path for prefix in found for path in _matching(prefix, _INSTALLATION))


def check_readable(paths: Iterable[Path], *, by_others: bool) -> None:
    """Raise WorldError when something that a worker is to see is not there, or not for the eyes of its user."""
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise WorldError(f"{path}: a worker is to read it, and it is not there; give the whole path of what exists")
        wanted = 0o005 if path.is_dir() else 0o004
        if by_others and path.stat().st_mode & wanted != wanted:
            raise WorldError(f"{path}: a worker runs as nobody and may not read it; chmod o+rX it")


@cache
def _system(*, gpu: bool) -> tuple[list[Path], list[Path]]:
    """Links of the root folder, and folders and files of the system."""
    top = [Path("/") / name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")]
    folders = [*_matching("/usr", _PARTS), *_matching("/usr/local", (*_PARTS, "etc")), Path("/nix/store")]
    folders += [path for path in top if not path.is_symlink()]
    folders += _matching("/etc", _ETC)
    if gpu:
        folders += [Path("/sys"), *_matching("/usr/local", _LOCAL), *_matching("/", _GPU_FOLDERS)]
    else:
        folders += [Path(name) for name in _FACTS]
    return [path for path in top if path.is_symlink()], [path for path in folders if path.exists()]


def _matching(folder: str | Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        if "*" in pattern:
            yield from sorted(Path(folder).glob(pattern))
        elif (path := Path(folder) / pattern).exists():
            yield path


def _hops(program: Path) -> Iterator[Path]:
    """The program, what it is a link to, and so on to the file itself."""
    for _ in range(40):  # as many as the kernel follows
        yield program
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _base(configuration: Path) -> Iterator[Path]:
    """The installation that a virtual environment was made from."""
    for line in configuration.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            yield Path(value.strip()).parent
