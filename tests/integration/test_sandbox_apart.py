"""Commands with a process table of their own, and what stands in for it where this machine permits none."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import pytest

from ridgeline.graph.errors import ProgramMissing
from ridgeline.sandbox.isolation import confinement
from ridgeline.sandbox.isolation.commands import has_own_table
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.isolation.rooms import Room

PERMITTED = pytest.mark.skipif(not has_own_table(), reason="this machine permits no process tables")
SEMAPHORES = """
import ctypes
get = ctypes.CDLL(None, use_errno=True).semget
print("old" if get(0x51EE, 1, 0) >= 0 else "new", get(0x51EE, 1, 0o1600) >= 0, get(0x51EE, 1, 0) >= 0)
"""
"""Makes a set of semaphores, which outlives its process, and says whether it was there before."""
SLEEPER = "314159"
"""Seconds; by them it is found from outside."""
DAEMON = f"(setsid sh -c 'exec env -i sleep {SLEEPER}' >/dev/null 2>&1 &); sleep 0.2; echo done"
"""It leaves its session and wipes what it is marked with."""


def apart(text: str, cwd: Path, timeout_s: float = 20, **options):
    return run(("sh", "-c", text), cwd=cwd, timeout_s=timeout_s, room=Room(writable=(cwd,)), **options)


def unnamed(text: str, cwd: Path, **options):
    """Likewise, from a file: what a command line says of shared memory leaves it the machine's."""
    (cwd / "script.sh").write_text(text)
    return run(("sh", "script.sh"), cwd=cwd, timeout_s=20, room=Room(writable=(cwd,)), **options)


def sleepers() -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if words[:2] == [b"sleep", SLEEPER.encode()] and state != "Z":
            found.append(int(process.name))
    return found


def none_sleeps(within_s: float = 3.0) -> bool:
    until = time.monotonic() + within_s
    while sleepers() and time.monotonic() < until:
        time.sleep(0.02)
    return not sleepers()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 139", 139),
        ("kill -9 $$", -9),
        ("kill -11 $$", -11),
        ("kill -15 $$", -15),
        ("kill -10 $$", -10),
        ("kill -13 $$", -13),
        (f"exec {sys.executable} -S -c 'import os; os.abort()'", -6),
    ],
)
def test_the_exit_code_is_the_commands_own(tmp_path, text, code):
    ended = apart(text, tmp_path)
    assert (ended.returncode, ended.timed_out, ended.output) == (code, False, "")


