"""Candidates whose code attacks the machine while it is tested: none of them reaches anything, and the round ends.

Each deed is what the test of a candidate runs, as the user that Ridgeline runs as. What it would reach is looked at from outside.
"""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline.sandbox.harness.isolate import landlock
from ridgeline.sandbox.isolation import commands, rooms
from ridgeline.sandbox.isolation.commands import NUMBERS_ROOMS_TASKS, find_mode, has_own_table, kernel_release
from ridgeline.sandbox.workspace.commands import Commands
from tests.rooms import Room, open_room, script_contract

PERMITTED = pytest.mark.skipif(not has_own_table(), reason="this machine permits no namespaces")
SECRET = "s3cret-of-the-user"
KERNEL = "#!/bin/sh\necho right\n"
FILES = {
    "kernel.sh": KERNEL,
    "test.sh": "#!/bin/sh\n./kernel.sh\n",
    "bench.sh": "#!/bin/sh\nexit 0\n",
    "harmless": "x\n",
}
READS = {
    "home": "cat $HOME_OF_USER/.netrc",
    "home by its account": "cat ~root/.netrc $HOME_OF_USER/.ssh/* $HOME_OF_USER/.cargo/credentials.toml",
    "every file of the home": "find $HOME_OF_USER -type f -exec cat {} +",
    "environment of the parent": "cat /proc/$PPID/environ /proc/1/environ",
    "environments of all": "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "memory of the parent": "python3 -c \"print(open('/proc/1/mem','rb').read(1))\"; cat /proc/1/root/etc/hostname",
    "the old root": "cat /proc/1/root$HOME_OF_USER/.netrc /proc/self/root/../$HOME_OF_USER/.netrc",
    "the checkout of the user": "cat $CHECKOUT/.env $CHECKOUT/kernel.sh",
    "the campaign": "cat $CAMPAIGN/request.json; ls $CAMPAIGN; cat $CAMPAIGN/*.json*",
    "other versions": "cat ../?/kernel.sh; ls ..",
    "temporary files of others": "cat $OTHERS/key; ls $OTHERS /var/tmp",
    "shared memory of others": "cat /dev/shm/ridgeline-hostile-*",
    "a symbolic link that is read for it": "rm -f left; ln -s $HOME_OF_USER/.netrc left; cat left",
    "a hard link": "ln $HOME_OF_USER/.netrc left; ln $CAMPAIGN/request.json left; cat left",
    "a socket with a path": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('$SOCKET'); print(s.recv(99))\"",
    "an abstract socket": "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0$ABSTRACT'); print(s.recv(99))\"",
    "a port of this machine": "python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', $PORT), 2).recv(99))\"",
    "the disk itself": "mknod disk b 254 0; cat disk /dev/vda /dev/sda /dev/mem /proc/kcore | head -c 100",
}
"""Each would print the secret."""
WRITES = {
    "the ledger": "echo forged >> $CAMPAIGN/ledger.jsonl",
    "an emptied ledger": ": > $CAMPAIGN/ledger.jsonl",
    "the tape": "rm -f $CAMPAIGN/tape.jsonl; rm -rf $CAMPAIGN",
    "git's settings": "printf '[core]\\nfsmonitor = /bin/false\\n' >> $CAMPAIGN/mirror.git/config",
    "git's settings by its own words": "git config core.fsmonitor /bin/false; git config --global core.hooksPath /x",
    "git's hooks": "mkdir -p $CAMPAIGN/mirror.git/hooks; echo x > $CAMPAIGN/mirror.git/hooks/post-checkout",
    "git's attributes": "echo '* filter=x' > $CAMPAIGN/mirror.git/info/attributes",
    "git's branches": "git update-ref refs/heads/optimize HEAD; git commit --allow-empty -m x; rm -rf $CAMPAIGN/mirror.git/refs",
    "other versions": "for slot in $CAMPAIGN/trees/?; do echo x > $slot/kernel.sh; done",
    "the checkout of the user": "echo x > $CHECKOUT/kernel.sh; rm -rf $CHECKOUT/.git",
    "the home of the user": "echo x >> $HOME_OF_USER/.bashrc; rm -f $HOME_OF_USER/.netrc",
    "temporary files of others": "rm -rf $OTHERS; echo x > $OTHERS/key",
    "files of the system": "echo x > /etc/ridgeline-hostile; touch /usr/bin/ridgeline-hostile; rm -f /bin/true",
    "settings of the kernel": "echo '|/x' > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; echo 1 > /sys/fs/cgroup/x",
    "mounts": "mount -o remount,rw / ; umount /home; unshare -rm true && echo x > /etc/ridgeline-hostile; mount --bind / /mnt",
    "its processes": "kill -9 -1; kill -9 $(pidof python3); true",
    "its parent": "kill -9 1; kill -9 $PPID; true",
}
ODD = {
    "a symbolic link in place of a file of ours": "rm -rf .git; ln -s $HOME_OF_USER .git; ln -sf $HOME_OF_USER/.netrc bench.sh",
    "a pipe that never answers": "mkfifo pipe; rm harmless; mkfifo harmless",
    "folders that may not be written": "mkdir -p a/b/c; touch a/b/c/d; chmod 0 a/b/c a/b a",
    "names that no text can hold": "python3 -c \"import os; os.mkdir(b'\\xff\\xfe'); open(b'\\xff\\xfe/\\n', 'w')\"",
    "more output than is kept": "head -c 30000000 /dev/zero | tr '\\0' x",
    "many files": "mkdir many; cd many; seq 3000 | xargs touch",
    "folders a thousand deep": "python3 -c \"\nimport os\nfor _ in range(1100):\n    os.mkdir('d'); os.chdir('d')\n\"",
    "a daemon": "(setsid sh -c 'exec env -i sleep 271828' >/dev/null 2>&1 &)",
    "a storm of processes": "for i in 1 2 3 4 5 6 7 8 9; do (for j in 1 2 3 4 5 6 7 8 9; do sleep 30 & done; sleep 30) & done",
}


