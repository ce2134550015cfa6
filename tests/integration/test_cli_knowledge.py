"""`ridgeline knowledge ...` as a person and as a program use it."""

import json
import re

import pytest

from ridgeline.agent.cli.application import run
from ridgeline.knowledge.library import HERE
from tests.knowledge_base import GEMM, write_base
from tests.model_fakes import direction, directions
from tests.text_project import files as text_files


@pytest.fixture
def ask(capsys):
    """`ask("spec", "H100")` -> (exit code, stdout, stderr)."""

    def call(*arguments):
        code = run(["knowledge", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_search_gives_places_that_exist(ask):
    code, out, _ = ask(
        "search", "bank conflicts", "--op", "gemm", "--gpu", "gfx942", "--lang", "triton", "--limit", "4", "--json"
    )
    hits = json.loads(out)
    assert code == 0
    assert len(hits) == 4
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    for hit in hits:
        assert {"path", "line", "heading", "excerpt", "score"} <= set(hit)
        lines = (HERE.parent / hit["path"]).read_text(encoding="utf-8").splitlines()
        assert hit["line"] == 1 or hit["heading"] in lines[hit["line"] - 1]


def test_search_for_a_person(ask):
    code, out, _ = ask("search", "bank conflicts", "--limit", "1")
    assert code == 0
    assert re.match(r"knowledge/\S+\.md:\d+  \S", out)


def test_search_leaves_out_what_was_read(ask):
    first = json.loads(ask("search", "bank conflicts", "--json")[1])[0]
    again = json.loads(ask("search", "bank conflicts", "--exclude", first["id"], "--json")[1])
    assert first["id"] not in [hit["id"] for hit in again]


def test_nothing_found_is_said(ask):
    assert ask("search", "wolpertinger")[1:] == (
        "",
        "not covered: nothing here speaks of wolpertinger\n",
    )
    assert ask("search", "wolpertinger", "--json")[1].strip() == "[]"


@pytest.mark.feature("F068")
def test_a_number_and_its_line(ask):
    code, out, _ = ask("spec", "H100", "bf16_dense", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["metric"], found["value"], found["unit"]) == ("bf16_dense", 989.4, "TFLOPS")
    assert found["text"] == f"bf16_dense: 989.4 TFLOPS <- {found['source_path']}:L{found['source_line']}"
    line = (HERE.parent / found["source_path"]).read_text(encoding="utf-8").splitlines()[found["source_line"] - 1]
    assert "bf16_dense: 989.4 TFLOPS" in line
    assert ask("spec", "H100", "bf16_dense")[1].strip() == found["text"]


@pytest.mark.feature("F069")
def test_an_unknown_number_is_no_error(ask):
    code, out, err = ask("spec", "H100", "fp4_dense", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["value"], found["source_path"], found["source_line"]) == (None, None, None)
    assert found["text"] == "fp4_dense: UNKNOWN (gpu-wiki not found)"
    assert err


def test_an_unknown_product_is_told_what_there_is(ask):
    code, out, err = ask("spec", "MI3080X")
    assert (code, out) == (2, "")
    assert "did you mean mi308x?; known are" in err
    code, out, err = ask("spec", "MI308X", "hbm_bandwith")
    assert (code, out) == (2, "")
    assert "the nearest of MI308X is hbm_bandwidth" in err


def test_what_speaks_against_a_number_is_told(ask):
    code, out, err = ask("spec", "MI308X")
    assert code == 0
    assert "hbm_bandwidth: 5.3 TB/s <- knowledge/hardware/mi308x.md:L16 (unverified)" in out
    assert "the source says itself that its numbers are to be verified" in err
    assert json.loads(ask("spec", "A100-PCIE-80GB", "hbm_bandwidth", "--json")[1])["standing"] == "one source"


def test_all_numbers(ask):
    document = json.loads(ask("spec", "MI300X", "--json")[1])
    assert {"bf16_dense", "hbm_bandwidth", "lds_capacity"} <= {spec["metric"] for spec in document["specs"]}


def test_the_shipped_knowledge_is_whole(ask):
    code, out, _ = ask("check", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["ok"] is True
    assert document["problems"] == []
    assert document["facts"] >= 250


def test_a_wiki_is_searched_and_checked(ask, tmp_path):
    write_base(
        tmp_path / "wiki", **{"ops/gemm/directions.md": GEMM.replace("Pad rows by", "Wolpertinger pads by about")}
    )
    wiki = str(tmp_path / "wiki")
    (hit,) = json.loads(ask("search", "wolpertinger", "--wiki", wiki, "--json")[1])
    assert hit["path"] == "wiki/ops/gemm/directions.md"
    found = json.loads(ask("spec", "Roadrunner", "bf16_dense", "--wiki", wiki, "--json")[1])
    assert found["text"].endswith(f"<- wiki/hardware/roadrunner-80.md:L{found['source_line']}")
    code, out, err = ask("check", "--wiki", wiki)
    assert code == 2
    assert f"wiki/ops/gemm/directions.md:{hit['line'] + 2}: 'about' hedges a fact" in out
    assert "1 problem" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "x", "--phase", "guess"), "--phase: 'guess' is none; give one of analyze"),
        (("search", "x", "--wiki", "nowhere"), "--wiki: nowhere: no such folder"),
        (("check", "nowhere"), "nowhere: no such campaign"),
    ],
)
def test_bad_input_is_one_line(ask, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def campaign(folder, *lines):
    """A campaign's files: a ledger with one measured number, a README that registers it, a plan."""
    spec = {"metric": "copy bandwidth", "value": 23.5, "unit": "GB/s", "source": "measured here: x"}
    body = {"body": {"kind": "roofline", "specs": [spec, {"metric": "peak", "value": None, "unit": "", "source": "-"}]}}
    (folder / "plans").mkdir(parents=True)
    (folder / "ledger.jsonl").write_text(json.dumps(body) + '\n{"body": {"kind": "rou')
    (folder / "README.md").write_text("- copy bandwidth: 23.5 GB/s <- measured here: x\n")
    (folder / "plans" / "v1_plan.md").write_text("\n".join(lines) + "\n")
    return str(folder)


@pytest.mark.feature("F068", "F070")
def test_a_campaign_with_sourced_numbers_is_valid(ask, tmp_path):
    registered = json.loads(ask("spec", "H100", "bf16_dense", "--json")[1])["text"]
    code, out, _ = ask("check", campaign(tmp_path / "c", f"- {registered}", "peak 989.4 TFLOPS"), "--json")
    assert code == 0, out
    assert json.loads(out)["registered"] == 2


@pytest.mark.feature("F068", "F070")
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("HBM bandwidth is 5.3 TB/s", "5.3 TB/s has no source"),
        ("the copy bandwidth is roughly 23.5 GB/s", "23.5 GB/s is hedged"),
        ("- copy bandwidth: 99.9 GB/s <- measured here: x", "the ledger does not hold it"),
    ],
)
def test_a_planted_number_is_found(ask, tmp_path, line, what):
    code, out, err = ask("check", campaign(tmp_path / "c", "fine", line), "--json")
    document = json.loads(out)
    assert (code, document["ok"]) == (2, False)
    assert [(p["path"], p["line"]) for p in document["problems"]] == [("plans/v1_plan.md", 2)]
    assert what in document["problems"][0]["what"]
    assert "1 problem" in err


