"""Recordings kept as one tar.gz: read again as they were, bounded, scrubbed, and refused where damaged."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from ridgeline.evals.recordings.export import Private, Scrub, secrets
from ridgeline.sandbox.profiles.profilers import gpu_fallback
from ridgeline.sandbox.profiles.readers import files
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.standins_profilers import counted, trace
from tests.torch_traces import document, launches

NCU = Path(__file__).resolve().parents[1] / "data" / "ncu" / "h100_raw.csv"
CALLS = [("tile", 1_000_000 + n * 12_000, 1_010_000 + n * 12_000) for n in range(9)]


@pytest.fixture
def run(tmp_path):
    """A folder as the profilers of one version leave it."""
    root = tmp_path / "run"
    for name in ("timing", "pmc_1"):
        (root / name).mkdir(parents=True)
    (root / "timing" / "run_kernel_trace.csv").write_text(trace(*CALLS))
    (root / "timing" / "run_results.json").write_text('{"command": ["secret"]}')
    (root / "pmc_1" / "pass_counter_collection.csv").write_text(counted("tile", SQ_WAVES=9.0))
    (root / "trace-9.json").write_text(document(*launches(), host_name="node17"))
    return root


def stripped(found):
    return [one.model_copy(update={"files": (), "warnings": ()}) for one in found]


def test_what_is_kept_reads_as_what_was_recorded(run, tmp_path):
    paths = [run / "timing", run / "pmc_1", run / "trace-9.json"]
    data, notes = gpu_fallback.archive_files(paths, run)
    assert notes == ()
    assert files.is_archive(data)
    assert gpu_fallback.archive_files(paths, run)[0] == data, "the same files are the same bytes"
    names = [name for name, _ in files.members(data)]
    assert names == ["timing/run_kernel_trace.csv", "pmc_1/pass_counter_collection.csv", "trace-9.json"]
    assert b"node17" not in gzip.decompress(data)
    whole = tmp_path / ("a" * 64)  # as the store names it
    whole.write_bytes(data)
    (run / "timing" / "run_results.json").unlink()
    assert stripped(read_recordings(whole)) == stripped(read_recordings(run))
    assert {file.split("/")[-1] for one in read_recordings(whole) for file in one.files} >= {"run_kernel_trace.csv"}
    assert all(file.startswith(f"{whole}/") for one in read_recordings(whole) for file in one.files)


def test_a_single_csv_of_ncu_is_read_again(tmp_path):
    path = tmp_path / "ncu_1.csv"
    path.write_bytes(NCU.read_bytes())
    data, _ = gpu_fallback.archive_files([path], tmp_path)
    assert len(data) < path.stat().st_size
    (tmp_path / "kept").write_bytes(data)
    assert stripped(read_recordings(tmp_path / "kept")) == stripped(read_recordings(path))


def test_a_recording_is_kept_whole_or_named(run, monkeypatch):
    monkeypatch.setattr(gpu_fallback, "RAW", 2000)
    data, notes = gpu_fallback.archive_files([run / "timing", run / "pmc_1", run / "trace-9.json"], run)
    assert [name.split("/")[0] for name, _ in files.members(data)] == ["timing", "pmc_1"]
    (note,) = notes
    assert note.startswith("not kept for its size: the recording trace-9.json (1 files, 0.0 MB)")
    monkeypatch.setattr(gpu_fallback, "RAW", 10)
    assert gpu_fallback.archive_files([run / "timing"], run)[0] is None
    assert gpu_fallback.archive_files([], run) == (None, ())


def test_what_does_not_pack_small_goes_largest_first(run, monkeypatch):
    monkeypatch.setattr(gpu_fallback, "PACKED", 900)
    data, (note,) = gpu_fallback.archive_files([run / "timing", run / "trace-9.json"], run)
    assert len(data) <= 900
    assert "trace-9.json (1 files" in note


def tarred(name, data=b"x", kind=tarfile.REGTYPE):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as made:
        info = tarfile.TarInfo(name)
        info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
        made.addfile(info, io.BytesIO(data))
    return held.getvalue()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (tarred("../outside.csv"), "is no plain file inside"),
        (tarred("/etc/outside.csv"), "is no plain file inside"),
        (tarred("link.csv", b"", tarfile.SYMTYPE), "is no plain file inside"),
        (tarred("notes.txt", b"nothing known"), "holds no recording that is known here"),
        (tarred("empty_kernel_trace.csv", b""), "empty_kernel_trace.csv: is empty"),
        (tarred("cut.csv", trace(*CALLS)[:-30].encode()), "cut.csv:10: "),
        (tarred("big.csv", b"y" * 90_000)[:-60], "cut or damaged"),
    ],
)
def test_what_cannot_be_read_is_a_typed_error(tmp_path, data, word):
    path = tmp_path / "kept.tar.gz"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as caught:
        read_recordings(path)
    assert str(caught.value).startswith(f"{path}")
    assert word in str(caught.value)
    assert "ridgeline-archive" not in str(caught.value)
    assert not (tmp_path.parent / "outside.csv").exists()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path, run, monkeypatch, limit):
    data, _ = gpu_fallback.archive_files([run / "timing", run / "pmc_1"], run)
    (tmp_path / "kept").write_bytes(data)
    monkeypatch.setattr(files, limit, 1)
    with pytest.raises(RecordingError, match="holds more than"):
        read_recordings(tmp_path / "kept")


def test_names_and_keys_inside_an_archive_are_found(tmp_path):
    data = files.pack([("a.csv", b"by mira\n"), ("b.bin", b"\xff\x00mira"), ("c.txt", b"api_key = abcdef1234567890\n")])
    scrubbed = Scrub(Private(users=("mira",))).data(data)
    assert files.members(scrubbed)[0] == ("a.csv", b"by [user]\n")
    assert files.members(scrubbed)[1] == ("b.bin", b"\xff\x00mira")
    path = tmp_path / "artifact"
    path.write_bytes(data)
    assert list(secrets(path, "artifact", {})) == ["artifact: line 4: holds a value that is named like a secret"]
