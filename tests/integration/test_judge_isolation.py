"""What a worker tries and may not: the same attempts, without isolation, succeed."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.sandbox.isolation import workers as isolation
from ridgeline.sandbox.isolation.environment import MARK
from ridgeline.sandbox.isolation.workers import (
    ConfinedProcess,
    WarmProgram,
    WorkerLimits,
    end_process,
    launch,
    machine_isolation,
    try_mode,
)
from ridgeline.sandbox.workspace.commands import pinned_to

ATTEMPTS = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
    return result
def reads(path): return open(path).read()
def environment(pid): return open(f"/proc/{pid}/environ", "rb").read()
def memory(pid, place):
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(int(place)); return file.read(4)
def remote_memory(pid, place):
    class Piece(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    room = ctypes.create_string_buffer(4)
    here, there = Piece(ctypes.addressof(room), 4), Piece(int(place), 4)
    checked(libc.process_vm_readv(int(pid), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)); return room.raw
def connects(port): return socket.create_connection(("127.0.0.1", int(port)), 2)
def local(name):
    link = socket.socket(socket.AF_UNIX); link.connect(chr(0) + name); return link
def key(): return os.environ["SOME_API_KEY"]
def writes(path):
    with open(path, "w") as file: return file.write("1")
def removes(path): os.remove(path); return "removed"
def traces():
    child = os.fork()
    if child == 0: import time; time.sleep(5); os._exit(0)
    try: return checked(libc.ptrace(16, child, 0, 0)) or "attached"
    finally: os.kill(child, 9)
def namespaces(): return checked(libc.unshare(0x10000000)) or "entered"
def kills(pid): os.kill(int(pid), 9); return "killed"
def lists(path): return os.listdir(path)
def imports(): import ridgeline.agent; return ridgeline.agent
def rings():
    room = ctypes.create_string_buffer(256)
    return checked(libc.syscall(425, 4, room)) or "rings"
def keys():
    number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    return checked(libc.syscall(number, b"user", b"name", b"value", 5, -3))
try: print("GOT", globals()[sys.argv[1]](*sys.argv[2:]))
except Exception as error: print("no:", type(error).__name__, error)
"""
C_ATTEMPTS = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int n, char **v) {
  int got = -1;
  if (!strcmp(v[1], "reads")) got = open(v[2], O_RDONLY);
  if (!strcmp(v[1], "writes")) got = open(v[2], O_WRONLY | O_CREAT, 0666);
  if (!strcmp(v[1], "kills")) got = kill(atoi(v[2]), SIGKILL);
  if (!strcmp(v[1], "namespaces")) got = unshare(CLONE_NEWUSER);
  if (!strcmp(v[1], "key")) got = getenv("SOME_API_KEY") ? 0 : -1;
  if (!strcmp(v[1], "connects")) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(v[2]))};
    to.sin_addr.s_addr = inet_addr("127.0.0.1");
    int s = socket(AF_INET, SOCK_STREAM, 0);
    got = s < 0 ? s : connect(s, (struct sockaddr *)&to, sizeof to);
  }
  if (!strcmp(v[1], "traces")) {
    pid_t child = fork();
    if (!child) { sleep(5); _exit(0); }
    got = ptrace(PTRACE_ATTACH, child, 0, 0);
    kill(child, SIGKILL);
  }
  puts(got < 0 ? "no" : "GOT");
  return 0;
}
"""
SECRET = b"an answer"
PACKAGES = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
SMALL = WorkerLimits(memory_mb=400, processes=10, file_mb=8, scratch_mb=16, output_bytes=4000)
MODES = ("root", "user", "bubblewrap", "weak")
WHOLE = os.environ.get("RIDGELINE_SUITE") == "all"
TRIED = MODES if WHOLE else ("root" if os.geteuid() == 0 else "user",)
"""By default how workers are held here; the other ways take minutes."""
Start = Callable[..., ConfinedProcess]


@functools.cache
def works(mode: isolation.IsolationMode) -> bool:
    try:
        try_mode(mode)
    except WorldError:
        return False
    return True


@pytest.fixture(params=[mode if mode == TRIED[0] else pytest.param(mode, marks=pytest.mark.slow) for mode in TRIED])
def mode(request) -> isolation.IsolationMode:
    if not works(request.param):
        pytest.skip(f"this machine cannot isolate workers as {request.param}")
    return request.param


def can_be_copied(mode: isolation.IsolationMode) -> None:
    if not isolation._can_be_copied(mode):
        pytest.skip("no copies are made of workers like these")


@pytest.fixture(params=["alone", "copied"])
def copied(request, mode) -> bool:
    """Whether Python workers are copies of a process that has imported something."""
    if request.param == "copied":
        can_be_copied(mode)
    return request.param == "copied"


@pytest.fixture
def start(mode, copied, tmp_path) -> Iterator[Start]:
    """`start("-c", "print(1)")` is a Python worker; `program=` another one. All end with the test."""
    workers: list[ConfinedProcess] = []

    def call(
        *words: object,
        program: str = sys.executable,
        limits=SMALL,
        readable=(),
        pass_fds=(),
        environment=None,
        modules="json",
    ):
        private = tmp_path / f"private{len(workers)}"
        private.mkdir(exist_ok=True)
        readable, warm = tuple(readable), None
        if copied and program == sys.executable:
            script, *rest = [word for word in words if word not in ("-I", "-c")]
            if "-c" in words:
                text, script = script, tmp_path / f"program{len(workers)}.py"
                script.write_text(f"import sys; sys.path += {PACKAGES}\n{text}")
                script.chmod(0o644)
                readable += (script,)
            paths = tuple(PACKAGES) if modules == "torch" else ()
            warm = WarmProgram(modules=(modules,), paths=paths, script=(str(script), *map(str, rest)))
        argv = (program, *map(str, words))
        asked = isolation.StartRequest(
            argv=argv, readable=readable, private=private, limits=limits, gpu=False, warm=warm
        )
        workers.append(isolation.start_process(mode, asked, pass_fds=pass_fds, environment=environment or {}))
        return workers[-1]

    yield call
    for worker in workers:
        end_process(worker)


@pytest.fixture
def listening() -> Iterator[tuple[int, str]]:
    """A port of this machine and an abstract name at which somebody listens."""
    enable_socket()
    socket_allow_hosts(["127.0.0.1"])
    name = f"ridgeline-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0" + name)
        local.listen()
        yield server.getsockname()[1], name


@pytest.fixture
def victim() -> Iterator[int]:
    with subprocess.Popen(("sleep", "60")) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def world(tmp_path, listening, victim, monkeypatch) -> dict[str, object]:
    """What the attempts are made on."""
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    task = tmp_path / "task"
    task.mkdir()
    (task / "reference.py").write_text("def reference(): ...\n")
    (task / "old").write_text("")
    room = memoryview(bytearray(SECRET))
    import ctypes

    place = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return {
        "reference": task / "reference.py",
        "task": task,
        "new": task / "new",
        "old": task / "old",
        "port": listening[0],
        "name": listening[1],
        "victim": victim,
        "judge": os.getpid(),
        "place": place,
        "room": room,
    }


ATTEMPTED = (
    ("reads", "reference"),
    ("lists", "task"),
    ("environment", "judge"),
    ("memory", "judge", "place"),
    ("remote_memory", "judge", "place"),
    ("connects", "port"),
    ("local", "name"),
    ("key",),
    ("writes", "new"),
    ("removes", "old"),
    ("traces",),
    ("namespaces",),
    ("rings",),
    ("keys",),
    ("kills", "victim"),
    ("imports",),
)
NEEDS_ROOT = ("environment", "memory", "remote_memory")


@pytest.mark.parametrize("attempt", ATTEMPTED, ids=" ".join)
def test_what_is_forbidden_succeeds_without_isolation(attempt, world):
    words = [str(world[name]) for name in attempt[1:]]
    done = subprocess.run((sys.executable, "-I", "-c", ATTEMPTS, attempt[0], *words), capture_output=True, text=True)
    if attempt[0] in NEEDS_ROOT and os.geteuid() != 0:
        pytest.skip("another process's memory is root's business here")
    if attempt[0] in ("rings", "keys", "namespaces") and "GOT" not in done.stdout:
        pytest.skip("this machine forbids it to everybody")
    assert done.stdout.startswith("GOT"), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTED, ids=" ".join)
def test_a_python_worker_may_not(attempt, world, start):
    worker = start("-I", "-c", ATTEMPTS, attempt[0], *(world[name] for name in attempt[1:]))
    assert worker.wait() == 0
    assert worker.read_output().startswith("no: "), worker.read_output()
    assert world["reference"].exists()
    assert world["old"].exists()
    assert not world["new"].exists()
    os.kill(world["victim"], 0)


C_ATTEMPTED = [attempt for attempt in ATTEMPTED if f'"{attempt[0]}"' in C_ATTEMPTS]


@pytest.fixture(scope="module")
def c_program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    (folder / "attempts.c").write_text(C_ATTEMPTS)
    built = folder / "candidate" / "attempts"
    built.parent.mkdir()
    subprocess.run(("gcc", "-o", built, folder / "attempts.c"), check=True)
    return built


@pytest.mark.slow
@pytest.mark.parametrize("attempt", C_ATTEMPTED, ids=" ".join)
def test_a_c_worker_may_not(attempt, world, start, c_program):
    words = [str(world[name]) for name in attempt[1:]]
    bare = subprocess.run((c_program, attempt[0], *words), capture_output=True, text=True)
    if attempt[0] not in ("kills", "namespaces"):
        assert bare.stdout == "GOT\n"
    (world["task"] / "new").unlink(missing_ok=True)
    worker = start(attempt[0], *words, program=str(c_program), readable=[c_program.parent])
    assert worker.wait() == 0
    assert worker.read_output() == "no\n"
    assert not world["new"].exists()


def test_secrets_that_a_caller_names_are_withheld_too(start):
    worker = start("-c", "import os; print(dict(os.environ))", environment={"MY_API_KEY": "sk-1", "FINE": "yes"})
    worker.wait()
    assert "sk-1" not in worker.read_output()
    assert "'FINE': 'yes'" in worker.read_output()


def test_every_worker_is_told_the_same(start, tmp_path):
    """Nothing says whether it is being checked or timed: words, surroundings and folder names do not differ."""
    text = "import os; print(os.environ, os.getcwd(), os.listdir('/'), os.listdir('.'))"
    said = []
    for _ in range(2):
        worker = start("-c", text)
        worker.wait()
        said.append(
            worker.read_output().replace(worker.plan.folder, "").replace(worker.plan.environment.get(MARK, "-"), "")
        )
    assert said[0] == said[1]


def test_what_is_given_can_be_read_and_not_changed(start, tmp_path):
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    (frozen / "kernel.py").write_text("print('ran')\nopen(__file__, 'a')\n")
    worker = start(frozen / "kernel.py", readable=[frozen])
    assert worker.wait() == 1
    assert worker.read_output().startswith("ran\n")
    assert "Error" in worker.read_output()


def test_only_the_descriptors_named_are_inherited(start):
    there, here = os.pipe()
    with Path(os.devnull).open() as other:
        os.set_inheritable(other.fileno(), True)
        worker = start("-c", "import os; print(sorted(os.listdir('/proc/self/fd')))", pass_fds=[here])
        os.close(here)
        worker.wait()
    os.close(there)
    # one more is the listing's own
    assert worker.read_output().count("'") == 2 * 5, worker.read_output()
    assert f"'{here}'" in worker.read_output()


def ends_within(reader: int, seconds: float) -> bool:
    """Whether nobody holds the other end of the pipe any more."""
    import select

    return bool(select.select([reader], [], [], seconds)[0]) and os.read(reader, 1) == b""


DAEMON = """
import os, signal, time
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        time.sleep(20)
    os._exit(0)
