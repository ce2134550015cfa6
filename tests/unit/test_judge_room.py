"""What workers are shown, where what they print goes, and which calls are refused: tables, without a worker."""

import os
import struct
import sys
from pathlib import Path

import pytest

from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.harness.isolate import filters
from ridgeline.sandbox.harness.isolate.plan import Plan, packed, unpacked
from ridgeline.sandbox.harness.isolate.watch import _pieces
from ridgeline.sandbox.isolation.rooms import check_readable, installation_paths, list_mounts
from ridgeline.sandbox.isolation.workers import WorkerLimits


def environment(folder: Path, *, home: Path) -> Path:
    """A virtual environment made from the installation at `home`, in a project's own folder."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "python3.11").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {home / 'bin'}\nversion = 3.11\n")
    (folder / "reference.py").write_text("")
    (folder / "bin" / "python").symlink_to(home / "bin" / "python3")
    return folder / "bin" / "python"


def test_an_environment_shows_its_parts_and_those_of_its_base(tmp_path):
    base = tmp_path / "base"
    (base / "bin").mkdir(parents=True)
    (base / "lib" / "python3.11").mkdir(parents=True)
    (base / "secret").write_text("")
    (base / "bin" / "python3").write_text("")
    shown = {
        path.relative_to(tmp_path).as_posix() for path in installation_paths(environment(tmp_path / "p", home=base))
    }
    assert shown == {"p/bin", "p/lib", "p/pyvenv.cfg", "base/bin", "base/lib"}


@pytest.mark.parametrize("program", ["/usr/bin/true", "/bin/sh", "/usr/bin/python3", "/no/such/bin/program"])
def test_programs_of_the_system_add_nothing(program):
    assert installation_paths(Path(program)) == ()


def test_parents_come_before_children(tmp_path):
    found = [
        where for _, _, where in list_mounts(Path(sys.executable), readable=[tmp_path], private=Path("/p/q"), gpu=True)
    ]
    for place, where in enumerate(found):
        assert not any(Path(later) in Path(where).parents for later in found[place + 1 :])
    assert len(found) == len(set(found))


@pytest.mark.parametrize("hidden", ["/", "/usr", "/usr/src", "/usr/local", "/home", "/root", "/proc/1", "/run", "/etc"])
def test_whole_trees_of_the_machine_are_not_shown(hidden, tmp_path):
    shown = list_mounts(Path(sys.executable), readable=[], private=tmp_path, gpu=False)
    assert hidden not in [where for _, _, where in shown]


@pytest.mark.parametrize(
    ("mode", "by_others", "fault"),
    [(0o755, True, ""), (0o705, True, ""), (0o700, False, ""), (0o700, True, "nobody"), (0o744, True, "nobody")],
)
def test_what_nobody_may_read_is_refused(tmp_path, mode, by_others, fault):
    folder = tmp_path / "given"
    folder.mkdir()
    folder.chmod(mode)
    if not fault:
        check_readable([folder], by_others=by_others)
        return
    with pytest.raises(WorldError, match=f"given: .*{fault}"):
        check_readable([folder], by_others=by_others)


@pytest.mark.parametrize("path", [Path("relative"), Path("/no/such/place")])
def test_what_is_not_there_is_refused(path):
    with pytest.raises(WorldError, match="not there"):
        check_readable([path], by_others=False)


def kept(chunks: list[bytes], half: int) -> bytes:
    room, count = bytearray(2 * half), 0
    for chunk in chunks:
        for start, piece in _pieces(chunk, count, half):
            room[start : start + len(piece)] = piece
        count += len(chunk)
    return bytes(room)


@pytest.mark.parametrize(
    ("chunks", "room"),
    [
        ([], b"\0" * 8),
        ([b"abc"], b"abc\0\0\0\0\0"),
        ([b"abcd"], b"abcd\0\0\0\0"),
        ([b"abcde"], b"abcde\0\0\0"),
        ([b"abcdefgh"], b"abcdefgh"),
        ([b"abcdefghi"], b"abcdifgh"),
        ([b"abcdef", b"ghij"], b"abcdijgh"),
        ([b"abcd", b"efghijklmnop"], b"abcdmnop"),
        ([b"abcdefghijklmnopq"], b"abcdqnop"),
        ([b"", b"ab", b"", b"cdefghijk", b"l"], b"abcdijkl"),
    ],
)
def test_the_tail_goes_round(chunks, room):
    assert kept(chunks, 4) == room


def verdict(code: bytes, *, number: int, words: tuple[int, ...] = (), architecture: int) -> int:
    """What the kernel would answer: a small machine for the steps that the filter uses."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*words, *(0,) * 6)[:6])
    steps = [struct.unpack_from("<HBBI", code, place) for place in range(0, len(code), 8)]
    at = held = 0
    while True:
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            held = int.from_bytes(data[value : value + 4], "little")
        elif operation == 0x06:
            return value
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
            at += yes if met else no


ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
NEW_USER, THREAD = 0x10000000, 0x003D0F00


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize(
    ("number", "words", "gpu", "answer"),
    [
        (0, (), False, ALLOW),  # read
        (59, (), False, ALLOW),  # execve
        (41, (1,), False, EPERM),  # socket, local
        (41, (1,), True, ALLOW),
        (41, (2,), True, EPERM),  # socket, internet
        (53, (1,), False, ALLOW),  # socketpair
        (56, (THREAD,), False, ALLOW),  # clone
        (56, (NEW_USER | 17,), False, EPERM),
        (56, (0x00020000,), False, EPERM),
        (435, (), False, ENOSYS),  # clone3
        (16, (0, 0x5401), False, ALLOW),  # ioctl
        (16, (0, 0x5412), False, EPERM),
        (16, (0, 0x541C), False, EPERM),
        (157, (38,), False, ALLOW),  # prctl
        (157, (22,), False, EPERM),
        (101, (), False, EPERM),  # ptrace
        (425, (), True, EPERM),  # io_uring_setup
        (73, (3, 2), False, 0x00050000),  # flock: granted, not taken
        (72, (3, 6), False, 0x00050000),  # fcntl, F_SETLK
        (72, (3, 5), True, 0x00050016),  # F_GETLK
        (72, (3, 1024), False, 0x00050016),  # F_SETLEASE
        (72, (3, 1), False, ALLOW),  # F_GETFD
        (254, (), False, EPERM),  # inotify_add_watch
        (317, (1, 5), False, ALLOW),  # seccomp: a further filter, for all threads
        (317, (1, 13), False, EPERM),
        (317, (0, 5), False, EPERM),
        (0x40000000, (), False, ENOSYS),
        (0x40000000 + 101, (), False, ENOSYS),
    ],
)
def test_the_filter_answers(number, words, gpu, answer):
    assert verdict(filters.program(gpu=gpu), number=number, words=words, architecture=0xC000003E) == answer


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize(
    ("number", "words", "answer"),
    [(57, (), EPERM), (58, (), EPERM), (59, (), EPERM), (322, (), EPERM), (56, (17,), EPERM), (56, (0x4100,), EPERM)]
    + [(56, (THREAD,), ALLOW), (0, (), ALLOW), (61, (), ALLOW)],
)
def test_a_locked_worker_may_start_threads_alone(number, words, answer):
    assert verdict(filters.without_processes(), number=number, words=words, architecture=0xC000003E) == answer


