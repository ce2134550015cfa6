"""`ridgeline replay` and `rejudge` on the recordings that ship: equal, fast, and clear about what was touched."""

import builtins
import functools
import json
import math
import operator
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ridgeline.evals.recordings.recording import Card, schema

FOLDER = Path(__file__).parents[2] / "evals" / "campaigns"
CAMPAIGNS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
SHORT = "matmul_c_mailbox"
CONTROLS = ("matvec_h200", "mean_dim1_h100")
"""Campaigns that ended before their first question."""


@pytest.fixture
def copy(tmp_path) -> Path:
    """A recording of one's own, to spoil."""
    return Path(shutil.copytree(FOLDER / SHORT, tmp_path / SHORT))


def edited(path: Path, change) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.mark.feature("F122", "F123")
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_recording_replays_equal_without_model_machine_or_repository(cli, name):
    done = cli("replay", FOLDER / name, "--json")
    found = done.json
    assert done.code == 0, done.out
    assert found["equal"] is True
    assert found["first_difference"] is None
    assert found["changed"] == []
    assert found["unused"] == 0
    assert found["rounds"] >= (1 if name in CONTROLS else 2)
    assert found["open"] == bool(found["stopped"]), "a concluded campaign is played to its end"


def sum_otherwise(numbers: Iterable[Any], start: Any = 0) -> Any:
    """As `sum` of the other Pythons: exact for floats before it rounds once, as from 3.12 on; from left to right, as before."""
    left = [start, *numbers]
    if sys.version_info < (3, 12) and all(isinstance(each, int | float) for each in left):
        return (
            math.fsum(left) if any(isinstance(each, float) for each in left) else functools.reduce(operator.add, left)
        )
    return functools.reduce(operator.add, left)


@pytest.mark.parametrize("name", ["conv_transpose3d_h200", "maxpool3d_h100", "top64_h100"])
def test_a_recording_replays_equal_by_a_python_whose_sums_round_otherwise(cli, name, monkeypatch):
    monkeypatch.setattr(builtins, "sum", sum_otherwise)
    told = cli("replay", FOLDER / name)
    assert told.code == 0, told.out


def test_several_recordings_are_told_in_a_line_each(cli):
    done = cli("replay", FOLDER / SHORT, FOLDER / "reverse_cumsum_short_h100")
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.out.splitlines()] == [SHORT, "reverse_cumsum_short_h100"]


def test_an_answer_that_was_changed_is_shown_where_it_first_matters(cli, copy):
    edited(copy / "tape.jsonl", lambda text: text.replace('"copy_gbps":22.915', '"copy_gbps":23.915', 1))
    done = cli("replay", copy, "--json")
    assert done.code == 1
    assert done.json["equal"] is False
    assert done.json["changed"] == ["tape.jsonl"]
    found = done.json["first_difference"]
    assert (found["line"], found["key"], found["field"]) == (2, "roofline", "body.ceilings.copy_gbps")
    assert (found["recorded"], found["replayed"]) == ("22.915", "23.915")
    said = cli("replay", copy)
    assert said.code == 1
    assert "recorded: 22.915" in said.out
    assert "changed since it was exported: tape.jsonl" in said.out


def test_an_answer_that_is_missing_names_its_question(cli, copy):
    edited(
        copy / "tape.jsonl",
        lambda text: "".join(line for line in text.splitlines(True) if '"method":"profile"' not in line),
    )
    done = cli("replay", copy, "--json")
    assert done.code == 1
    assert "profiler.profile(" in done.json["stopped"]
    assert done.json["first_difference"]["replayed"] is None
    assert done.json["lines"] == 2


def test_a_ledger_without_its_last_line_is_another_ledger(cli, copy):
    edited(copy / "ledger.jsonl", lambda text: "".join(text.splitlines(True)[:-1]))
    done = cli("replay", copy, "--json")
    assert done.code == 1
    assert done.json["first_difference"] == {
        "line": 6, "key": "concluded", "field": "", "recorded": None, "replayed": "the event concluded",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda folder: edited(folder / "ledger.jsonl", lambda text: text[:-40]),
            "line 6: the last line was cut short",
        ),
        (
            lambda folder: edited(folder / "ledger.jsonl", lambda text: text.replace('"gain":25', '"gain":26', 1)),
            "line 5",
        ),
        (lambda folder: edited(folder / "ledger.jsonl", lambda text: ""), "is empty"),
        (lambda folder: (folder / "ledger.jsonl").unlink(), "does not exist"),
        (lambda folder: (folder / "workspace.jsonl").unlink(), "workspace.jsonl: not found; export the campaign"),
        (lambda folder: (folder / "request.json").unlink(), "request.json: not found"),
        (lambda folder: (folder / "request.json").write_text("{"), "request.json: is not JSON"),
        (lambda folder: (folder / "request.json").write_text("{}"), "request.json: schema"),
        (lambda folder: edited(folder / "tape.jsonl", lambda text: "no JSON\n" + text), "tape.jsonl: line 1"),
        (lambda folder: (folder / "recording.json").write_text('{"recording": 2}'), "recording.json: recording:"),
        (lambda folder: shutil.rmtree(folder), "is not a folder"),
    ],
)
def test_what_cannot_be_played_is_one_line_and_exit_code_2(cli, copy, spoil, said):
    spoil(copy)
    done = cli("replay", copy)
    assert done.code == 2, done.err
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


