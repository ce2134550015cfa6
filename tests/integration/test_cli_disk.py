"""A file system that takes no more, or nothing: one line that names it, nothing lost, and never a verdict."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ridgeline.graph.errors import DiskFull
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.durable import require_room
from tests.builders import make_history, make_round
from tests.text_project import files
from tests.web_campaigns import write_ledger

ROOT = Path(__file__).parents[2]
IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost")
DRIVER = """
import sys
from pathlib import Path
from ridgeline.agent.campaign import wiring
from ridgeline.agent.cli.application import main
from tests.drive import TextPlanner

FILLER = Path(sys.argv.pop(1))

class FillingPlanner(TextPlanner):
    def draft(self, briefing, proposal):
        if briefing.round == 3 and not Path(f"{FILLER}.once").exists():
            Path(f"{FILLER}.once").touch()
            with FILLER.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    pass
        return super().draft(briefing, proposal)

wiring.PLANNERS["scripted"] = lambda contract: FillingPlanner("speed 120", "speed 140", "speed 160")
main()
"""


def mounted(folder: Path, *, options: str) -> Path:
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")
    return folder


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MiB."""
    place = mounted(tmp_path / "small", options="size=12m")
    yield place
    subprocess.run(("umount", "-l", str(place)), check=True)


@pytest.fixture
def sealed_disk(tmp_path):
    """A file system that takes no write."""
    place = mounted(tmp_path / "sealed", options="size=1m,ro")
    yield place
    subprocess.run(("umount", "-l", str(place)), check=True)


@pytest.fixture
def project(make_repository):
    """A project whose test needs 2 MiB of its temporary folder."""
    texts = dict(files())
    need = 'import os; pathlib.Path(os.environ["TMPDIR"], "scratch").write_bytes(bytes(2 << 20))\n'
    start = 'if sys.argv[1] == "test":\n'
    texts["harness.py"] = texts["harness.py"].replace(start, f"{start}    {need}")
    return make_repository(texts)


@pytest.mark.parametrize("where", ["temporary folder", pytest.param("campaign", marks=pytest.mark.slow)])
def test_a_disk_that_fills_up_ends_no_round(project, small_disk, where):
    campaign = (small_disk if where == "campaign" else project / "agent") / "c"
    environment = os.environ | ({"TMPDIR": str(small_disk)} if where == "temporary folder" else {})

    def drive(*words: object) -> subprocess.CompletedProcess[str]:
        argv = (sys.executable, "-c", DRIVER, str(small_disk / "filler"), *map(str, words))
        return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)

    done = drive("run", project, "--dir", campaign, "--planner", "scripted")
    final_line = done.stderr.splitlines()[-1]
    assert done.returncode == 2, done.stderr
    assert f"file system {small_disk} (" in final_line
    assert "bytes free): no space left; free some" in final_line
    assert "Traceback" not in done.stderr
    keys = [json.loads(line)["body"].get("round") for line in (campaign / "ledger.jsonl").read_text().splitlines()]
    assert [key for key in keys if key and key >= 2] == [2], "the round that had no room stays open"
    (small_disk / "filler").unlink()
    done = drive("resume", campaign, "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["accepted"], outcome["rolled_back"]) == (3, 0)


def test_a_file_system_that_takes_hardly_any_more_files_has_no_room(tmp_path):
    """Its bytes are all free: a failure there would else be a candidate's."""
    place = mounted(tmp_path / "few", options="size=12m,nr_inodes=400")
    try:
        require_room(place)
        for number in range(200):
            (place / str(number)).touch()
        with pytest.raises(DiskFull, match=r"bytes and \d+ files free\): no space left; free some"):
            require_room(place)
    finally:
        subprocess.run(("umount", "-l", str(place)), check=True)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "{project}", "--dir", "{sealed}/c"),
        ("init", "{sealed}/new", "--task", "matmul_c"),
        ("demo", "--dir", "{sealed}/d"),
        ("bench", "true", "true", "--max-pairs", "2", "--raw", "{sealed}/raw.json"),
        ("bench", "true", "true", "--max-pairs", "2", "--plot", "{sealed}/plot.png"),
    ],
)
def test_a_disk_that_takes_no_write_is_named_before_anything_is_measured(cli, project, sealed_disk, words):
    done = cli(*(word.format(sealed=sealed_disk, project=project) for word in words))
    assert done.code == 2
    assert done.out == ""
    assert f"file system {sealed_disk}" in done.complaint
    assert "is read-only; make it writable or name another place" in done.complaint
    assert len(done.complaint.splitlines()) == 1