"""


@pytest.mark.parametrize("after", ["", "time.sleep(60)"], ids=["it ends", "it is ended"])
def test_nothing_outlives_a_worker(start, after):
    there, here = os.pipe()
    worker = start("-c", DAEMON + after, pass_fds=[here])
    os.close(here)
    if after:
        assert not ends_within(there, 0.3)
        began = time.monotonic()
        end_process(worker)
        assert time.monotonic() - began < 5
    worker.wait()
    assert ends_within(there, 2)
    os.close(there)


def test_a_daemon_outlives_a_bare_process():
    there, here = os.pipe()
    subprocess.run((sys.executable, "-c", DAEMON.replace("sleep(20)", "sleep(2)")), pass_fds=[here], check=True)
    os.close(here)
    assert not ends_within(there, 0.3)
    assert ends_within(there, 10)
    os.close(there)


JUDGE = """
import os, sys, time
from pathlib import Path
from ridgeline.sandbox.isolation import workers as isolation
from ridgeline.sandbox.isolation.workers import WorkerLimits
mode, private, here = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
start = isolation.StartRequest(argv=(sys.executable, "-c", sys.argv[4] + "time.sleep(60)"), readable=(), private=private,
                       limits=WorkerLimits(), gpu=False)
worker = isolation.start_process(mode, start, pass_fds=[here], environment={})
os.close(here)
print("started", flush=True)
time.sleep(60)
"""


def test_a_worker_dies_with_its_judge(mode, tmp_path):
    there, here = os.pipe()
    root = Path(__file__).resolve().parents[2]
    words = (sys.executable, "-c", JUDGE, mode, str(tmp_path), str(here), DAEMON)
    with subprocess.Popen(words, pass_fds=[here], stdout=subprocess.PIPE, cwd=root) as judge:
        os.close(here)
        assert judge.stdout is not None
        assert judge.stdout.readline() == b"started\n"
        assert not ends_within(there, 0.2)
        judge.kill()
    assert ends_within(there, 5)
    os.close(there)


FORKS = """
import os, time
made = 0
try:
    while made < 300:
        if os.fork() == 0: time.sleep(3); os._exit(0)
        made += 1
