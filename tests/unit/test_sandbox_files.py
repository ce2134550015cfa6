import json
import multiprocessing
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from ridgeline.graph.errors import ArtifactLost, DeviceBusy, DiskFull, FilesConflict
from ridgeline.graph.record import Reviewed
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.campaign_folder import (
    ArtifactStore,
    CampaignFiles,
    StopFile,
    WorkClock,
    request_stop,
)
from ridgeline.sandbox.store.durable import append_whole, lock_file
from ridgeline.sandbox.store.ledger import JsonlLedger, verify


@pytest.fixture
def files(tmp_path) -> CampaignFiles:
    return CampaignFiles(tmp_path / "c", tmp_path / "tips")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB of its own."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)), capture_output=True, check=False
    )
    if os.getuid() != 0 or made.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(("umount", "-l", str(place)), check=True)


def test_artifacts_and_texts_are_written_in_their_folders(files, tmp_path):
    blob = ArtifactStore(tmp_path / "c").put("benchmark.csv", b"label\n")
    files.write({"rounds/round-2/artifacts/benchmark.csv": blob, "README.md": "é\n"})
    assert (tmp_path / "c/rounds/round-2/artifacts/benchmark.csv").read_bytes() == b"label\n"
    assert (tmp_path / "c/README.md").read_text(encoding="utf-8") == "é\n"
    assert not list((tmp_path / "c").rglob("*.tmp"))


def test_a_file_that_is_right_is_left_alone(files, tmp_path):
    files.write({"README.md": "same"})
    before = (tmp_path / "c/README.md").stat()
    files.write({"README.md": "same"})
    assert (tmp_path / "c/README.md").stat().st_ino == before.st_ino


@pytest.mark.feature("F042")
def test_a_log_that_somebody_edited_is_kept_aside(files, tmp_path, caplog):
    log = tmp_path / "c/logs/optimize.md"
    files.write({"logs/optimize.md": "one\n"})
    for number in (1, 2):
        log.write_text("mine\n")
        files.write({"logs/optimize.md": "one\ntwo\n"})
        assert log.read_text() == "one\ntwo\n"
        assert log.with_name(f"optimize.md.edited-{number}").read_text() == "mine\n"
    assert "was edited" in caplog.text


@pytest.mark.feature("F042")
def test_a_log_grows_in_place_so_that_a_follower_sees_it(files, tmp_path):
    files.write({"logs/optimize.md": "one\n"})
    inode = (tmp_path / "c/logs/optimize.md").stat().st_ino
    files.write({"logs/optimize.md": "one\ntwo\n"})
    assert (tmp_path / "c/logs/optimize.md").stat().st_ino == inode


def test_a_folder_in_the_way_and_a_link_out_are_conflicts(files, tmp_path):
    (tmp_path / "c/README.md").mkdir(parents=True)
    with pytest.raises(FilesConflict, match="is a folder"):
        files.write({"README.md": "x"})
    (tmp_path / "c/plans").symlink_to(tmp_path)
    with pytest.raises(FilesConflict, match="leads out"):
        files.write({"plans/v1.md": "x"})


def test_odd_device_names_are_one_folder(files, tmp_path):
    files.add_tip("AMD EPYC/9B14 ../x", "gemm", "C", "tip")
    assert (tmp_path / "tips/AMD-EPYC-9B14-..-x/gemm/c/tips.md").read_text() == "tip\n"


def test_a_changed_blob_is_noticed(tmp_path):
    store = ArtifactStore(tmp_path)
    blob = store.put("a.csv", b"data")
    store.path(blob).write_bytes(b"fake")
    with pytest.raises(ArtifactLost, match="was changed"):
        store.get(blob)


def test_a_full_disk_is_named_and_costs_nothing_already_there(small_disk):
    files = CampaignFiles(small_disk, small_disk / "tips")
    files.write({"README.md": "first\n", "logs/optimize.md": "one\n"})
    for content in ({"README.md": "x" * 400_000}, {"logs/optimize.md": "one\n" + "y" * 400_000}):
        with pytest.raises(DiskFull, match=next(iter(content))) as caught:
            files.write(content)
        assert caught.value.exit_code == 2
    assert (small_disk / "README.md").read_text() == "first\n"
    assert (small_disk / "logs/optimize.md").read_text() == "one\n"
    assert not list(small_disk.rglob("*.tmp"))