def test_output_input_limits_and_processor_are_as_without(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    ask = "cat; echo out; echo err >&2; ulimit -c; ulimit -v; ulimit -f"
    assert apart(ask, tmp_path, memory_mb=500).output == f"out\nerr\n0\n{500 * 1024}\n{4096 * 2048}\n"
    assert apart("cat", tmp_path, stdin=b"told").output == "told"
    where = (sys.executable, "-S", "-c", "import os; print(sorted(os.sched_getaffinity(0)))")
    assert run(where, cwd=tmp_path, timeout_s=20, cpu=cpu, room=Room(writable=(tmp_path,))).output == f"[{cpu}]\n"
    take = (sys.executable, "-S", "-c", "x = bytearray(600 * 1024 * 1024)")
    assert not run(take, cwd=tmp_path, timeout_s=20, memory_mb=300, room=Room(writable=(tmp_path,))).ok


def test_at_its_time_limit_it_is_asked_to_end_and_then_killed(tmp_path):
    polite = apart("trap 'echo polite; exit' TERM; sleep 60 & wait", tmp_path, timeout_s=0.5)
    assert (polite.returncode, polite.timed_out, polite.output) == (None, True, "polite\n")
    deaf = apart(f"trap '' TERM; sleep {SLEEPER}", tmp_path, timeout_s=0.5)
    assert (deaf.returncode, deaf.timed_out) == (None, True)
    assert 0.4 < deaf.seconds < 3
    assert none_sleeps()


@PERMITTED
def test_it_sees_its_own_processes_only_and_cannot_uncover_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    text = "umount /proc 2>/dev/null; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls /proc | grep -c '^[0-9]'"
    ended = apart(text, tmp_path)
    assert "PATH=" in ended.output
    assert "s3cret" not in ended.output
    assert int(ended.output.split()[-1]) < 10


def test_what_wiped_its_environment_and_left_its_session_ends_with_the_command(tmp_path):
    ended = apart(DAEMON, tmp_path)
    assert (ended.returncode, ended.output) == (0, "done\n")
    assert none_sleeps()


@PERMITTED
def test_shared_memory_is_empty_when_a_command_starts_and_gone_when_it_ends(tmp_path):
    place = Path("/dev/shm") / f"ridgeline-test-{os.getpid()}"
    text = f"ls -A /dev/shm | wc -l; mkdir {place} && ls -A /dev/shm | wc -l; stat -c %a /dev/shm"
    place.mkdir()
    try:
        assert [unnamed(text, tmp_path).output.split() for _ in range(2)] == [["0", "1", "1777"]] * 2
        assert not list(place.iterdir())
        uncover = f"umount /dev/shm 2>/dev/null; unshare -rm umount /dev/shm 2>/dev/null; ls -d {place} 2>/dev/null"
        assert unnamed(uncover, tmp_path).output == ""
    finally:
        place.rmdir()


@PERMITTED
def test_with_the_network_it_is_its_own_as_well_and_as_large_as_the_machines(tmp_path):
    ended = unnamed("ls -A /dev/shm; df -k --output=size /dev/shm | tail -1", tmp_path, network=True, memory_mb=500)
    assert ended.output.split() == [str(shutil.disk_usage("/dev/shm").total // 1024)]


@PERMITTED
def test_processes_of_one_command_share_it(tmp_path):
    (tmp_path / "both.py").write_text(
        "from multiprocessing import Pool\nfrom multiprocessing.shared_memory import SharedMemory\n"
        "def look(name):\n    there = SharedMemory(name=name)\n    return there.buf[0]\n"
        "if __name__ == '__main__':\n    shared = SharedMemory(create=True, size=64)\n    shared.buf[0] = 7\n"
        "    with Pool(2) as pool:\n        print(pool.apply(look, (shared.name,)))\n    shared.unlink()\n"
    )
    assert apart(f"{sys.executable} both.py", tmp_path).output == "7\n"


@PERMITTED
@pytest.mark.parametrize("given", ["folder", "setting", "word"])
def test_what_lies_in_the_machines_shared_memory_stays_visible_to_a_command_that_is_given_it(tmp_path, given):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        (folder / "data").write_text("there")
        here, env = (folder, {}) if given == "folder" else (tmp_path, {"DATA": name})
        words = ("sh", "-c", f"cat {name}/data") if given == "word" else ("sh", "script.sh")
        (here / "script.sh").write_text(f"cat {name}/data")
        assert run(words, cwd=here, timeout_s=20, room=Room(writable=(here,)), env=env).output == "there"


@PERMITTED
@pytest.mark.parametrize("told", ["on the path", "by its name", "by a script", "by a name that is a link"])
def test_an_environment_of_python_below_tmp_runs_in_a_room(tmp_path, monkeypatch, told):
    place, here = tmp_path / "clone" / ".venv", tmp_path / "here"
    here.mkdir()
    venv.create(place, with_pip=False, symlinks=True)
    packages = next(place.glob("lib/python3*/site-packages"))
    (packages / "installed.py").write_text("said = 'there'")
    (here / "harness.py").write_text(f"#!{place}/bin/python3\nimport installed, sys; print(installed.said, sys.prefix)")
    (here / "harness.py").chmod(0o755)
    (tmp_path / "link").symlink_to(place)
    if told == "on the path":
        monkeypatch.setenv("PATH", f"{place}/bin:{os.environ['PATH']}")
    words = {
        "on the path": ("python3", "harness.py"),
        "by its name": (f"{place}/bin/python3", "harness.py"),
        "by a script": ("./harness.py",),
        "by a name that is a link": (f"{tmp_path}/link/bin/python", "harness.py"),
    }[told]
    said = run(words, cwd=here, timeout_s=20, room=Room(writable=(here,))).output.split()
    assert said == ["there", str(tmp_path / "link" if "link" in told else place)]


@PERMITTED
def test_a_script_cannot_name_what_it_wants_to_read_as_its_interpreter(tmp_path):
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    (other / "secret").write_text("key")
    (other / "secret").chmod(0o755)
    (here / "script").write_text(f"#!{other}/secret")
    (here / "script").chmod(0o755)
    with pytest.raises(ProgramMissing):
        run(("./script",), cwd=here, timeout_s=20, room=Room(writable=(here,)))


@PERMITTED
def test_semaphores_do_not_outlive_a_command(tmp_path):
    (tmp_path / "sem.py").write_text(SEMAPHORES)
    again = [apart(f"{sys.executable} -S sem.py", tmp_path).output for _ in range(2)]
    assert again == ["new True True\n"] * 2


def test_a_killed_ridgeline_takes_all_of_it_along(tmp_path):
    daemon = f"(setsid sh -c 'exec env -i sleep {SLEEPER}' &); touch up; sleep 300"
    program = (
        "from pathlib import Path; from ridgeline.sandbox.isolation.process import run;"
        "from ridgeline.sandbox.isolation.rooms import Room;"
        f"run(('sh', '-c', {daemon!r}), cwd=Path({str(tmp_path)!r}), timeout_s=300, room=Room(writable=(Path({str(tmp_path)!r}),)))"
    )
    if not has_own_table():
        pytest.skip("without process tables what left the session stays when ridgeline is killed")
    started = subprocess.Popen([sys.executable, "-c", program], cwd=Path.cwd())
    until = time.monotonic() + 20
    while not ((tmp_path / "up").exists() and sleepers()) and time.monotonic() < until:
        time.sleep(0.02)
    assert sleepers()
    started.kill()
    started.wait(timeout=10)
    assert none_sleeps()


@pytest.mark.skipif(confinement.locate("setpriv") is None, reason="no setpriv")
def test_a_tool_of_a_killed_ridgeline_is_asked_to_end(tmp_path):
    """Else git would write on in a campaign that another process may have resumed."""
    tool = "trap 'echo asked >ended.new; mv ended.new ended; exit' TERM; touch up; while :; do sleep 0.05; done"
    program = (
        "from pathlib import Path; from ridgeline.sandbox.isolation.process import capture;"
        f"capture(('sh', '-c', {tool!r}), cwd=Path({str(tmp_path)!r}), timeout_s=300)"
    )
    started = subprocess.Popen([sys.executable, "-c", program], cwd=Path.cwd())
    wait_for(tmp_path / "up")
    started.kill()
    started.wait(timeout=10)
    wait_for(tmp_path / "ended")


def wait_for(path):
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.02)


WEAK = """
import sys
from pathlib import Path
from ridgeline.sandbox.isolation import commands
from ridgeline.sandbox.isolation.process import capture, run, run_beside
from ridgeline.sandbox.isolation.rooms import Room
commands.find_mode = lambda: "weak"
here = Path(sys.argv[1])
assert not commands.has_own_table()
with run_beside(("sleep", "300"), cwd=here, output_file=here / "said"):
    ended = run(("sh", "-c", sys.argv[2]), cwd=here, timeout_s=20, room=Room(writable=(here,)))
    assert (ended.returncode, ended.output) == (0, "done\\n"), ended
    listed = capture(("sh", "-c", "cat /proc/$PPID/task/*/children"), cwd=here, timeout_s=9).stdout.split()
    assert len(listed) == 3, listed  # what runs beside it, and what starts commands, was not taken for an orphan
assert run(("sh", "-c", "exit 3"), cwd=here, timeout_s=20, room=Room(writable=(here,))).returncode == 3
"""


def test_without_process_tables_what_is_left_is_adopted_and_ended(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "sleep", "setsid", "env", "cat", "setpriv", "prlimit", "taskset", "true"):
        found = confinement.which(name, os.environ["PATH"])
        assert found, name
        (tools / name).symlink_to(found)
    done = subprocess.run(
        (sys.executable, "-c", WEAK, str(tmp_path), DAEMON),
        env={"PATH": str(tools), "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert none_sleeps()
