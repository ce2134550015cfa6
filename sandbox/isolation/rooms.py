"""What of this machine a process sees that nobody trusts: for workers of the judge, and for commands of a contract."""

# rights of others make pathlib raise where os.path says no
# ruff: noqa: PTH110, PTH112, PTH113

import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.harness.isolate.plan import Mounts

# What a worker sees of this machine: systems programs and libraries, its interpreter, and what it was given.

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
DEVICES = ("null", "zero", "full", "random", "urandom")
STREAMS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
GPU_DEVICES = ("nvidia*", "kfd", "dri")
GPU_FOLDERS = ("etc/OpenCL", "etc/vulkan", "opt/rocm*", "run/opengl-driver")
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
OWN_FOLDERS = ("home", "tmp", "cache")


def worker_environment(private: Path, program: Path, extra: dict[str, str]) -> dict[str, str]:
    """All that a worker is told, the same for every purpose that it may be started for."""
    return {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(private / "home"),
        "TMPDIR": str(private / "tmp"),
        **{name: str(private / place) for name, place in CACHES.items()},
        **extra,
    }


def list_mounts(program: Path, *, readable: Sequence[Path], private: Path, gpu: bool, bare: bool = False) -> Mounts:
    """The whole of the worker's file system, parents before children.

    `bare`: of programs and libraries only this interpreter, its standard library, and what a compiled kernel is linked
    with anyway (`_bare_paths`), so that there is no library of operators that could be found and loaded.
    """
    mounts: Mounts = [("processes", "", "/proc")]
    mounts += [("scratch", "tmp", "/tmp"), ("scratch", "shm", "/dev/shm"), ("link", "/tmp", "/var/tmp")]
    mounts += [("scratch", "own", str(private)), *(("folder", "", str(private / name)) for name in OWN_FOLDERS)]
    mounts += [("link", f"/proc/self/{target}", f"/dev/{name}") for name, target in STREAMS.items()]
    devices = [*(Path("/dev") / name for name in DEVICES), *(matching("/dev", GPU_DEVICES) if gpu else ())]
    mounts += [("device", str(path), str(path)) for path in devices if path.exists()]
    links, folders = _system_paths(gpu=gpu)
    mounts += [("link", os.readlink(link), str(link)) for link in links]  # noqa: PTH115 (not as a path: kept as it is)
    visible, hidden = _bare_paths() if bare else ((*folders, *installation_paths(program)), ())
    mounts += [("read", os.path.realpath(path), str(path)) for path in (*visible, *readable)]
    mounts += [("scratch", f"hidden{number}", str(path)) for number, path in enumerate(hidden)]
    return sorted(dict.fromkeys(mounts), key=lambda mount: mount[2].count("/"))


@functools.cache
def installation_paths(program: Path) -> tuple[Path, ...]:
    """The parts of the Python installations that the program belongs to: a virtual environment, and what it is made of.

    None for a program that is no interpreter, or is the system's own. What was found is remembered.
    """
    prefixes: list[Path] = []
    for hop in _follow_links(program):
        prefix = hop.parent.parent
        configuration = prefix / "pyvenv.cfg"
        if configuration.is_file():
            prefixes += [prefix, *_base_installation(configuration)]
        elif any((prefix / "lib").glob("python3*")):
            prefixes.append(prefix)
    installations = [
        prefix for prefix in dict.fromkeys(prefixes) if os.path.realpath(prefix) not in ("/", "/usr", "/usr/local")
    ]
    return tuple(path for prefix in installations for path in matching(prefix, _INSTALLATION))


def check_readable(paths: Iterable[Path], *, by_others: bool) -> None:
    """Raise WorldError when something that a worker is to see is not there, or not for the eyes of its user."""
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise WorldError(f"{path}: a worker is to read it, and it is not there; give the whole path of what exists")
        bits = 0o005 if path.is_dir() else 0o004
        if by_others and path.stat().st_mode & bits != bits:
            raise WorldError(f"{path}: a worker runs as nobody and may not read it; chmod o+rX it")


