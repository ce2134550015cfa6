"""The report as a page: everything a reader needs, nothing that runs, pictures that are well formed."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ridgeline.evals.recordings.recording import Folder
from ridgeline.graph.reports.final_report import render_final_report
from ridgeline.graph.reports.html import report_html
from ridgeline.graph.reports.logs import trend
from ridgeline.graph.reports.markdown import diff, markdown, plain
from ridgeline.graph.reports.plots import _points, _ticks, roofline_plot, trend_plot
from ridgeline.graph.rules.history import fold_ledger
from tests.builders import make_history, make_opened
from tests.document_builders import complete, growing, long, training
from tests.web_calls import seen
from tests.web_campaigns import HOSTILE

CAMPAIGNS = Path(__file__).resolve().parents[2] / "evals" / "campaigns"


def test_a_finished_campaign_is_told_whole():
    history = complete()
    page = report_html(history, diffs={2: "+tiled\n"}, head="f" * 64)
    text = "".join(seen(page).words)
    for expected in (
        "Speedup over the original: 1.200x, at least 1.170x",
        "change number 3",
        "build_failed",
        "change number 2",
        "instructions",
        "git checkout --detach",
        "+tiled",
        "f" * 64,
    ):
        assert expected in text, expected
    anchors = {link.removeprefix("#") for link in seen(page).links if link.startswith("#")}
    assert anchors == {*re.findall(r'<section id="([a-z]+)"', page)}


def test_it_needs_nothing_from_anywhere():
    found = seen(report_html(complete(), diffs={}))
    assert found.scripts == []
    assert all(link.startswith("#") for link in found.links)


@pytest.mark.parametrize("step", range(len(list(growing()))))
def test_it_can_be_asked_for_at_any_time(step):
    history = list(growing())[step]
    page = report_html(history, diffs={})
    assert ("Not final" in page) == (history.concluded is None)


def test_a_campaign_with_a_backward_pass_and_a_long_one():
    assert "llama" in report_html(training(), diffs={})
    assert "round 100" in report_html(long(100), diffs={})


@pytest.mark.parametrize("text", ["", "a|b", "`", "**", "[x](javascript:alert(1))", HOSTILE, "&lt;b>", "\\<b\\>"])
def test_markdown_never_becomes_more_than_text(text):
    for given in (text, f"# {text}", f"- {text}", f"| {text} |\n|---|\n| {text} |", f"```\n{text}\n```", f"**{text}**"):
        found = seen(str(markdown(given)))
        assert found.scripts == found.handlers == found.links == []
        assert found.tags <= {
            *("p", "br", "h2", "ul", "li", "div", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "strong")
        }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("## Head", "<h3>Head</h3>"),
        ("a **b** `c<d`", "<p>a <strong>b</strong> <code>c&lt;d</code></p>"),
        ("- [x] done\n- [ ] not", "<ul><li>\u2713 done</li><li>\u2717 not</li></ul>"),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("[text](file.md)", "<p>text</p>"),
        ("a &lt;b", "<p>a &lt;b</p>"),
        ("\\# not a head", "<p># not a head</p>"),
        ("````text\n```\ninside\n````", "<pre>```\ninside</pre>"),
        ("```\nnever closed", "<pre>never closed</pre>"),
    ],
)
def test_markdown(given, expected):
    assert str(markdown(given)) == expected


def test_an_escaped_mark_does_not_end_a_cell():
    found = str(markdown("| a \\| b | c |\n|---|---|\n| d | e |"))
    assert found.count("<th>") == 2
    assert "<th>a | b</th>" in found


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\x1b", "\ufeff", "\U000e0041"])
def test_what_cannot_be_seen_is_named(hidden):
    assert f"U+{ord(hidden):04X}" in plain(f"a{hidden}b")
    assert hidden not in diff(f"+a{hidden}b")


def test_a_diff_is_marked_and_bounded():
    assert '<span class="plus">+a &lt; b</span>' in diff("@@ -1 +1 @@\n-a\n+a < b\n")
    cut = diff("+" + "x" * 100, limit=50)
    assert "51 characters left out" in cut


def svg(markup) -> ET.Element:
    return ET.fromstring(re.search(r"<svg.*</svg>", str(markup), re.DOTALL)[0])


def test_the_course_shows_every_round():
    found = svg(trend_plot(complete()))
    titles = [node.text for node in found.iter("title")]
    assert len(titles) == 1 + len(complete().rounds) + 1  # the picture, the rounds, the final test
    circles = list(found.iter("circle"))
    assert [node.get("class") for node in circles].count("kept") == 2
    assert all(0 < float(node.get("cy")) < 320 for node in circles)


def test_no_round_no_course():
    assert trend_plot(make_history()) == ""


def test_the_roofline_shows_original_and_best_or_nothing():
    assert roofline_plot(make_history(opened=make_opened())) == ""
    history = complete()
    roof = history.roofline
    shapes = roof.shapes if roof else ()
    history = history.model_copy(update={"baseline": history.baseline.model_copy(update={"shapes": shapes})})
    kinds = [node.get("class") for node in svg(roofline_plot(history)).iter("circle")]
    assert kinds == ["lost", "kept"]


@pytest.mark.parametrize("number", [1e308, 1e200, 5e-324])
def test_a_number_that_no_machine_has_is_not_drawn(number):
    history = complete()
    roof = history.roofline.model_copy(
        update={"ceilings": history.roofline.ceilings.model_copy(update={"flops_gflops": number})}
    )
    baseline = history.baseline.model_copy(update={"shapes": roof.shapes})
    assert roofline_plot(history.model_copy(update={"roofline": roof, "baseline": baseline})) == ""
    concluded = history.concluded.model_copy(update={"speedup": number})
    assert trend_plot(history.model_copy(update={"concluded": concluded})) == ""


@pytest.mark.parametrize(("low", "high"), [(0.99, 1.01), (1, 1.2), (0.5, 30), (1, 1000), (0.96, 1.0400001), (1, 1e6)])
def test_an_axis_has_some_lines_and_not_too_many(low, high):
    found = _ticks(low, high)
    assert 1 <= len(found) <= 12
    assert all(low <= tick <= high for tick in found)
    assert found == sorted(set(found))


def test_candidates_of_one_question_stand_against_the_version_that_all_were_compared_with():
    history = fold_ledger(Folder(CAMPAIGNS / "top64_h100").lines())
    assert [round(point.at, 1) for point in _points(history.rounds)] == [22.9, 11.9, 16.4]
    rows = [line for line in trend(history).splitlines() if "| ROLLBACK |" in line]
    assert ["step +1087" in rows[0], "step +1535" in rows[1]] == [True, True], rows


def test_what_was_outpaced_is_no_failure_and_no_round_that_was_kept():
    report = render_final_report(fold_ledger(Folder(CAMPAIGNS / "top64_h100").lines()))
    text = report.partition("## Ineffective Directions\n\n")[2].partition("\n\n")[0]
    assert text.startswith("None: what was rolled back was outpaced")
    assert "- Rolled back: 2\n" in report
    assert "NVIDIA H100 80GB HBM3 (nvidia, sm_90) |" in report
    assert "min in rounds (waiting for answers counts), " in report
