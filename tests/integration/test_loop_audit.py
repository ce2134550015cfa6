"""The audit in a campaign: what convicts is rolled back unbuilt, what routes is told, old ledgers read as before."""

import json

import pytest

from ridgeline.graph.record import RoundClosed
from ridgeline.graph.trial import Applied, Built, find
from tests.campaigns import make_campaign

CONVICTED = "speed 150\nint clock_gettime(int id, struct timespec *t) { return 0; }\n"
ROUTED = "speed 130\nvoid f(void) { pthread_create(&t, 0, work, o); }\n"


@pytest.mark.feature("F047")
def test_a_convicted_candidate_is_rolled_back_before_it_is_built(tmp_path):
    campaign = make_campaign(tmp_path, CONVICTED, "speed 120")
    campaign.drive()
    lost, kept = campaign.history().rounds
    assert lost.judged.verdict.reason == "convicted"
    assert lost.judged.verdict.own_work == "no"
    assert "kernel.c:2 replaced-clock" in lost.judged.verdict.sentence
    assert find(lost.judged, Built) is None
    assert kept.accepted
    assert "replaced-clock" in campaign.files.read("rounds/round-2/summary.md")


def test_a_routed_finding_is_evidence_and_a_note_and_stands_in_the_report(tmp_path):
    campaign = make_campaign(tmp_path, ROUTED)
    campaign.drive()
    (kept,) = campaign.history().rounds
    assert kept.accepted
    assert [one.rule for one in find(kept.judged, Applied).audit] == ["thread"]
    assert any("nothing here settles it" in note for note in kept.judged.verdict.notes)
    assert "nothing here settles it" in campaign.files.read("rounds/round-2/summary.md")
    reports = [text for name, text in campaign.files.texts().items() if "Source audit" in text]
    assert reports
    assert all("thread" in text and "kernel.c:2" in text for text in reports)


FILES = 'speed 130\nvoid f(void) { FILE *p = fopen("kept", "r"); }\n'


@pytest.mark.feature("F047")
def test_what_nothing_here_settles_is_rolled_back_unbuilt_unless_the_contract_allows_it(tmp_path):
    campaign = make_campaign(tmp_path, FILES)
    campaign.drive()
    (lost,) = campaign.history().rounds
    assert (lost.judged.verdict.reason, lost.judged.verdict.own_work) == ("unsettled", "unverified")
    assert "kernel.c:2 file-access" in lost.judged.verdict.sentence
    assert any("audit: {allow: [file-access]}" in note for note in lost.judged.verdict.notes)
    assert find(lost.judged, Built) is None
    (tmp_path / "again").mkdir()
    allowed = make_campaign(tmp_path / "again", FILES, audit={"allow": ["file-access"]})
    allowed.drive()
    (kept,) = allowed.history().rounds
    assert kept.accepted
    assert any("allowed by audit.allow" in note for note in kept.judged.verdict.notes)


def test_a_line_without_findings_reads_as_before_there_was_an_audit(tmp_path):
    campaign = make_campaign(tmp_path, "speed 120")
    campaign.drive()
    (kept,) = campaign.history().rounds
    written = kept.model_dump(mode="json")
    assert '"audit"' not in json.dumps(written)
    assert RoundClosed.model_validate(written) == kept


FAST = 'speed 130\n#pragma GCC optimize("O3,fast-math")\nvoid f(void) {}\n'


def test_relaxed_arithmetic_is_rolled_back_unbuilt_unless_the_contract_allows_it(tmp_path):
    campaign = make_campaign(tmp_path, FAST)
    campaign.drive()
    (lost,) = campaign.history().rounds
    assert lost.judged.verdict.reason == "unsettled"
    assert "kernel.c:2 relaxed-math: `fast-math` lets the compiler change what NaN" in lost.judged.verdict.sentence
    assert "relaxed_math: allowed" in " ".join((lost.judged.verdict.sentence, *lost.judged.verdict.notes))
    assert find(lost.judged, Built) is None
    (tmp_path / "again").mkdir()
    allowed = make_campaign(tmp_path / "again", FAST, relaxed_math="allowed")
    allowed.drive()
    (kept,) = allowed.history().rounds
    assert kept.accepted
    assert any("allowed by relaxed_math" in note for note in kept.judged.verdict.notes)
