"""A device host: another `ridgeline` behind a program in the place of ssh, with a cache of its own; lines that are cut."""

import contextlib
import io
import os
import signal
import sys
import threading
from pathlib import PurePosixPath

import pytest

from ridgeline.agent.campaign.device_host import THREADS, receive_messages, send_message, ssh_words
from ridgeline.agent.campaign.wiring import Place, connect
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import DeviceLost
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.isolation.stopping import StepEnded, Stopping, listening
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from tests import projects

SSH = """#!/bin/sh
echo "$$ $*" >> {log}
[ -e {down} ] && {{ echo 'Connection refused' >&2; exit 255; }}
while :; do case "$1" in -o|-p) shift 2;; -T) shift;; *) break;; esac; done
shift 3
exec env RIDGELINE_CACHE={cache} {python} -m ridgeline device-host
"""
TEST = "#!/bin/sh\ngrep -q SLOW kernel.c && sleep 600\necho PASS\n"


@pytest.fixture
def host(tmp_path, make_repository, monkeypatch):
    """A project with a device host, and what the stand-in for ssh wrote down."""
    there, log, down = tmp_path / "there", tmp_path / "ssh.log", tmp_path / "down"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH.format(log=log, down=down, cache=there, python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    repository = make_repository(projects.files(test=TEST, device_host="ssh://me@gpu1:2222/opt/bin/ridgeline"))
    loaded = load(repository)
    campaign = tmp_path / "campaign"
    campaign.mkdir()
    (campaign / "request.json").write_text("{}")
    place = Place(repository=repository, contract_dir=PurePosixPath(), campaign_dir=campaign)
    yield lambda: connect(place, loaded.contract, "catalog"), log, down, there, campaign
    for line in log.read_text().splitlines():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    for thread in threading.enumerate():
        if thread.name == THREADS:
            thread.join()


@pytest.mark.slow
def test_steps_are_made_there_and_a_lost_line_is_the_device_s_loss_that_a_later_question_mends(host):
    make, log, down, there, campaign = host
    ports = make()
    commit = ports.workspace.open("none").commit
    assert ports.builder.build(commit).ok
    checked = ports.checker.check(commit, purpose="baseline")
    assert checked.passed
    (folder,) = (there / "device-hosts").iterdir()
    assert [*(folder / "trees").glob("*/ridgeline.yaml")]
    assert not (campaign / "trees").exists()
    timed = ports.timer.benchmark(commit, level="quick", source="quick", shapes=(), repeat=1, purpose="baseline")
    assert ArtifactStore(campaign).get(timed.csv).startswith(projects.HEADER.encode())
    words = log.read_text().splitlines()
    assert words[0].split(" ", 1)[1].endswith("-p 2222 me@gpu1 /opt/bin/ridgeline device-host")

    os.kill(int(words[-1].split()[0]), signal.SIGKILL)
    down.touch()
    with pytest.raises(DeviceLost, match=r"ssh://me@gpu1.*lost \(exit code"):
        ports.checker.check(commit, purpose="lost")
    with pytest.raises(DeviceLost, match="Connection refused"):
        ports.checker.check(commit, purpose="lost")
    down.unlink()
    assert ports.checker.check(commit, purpose="lost").passed
    assert len(log.read_text().splitlines()) == 3

    slow = ports.workspace.apply(
        round=1, parent=commit, edits=(FileEdit(path="kernel.c", text="SLOW\n"),), at="2026-11-21T10:00:00+00:00"
    )
    asked = iter((0, 1))
    with listening(Stopping(requests=lambda: next(asked, 1))), pytest.raises(StepEnded, match="a person asked"):
        ports.checker.check(slow.commit, purpose="slow")


def test_addresses():
    assert ssh_words("ssh://gpu1")[-3:] == ("gpu1", "ridgeline", "device-host")
    assert ssh_words("ssh://me@10.0.0.7:22/opt/r/bin/ridgeline")[-5:] == (
        "-p", "22", "me@10.0.0.7", "/opt/r/bin/ridgeline", "device-host",
    )  # fmt: skip
    for wrong in ("gpu1", "ssh://", "ssh://-oProxyCommand=x", "ssh://gpu1/a;b", "ssh://gpu1:x", "http://gpu1"):
        with pytest.raises(UserError, match="device_host"):
            ssh_words(wrong)


def test_what_a_lost_line_cut_off_is_no_message():
    stream = io.BytesIO()
    send_message(stream, {"what": "call"}, b"data")
    whole = stream.getvalue()
    for length in range(len(whole)):
        assert not [*receive_messages(io.BytesIO(whole[:length]))]
    assert [*receive_messages(io.BytesIO(whole * 2))] == [({"what": "call", "bytes": 4}, b"data")] * 2