class World(NamedTuple):
    """What there is to be reached."""

    here: Room
    variables: dict[str, str]
    campaign: Path
    places: tuple[Path, ...]

    def candidate(self, deed: str) -> str:
        """One whose test does that."""
        lines = "\n".join(f"{name}='{value}'" for name, value in self.variables.items())
        return self.here.candidate({"kernel.sh": f"#!/bin/sh\n{lines}\n{deed}\necho right\n"})

    def test(self, commit: str) -> str:
        """What its test printed, as far as it is kept."""
        return self.here.checker.check(commit, purpose="p").detail

    def state(self) -> dict[Path, bytes]:
        """Everything that no candidate may change."""
        files = (path for place in self.places for path in place.rglob("*") if path.is_file())
        slots = self.campaign / "trees"
        return {
            path: path.read_bytes() for path in files if slots not in path.parents and "worktrees" not in path.parts
        }


SERVERS = """
import socket, sys, threading
def serve(server):
    server.listen()
    while True:
        peer, _ = server.accept()
        peer.sendall(sys.argv[3].encode())
        peer.close()
port = socket.create_server(("127.0.0.1", 0))
for name in (sys.argv[1], chr(0) + sys.argv[2]):
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
print(port.getsockname()[1], flush=True)
serve(port)
"""
"""Apart, since tests open no sockets of the network: they say the secret to whoever connects."""


@pytest.fixture
def world(make_repository, tmp_path, monkeypatch) -> Iterator[World]:
    home, others = tmp_path / "home", tmp_path / "others"
    for folder in (home / ".ssh", home / ".cargo", others):
        folder.mkdir(parents=True)
    for path in (home / ".netrc", home / ".ssh" / "id", home / ".cargo" / "credentials.toml", others / "key"):
        path.write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    rooms._homes.cache_clear()
    rooms._toolchains.cache_clear()
    shared = Path("/dev/shm") / f"ridgeline-hostile-{os.getpid()}"
    shared.write_text(SECRET)
    repository = make_repository(FILES)
    (repository / ".env").write_text(SECRET)
    campaign = repository / "agent" / "workspace" / "one"
    here = open_room(repository, campaign, script_contract(timeouts={"test_s": 10}))
    for name in ("ledger.jsonl", "tape.jsonl", "request.json"):
        (campaign / name).write_text(f"{SECRET}\n")
    here.builder.ensure_built(here.base)
    abstract_name = f"ridgeline-hostile-{secrets.token_hex(8)}"
    words = (sys.executable, "-c", SERVERS, str(tmp_path / "s"), abstract_name, SECRET)
    servers = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={"OPENAI_API_KEY": SECRET})
    assert servers.stdout is not None
    port = servers.stdout.readline().strip()
    variables = {
        "HOME_OF_USER": str(home),
        "CHECKOUT": str(repository),
        "CAMPAIGN": str(campaign),
        "OTHERS": str(others),
        "SOCKET": str(tmp_path / "s"),
        "ABSTRACT": abstract_name,
        "PORT": port,
    }
    yield World(here, variables, campaign, (home, others, repository))
    servers.kill()
    servers.wait()
    servers.stdout.close()
    shared.unlink()
    rooms._homes.cache_clear()
    rooms._toolchains.cache_clear()