def test_a_campaign_on_a_disk_that_takes_no_write_is_not_held_and_the_disk_is_named(sealed_disk):
    told = rf"file system {sealed_disk} \(.*is read-only; make it writable"
    with pytest.raises(DiskFull, match=told), lease("running", wait_s=0, folder=sealed_disk):
        pass


def test_a_lease_on_a_full_disk_names_that_disk(small_disk):
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    with (
        pytest.raises(DiskFull, match=rf"cpu\.lock: file system {small_disk} \("),
        lease("cpu", wait_s=0, folder=small_disk),
    ):
        pass


def test_a_page_on_a_disk_that_takes_no_write_asks_for_a_folder_that_does(cli, sealed_disk, tmp_path):
    campaign = write_ledger(tmp_path / "toy", make_history(make_round(2)))
    done = cli("report", campaign, "--html", sealed_disk / "page.html")
    assert done.code == 2
    assert done.complaint.endswith("Read-only file system; name a file in a folder that can be written")


def test_the_verdict_of_bench_is_said_although_its_files_cannot_be_written(cli, small_disk, monkeypatch):
    fill = f"dd if=/dev/zero of={small_disk}/filler bs=1k"
    script = small_disk.parent / "fill"
    script.write_text(f"#!/bin/sh\n{fill} 2>/dev/null\ntrue\n")
    script.chmod(0o755)
    files_wanted = ("--raw", small_disk / "raw.json", "--plot", small_disk / "plot.png")
    done = cli(
        "bench", str(script), str(script), "--max-pairs", "2", "--calibration-pairs", "0", "--quiet", *files_wanted
    )
    assert done.code == 2
    assert done.out.startswith(("Undecided", "B is"))
    lines = [line for line in done.err.splitlines() if line.startswith("ridgeline: ")]
    assert [line.split(":")[1] for line in lines] == [" --raw", " --plot"]


def test_more_pairs_than_memory_holds_are_refused(cli):
    done = cli("bench", "true", "true", "--max-pairs", "99999999999")
    assert (done.code, done.complaint) == (2, "--max-pairs: is 99999999999; give 100000 or fewer")


@pytest.mark.parametrize("name", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_that_asks_for_the_end_ends_a_campaign_in_order(project, tmp_path, name):
    texts = project / "harness.py"
    texts.write_text(texts.read_text().replace("import pathlib", "import pathlib, subprocess", 1))
    texts.write_text(
        texts.read_text().replace(
            'if sys.argv[1] == "test":', 'if sys.argv[1] == "test":\n    subprocess.run(["sleep", "31.7"])', 1
        )
    )
    subprocess.run(("git", *IDENTITY, "commit", "-qam", "a test that takes long"), cwd=project, check=True)
    campaign = tmp_path / "c"
    argv = (sys.executable, "-m", "ridgeline", "run", str(project), "--dir", str(campaign))
    process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not _sleeping() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(name)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + name
    assert said.splitlines()[-1] == "ridgeline: interrupted; nothing is lost: go on with `ridgeline resume`"
    assert json.loads((campaign / "status.json").read_text())["status"] == "interrupted"
    assert not _sleeping(), "what the campaign had started is gone"


def _sleeping() -> bool:
    return subprocess.run(("pgrep", "-f", "^sleep 31.7$"), capture_output=True, check=False).returncode == 0
