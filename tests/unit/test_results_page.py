"""The results page says what the recordings say, and what nobody measured is said to be so."""

import json
import re
from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.evals.recordings.results import draw, read_rows, render_page

ROOT = Path(__file__).parents[2]
CAMPAIGNS, RIVALS = ROOT / "evals/campaigns", ROOT / "evals/rivals"


@pytest.fixture(scope="module")
def rows():
    return read_rows(CAMPAIGNS, RIVALS)


def test_the_page_and_its_picture_are_what_the_recordings_give(rows):
    assert (ROOT / "docs/results.md").read_text() == render_page(rows), "make results"
    assert (ROOT / "docs/pictures/results.svg").read_text() == draw(rows), "make results"


def test_a_row_has_the_recorded_claim_and_nothing_else_divides(rows):
    by_name = {row.name: row for row in rows}
    for folder in CAMPAIGNS.glob("*/recording.json"):
        card = json.loads(folder.read_text())
        row = by_name[card["name"]]
        assert row.rounds == card["rounds"]
        assert (row.speedup.get("start"), row.lower.get("start")) == (card["speedup"], card["speedup_lower"])
    assert by_name["conv3x3_c_mailbox"].time_us("ours") is None
    assert any(note.startswith("no speedup is claimed") for note in by_name["conv3x3_c_mailbox"].notes)


def example() -> dict[str, object]:
    """The one of the format's own page."""
    text = (RIVALS / "README.md").read_text()
    return json.loads(text.partition("```json")[2].partition("```")[0])


def dropped_in(tmp_path: Path, name: str, document: object) -> Path:
    (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return tmp_path


def test_a_recorded_comparison_becomes_a_row(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (row,) = read_rows(tmp_path / "campaigns", dropped_in(tmp_path, "matvec", example()))
    assert (row.name, row.best_of_torch, row.time_us("rival")) == ("matvec", "max_autotune", pytest.approx(12.9))
    page = render_page((row,))
    assert "1.15x, at least 1.13x (max-autotune) | 1.07x, at least 1.06x" in page
    assert "| 10.4 | 87 % | memory |" in page
    assert "max_autotune" in draw((row,))


def test_a_gain_over_torch_names_the_versions_that_were_not_timed(tmp_path):
    shapes = [{"label": "a", "times_us": {"eager": 2.0, "ours": 1.0}}]
    document = example() | {"shapes": shapes, "speedup": {"eager": 2.0}, "lower": {"eager": 1.9}}
    (row,) = read_rows(tmp_path / "none", dropped_in(tmp_path, "matvec", document))
    assert "2.00x, at least 1.90x (eager; compile and max-autotune not timed)" in render_page((row,))


def test_a_version_that_was_timed_beside_ours_on_another_card_is_the_best_where_it_is_faster(tmp_path):
    shapes = [{"label": "a", "times_us": {"eager": 5.0, "ours": 1.0}, "floor_us": 0.9}]
    ratios = {"eager": 5.0, "compile": 8.0, "max_autotune": 2.0}
    bounds = {who: ratio - 0.1 for who, ratio in ratios.items()}
    document = example() | {"shapes": shapes, "speedup": ratios, "lower": bounds, "device": "NVIDIA H100"}
    (row,) = read_rows(tmp_path / "none", dropped_in(tmp_path, "pool", document))
    page = render_page((row,))
    assert row.best_of_torch == "max_autotune"
    assert "2.00x, at least 1.90x (max-autotune) |" in page
    assert "- `pool`: at least 1.90x (max-autotune), headroom 2.22" in page
    assert "were all timed: **1.90x over 1 task**" in page


def test_the_mean_counts_the_fastest_row_of_a_task_with_headroom_and_names_the_others(tmp_path):
    def put(name: str, ours: float, least: float, **fields: object) -> None:
        times = {"eager": 2 * ours, "compile": 1.5 * ours, "ours": ours}
        shapes = [{"label": "a", "times_us": times, "floor_us": 0.9 * ours}]
        bounds = {"speedup": {"eager": 2.0, "compile": 1.5}, "lower": {"eager": 1.9, "compile": least}}
        card = {"device": "NVIDIA H100", "task": name}
        dropped_in(tmp_path, name, example() | card | {"shapes": shapes} | bounds | fields)

    put("first", 10.0, 1.2)
    put("again", 9.0, 1.1, task="first")
    put("second", 10.0, 2.0)
    put(
        "tight",
        10.0,
        1.4,
        shapes=[{"label": "a", "times_us": {"eager": 11.0, "ours": 10.0}, "floor_us": 9.9}],
        speedup={"eager": 1.1},
    )
    put("alone", 10.0, 1.4, shapes=[{"label": "a", "times_us": {"ours": 10.0}, "floor_us": 9.9}], speedup={})
    put("loose", 10.0, 1.4, lower={"eager": 1.9})
    put("small", 10.0, 9.0, device="a processor")
    put("close", 10.0, 1.4, undecided=["max_autotune"])
    page = render_page(read_rows(tmp_path / "none", tmp_path))
    assert "**1.48x over 2 tasks**" in page, "of 1.1 and 2.0"
    assert "- `again`: at least 1.10x (compile; max-autotune not timed), headroom 1.67" in page
    assert "- not in it, another row of the same task is faster: `first`" in page
    assert "- not in it, headroom below 1.3: `tight`" in page
    assert "- not in it, no time of torch beside them: `alone`" in page
    assert "- not in it, no bound over the best of torch, or no floor: `close`, `loose`" in page
    assert "no bound (max-autotune not told apart)" in page, "it may be the best"
    assert "were all timed" not in page
    times = {"eager": 20.0, "compile": 15.0, "max_autotune": 14.0, "ours": 10.0}
    whole = {"shapes": [{"label": "a", "times_us": times, "floor_us": 9.0}], "lower": {"max_autotune": 1.3}}
    put("whole", 10.0, 1.3, **whole)
    page = render_page(read_rows(tmp_path / "none", tmp_path))
    assert "Where eager, compile and max-autotune were all timed: **1.30x over 1 task**." in page
    assert "`small`: at least" not in page


def test_the_legend_names_whom_the_picture_shows_and_nobody_else(tmp_path):
    def legend(row_document: object) -> list[str]:
        (row,) = read_rows(tmp_path / "none", dropped_in(tmp_path, "matvec", row_document))
        return re.findall(r"/><text [^>]*>([a-z-]+)</text>", draw((row,)))

    assert legend(example()) == ["start", "eager", "compile", "max-autotune", "rival", "ours", "floor"]
    shapes = [{"label": "a", "times_us": {"start": 2.0, "ours": 1.0}}]
    assert legend(example() | {"shapes": shapes}) == ["start", "ours"]


def test_a_floor_far_beyond_every_time_is_named_at_the_edge_of_the_picture(tmp_path):
    def draw_floor(floor_us: float) -> str:
        shapes = [{"label": "a", "times_us": {"start": 200.0, "ours": 10.0}, "floor_us": floor_us}]
        return draw(read_rows(tmp_path / "none", dropped_in(tmp_path, "top", example() | {"shapes": shapes})))

    assert "top, floor: 22.22x</title><rect" in draw_floor(9.0)
    far = draw_floor(0.1)
    assert "floor 2,000x" in far
    assert "x</title><rect" not in far, "and no bar"
    assert "20x</text>" in far


def test_a_comparison_stands_beside_its_campaign_and_a_ratio_without_a_bound_is_no_claim(tmp_path):
    document = example() | {"campaign": "matmul_c_mailbox", "lower": {"rival": 1.06}}
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/matmul_c_mailbox").symlink_to(CAMPAIGNS / "matmul_c_mailbox")
    (row,) = read_rows(tmp_path / "campaigns", dropped_in(tmp_path, "beside", document))
    assert (row.name, row.rounds, row.time_us("ours")) == ("matmul_c_mailbox", 1, pytest.approx(12.0))
    assert "26.87x, at least 25.14x | no bound | 1.07x, at least 1.06x |" in render_page((row,))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("conv_transpose3d_h200", "-> memory_bound/l2, medium confidence"),
        ("depthwise_conv2d_h200", "; it moved 1.05 GB, the task's least is 1.07 GB"),
        ("fp8_block_gemm_h200", "barrier 0.409 of per_issue (named from 0.2) -> latency_bound/barrier"),
        ("rmsnorm_nchw_h200", ""),
        ("matmul_c_mailbox", ""),
    ],
)
def test_a_row_on_a_card_far_from_its_floor_says_what_its_counters_say(tmp_path, name, why):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / name).symlink_to(CAMPAIGNS / name)
    (row,) = read_rows(tmp_path / "campaigns", tmp_path / "none")
    told = [note for note in row.notes if note.startswith("ours, by its profile: ")]
    assert (bool(told), "[ncu" in "".join(told)) == (bool(why), False)
    assert why in "".join(told)