def test_the_schema_describes_every_card_and_line(cli):
    done = cli("schema", "recording")
    assert done.code == 0
    found = done.json
    assert found == json.loads(json.dumps(schema()))
    assert set(found["lines"]) == {"ledger.jsonl", "tape.jsonl", "workspace.jsonl", "model_tape.jsonl"}
    for name in CAMPAIGNS:
        card = Card.model_validate_json((FOLDER / name / "recording.json").read_bytes())
        assert card.name == name
        assert set(found["card"]["required"]) <= set(card.model_dump())
        files = {one.path for one in card.files if not one.path.startswith("task/")}
        asked = (
            {"model_tape.jsonl"} if (FOLDER / name / "model_tape.jsonl").is_file() else set()
        )  # a control asks nobody
        assert files - asked == {*found["lines"], "request.json"} - {"model_tape.jsonl"}
        assert files >= asked
        for file in sorted(files - {"request.json"}):
            shape = found["lines"][file]
            allowed = [set(one["properties"]) for one in shape.get("anyOf", [shape])]
            for line in (FOLDER / name / file).read_text(encoding="utf-8").splitlines():
                assert any(set(json.loads(line)) <= names for names in allowed), (name, file)
    assert cli("schema", "ledger").json["title"] == "Line"
    assert cli("schema").json["title"] == "Contract"
    assert cli("schema", "nothing").code == 2


def test_rejudging_by_the_recorded_rule_decides_what_was_recorded(cli):
    done = cli("rejudge", *(FOLDER / name for name in CAMPAIGNS), "--rule", "evidence", "--json")
    assert done.code == 0, done.err
    (found,) = done.json["rules"]
    kept = {name: [] for name in CAMPAIGNS}
    for name in CAMPAIGNS:
        for line in (FOLDER / name / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
            body = json.loads(line)["body"]
            if body["kind"] == "round":
                kept[name].append((body["round"], body["judged"]["verdict"]["decision"] == "accepted"))
    told = {
        name: {d["round"]: d["answer"] == "kept" for d in found["decisions"] if d["recording"] == name} for name in kept
    }
    raced = {"gqa_decode_h100": {2, 3, 4, 5, 6, 7}}
    one_question = ("gqa_decode_deep_h100", "maxpool3d_h100", "reverse_cumsum_judged_h100", "top64_h100")
    proof = (
        "conv_transpose3d",
        "cross_entropy",
        "depthwise_conv2d",
        "fp8_block_gemm",
        "fp8_group_quant",
        "gated_linear_scan",
        "grouped_gemm",
        "hgemm_gluon",
        "layer_norm",
        "matmul_fp32",
        "paged_decode",
        "rmsnorm_nchw",
        "rmsnorm_rows",
        "silu_mul_fp8_quant",
        "softmax_rows",
        "topk_row",
        "trimul",
        "w4a16_gemm",
    )
    raced |= dict.fromkeys((*one_question, *(f"{name}_h200" for name in proof)), {2, 3, 4})
    raced |= dict.fromkeys(("rmsnorm_rows_h200", "trimul_h200"), {2, 3, 4, 5, 6, 7})
    assert "maxpool3d_h100: rounds 2, 3, 4 are left out: a race of several candidates" in done.err
    kept = {name: [each for each in rounds if each[0] not in raced.get(name, ())] for name, rounds in kept.items()}
    for name, rounds in kept.items():
        assert [told[name].get(number, False) for number, _ in rounds] == [accepted for _, accepted in rounds]
    unmeasured = {"attention_c_mailbox": [4, 5], "layernorm_c_mailbox": [4]}
    assert {
        name: gone
        for name, rounds in kept.items()
        if (gone := [number for number, _ in rounds if number not in told[name]])
    } == unmeasured, "whatever was not measured at all is no decision of any rule"
    assert found["unproven"] == found["twins_kept"] == 0
    busy = [d["recording"] for d in found["decisions"] if d["answer"] == "unrecorded"]
    assert len(busy) == found["unrecorded"]
    assert set(busy) <= {"attention_c_mailbox", "conv3x3_c_mailbox", "layernorm_c_mailbox"}, (
        "wants more than was measured"
    )


def test_the_field_keeps_identical_versions_and_claims_more_than_there_is(cli, tmp_path):
    picture = tmp_path / "rules.png"
    done = cli("rejudge", *(FOLDER / name for name in CAMPAIGNS), "--json", "--plot", picture)
    found = {one["rule"]: one for one in done.json["rules"]}
    assert len(found) >= 6
    assert len({one["twins"] for one in found.values()}) == 1
    assert found["mean"]["twins_kept"] > found["mean"]["twins"] / 3
    assert found["best-of-k"]["twins_kept"] > found["best-of-k"]["twins"] / 3
    assert found["mean"]["claimed"] > 1.03 * found["mean"]["true"]
    assert abs(found["evidence"]["claimed"] / found["evidence"]["true"] - 1) < 0.005
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_table_of_the_page_is_what_the_command_prints(cli):
    done = cli("rejudge", *(FOLDER / name for name in CAMPAIGNS), "--markdown")
    assert done.out.strip() in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rule", "luck"), "--rule: 'luck' is unknown; known: evidence"),
        (("--preset", "bold"), "unknown preset 'bold'"),
        (("--set", "margin"), "--set: 'margin' is not key=value"),
        (("--plot", "rules.txt"), "must end in .png or .svg"),
    ],
)
def test_wrong_options_of_rejudge_are_one_line(cli, words, said):
    done = cli("rejudge", FOLDER / SHORT, *words)
    assert done.code == 2
    assert said in done.err


def test_other_limits_are_judged_beside_the_default(cli):
    done = cli("rejudge", FOLDER / "gemm_gelu_h100", "--set", "margin=0.02", "--json")
    own = done.json["rules"][-1]
    assert own["rule"] == "evidence margin=0.02"
    assert [d["answer"] for d in own["decisions"] if d["round"] == 4] != ["kept"], "+1.8 % is below the margin of 2 %"
