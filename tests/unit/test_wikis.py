"""Folders of knowledge that a contract or the command line attaches: readable, under the same rules, one clear line."""

from pathlib import Path

import pytest

from ridgeline.agent.campaign.runner import tell_of_edits
from ridgeline.agent.contract_file import load, schema, with_wikis
from ridgeline.agent.errors import UserError
from ridgeline.agent.knowledge_folders import (
    read_measured_specs,
    require_readable,
    roots,
    unreadable,
    unsound,
    wikis_of,
)
from ridgeline.graph.errors import StateDamaged
from ridgeline.graph.state import Request
from tests.builders import make_limits
from tests.knowledge_base import FILES, GEMM, PRODUCT, write_base
from tests.projects import files

LAYOUT = "ops/, hardware/, backends/ or cards/"


@pytest.fixture
def project(tmp_path):
    """`project(wiki=[...])` -> the contract's file, in a folder of its own."""

    def write(**knowledge):
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        for name, text in files(**({"knowledge": knowledge} if knowledge else {})).items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return folder / "ridgeline.yaml"

    return write


def lost_link(folder: Path) -> None:
    (folder / "ops" / "gemm" / "gone.md").symlink_to("nowhere.md")


def test_a_contract_attaches_folders_below_it_and_elsewhere(project, tmp_path):
    write_base(tmp_path / "project" / "docs")
    write_base(tmp_path / "house")
    loaded = load(project(wiki=["docs", "../house"]))
    assert loaded.contract.knowledge.wiki == ("docs", "../house")
    assert [path.resolve() for path in roots(loaded.contract, loaded.root)] == [
        tmp_path / "project" / "docs",
        tmp_path / "house",
    ]
    assert load(project(wiki="docs")).contract.knowledge.wiki == ("docs",)
    assert "wiki" in str(schema()["$defs"]["Knowledge"])


def test_a_contract_without_wikis_is_written_as_before(project):
    loaded = load(project())
    assert loaded.contract.knowledge.wiki == ()
    assert "knowledge" not in loaded.contract.model_dump(mode="json")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"ops/gemm/directions.md": GEMM.replace(" [src: acme-sheet]", "")},
            "directions.md:16: a number without source",
        ),
        ({"ops/gemm/directions.md": GEMM.replace("launches 64", "launches about 64")}, "'about' hedges a fact"),
        ({"ops/gemm/directions.md": GEMM.replace("acme-isa]", "nobody]")}, "source 'nobody' is not registered"),
        ({"hardware/roadrunner-80.md": PRODUCT.replace("1000 TFLOPS", "1000 TOPS")}, "bf16_dense is in TOPS"),
        ({"ops/gemm/new.md": "no front matter"}, "new.md:1: has no front matter"),
    ],
)
def test_the_same_rules_hold_in_a_wiki(project, tmp_path, changes, said):
    write_base(tmp_path / "project" / "wiki", **changes)
    with pytest.raises(UserError) as caught:
        load(project(wiki=["wiki"]))
    line = str(caught.value)
    assert caught.value.exit_code == 2
    assert line.startswith(f"ridgeline.yaml: knowledge.wiki: {tmp_path / 'project' / 'wiki'}: wiki/")
    assert said in line
    assert "`ridgeline knowledge check --wiki" in line
    assert "\n" not in line


def test_many_broken_lines_are_one_line(tmp_path):
    text = GEMM.replace(" [src: acme-sheet]", "").replace("[src: acme-isa]", "[src: nobody]")
    write_base(tmp_path / "wiki", **{"ops/gemm/directions.md": text})
    assert "(and 1 more)" in unsound(tmp_path / "wiki")
    write_base(tmp_path / "wiki")
    assert unsound(tmp_path / "wiki") == ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, f"no such folder; give one that holds {LAYOUT}"),
        (lambda folder: folder.write_text("a file"), f"no such folder; give one that holds {LAYOUT}"),
        (lambda folder: folder.mkdir(), f"holds no documents; give a folder that holds {LAYOUT}"),
        (lambda folder: (write_base(folder), lost_link(folder)), "gone.md: cannot be read (No such file or directory)"),
    ],
)
def test_a_folder_that_cannot_be_read(project, tmp_path, make, said):
    wiki = tmp_path / "wiki"
    make(wiki)
    assert said in unreadable(wiki)
    for call in (
        lambda: require_readable([wiki], "--wiki"),
        lambda: load(project(wiki=[str(wiki)])),
        lambda: with_wikis(load(project()), [wiki]),
    ):
        with pytest.raises(UserError, match="wiki: ") as caught:
            call()
        assert (caught.value.exit_code, str(caught.value).count("\n")) == (2, 0)
        assert f"{wiki}: " in str(caught.value)


def test_the_command_line_adds_to_the_contract(project, tmp_path):
    for name in ("own", "house"):
        write_base(tmp_path / name)
    loaded = with_wikis(load(project(wiki=["../own"])), [tmp_path / "house", tmp_path / "house"])
    assert loaded.contract.knowledge.wiki == ("../own", str(tmp_path / "house"))
    write_base(tmp_path / "house", **{"cards/hip/pad-rows.md": FILES["cards/hip/pad-rows.md"].replace("K1", "K9")})
    with pytest.raises(UserError, match=r"^--wiki: .*bucket"):
        with_wikis(load(project()), [tmp_path / "house"])


@pytest.mark.parametrize(("wiki", "told"), [(["../own"], False), (["../house"], True), (["../own", "../house"], True)])
@pytest.mark.slow
def test_a_resumed_campaign_tells_of_an_edited_list_and_not_of_its_own(project, tmp_path, caplog, wiki, told):
    for name in ("own", "house"):
        write_base(tmp_path / name)
    began = with_wikis(load(project(wiki=["../own"])), [tmp_path / "house"]).contract
    request = Request(
        contract=began,
        contract_path="ridgeline.yaml",
        instruction="",
        overrides=(),
        limits=make_limits(),
        planner="catalog",
        created="2026-11-21 10:00",
        version="1",
    )
    tell_of_edits(project(**({"wiki": wiki} if wiki else {})), request)
    assert ("was changed after the campaign began" in caplog.text) == told


@pytest.mark.parametrize(
    "line", [b"[1]", b'{"body":3}', b'{"body":{"kind":"roofline","specs":[{"value":1}]}}', b"{", b"9" * 5000]
)
def test_a_damaged_line_of_a_ledger_holds_no_number(tmp_path, line):
    whole = b'{"body":{"kind":"roofline","specs":[{"metric":"peak","value":2.0,"unit":"TB/s","source":"measured"}]}}'
    (tmp_path / "ledger.jsonl").write_bytes(line + b"\n" + whole + b"\n")
    assert [number.value for number in read_measured_specs(tmp_path / "ledger.jsonl")] == [2.0]


@pytest.mark.parametrize("request_text", ["", "[]", '{"schema":1,"request":[]}'])
def test_a_damaged_request_of_a_campaign_is_named(tmp_path, request_text):
    (tmp_path / "request.json").write_text(request_text)
    with pytest.raises(StateDamaged, match=r"request\.json"):
        wikis_of(str(tmp_path))
