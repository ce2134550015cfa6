"""`ridgeline gate` and the cards of `ridgeline doctor`, on recordings and on stand-ins for the vendors' tools."""

import json
from pathlib import Path

import pytest

from tests.standins_smi import apps, cards, h100, stand_in

DATA = Path(__file__).parents[1] / "data" / "gate"
ROCM = {"card0": {"GPU use (%)": "0", "VRAM Total Used Memory (B)": "299687936"}}


@pytest.fixture
def written(tmp_path):
    """`written("text", ...)` -> a file for each."""

    def write(*texts):
        paths = [tmp_path / f"said-{number}.txt" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return write


def test_an_idle_card_of_recordings(cli, written):
    files = written(cards(h100(0, use="99 %", watts="600 W"), h100(1)), apps())
    said = cli("gate", "--json", "--from", *files)
    assert said.code == 0
    found = said.json
    assert (found["vendor"], found["idle"], found["chosen"], found["decision"]) == ("nvidia", [1], 1, "idle")
    busy, idle = found["cards"]
    assert (busy["index"], busy["state"], busy["utilization_pct"], busy["power_w"]) == (0, "busy", 99, 600)
    assert busy["reasons"]
    assert (idle["id"], idle["memory_used_mb"], idle["processes"]) == ("0000:07:00.0", 0, [])
    assert found["problem"] == ""
    assert cli("gate", "--from", files[0], "--from", files[1], "--json").json == found
    text = cli("gate", "--from", *files)
    assert "decision: idle, a command would get 1" in text.out
    assert "busy" in text.out


@pytest.mark.parametrize(
    ("texts", "decision"),
    [
        ([cards(h100(use="99 %", watts="300 W"))], "busy"),
        ([cards(h100()), cards(h100(use="99 %", watts="[N/A]"))], "busy"),
        ([cards(h100(use="99 %"))], "unknown"),
        ([cards(h100()), apps("GPU-00000000-0000-0000-0000-000000000000, 1, x, 80 MiB"), cards(h100())], "busy"),
        ([cards(h100(use="[N/A]"))], "unknown"),
        ([json.dumps({"card0": {"GPU use (%)": "0"}})], "unknown"),
    ],
)
def test_none_idle_is_four(cli, written, texts, decision):
    said = cli("gate", "--json", "--from", *written(*texts))
    assert (said.code, said.json["decision"], said.json["chosen"], said.json["idle"]) == (4, decision, None, [])
    assert said.json["cards"][0]["reasons"]


@pytest.mark.parametrize(
    ("names", "decision"),
    [
        (["idle_cards.csv", "idle_apps.csv"], "idle"),
        (["idle_table.txt"], "idle"),
        (["busy_cards.csv", "busy_apps.csv"], "busy"),
        (["busy_apps.csv", "busy_cards.csv"], "busy"),
        (["busy_cards.csv"], "busy"),
        (["busy_apps.csv"], "busy"),
        (["busy_table.txt"], "busy"),
        (["context_cards.csv", "context_apps.csv"], "busy"),
    ],
)
def test_an_h100_at_rest_with_a_load_and_with_a_context_that_computes_nothing(cli, names, decision):
    """Recorded on an H100 80GB HBM3; `context` is a process that holds 612 MiB at 0 %."""
    said = cli("gate", "--json", "--from", *[DATA / f"h100_{name}" for name in names])
    assert said.json["decision"] == decision
    assert len(said.json["cards"]) == 1


def test_an_unreadable_file_is_two_and_named(cli, written, tmp_path):
    whole, broken = written(json.dumps(ROCM), json.dumps(ROCM)[:-10])
    said = cli("gate", "--json", "--from", whole, broken)
    assert said.code == 2
    assert said.complaint.startswith(f"{broken}: line 1: the JSON is cut off")
    assert (said.json["decision"], said.json["cards"]) == ("unknown", [])
    assert str(broken) in said.json["problem"]
    text = cli("gate", "--from", broken)
    assert (text.code, text.out) == (2, "")
    missing = cli("gate", "--from", tmp_path / "none.json")
    assert missing.code == 2
    assert "none.json: cannot be read" in missing.complaint
    assert "--from" in cli("gate", whole).complaint
    (tmp_path / "utf16.json").write_bytes(json.dumps(ROCM).encode("utf-16"))
    assert cli("gate", "--from", tmp_path / "utf16.json").code == 0
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 40)
    assert cli("gate", "--from", tmp_path / "binary").code == 2


def test_this_machine_and_doctor(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_GATE", "interval_s=0 samples=2")
    told = cards(h100(0, use="88 %", watts="500 W"), h100(1))
    folder = stand_in(tmp_path / "bin", "nvidia-smi", [told])
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    said = cli("gate", "--json", "--samples", "3", "--interval", "0")
    assert (said.code, said.json["idle"]) == (0, [1])
    assert "in 3 samples" in said.json["cards"][1]["reasons"][-1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    hidden = cli("gate", "--json")
    assert (hidden.code, hidden.json["idle"], hidden.json["chosen"]) == (4, [1], None)
    found = {finding["name"]: finding for finding in cli("doctor", "--json").json["findings"]}
    assert not found["gpu nvidia 0"]["found"]
    assert "busy: utilization 88 %" in found["gpu nvidia 0"]["detail"]
    assert found["gpu nvidia 1"]["found"]
    assert found["gpu nvidia 1"]["cost"] == ""


def test_a_machine_without_tools(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = cli("gate", "--json")
    assert (said.code, said.json["decision"], said.json["vendor"]) == (4, "unknown", None)
    assert "none of nvidia-smi, amd-smi, rocm-smi is on PATH" in said.json["problem"]


def test_a_bad_threshold_is_named(cli, monkeypatch, written):
    monkeypatch.setenv("RIDGELINE_GATE", "sample=3")
    said = cli("gate", "--from", *written(json.dumps(ROCM)))
    assert said.code == 2
    assert "RIDGELINE_GATE: 'sample=3'" in said.complaint