except OSError as error: print("no:", error)
print("made", made)
"""


def test_a_fork_bomb_is_bounded(start):
    worker = start("-c", FORKS)
    assert worker.wait() == 0
    assert worker.read_output().startswith("no: "), worker.read_output()
    assert int(worker.read_output().split()[-1]) <= SMALL.tasks


@pytest.mark.slow
def test_two_workers_do_not_use_up_each_others_processes(start, mode):
    if mode in ("weak", "bubblewrap"):
        pytest.skip("processes are counted by user there")
    first = start("-c", FORKS + "time.sleep(5)")
    while "made" not in first.read_output():
        time.sleep(0.05)
    second = start("-c", "import os; print('forked', os.fork() >= 0)")
    second.wait()
    assert "forked True" in second.read_output()


MEMORY = """
import os, sys, time
children = []
for _ in range(int(sys.argv[1]) - 1):
    child = os.fork()
    if child == 0:
        children = []
        break
    children.append(child)
room = bytearray(int(sys.argv[2]) << 20)
room[::4096] = b"1" * len(room[::4096])
print("GOT", len(room), flush=True)
for child in children: os.waitpid(child, 0)
if not children: time.sleep(1)
"""


@pytest.mark.parametrize(("processes", "size_mb"), [(1, 1200), (4, 250)])
def test_memory_is_bounded(start, processes, size_mb):
    worker = start("-c", MEMORY, processes, size_mb)
    code = worker.wait()
    if processes > 1 and "memory of all processes" in worker.missing:
        pytest.skip("this machine has no control groups to be made; that is recorded")
    assert "MemoryError" in worker.read_output() if processes == 1 else worker.out_of_memory, (
        code,
        worker.read_output(),
    )
    assert worker.read_output().count("GOT") < processes


def test_memory_within_the_limit_is_there(start):
    worker = start("-c", MEMORY, 1, 200)
    assert worker.wait() == 0
    assert worker.read_output().startswith("GOT")
    assert not worker.out_of_memory


DISK = """
import os, sys
written = 0
try:
    for number in range(int(sys.argv[1])):
        with open(f"{sys.argv[3]}/{number}", "wb") as file:
            for _ in range(int(sys.argv[2])): written += file.write(bytes(1 << 20)); file.flush()
