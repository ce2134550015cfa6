"""`ridgeline memory ...` on a folder of its own."""

import json

import pytest

from ridgeline.agent.cli.application import run
from ridgeline.graph.approval import Steering
from ridgeline.sandbox.store.campaign_folder import Wishes

pytestmark = pytest.mark.feature("F083")


@pytest.fixture
def memory(tmp_path, capsys):
    """`memory("read", "--version", "v0")` -> (exit code, stdout, stderr)."""
    folder = tmp_path / "memory"

    def call(command, *arguments):
        code = run(["memory", command, *arguments, "--dir", str(folder)])
        said = capsys.readouterr()
        return code, said.out, said.err

    call.folder = folder
    assert call("init")[0] == 0
    for version in ("v0", "v1", "v2", "v10"):
        assert call("create", "--version", version)[0] == 0
    return call


def test_versions_are_listed_by_number_and_the_latest_is_unmasked(memory):
    assert memory("list")[1].split() == ["v0", "v1", "v2", "v10"]
    assert memory("latest")[1].strip() == "v10"
    assert memory("mask", "--version", "v10,v2")[0] == 0
    assert memory("latest")[1].strip() == "v1"
    assert memory("unmask", "--version", "v10")[0] == 0
    assert memory("latest")[1].strip() == "v10"
    assert json.loads(memory("list", "--json")[1]) == {"versions": ["v0", "v1", "v2", "v10"]}


def test_a_version_is_not_overwritten_without_force(memory):
    code, _, said = memory("create", "--version", "v1")
    assert code == 2
    assert "v1: exists already" in said
    assert memory("create", "--version", "v1", "--force")[0] == 0


def test_dotted_values_are_typed_and_hashes_stay_text(memory):
    given = (
        "performance.tflops=1.5",
        "performance.latency_us_by_shape.small=12",
        "git_commit_hash=0012345678",
        'open_directions=["tile", "unroll"]',
        "correctness.status=PASS",
        "optimization.action_description=4x4 tile",
        "note=1e3",
    )
    assert memory("update", "--version", "v1", *(word for text in given for word in ("--set", text)))[0] == 0
    record = json.loads(memory("read", "--version", "v1")[1])
    assert record["performance"]["tflops"] == 1.5
    assert record["performance"]["latency_us_by_shape"] == {"small": 12}
    assert record["git_commit_hash"] == "0012345678"
    assert record["open_directions"] == ["tile", "unroll"]
    assert record["correctness"]["status"] == "PASS"
    assert record["optimization"]["action_description"] == "4x4 tile"
    assert json.loads(memory("read", "--version", "v1", "--field", "performance.tflops")[1]) == 1.5
    assert json.loads(memory("read", "--version", "v1", "--field", "open_directions.1")[1]) == "unroll"


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', "[" * 5000, "9" * 5000])
def test_a_value_that_no_json_holds_is_text_and_the_file_can_be_read_again(memory, value):
    """Seen: `--set performance.tflops=NaN` wrote a file that every later command refused."""
    assert memory("update", "--version", "v1", "--set", f"performance.tflops={value}")[0] == 0
    code, out, _ = memory("read", "--version", "v1", "--field", "performance.tflops")
    assert (code, json.loads(out)) == (0, value)


def test_masked_versions_are_hidden_but_not_deleted(memory):
    memory("mask", "--version", "v1")
    code, _, said = memory("read", "--version", "v1")
    assert (code, "v1.json: masked" in said) == (2, True)
    assert memory("read", "--version", "v1", "--unmasked-only")[1].strip() == "{}"
    assert list(json.loads(memory("read")[1])) == ["v0", "v2", "v10"]
    assert json.loads((memory.folder / "v1.json").read_text())["masked"] is True


@pytest.mark.feature("F084")
def test_masks_of_a_campaign_are_left_for_it_to_hear(memory):
    (memory.folder.parent / "request.json").write_text("{}")
    assert memory("mask", "--version", "v1")[0] == 0
    assert "plans by this from its next round" in memory("unmask", "--version", "v2")[2]
    assert Wishes(memory.folder.parent).read() == Steering(masked=(1,), unmasked=(2,))


def test_the_summary_has_the_columns_of_the_rules(memory):
    memory("update", "--version", "v0", "--set", "performance.tflops=2.25", "--set", "correctness.status=PASS")
    memory("mask", "--version", "v2")
    header, first, _, third, _ = memory("summary")[1].splitlines()
    assert header.split("  ")[0] == "Version"
    for column in ("Masked", "TFLOPS", "BW", "TFLOPS%", "BW%", "Status corr/gate", "Action"):
        assert column in header
    assert first.split() == ["v0", "no", "2.25", "-", "-", "-", "PASS/-", "-"]
    assert third.split()[:2] == ["v2", "yes"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("read", "--version", "v7"), "v7: no such version"),
        (("read", "--version", "v1; rm -rf"), "is not v<N>"),
        (("read", "--version", "v1x"), "is not v<N>"),
        (("read", "--version", "../v1"), "is not v<N>"),
        (("read", "--version", "v1", "--field", "performance.speed"), "no such field at 'speed'"),
        (("update", "--version", "v1", "--set", "nothing"), "is not key=value"),
        (("update", "--version", "v1", "--set", "version.x=1"), "'version' is not a section"),
        (("mask", "--version", "v1,v7"), "v7: no such version"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(memory, arguments, said):
    before = {path: path.read_bytes() for path in memory.folder.iterdir()}
    code, out, err = memory(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert {path: path.read_bytes() for path in memory.folder.iterdir()} == before


def test_a_damaged_file_is_named(memory):
    (memory.folder / "v1.json").write_text('{"version": ')
    code, _, err = memory("read", "--version", "v1")
    assert code == 2
    assert "v1.json: is not JSON any more (Expecting value in line 1); mend the file" in err