def goes_on(world: World) -> bool:
    """Whether the next candidate and the original are tested as if nothing had been."""
    honest = world.here.candidate({"kernel.sh": f"{KERNEL}# faster\n"})
    return all(world.here.checker.check(commit, purpose="p").kind == "pass" for commit in (honest, world.here.base))


@PERMITTED
@pytest.mark.parametrize("name", READS)
def test_no_candidate_reads_what_is_not_its_own(world, name):
    candidate = world.candidate(f"({READS[name]}) 2>&1")
    before = world.state()
    assert SECRET not in world.test(candidate)
    assert world.state() == before


@PERMITTED
@pytest.mark.parametrize("name", WRITES)
def test_no_candidate_changes_what_is_not_its_own(world, name):
    candidate = world.candidate(f"({WRITES[name]}) 2>&1")
    before = world.state()
    world.test(candidate)
    assert world.state() == before
    assert not Path("/etc/ridgeline-hostile").exists()
    assert goes_on(world)


LANDLOCKED = (
    "the ledger",
    "an emptied ledger",
    "the tape",
    "git's settings",
    "git's hooks",
    "git's attributes",
    "the home of the user",
)


@pytest.mark.skipif(landlock.version() < 3, reason="this kernel has no Landlock that holds truncation")
@pytest.mark.parametrize("name", LANDLOCKED)
def test_where_no_namespaces_are_permitted_the_kernel_still_refuses_what_it_can(world, name, monkeypatch):
    monkeypatch.setattr(commands, "find_mode", lambda: "weak")
    candidate = world.candidate(f"({WRITES[name]}) 2>&1")
    before = world.state()
    assert "Permission denied" in world.test(candidate)
    assert world.state() == before
    assert goes_on(world)


@pytest.mark.parametrize("name", ["the ledger", "an emptied ledger"])
def test_where_nothing_holds_a_command_the_record_is_put_back_and_the_round_is_tampered(world, name, monkeypatch):
    candidate = world.candidate(f"({WRITES[name]}) 2>&1")
    before = world.state()
    world.here.builder.ensure_built(candidate)
    monkeypatch.setattr(Commands, "_room", lambda *_: None)
    assert "ledger.jsonl (of the campaign)" in world.test(candidate)
    assert world.state() == before
    assert goes_on(world)


@PERMITTED
@pytest.mark.parametrize("name", ODD)
def test_no_candidate_leaves_anything_that_ends_the_campaign(world, name):
    candidate = world.candidate(ODD[name])
    before = world.state()
    world.test(candidate)
    assert world.state() == before
    assert goes_on(world)
    assert subprocess.run(["pgrep", "-f", "sleep 271828"], check=False, capture_output=True).stdout == b""


STORM = """python3 -c "
import os, time
begun = 0
try:
    while begun < 3000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        begun += 1
except OSError:
    pass
print(begun, 'were begun')
"
"""


@pytest.mark.skipif(
    find_mode() == "weak" or (find_mode() == "root" and kernel_release() < NUMBERS_ROOMS_TASKS),
    reason="nothing counts here",
)
def test_a_storm_of_processes_ends_at_a_number(world, monkeypatch):
    monkeypatch.setattr(commands, "most_tasks", lambda: 400)
    candidate = world.candidate(STORM)
    begun = re.search(r"(\d+) were begun", world.test(candidate))
    assert begun is not None
    assert 100 < int(begun[1]) <= 400
    assert goes_on(world)


def test_a_table_of_more_than_forty():
    assert len(READS) + len(WRITES) + len(ODD) >= 40