except OSError as error: print("no:", error)
print("written", written >> 20)
"""


@pytest.mark.parametrize("place", [".", "/tmp", "/dev/shm", "/var/tmp"])
def test_the_disk_cannot_be_filled_by_many_files(start, mode, place):
    if mode == "weak":
        pytest.skip("a worker without mounts of its own writes to the disk; that is recorded")
    worker = start("-c", DISK, 10, 4, place)
    assert worker.wait() == 0
    assert "No space left" in worker.read_output()
    assert int(worker.read_output().split()[-1]) <= SMALL.scratch_mb
    assert not any(path.is_file() for path in worker_folder(worker).rglob("*"))


def worker_folder(worker: ConfinedProcess) -> Path:
    return Path(worker.plan.folder)


def test_one_file_is_bounded(start):
    worker = start("-c", DISK, 1, 12, ".")
    assert worker.wait() == 0
    assert "File too large" in worker.read_output()
    assert worker.read_output().split()[-1] == str(SMALL.file_mb)


def test_what_it_prints_is_kept_to_head_and_tail(start):
    text = "import sys\nfor n in range(30): sys.stdout.write(f'<{n}>' + 'x' * (1 << 20))\nprint('the end')"
    worker = start("-c", text)
    assert worker.wait() == 0
    said = worker.read_output()
    assert said.startswith("<0>xxx")
    assert said.endswith("xxxthe end\n")
    assert f"[... {30 * (1 << 20) + 110 + 8 - SMALL.output_bytes} bytes left out ...]" in said
    assert len(said) < SMALL.output_bytes + 60


@pytest.mark.parametrize("size", [0, 1, 1999, 2000, 2001, 3999, 4000])
def test_what_fits_is_kept_whole(start, size):
    text = "".join(chr(97 + n % 26) for n in range(size))
    worker = start("-c", f"import os\nfor n in range(0, {size}, 700): os.write(2, {text!r}[n:n+700].encode())")
    worker.wait()
    assert worker.read_output() == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import signal, os; signal.signal(13, signal.SIG_DFL); os.kill(os.getpid(), 13)", -signal.SIGPIPE),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_it_ends_as_the_worker_ended(start, text, code):
    assert start("-c", text).wait() == code


def test_a_worker_that_hangs_is_ended_and_heard(start):
    stubborn = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
    worker = start("-c", stubborn + "print('here', flush=True)\nwhile True: pass")
    while "here" not in worker.read_output():
        time.sleep(0.02)
    end_process(worker)
    end_process(worker)
    assert worker.returncode is not None
    assert worker.returncode != 0
    assert worker.read_output() == "here\n"


def test_no_control_group_is_left(start):
    ended = start("-c", "")
    killed = start("-c", "import time; time.sleep(60)")
    if not killed.plan.groups:
        pytest.skip("this machine has no control groups to be made; that is recorded")
    assert all(Path(group).is_dir() for group in killed.plan.groups)
    ended.wait()
    end_process(killed)
    assert [group for group in (*ended.plan.groups, *killed.plan.groups) if Path(group).exists()] == []


WORK = """
import numpy, os, subprocess, tempfile
from pathlib import Path
folder = Path(tempfile.mkdtemp())
(folder / "k.c").write_text('''
#include <stdio.h>
int main(void) {
  int n = 0;
  #pragma omp parallel reduction(+:n)
  n += 1;
  return printf("%d ", n > 0) < 0;
}
''')
subprocess.run(("gcc", "-O2", "-fopenmp", "-o", folder / "k", folder / "k.c"), check=True)
print(subprocess.run((folder / "k",), check=True, capture_output=True, text=True).stdout, numpy.ones(4).sum())
Path(os.environ["TRITON_CACHE_DIR"]).mkdir(parents=True)
Path("/dev/shm/own").write_text("x")
Path.home().joinpath("x").write_text("x")
"""


def test_honest_work_goes_on(start, mode):
    text = WORK.replace('Path("/dev/shm/own").write_text("x")', "") if mode == "weak" else WORK
    worker = start("-I", "-c", text, limits=WorkerLimits())
    assert worker.wait() == 0, worker.read_output()
    assert worker.read_output().split() == ["1", "4.0"]


@pytest.mark.slow
def test_torch_can_be_used(start):
    pytest.importorskip("torch")
    text = "import torch; print((torch.ones(300, 300) @ torch.ones(300, 300)).sum().item())"
    worker = start("-I", "-c", text, limits=WorkerLimits())
    assert worker.wait() == 0, worker.read_output()
    assert "27000000.0" in worker.read_output()


def test_a_program_that_is_no_whole_path_is_refused(start):
    with pytest.raises(ProgramMissing):
        start("-c", "", program="python3")


def test_a_folder_that_is_not_there_is_named(start, tmp_path):
    with pytest.raises(WorldError, match="gone"):
        start("-c", "", readable=[tmp_path / "gone"])


def test_a_folder_that_nobody_may_read_is_named(tmp_path):
    if os.geteuid() != 0 or not works("root"):
        pytest.skip("workers run as this user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    asked = isolation.StartRequest(
        argv=("/usr/bin/true",), readable=(closed,), private=tmp_path, limits=SMALL, gpu=False
    )
    with pytest.raises(WorldError, match="closed: a worker runs as nobody"):
        isolation.start_process("root", asked, pass_fds=(), environment={})


def test_a_start_that_fails_is_no_workers_fault(start, mode, tmp_path):
    program = tmp_path / "folder" / "program"
    program.parent.mkdir()
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(WorldError, match="would not see it"):
        start(program=str(program))
    if mode != "bubblewrap":  # which ends with 1 and says why on the worker's standard error
        with pytest.raises(WorldError, match="could not be started in isolation: .*No such file"):
            start(program=str(program), readable=[program.parent])


def test_the_isolation_found_is_the_best_that_works(tmp_path):
    found = machine_isolation()
    best = next(mode for mode in MODES if works(mode) and (mode != "root" or os.geteuid() == 0))
    assert found.level == ("weak" if best == "weak" else "namespaces")
    (tmp_path / "private").mkdir()
    worker = launch(
        (sys.executable, "-c", "import os; print(os.getuid())"),
        readable=(),
        private=tmp_path / "private",
        limits=WorkerLimits(),
        pass_fds=(),
        gpu=False,
        environment={},
    )
    assert worker.wait() == 0
    if found.level == "namespaces":
        assert worker.read_output() == "65534\n"


SELF = """
import gc, os, select, signal, sys
import json
said = {"path": sys.path, "flags": list(sys.flags), "environment": dict(os.environ), "words": sys.argv[1:]}
listed = os.listdir("/proc/self/fd")  # and with them the one that lists
said["open"] = sorted(number for number in listed if os.path.exists(f"/proc/self/fd/{number}"))
said["signals"] = [str(signal.getsignal(number)) for number in range(1, 32)]
said["group"] = os.getpgid(0), os.getsid(0)
said["modules"] = sorted(name for name in sys.modules if name.startswith(("sandbox", "judge")))
said["main"] = [__name__, sys.modules["__main__"].__dict__ is globals()]
print(json.dumps(said))
"""


def test_a_copy_is_like_a_worker_that_was_started_alone(mode, tmp_path):
    can_be_copied(mode)
    script = tmp_path / "program.py"
    script.write_text(SELF)
    script.chmod(0o644)
    here, there = os.pipe()
    said = []
    for number in range(2):
        private = tmp_path / f"private{number}"
        private.mkdir()
        warm = WarmProgram(modules=("json",), paths=(), script=(str(script), str(there)))
        asked = isolation.StartRequest(
            argv=warm.argv,
            readable=(script,),
            private=private,
            limits=SMALL,
            gpu=False,
            warm=warm if number else None,
        )
        worker = isolation.start_process(mode, asked, pass_fds=(there,), environment={"FINE": "yes"})
        assert worker.wait() == 0, worker.read_output()
        said.append(json.loads(worker.read_output().replace(worker.plan.folder, "OWN")))
        end_process(worker)
    os.close(here)
    os.close(there)
    assert said[0] == said[1]
    assert said[0]["environment"]["FINE"] == "yes"
    assert said[0]["open"] == sorted({"0", "1", "2", str(there)})


ADDRESS = "import ctypes, mmap; print(ctypes.addressof(ctypes.c_char.from_buffer(mmap.mmap(-1, 1 << 24))))"


def test_copies_have_addresses_of_their_own(mode, tmp_path):
    can_be_copied(mode)
    script = tmp_path / "program.py"
    script.write_text(ADDRESS)
    script.chmod(0o644)
    found = set()
    for number in range(6):
        private = tmp_path / f"private{number}"
        private.mkdir()
        warm = WarmProgram(modules=("json",), paths=(), script=(str(script),))
        asked = isolation.StartRequest(
            argv=warm.argv, readable=(script,), private=private, limits=SMALL, gpu=False, warm=warm
        )
        worker = isolation.start_process(mode, asked, pass_fds=(), environment={})
        assert worker.wait() == 0, worker.read_output()
        found.add(worker.read_output())
        end_process(worker)
    assert len(found) > 3


INTERPRETER = """
import os
place = os.stat("/proc/self/exe")
for change in (
    lambda: os.chmod("/proc/self/exe", place.st_mode & 0o7777),
    lambda: os.utime("/proc/self/exe", ns=(place.st_atime_ns, place.st_mtime_ns)),
    lambda: os.setxattr("/proc/self/exe", "user.ridgeline", b"x"),
    lambda: open("/proc/self/exe", "r+b"),
):
    try: change(); print("GOT")
    except OSError: print("no")