def test_a_ledger_on_a_full_disk_stays_whole_and_goes_on_when_there_is_space(small_disk):
    path = small_disk / "ledger.jsonl"
    ledger = JsonlLedger(path)
    filler = small_disk / "filler"
    ledger.append(Reviewed(after_round=1, trigger="t", directions=(), escalation=""))
    filler.write_bytes(b"z" * 220_000)
    big = Reviewed(after_round=2, trigger="t" * 100_000, directions=(), escalation="")
    with pytest.raises(DiskFull, match=r"ledger\.jsonl"):
        ledger.append(big)
    assert verify(path).lines == 1
    assert verify(path).problem is None
    filler.unlink()
    ledger.append(big)
    assert verify(path).lines == 2


def test_a_stop_is_counted(tmp_path):
    assert not StopFile(tmp_path).stop_requested(2)
    assert request_stop(tmp_path, why="enough") == request_stop(tmp_path)
    assert StopFile(tmp_path).stop_requested(2)
    assert (tmp_path / "stop.request").read_text() == "enough\n\n"
    assert StopFile(tmp_path).requests == 2


def test_the_clock_is_utc_with_milliseconds(tmp_path):
    now = WorkClock(tmp_path).now("round-2 opened")
    assert now.endswith("+00:00")
    assert len(now) == len("2026-11-21T10:00:00.125+00:00")


def test_work_is_counted_over_sessions_and_not_between_them(tmp_path):
    clock, now = WorkClock(tmp_path), time.time()
    clock.begin(now - 1000)
    (tmp_path / "sessions.json").write_text(json.dumps([0.0, now - 1000, now - 900]))  # last seen 900 s ago
    clock.begin(now - 10)
    assert clock.worked_s("here") == pytest.approx(110, abs=2)


def test_a_lease_is_exclusive_among_processes_and_names_its_holder(tmp_path):
    holder = subprocess.Popen(
        ("flock", "--no-fork", str(tmp_path / "cpu.lock"), "sh", "-c", "echo 4242 >cpu.lock; echo held; exec sleep 60"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        began = time.monotonic()
        with (
            pytest.raises(DeviceBusy, match="process 4242 .*holds") as caught,
            lease("cpu", wait_s=0.2, folder=tmp_path),
        ):
            pass
        assert 0.15 < time.monotonic() - began < 2
        assert caught.value.exit_code == 4
        with lease("gpu0", wait_s=0, folder=tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_lease_can_be_taken_again_after_it_was_given_back(tmp_path):
    for _ in range(2):
        with lease("nvidia 0/../x", wait_s=0, folder=tmp_path):
            names = [path.name for path in Path(tmp_path).iterdir()]
    assert names == ["nvidia-0-..-x.lock"]


def test_a_campaign_waits_for_another_that_writes_a_tip_and_repeats_none(tmp_path):
    """Two processes with the same entry: who comes second waits for the first one's lock, and finds it there."""
    files, entry = CampaignFiles(tmp_path, tips_root=tmp_path / "tips"), "### tile\nlarger tiles help"
    path = files.tips_path("H100", "softmax", "TRITON")
    kind = multiprocessing.get_context("fork")
    begin, told = kind.Event(), ("H100", "softmax", "TRITON", entry)
    other = kind.Process(target=lambda: begin.wait() and files.add_tip(*told))
    other.start()  # before the lock is taken: a copy of this process would hold it too
    with lock_file(path.with_name(".lock")):
        begin.set()
        while other.is_alive() and not re.search(rf"-> FLOCK .* {other.pid} ", Path("/proc/locks").read_text()):
            time.sleep(0.01)
        append_whole(path, f"{entry}\n".encode())
    other.join()
    assert (other.exitcode, path.read_text().count(entry)) == (0, 1)