def test_a_folder_without_files_of_a_campaign(ask, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = ask("check", str(tmp_path / "empty"))
    assert code == 2
    assert "holds none of README.md" in err


EDIT = "It is faster.\n\nEDIT kernel.txt\n<<<<<<< SEARCH\nspeed 100\n=======\nspeed 130\n>>>>>>> REPLACE\n"
LEARNT = json.dumps({"attribution": "the number is larger", "root_cause": "", "next_direction": "more", "lesson": None})


@pytest.mark.feature("F068")
@pytest.mark.slow
def test_a_router_campaign_with_a_number_that_has_no_source_is_called_invalid(cli, make_repository, tmp_path):
    limits = ("--max-rounds", "1", "--preset", "router", "--set", "calibration_pairs=2", "--set", "final_pairs=3")
    begun = cli("run", make_repository(text_files()), *limits, "--model", "mailbox", "--json")
    claim = "I expect more, because HBM bandwidth is 5.3 TB/s."
    for text in (directions(direction(citations=["kernel.txt:1"], claim=claim)), EDIT, LEARNT):
        (tmp_path / "answer").write_text(text)
        assert cli("answer", begun.json["dir"], tmp_path / "answer").code == 0
        done = cli("resume", begun.json["dir"], "--json")
    assert done.json["status"] == "concluded", done.err
    assert any("5.3 TB/s has no source" in place for place in done.json["unsourced"])
    again = cli("resume", begun.json["dir"])
    assert "invalid    " in again.out


def test_numbers_of_a_module_say_what_one_die_has(cli):
    said = cli("knowledge", "spec", "MI250X", "hbm_bandwidth")
    assert said.out.startswith("hbm_bandwidth: 3.2 TB/s <- ")
    assert "of all 2 dies of the module; a kernel runs on one of them: hbm_bandwidth 1.6 TB/s" in said.err
    assert "dies of the module" not in cli("knowledge", "spec", "MI300X", "hbm_bandwidth").err