@pytest.mark.parametrize("gpu", [False, True])
def test_calls_of_another_processor_end_the_process(gpu):
    assert verdict(filters.program(gpu=gpu), number=0, architecture=0x40000003) == KILL


@pytest.mark.parametrize("gpu", [False, True])
def test_every_denied_call_is_refused(gpu):
    column, architecture = filters._MACHINES[os.uname().machine]
    for name, numbers in filters.DENIED.items():
        if numbers[column] is not None:
            answer = verdict(filters.program(gpu=gpu), number=numbers[column], architecture=architecture)
            assert answer == EPERM, name


def test_a_plan_survives_its_word():
    plan = Plan({"mode": "root", "argv": ["a", "b"], "mounts": [("read", "/a", "/b")], "gpu": False})
    again = unpacked(packed(plan))
    assert again.__dict__ == plan.__dict__
    assert (
        again.makes_namespaces,
        Plan({"mode": "weak"}).makes_namespaces,
        Plan({"mode": "bubblewrap"}).makes_namespaces,
    ) == (True, False, False)


@pytest.mark.parametrize("gpu", [False, True])
def test_address_space_is_not_held_with_a_card(gpu):
    import resource

    held = dict(WorkerLimits().resources(gpu=gpu))
    assert (resource.RLIMIT_AS in held) is not gpu
    assert held[resource.RLIMIT_CORE] == 0
