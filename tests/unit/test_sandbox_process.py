import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.sandbox.isolation import confinement
from ridgeline.sandbox.isolation.environment import SECRET, select_variables
from ridgeline.sandbox.isolation.process import capture, head_and_tail, run


def alive(pid: int) -> bool:
    """Whether the process runs; a dead one that nobody collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float = 3.0) -> bool:
    until = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def shell(text: str, cwd: Path, timeout_s: float = 20, **options):
    return run(("sh", "-c", text), cwd=cwd, timeout_s=timeout_s, **options)


@pytest.mark.parametrize(("text", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
def test_the_exit_code_is_the_commands_own(tmp_path, text, code):
    ended = shell(text, tmp_path)
    assert ended.returncode == code
    assert not ended.timed_out
    assert ended.argv == ("sh", "-c", text)


def test_output_and_error_come_back_together_in_order(tmp_path):
    assert shell("echo one; echo two >&2; echo three", tmp_path).output == "one\ntwo\nthree\n"


def test_processor_time_is_that_of_the_process_and_of_what_it_waited_for(tmp_path):
    burn = "sum(range(5_000_000))"
    ended = shell(f"{sys.executable} -ISc '{burn}' & wait; sleep 0.3", tmp_path)
    assert ended.cpu_s is not None
    assert 0.02 < ended.cpu_s < ended.seconds - 0.2
    idle = shell("sleep 0.3", tmp_path)
    assert idle.cpu_s is not None
    assert idle.cpu_s < ended.cpu_s / 2


def test_input_is_empty(tmp_path):
    assert shell("cat; echo end", tmp_path).output == "end\n"


@pytest.mark.feature("F080")
def test_a_hanging_command_is_killed_with_everything_it_started(tmp_path):
    text = "sleep 300 & echo $! >child; setsid sh -c 'echo $$ >escaped; exec sleep 300' & trap '' TERM; sleep 300"
    ended = shell(text, tmp_path, timeout_s=0.5)
    assert ended.timed_out
    assert ended.returncode is None
    assert 0.4 < ended.seconds < 3
    for name in ("child", "escaped"):
        assert gone(int((tmp_path / name).read_text())), name


def test_what_is_still_running_after_a_normal_exit_is_killed_too(tmp_path):
    assert shell("sleep 300 & echo $! >child; setsid sleep 300 & echo $! >escaped", tmp_path).ok
    for name in ("child", "escaped"):
        assert gone(int((tmp_path / name).read_text())), name


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    program = (
        "from pathlib import Path; from ridgeline.sandbox.isolation.process import run;"
        f"run(('sh', '-c', 'echo $$ >child; sleep 300'), cwd=Path({str(tmp_path)!r}), timeout_s=300)"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path.cwd(),
        stderr=subprocess.DEVNULL,
        # a test run in the background of a shell inherits an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    child = tmp_path / "child"
    until = time.monotonic() + 20
    while not (child.exists() and child.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=10) != 0
    assert gone(int(child.read_text()))


def test_a_killed_ridgeline_takes_its_command_with_it(tmp_path):
    program = (
        "from pathlib import Path; from ridgeline.sandbox.isolation.process import run;"
        f"run(('sh', '-c', 'echo $$ >child; exec sleep 300'), cwd=Path({str(tmp_path)!r}), timeout_s=300)"
    )
    started = subprocess.Popen([sys.executable, "-c", program], cwd=Path.cwd())
    child = tmp_path / "child"
    until = time.monotonic() + 20
    while not (child.exists() and child.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    started.kill()
    started.wait(timeout=10)
    assert gone(int(child.read_text()))


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SOMETHING_ELSE"])
def test_the_environment_is_a_short_list(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "s3cret")
    ended = run(("env",), cwd=tmp_path, timeout_s=10)
    assert "s3cret" not in ended.output
    names = {line.split("=")[0] for line in ended.output.splitlines()}
    assert names == {"PATH", "HOME", "TMPDIR", "LANG", "RIDGELINE_RUN"}
    assert f"HOME={os.environ['HOME']}\n" not in ended.output


def test_named_variables_are_passed_but_never_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCM_PATH", "/opt/rocm")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    assert select_variables(("ROCM_PATH", "OPENAI_API_KEY", "NOT_SET_ANYWHERE")) == {"ROCM_PATH": "/opt/rocm"}
    ended = run(("env",), cwd=tmp_path, timeout_s=10, env={"ROCM_PATH": "/opt/rocm"})
    assert "ROCM_PATH=/opt/rocm" in ended.output


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_KEY", True), ("TOKEN", True), ("GH_TOKEN_2", True), ("GITHUB_PAT", True), ("SSH_AUTH_SOCK", True), ("PGPASSWORD", True),
        ("GPG_PASSPHRASE", True), ("SENTRY_DSN", True), ("SLACK_WEBHOOK", True), ("ssh_private_key", True), ("RIDGELINE_SMTP", True),
        ("TOKENIZERS_PARALLELISM", False), ("KEYBOARD", False), ("PATH", False), ("COMPASS_HOME", False), ("OMP_NUM_THREADS", False),
        ("AUTHORS", False), ("MONKEY", False),
    ],
)  # fmt: skip
def test_a_name_says_whether_a_variable_is_secret(name, secret):
    assert bool(SECRET.search(name)) == secret


def test_the_private_folders_exist_during_the_run_and_not_after(tmp_path):
    ended = shell('touch "$HOME/x" "$TMPDIR/y" && echo "$HOME"', tmp_path)
    assert ended.ok
    assert not Path(ended.output.strip()).exists()


@pytest.mark.parametrize(
    ("size", "limit", "cut"), [(999, 1000, 0), (1000, 1000, 0), (1001, 1000, 1), (5000, 1001, 3999)]
)
def test_output_is_bounded_and_says_what_is_left_out(tmp_path, size, limit, cut):
    path = tmp_path / "said"
    path.write_text("h" * (size // 2) + "t" * (size - size // 2))
    text = head_and_tail(path, limit)
    assert (f"[... {cut} bytes left out ...]" in text) == (cut > 0)
    assert text.startswith("h")
    assert text.endswith("t")
    assert len(text) <= limit + 50


def test_a_talkative_command_is_bounded(tmp_path):
    ended = shell("yes | head -c 3000000", tmp_path, output_bytes=4000)
    assert len(ended.output) < 4100
    assert "2996000 bytes left out" in ended.output


def test_memory_is_limited(tmp_path):
    take = (sys.executable, "-S", "-c", "x = bytearray(600 * 1024 * 1024)")
    assert not run(take, cwd=tmp_path, timeout_s=20, memory_mb=300).ok
    assert run(take, cwd=tmp_path, timeout_s=20).ok


def test_a_command_is_pinned_to_the_processor_asked_for(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    ask = (sys.executable, "-S", "-c", "import os; print(sorted(os.sched_getaffinity(0)))")
    assert run(ask, cwd=tmp_path, timeout_s=20, cpu=cpu).output == f"[{cpu}]\n"
    with pytest.raises(WorldError, match="processor 100000 is not one"):
        run(ask, cwd=tmp_path, timeout_s=20, cpu=100_000)


def test_a_command_has_no_network_where_namespaces_work(tmp_path):
    links = "import os; print(sorted(os.listdir('/sys/class/net')), len(open('/proc/net/route').readlines()))"
    if confinement.network_isolation() == "weak":
        pytest.skip("this machine permits no network namespaces")
    ended = run((sys.executable, "-S", "-c", links), cwd=tmp_path, timeout_s=20)
    assert ended.output.split()[-1] in ("0", "1"), "no route is left but perhaps the table's header"


@pytest.mark.parametrize(
    ("argv", "words", "code"),
    [
        (("no-such-program-anywhere",), "program 'no-such-program-anywhere' not found", 5),
        (("./absent.sh",), "program './absent.sh' not found", 2),
        (("./plain.txt",), "is not executable", 2),
    ],
)
def test_a_missing_program_is_named_with_its_field(tmp_path, argv, words, code):
    (tmp_path / "plain.txt").write_text("x")
    with pytest.raises(ProgramMissing, match="test_command: ") as caught:
        run(argv, cwd=tmp_path, timeout_s=5, field="test_command")
    assert words in str(caught.value)
    assert caught.value.exit_code == code


def test_a_program_given_by_path_is_looked_for_in_its_own_folder(tmp_path):
    script = tmp_path / "build.sh"
    script.write_text("#!/bin/sh\necho built\n")
    script.chmod(0o755)
    assert run(("./build.sh",), cwd=tmp_path, timeout_s=5).output == "built\n"


def test_short_commands_are_not_rounded_up(tmp_path):
    seconds = sorted(run(("true",), cwd=tmp_path, timeout_s=5).seconds for _ in range(5))
    assert seconds[0] < 0.045, "waiting in steps of 50 ms would show"


def test_a_trusted_tool_gets_input_and_gives_whole_output(tmp_path):
    data = bytes(range(256)) * 4000
    done = capture(("cat",), cwd=tmp_path, timeout_s=10, stdin=data)
    assert done.stdout == data
    assert done.returncode == 0
