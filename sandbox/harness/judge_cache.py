"""Inside a worker: what was compiled for a candidate, packed for its later processes and unpacked by them.

It is what one process left in its cache folder before anything was judged; every later one begins with the same, so none
learns from another. Needs the standard library.
"""

import json
import os
import struct

LENGTH = struct.Struct("<Q")
FOLDER = b"\0cache folder\0"
"""Stands for the folder's path in files that name it."""
PATHS_IN = "__grp__"
"""Beginning of the names of files that list others by their whole path (Triton's groups)."""


def pack(folder: str, most_bytes: int) -> bytes:
    """Inside a worker: all files of its cache folder; nothing where that is more than `most_bytes`."""
    names: list[tuple[str, int]] = []
    contents: list[bytes] = []
    for place, _, files in os.walk(folder):
        for name in files:
            path = f"{place}/{name}"
            try:
                with open(path, "rb") as file:  # noqa: PTH123 (pathlib would cost each start of a worker 10 ms)
                    data = file.read(most_bytes + 1)
            except OSError:
                continue
            data = data.replace(folder.encode(), FOLDER) if name.startswith(PATHS_IN) else data
            names.append((path[len(folder) + 1 :], len(data)))
            contents.append(data)
    head = json.dumps(names).encode()
    packed = b"".join((LENGTH.pack(len(head)), head, *contents))
    return packed if len(packed) <= most_bytes else b""


def unpack(packed: bytes, folder: str) -> None:
    """Inside a worker: unpack cache files into the folder. Raises OSError, or ValueError for bytes that are no packed folder."""
    (size,) = LENGTH.unpack_from(packed)
    cursor = LENGTH.size + size
    for name, length in json.loads(packed[LENGTH.size : cursor]):
        if ".." in name.split("/"):
            raise ValueError(name)
        data, cursor = packed[cursor : cursor + length], cursor + length
        path = f"{folder}/{name}"
        os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(data.replace(FOLDER, folder.encode()) if "/" + PATHS_IN in "/" + name else data)
        if name.endswith(".so"):
            os.chmod(path, 0o755)  # noqa: PTH101
