"""What a worker may do to files, whatever it finds mounted (Landlock). A second layer, and the only one where a
process may not have mounts of its own."""

# importing pathlib would cost each start of a worker 10 ms
# ruff: noqa: PTH112

import os

from . import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE
_CHANGE = _WRITE_FILE | 0x1FF0
"""Writing, and removing or making anything: the first thirteen rights without the three of reading."""
_RENAME, _TRUNCATE = 1 << 13, 1 << 14
_TCP = 3
_SCOPES = 3
"""No abstract socket and no signal to a process outside."""


def version() -> int:
    """Shutting a process in: which Landlock this kernel has; 0 is none, 3 the first that holds truncation, 6 that holds signals."""
    try:
        return kernel.syscall("landlock", _CREATE, 0, 0, _VERSION)
    except OSError:
        return 0


def apply(*, writable: list[str], readable: list[str] | None) -> None:
    """Shutting a process in: let this process and all that come from it change files only beneath `writable`, for ever.

    Reading and executing are held too, to beneath `readable` and `writable`, unless it is None. Paths that are not
    there are left out. No new privileges must be set before. Raises OSError where there is no Landlock.
    """
    abi = version()
    changes = _CHANGE | (_RENAME if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    handled_access = changes if readable is None else changes | _READ
    words = (handled_access, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    count = 3 if abi >= 6 else 2 if abi >= 4 else 1
    attributes = b"".join(word.to_bytes(8, "little") for word in words[:count])
    rules = kernel.syscall("landlock", _CREATE, attributes, len(attributes), 0)
    for path in writable:
        _allow(rules, path, handled_access)
    for path in readable or ():
        _allow(rules, path, _READ)
    kernel.syscall("landlock", _RESTRICT, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):
        rights &= _OF_FILES | _TRUNCATE
    kernel.syscall("landlock", _ADD, rules, _BENEATH, rights.to_bytes(8, "little") + place.to_bytes(4, "little"), 0)
    os.close(place)