"""


def test_its_interpreter_cannot_be_changed(start):
    worker = start("-c", INTERPRETER)
    assert worker.wait() == 0, worker.read_output()
    assert worker.read_output().split() == ["no"] * 4


@pytest.mark.parametrize("numbers", [(3,), (300, 301), (302,), (303, 310), (40, 4)])
def test_descriptors_keep_their_numbers(mode, tmp_path, numbers):
    can_be_copied(mode)
    script = tmp_path / "program.py"
    script.write_text("import os, sys\nfor number in sys.argv[1:]: os.write(int(number), number.encode())\n")
    script.chmod(0o644)
    (tmp_path / "private").mkdir()
    program = f"""
import os, sys
from pathlib import Path
from ridgeline.sandbox.isolation import workers as isolation
from ridgeline.sandbox.isolation.workers import WarmProgram, WorkerLimits
kept = {{number: os.memfd_create("kept") for number in {numbers}}}
far = {{number: os.dup2(held, 400 + number) for number, held in kept.items()}}
warm = WarmProgram(modules=("json",), paths=(), script=({str(script)!r}, *map(str, {numbers})))
private = Path({str(tmp_path / "private")!r})
start = isolation.StartRequest(argv=warm.argv, readable=(Path({str(script)!r}),), private=private, limits=WorkerLimits(),
                       gpu=False, warm=warm)
