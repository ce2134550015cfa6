"""What every `Ledger`, `Files` and `Artifacts` does, on disk and in memory."""

import pytest

from ridgeline.graph.errors import ArtifactLost, FilesConflict
from ridgeline.graph.ports import Artifacts, Files, Ledger
from ridgeline.graph.record import Reviewed, key
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.store.campaign_folder import ArtifactStore, CampaignFiles
from ridgeline.sandbox.store.ledger import FIRST, JsonlLedger
from tests.builders import make_baseline, make_opened, make_round
from tests.fakes import FakeArtifacts, FakeFiles, FakeLedger


@pytest.fixture(params=["fake", "real"])
def ledger(request, tmp_path) -> Ledger:
    return FakeLedger() if request.param == "fake" else JsonlLedger(tmp_path / "deep" / "ledger.jsonl")


@pytest.fixture(params=["fake", "real"])
def files(request, tmp_path) -> Files:
    return FakeFiles() if request.param == "fake" else CampaignFiles(tmp_path / "campaign", tmp_path / "tips")


@pytest.fixture(params=["fake", "real"])
def artifacts(request, tmp_path) -> Artifacts:
    return FakeArtifacts() if request.param == "fake" else ArtifactStore(tmp_path)


def test_a_new_ledger_is_empty(ledger):
    assert ledger.lines() == ()


def test_every_kind_of_event_comes_back_equal_and_in_order(ledger):
    review = Reviewed(after_round=3, trigger="two rollbacks", directions=("a", "b", "c"), escalation="re-profile")
    bodies = (make_opened(), make_baseline(), make_round(2), make_round(3, "rolled_back", reason="noise"), review)
    for body in bodies:
        ledger.append(body)
    lines = ledger.lines()
    assert tuple(line.body for line in lines) == bodies
    assert [line.key for line in lines] == [key(body) for body in bodies]
    assert [line.seq for line in lines] == [0, 1, 2, 3, 4]
    assert [line.prev for line in lines] == [FIRST, *(line.sha256 for line in lines[:-1])]
    assert len({line.sha256 for line in lines}) == 5


@pytest.mark.feature("F121")
def test_appending_twice_is_appending_once_and_the_first_stays(ledger):
    ledger.append(make_opened())
    ledger.append(make_opened())
    ledger.append(make_opened(confirmation="somebody else"))
    assert [line.body for line in ledger.lines()] == [make_opened()]


@pytest.mark.feature("F042")
def test_logs_only_grow(files):
    texts = ["# log\n", "# log\nround 2\n", "# log\nround 2\n", "# log\n", "# log\nround 2\nround 3\n"]
    for text in texts:
        files.write({"logs/optimize.md": text, "README.md": text})
    assert written(files, "logs/optimize.md") == texts[-1]
    assert written(files, "README.md") == texts[-1]


@pytest.mark.parametrize("name", ["../outside.md", "/outside.md", "logs/../../outside.md"])
def test_nothing_is_written_outside_the_campaign(files, name):
    with pytest.raises(FilesConflict):
        files.write({name: "x"})


@pytest.mark.feature("F011", "F012")
def test_tips_are_kept_once_each_and_by_lower_case_backend(files):
    assert files.tips("gfx942", "gemm_fp8", "TRITON") is None
    entry = "### 2026-11-21 10:00 round-2 - ACCEPTED\n- Takeaway: tile 128\n"
    other = "### 2026-11-21 11:00 round-3 - ROLLED BACK\n- Takeaway: not 256\n"
    for text in (entry, other, entry):
        files.add_tip("gfx942", "gemm_fp8", "TRITON", text)
    assert files.tips("gfx942", "gemm_fp8", "triton") == f"{entry}\n{other}"
    assert files.tips("gfx950", "gemm_fp8", "triton") is None


@pytest.mark.parametrize("data", [b"", b"text", bytes(range(256)) * 1000])
def test_blobs_come_back_and_are_named_by_content(artifacts, data):
    one, two = artifacts.put("a.csv", data), artifacts.put("b.csv", data)
    assert one.sha256 == two.sha256
    assert (one.name, one.size) == ("a.csv", len(data))
    assert artifacts.get(one) == data


def test_an_unknown_blob_is_an_error(artifacts):
    with pytest.raises(ArtifactLost, match=r"gone\.csv"):
        artifacts.get(Artifact(sha256="ab" * 32, name="gone.csv", size=1))


def written(files: Files, name: str) -> str:
    return files.read(name) if isinstance(files, FakeFiles) else (files._dir / name).read_text()
