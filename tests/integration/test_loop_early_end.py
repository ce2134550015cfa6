"""Whole campaigns whose candidates leave their test early, or have their build rewrite what judges them."""

from dataclasses import replace

import pytest

from ridgeline.agent.campaign.tape import Tape, tape_port
from ridgeline.graph.evidence import PrintedLine, TestOutput
from ridgeline.graph.loop.round import ORIGINAL_AGAIN
from tests.campaigns import make_campaign
from tests.world import TextBuilder, TextChecker

WHOLE = ("seed #", "PASS n=#", "all is right")


class Printing(TextChecker):
    """Prints as far as it comes; `lucky` is a line that only the original's first run has."""

    def __init__(self, read, *, prints: tuple[str, ...] | None = WHOLE, lucky: str = ""):
        super().__init__(read)
        self._prints = prints
        self._lucky = lucky
        self.asked: list[str] = []

    def check(self, commit, *, purpose):
        self.asked.append(purpose)
        found, text = super().check(commit, purpose=purpose), self._read(commit)
        if self._prints is None or not found.passed:
            return found
        lines = self._prints[:1] if "leaves early" in text else self._prints
        if "once unlucky" in text and not purpose.endswith("again"):
            lines = lines[:-1]
        if self._lucky and purpose == "baseline":
            lines = (*lines, self._lucky)
        printed = TestOutput(lines=tuple(PrintedLine(line=line) for line in lines))
        return found.model_copy(update={"printed": printed})


def campaign_of(tmp_path, *scripts, tape=None, **checker):
    campaign = make_campaign(tmp_path, *scripts)
    checks = Printing(campaign.ports.builder._read, **checker)
    told = checks if tape is None else tape_port("checker", checks, tape)
    campaign.ports = replace(campaign.ports, checker=told)
    return campaign, checks


def test_a_candidate_that_leaves_its_test_early_is_sent_back_for_repair_and_then_rolled_back(tmp_path):
    campaign, checks = campaign_of(tmp_path, ["speed 300 leaves early", "speed 300 leaves early too"], "speed 130")
    campaign.drive()
    assert campaign.verdicts()[:2] == ["incorrect", "faster"]
    verdict = campaign.history().rounds[0].judged.verdict
    assert (
        "the test ended early with exit code 0, let it run to its end: the line 'PASS n=#' (and 1 other lines)"
        in verdict.notes[0]
    )
    assert "prints nothing" not in campaign.files.read("rounds/round-1/summary.md")
    assert checks.asked.count("baseline") == 1


def test_a_repair_that_lets_the_test_end_is_kept(tmp_path):
    campaign, _ = campaign_of(tmp_path, ["speed 300 leaves early", "speed 130"])
    campaign.drive()
    assert campaign.verdicts()[0] == "faster"


def test_lines_that_the_original_prints_now_and_then_cost_two_runs_of_it_in_a_campaign(tmp_path):
    tape = Tape(tmp_path / "tape.jsonl")
    campaign, checks = campaign_of(tmp_path, "speed 130", "speed 160", tape=tape, lucky="a lucky line")
    campaign.drive()
    assert campaign.verdicts()[:2] == ["faster", "faster"]
    assert [checks.asked.count(purpose) for purpose in ORIGINAL_AGAIN] == [1, 1]


def test_a_line_that_a_candidate_lost_once_is_looked_for_once_more(tmp_path):
    campaign, checks = campaign_of(tmp_path, "speed 130 once unlucky")
    campaign.drive()
    assert campaign.verdicts()[0] == "faster"
    assert "round-2 again" in checks.asked


@pytest.mark.parametrize(("prints", "noted"), [((), True), (None, False)], ids=["prints nothing", "an older record"])
def test_without_lines_to_go_by_the_exit_code_decides(tmp_path, prints, noted):
    campaign, checks = campaign_of(tmp_path, "speed 130 leaves early", prints=prints)
    campaign.drive()
    assert campaign.verdicts()[0] == "faster"
    for name in ("rounds/round-1/summary.md", "final_report.md"):
        assert ("the test prints nothing" in campaign.files.read(name)) is noted
    assert not any(asked in ORIGINAL_AGAIN for asked in checks.asked)


class Rewriting(TextBuilder):
    """A build that changes evaluation files: those that the kernel names after `rewrites`."""

    def build(self, commit):
        named = tuple(self._read(commit).partition("rewrites ")[2].split())
        return super().build(commit).model_copy(update={"tampered": named})


@pytest.mark.feature("F099")
@pytest.mark.parametrize(
    ("original", "candidate", "reason"),
    [
        ("speed 100", "speed 300 rewrites test.c", "tampered"),
        ("speed 100 rewrites gen.h", "speed 300 rewrites gen.h test.c", "tampered"),
        ("speed 100 rewrites gen.h", "speed 130 rewrites gen.h", "faster"),
        ("speed 100 rewrites gen.h", "speed 130", "faster"),
    ],
)
def test_a_build_may_change_what_the_original_s_build_changes_and_nothing_else(tmp_path, original, candidate, reason):
    campaign = make_campaign(tmp_path, candidate, kernel=original)
    campaign.ports = replace(campaign.ports, builder=Rewriting(campaign.ports.builder._read))
    campaign.drive()
    assert campaign.verdicts()[0] == reason
    if reason == "tampered":
        assert "test.c" in campaign.history().rounds[0].judged.verdict.sentence