isolation.fork_server_of(warm, {{}})
for number, held in far.items(): os.dup2(held, number)
worker = isolation.start_process({mode!r}, start, pass_fds={numbers}, environment={{}})
print(worker.wait(), worker.read_output(), *(os.pread(held, 9, 0).decode() for held in far.values()))
os._exit(0)
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run((sys.executable, "-c", program), cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", *map(str, numbers)], (done.stdout, done.stderr)


def test_a_worker_keeps_to_the_cores_of_whoever_starts_it_then(start):
    cores = sorted(os.sched_getaffinity(0))
    words = ("-c", "import os; print(sorted(os.sched_getaffinity(0)))")
    said = []
    for core in (None, cores[-1]):
        with pinned_to(core):
            worker = start(*words)
        assert worker.wait() == 0, worker.read_output()
        said.append(worker.read_output())
    assert said == [f"{cores}\n", f"[{cores[-1]}]\n"]


@pytest.mark.slow
def test_chance_is_not_the_same_in_copies(start, copied):
    pytest.importorskip("torch")
    said = set()
    for _ in range(2):
        worker = start("-c", "import torch; print(torch.rand(1).item())", limits=WorkerLimits(), modules="torch")
        assert worker.wait() == 0, worker.read_output()
        said.add(worker.read_output())
    assert len(said) == 2


def test_copies_for_any_card_come_of_one_stem_and_are_told_which(start, copied):
    if not copied:
        pytest.skip("has none")
    stems = len(isolation._fork_servers)
    words = ("-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    for card in ("GPU-1", "GPU-2"):
        worker = start(*words, environment={"CUDA_VISIBLE_DEVICES": card})
        assert worker.wait() == 0
        assert worker.read_output() == f"{card}\n"
    assert len(isolation._fork_servers) <= stems + 1


def test_a_stem_that_is_lost_only_costs_time(start, copied):
    if not copied:
        pytest.skip("has none")
    assert start("-c", "print(1)").wait() == 0
    for one in filter(None, isolation._fork_servers.values()):
        one._process.kill()
        one._process.wait()
    worker = start("-c", "print('ran')")
    assert worker.wait() == 0
    assert worker.read_output() == "ran\n"
    for one in filter(None, isolation._fork_servers.values()):
        one.close()
    isolation._fork_servers.clear()


def test_what_cannot_be_imported_is_told_by_the_worker_itself(mode, tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import no_such_module_here\n")
    script.chmod(0o644)
    (tmp_path / "private").mkdir()
    warm = WarmProgram(modules=("no_such_module_here",), paths=(), script=(str(script),))
    asked = isolation.StartRequest(
        argv=warm.argv, readable=(script,), private=tmp_path / "private", limits=SMALL, gpu=False, warm=warm
    )
    worker = isolation.start_process(mode, asked, pass_fds=(), environment={})
    assert worker.wait() == 1
    assert "No module named 'no_such_module_here'" in worker.read_output()
    end_process(worker)


def test_no_copies_are_made_of_a_process_in_which_a_module_touched_a_card(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import isolate.stem as stem\nstem.CARDS = ('/proc/version',)\n")
    (tmp_path / "compiler.py").write_text("")
    (tmp_path / "toucher.py").write_text("kept = open('/proc/version')\n")
    servers = []
    for module in ("compiler", "toucher"):
        warm = WarmProgram(modules=("torch", module), paths=(str(tmp_path),), script=("",))
        servers.append(isolation.fork_server_of(warm, {}))
    untouched, touched = servers
    assert touched is None
    assert untouched is not None
    isolation.forget_fork_server(untouched)