def test_a_task_whose_calls_find_a_cold_cache_has_a_floor_however_small_it_is(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/paged_decode_h200").symlink_to(CAMPAIGNS / "paged_decode_h200")
    (row,) = read_rows(tmp_path / "campaigns", tmp_path / "none")
    assert row.bound == "memory"
    assert row.share == pytest.approx(0.346, abs=0.005)
    assert "; each timed call finds a cold cache, and what it writes may stay there" in "".join(row.notes)
    assert row.tokens is None, "its answers were written beforehand, and nobody counted"


def test_a_start_that_was_not_timed_again_is_that_of_the_campaigns_final_test(tmp_path):
    document = {"schema_version": 1, "campaign": "matmul_c_mailbox"}
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/matmul_c_mailbox").symlink_to(CAMPAIGNS / "matmul_c_mailbox")
    (alone,) = read_rows(tmp_path / "campaigns", dropped_in(tmp_path, "beside", document))
    shapes = [{"label": shape.label, "times_us": {"ours": 12.0, "eager": 30.0}} for shape in alone.shapes]
    (row,) = read_rows(tmp_path / "campaigns", dropped_in(tmp_path, "beside", document | {"shapes": shapes}))
    assert row.time_us("start") == alone.time_us("start")
    assert row.time_us("ours") == pytest.approx(12.0)
    assert any(note.startswith("start: as the campaign's own final test") for note in row.notes)
    assert "26.87x, at least 25.14x" in render_page((row,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "schema_version: "),
        ({"lower": {"numpy": 2.0}}, "lower.numpy"),
        ({"shapes": [{"label": "x", "times_us": {"ours": 0}}]}, "shapes.0.times_us.ours: "),
        ({"lowre": {}}, "lowre: "),
        ({"campaign": "nowhere"}, "campaign: no "),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_field(tmp_path, change, said):
    with pytest.raises(UserError) as refusal:
        read_rows(CAMPAIGNS, dropped_in(tmp_path, "row", example() | change))
    assert str(refusal.value).startswith(str(tmp_path / "row.json"))
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