@functools.cache
def _system_paths(*, gpu: bool) -> tuple[list[Path], list[Path]]:
    """What an isolated process sees of the system: links of the root folder, folders and files."""
    top = [Path("/") / name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")]
    folders = [*matching("/usr", _PARTS), *matching("/usr/local", (*_PARTS, "etc")), Path("/nix/store")]
    folders += [path for path in top if not path.is_symlink()]
    folders += matching("/etc", _ETC)
    if gpu:
        folders += [Path("/sys"), *matching("/usr/local", _LOCAL), *matching("/", GPU_FOLDERS)]
    else:
        folders += [Path(name) for name in _FACTS]
    return [path for path in top if path.is_symlink()], [path for path in folders if path.exists()]


_RUNTIME = (
    "libm.so.*", "libmvec.so.*", "libgomp.so.*", "libstdc++.so.*", "libgcc_s.so.*", "libatomic.so.*", "libpthread.so.*",
    "libdl.so.*", "librt.so.*", "libc.so.*", "ld-linux*.so.*",
)  # fmt: skip
"""Libraries of the runtime of C and C++, beside the C library."""
_WORKER_IMPORTS = "import ctypes, gc, importlib.util, json, mmap, os, pathlib, socket, struct, sys, time, typing"
"""What a worker for compiled kernels imports."""


@functools.cache
def _bare_paths() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Files and folders of this interpreter and of the runtime of C, and folders in them that are hidden. Found by
    asking the interpreter what it has loaded."""
    tell = f"{_WORKER_IMPORTS}\nprint(open('/proc/self/maps').read())"
    words = (sys.executable, "-I", "-S", "-c", tell)
    maps = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    loaded = {Path(line.split(None, 5)[5]) for line in maps.splitlines() if ".so" in line and "/" in line}
    folders = {path.parent for path in loaded if path.name.startswith(("libc.so", "libc-"))}
    top = [path for name in ("/lib", "/lib64") for path in Path(os.path.realpath(name)).glob("ld-linux*")]
    runtime = [path for folder in folders for path in matching(folder, _RUNTIME)]
    names = [name for path in loaded for name in path.parent.glob(f"{path.name.partition('.so')[0]}.so*")]
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    base = Path(sys.base_prefix, "lib", standard[0].name)
    hidden = [folder / name for folder in (*standard, base) for name in ("site-packages", "dist-packages")]
    programs = list(_follow_links(Path(sys.executable)))
    configuration = Path(sys.executable).parent.parent / "pyvenv.cfg"
    facts = [Path(name) for name in ("/etc/ld.so.cache", "/etc/localtime", *_FACTS)]
    visible = [*top, *runtime, *names, *standard, base, *programs, configuration, *facts]
    return tuple(dict.fromkeys(path for path in visible if path.exists())), tuple(
        dict.fromkeys(path for path in hidden if path.is_dir())
    )


def matching(folder: str | Path, patterns: Sequence[str]) -> Iterator[Path]:
    """What an isolated process may see in the folder under these names; a `*` stands for any letters."""
    for pattern in patterns:
        if "*" in pattern:
            yield from sorted(Path(folder).glob(pattern))
        elif (path := Path(folder) / pattern).exists():
            yield path


def _follow_links(program: Path) -> Iterator[Path]:
    """Places of a program that an isolated process must see: it, what it is a link to, and so on to the file itself."""
    for _ in range(40):  # as many as the kernel follows
        yield program
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / program.readlink()))


def _base_installation(configuration: Path) -> Iterator[Path]:
    """The installation that a virtual environment was made from."""
    for line in configuration.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            yield Path(value.strip()).parent


# A command of a contract: the machine read-only, without homes, sockets, other people's temporary files, and what is hidden.

SHARED = "/dev/shm"
_LEFT_OUT = frozenset({"boot", "dev", "home", "lost+found", "proc", "root", "run", "tmp"})
"""Of the root folder: made anew, or nothing that a build or a test reads."""
_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
"""By which a process of root would change the whole machine."""
_TOOLCHAINS = (
    *(".cargo/bin", ".cargo/registry", ".cargo/git", ".cargo/config.toml", ".rustup", ".pyenv", ".conda", ".nvm"),
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/mise", ".local/share/pypoetry", ".nix-profile"),
    *("miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba", "go", ".ghcup", ".juliaup"),
)
"""Of a home, all that is readable: programs and packages, no settings and no keys."""
CACHE = re.compile(r"CACHE(_?(DIR|PATH|HOME|FOLDER))?$", re.IGNORECASE)
"""Names of variables that declare a build cache, which a contract passes on: it may be written."""
_FULL_SIZE = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a command may change, and what is kept from it. Everything else of the machine it may read, homes excepted."""

    writable: tuple[Path, ...] = ()
    """Folders; its own home and temporary folder always are."""
    readable: tuple[Path, ...] = ()
    """What it sees though it lies in a hidden place."""
    hidden: tuple[Path, ...] = ()
    """Folders: the campaign, the user's checkout."""
    card: bool = False
    """Whether the files of cards are there."""


def list_command_mounts(
    room: Room,
    *,
    own_folders: Sequence[Path],
    argv: Sequence[str],
    environment: Mapping[str, str],
    passed: Mapping[str, str],
) -> Mounts:
    """The whole of a command's file system, parents before children.

    Of hidden places it sees what it is told of: its program with its interpreter, folders of PATH, absolute paths among its
    words and among the values of `passed`, each under its own name where it is a link, and toolchains in homes. A declared
    cache (`CACHE`) may be written.
    """
    mounts: Mounts = [*_machine_mounts(card=room.card), *_masked_sockets()]
    hidden = tuple(
        dict.fromkeys(os.path.realpath(place) for place in (*_homes(), *room.hidden) if os.path.isdir(place))
    )
    hidden = tuple(place for place in hidden if place not in ("/", "/usr", "/opt", "/tmp"))
    mounts += [("empty", "", place) for place in hidden if os.path.isdir(place)]
    mounts += [("read", os.path.realpath(place), str(place)) for place in room.readable]
    covers = (*hidden, *(f"/{name}" for name in _LEFT_OUT), "/var/tmp", SHARED)
    caches = [value for name, value in passed.items() if CACHE.search(name) and os.path.isdir(value)]
    places = (
        *(*_path_places(environment.get("PATH", "")), *_named_places((*argv, *passed.values())), *_toolchains()),
        *_installation_places(argv, changeable=tuple(map(str, room.writable))),
    )
    mounts += [
        ("read", os.path.realpath(place), place)
        for place in _with_targets(places)
        if _below_any(place, covers) and place not in hidden
    ]
    writable = (*(str(place) for place in room.writable), *caches, *map(str, own_folders))
    mounts += [
        ("write", os.path.realpath(place), place) for place in _with_targets(writable) if place not in _homes_text()
    ]
    return sorted(dict.fromkeys(mounts), key=lambda mount: (mount[2].count("/"), mount[0] == "write"))


@functools.cache
def _machine_mounts(*, card: bool) -> tuple[tuple[str, str, str], ...]:
    """What is the same for every command: looked at once."""
    mounts: Mounts = [
        ("processes", "", "/proc"),
        *(("still", "", place) for place in _READ_ONLY if os.path.exists(place)),
    ]
    for entry in sorted(Path("/").iterdir()):
        if entry.is_symlink():
            mounts.append(("link", os.readlink(entry), str(entry)))  # noqa: PTH115 (kept as it is)
        elif entry.name not in _LEFT_OUT:
            mounts.append(("read", str(entry), str(entry)))
    mounts += [("empty", "", f"/{name}") for name in ("home", "root", "run") if os.path.isdir(f"/{name}")]
    mounts += [("scratch", "tmp", "/tmp"), ("scratch", "shm", SHARED)]
    if Path("/var/tmp").is_dir():
        mounts.append(("scratch", "vartmp", "/var/tmp"))
    mounts += [("link", f"/proc/self/{target}", f"/dev/{name}") for name, target in STREAMS.items()]
    mounts += [("terminals", "", "/dev/pts"), ("link", "pts/ptmx", "/dev/ptmx")]
    devices = [*(Path("/dev") / name for name in (*DEVICES, "tty")), *(matching("/dev", GPU_DEVICES) if card else ())]
    mounts += [("device", str(path), str(path)) for path in devices if path.exists()]
    if card:
        mounts += [
            ("read", os.path.realpath(path), str(path))
            for path in matching("/", GPU_FOLDERS)
            if str(path).startswith("/run")
        ]
    return tuple(mounts)


def scratch_bytes() -> int:
    """Size of a command's own memory file systems: that of the machine's shared memory."""
    return shutil.disk_usage(SHARED).total if os.path.ismount(SHARED) else _FULL_SIZE


def _masked_sockets() -> Mounts:
    """Sockets with a name in the file system that somebody listens at: they answer through read-only mounts too."""
    try:
        rows = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    names = {words[7] for row in rows[1:] if len(words := row.split(None, 7)) == 8 and words[7].startswith("/")}
    return [("nothing", "", name) for name in sorted(names) if name.split("/")[1] not in _LEFT_OUT]


@functools.cache
def _homes() -> tuple[Path, ...]:
    homes = [Path(home) for home in (os.environ.get("HOME", ""), _account_home()) if home.startswith("/")]
    return tuple(home for home in dict.fromkeys(homes) if os.path.isdir(home))


def _homes_text() -> frozenset[str]:
    return frozenset(map(str, _homes()))


def _account_home() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


@functools.cache
def _toolchains() -> tuple[str, ...]:
    return tuple(str(home / name) for home in _homes() for name in _TOOLCHAINS if os.path.exists(home / name))


@functools.cache
def _path_places(path: str) -> tuple[str, ...]:
    """Folders of PATH, and the Python installations that they are of with what these were told to import."""
    places: list[str] = []
    for folder in path.split(":"):
        if not folder.startswith("/") or not os.path.isdir(folder):
            continue
        places.append(folder)
        for program in (Path(folder) / "python3", Path(folder) / "python"):
            if os.path.exists(program):
                places += _python_places(program)
    return tuple(dict.fromkeys(places))


@functools.cache
def _python_places(program: Path) -> tuple[str, ...]:
    """Folders of the Python installation that the program belongs to, with what it was told to import."""
    places = map(str, installation_paths(program))
    return (*places, *_imported_places(program)) if os.path.isfile(program) else ()


def _installation_places(argv: Sequence[str], *, changeable: Sequence[str]) -> Iterator[str]:
    """Python installations that the words name, and the one that the program's first line does.

    What lies in a `changeable` folder may be a candidate's: that line leads to programs and packages, and to nothing that
    these were told to import.
    """
    for word in _named_places(argv):
        if not _below_any(word, changeable):
            yield from _python_places(Path(word))
    try:
        with open(argv[0], "rb") as file:  # noqa: PTH123 (a name from a contract)
            line = file.readline(256)
    except (OSError, ValueError, IndexError):
        return
    for interpreter in _named_places([os.fsdecode(line[2:])] if line.startswith(b"#!") else ()):
        yield from map(str, installation_paths(Path(interpreter)))


def _with_targets(places: Iterable[str]) -> Iterator[str]:
    """Each place that an isolated process sees once, after what it leads to where it is a link."""
    yield from dict.fromkeys(name for place in places for name in (os.path.realpath(place), place))


def _imported_places(program: Path) -> Iterator[str]:
    """Folders named by `.pth` files of an installation: packages that were installed to be edited where they lie."""
    for packages in (program.parent.parent / "lib").glob("python3*/site-packages"):
        for file in packages.glob("*.pth"):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            yield from (line.strip() for line in lines if line.startswith("/") and os.path.isdir(line.strip()))


def _named_places(texts: Iterable[str]) -> Iterator[str]:
    """Absolute paths that are there, among words such as `--out=/x/y` and `/a:/b`; not the folders that hold everything."""
    for text in texts:
        for part in re.split(r"[:=,;\s]", text):
            place = os.path.normpath(part)
            all_of_it = place.count("/") < 2 or any(f"{home}/".startswith(f"{place}/") for home in _homes_text())
            if part.startswith("/") and not all_of_it and os.path.exists(place):
                yield place


def _below_any(place: str, covers: Iterable[str]) -> bool:
    return any(place.startswith(f"{cover}/") for cover in covers)
