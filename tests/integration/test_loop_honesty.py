"""What a whole campaign may not pass over in silence, on the scripted world."""

import json
from dataclasses import replace

import pytest

from ridgeline.agent.campaign.tape import Tape
from ridgeline.graph.briefing import Draft
from ridgeline.graph.evidence import BenchmarkFailed, TestResult
from ridgeline.graph.ports import Formatting
from ridgeline.graph.rules.history import standing
from ridgeline.graph.trial import Drafted, find
from ridgeline.graph.values import Cost, FileEdit
from tests.builders import VALUES, make_benchmark, make_limits
from tests.campaigns import make_campaign
from tests.world import KERNEL, DividedTimer, ScriptedPlanner, TextBuilder, TextChecker, TextProfiler, TextTimer


class Listening(ScriptedPlanner):
    """Keeps the briefings that reviews were asked with."""

    def __init__(self, *scripts):
        super().__init__(*scripts)
        self.reviews = []

    def review(self, briefing, trigger):
        self.reviews.append(briefing)
        return super().review(briefing, trigger)


@pytest.mark.feature("F056", "F040")
def test_a_review_knows_the_rollback_that_called_for_it(tmp_path):
    planner = Listening("speed 80", "speed 81", "speed 82", "speed 83")
    campaign = make_campaign(tmp_path, planner=planner)
    campaign.drive()
    first, second = planner.reviews
    assert [closed.round for closed in first.rounds] == [2, 3]
    assert (first.round, first.consecutive_rollbacks) == (4, 2)
    assert first.escalation.startswith("profile")
    assert second.directions == ("tile more", "change the layout", "another algorithm")


class Dear(ScriptedPlanner):
    def repair(self, briefing, broken, attempt):
        return Draft(edits=(), refusal="no weaker edit", cost=Cost(tokens=70))


@pytest.mark.feature("F101", "F086")
def test_a_refused_repair_is_recorded_with_what_it_cost(tmp_path):
    campaign = make_campaign(tmp_path, planner=Dear("speed 150 wrong"))
    campaign.drive()
    (lost,) = campaign.history().rounds
    assert lost.judged.verdict.reason == "incorrect"
    (asked,) = find(lost.judged, Drafted).repairs
    assert (asked.explanation, asked.evidence) == ("no weaker edit", "MISMATCH in incorrect")
    assert lost.cost.tokens == 70
    assert campaign.workspace.branch_log() == []


class Formatter(TextBuilder):
    def __init__(self, read, after):
        super().__init__(read)
        self._after = after

    def format(self, commit, changed):
        if self._after is None:
            return Formatting(edits=(), detail="the formatter failed: segmentation fault")
        edit = super().format(commit, changed).edits[0]
        return Formatting(edits=(edit.model_copy(update={"text": self._after}),))


def formatted(tmp_path, after):
    campaign = make_campaign(tmp_path, "unformatted speed 130")
    read = campaign.ports.builder._read
    campaign.ports = replace(campaign.ports, builder=Formatter(read, after))
    campaign.drive()
    return campaign.history().rounds[0]


@pytest.mark.feature("F110")
@pytest.mark.parametrize(
    ("after", "correct", "faster", "words"),
    [
        ("speed 130 wrong\n", "no", "unverified", "its results are wrong"),
        ("speed 130 hangs\n", "unverified", "unverified", "ran out of time"),
        ("speed 130 no build\n", "unverified", "unverified", "does not build"),
        ("speed 90\n", "yes", "no", "it is slower"),
    ],
)
def test_what_formatting_broke_is_said_as_it_is(tmp_path, after, correct, faster, words):
    closed = formatted(tmp_path, after)
    verdict = closed.judged.verdict
    assert (verdict.decision, verdict.reason) == ("rolled_back", "formatted_not_better")
    assert verdict.sentence.startswith("Round 2: ROLLED BACK - once formatted, ")
    assert verdict.sentence.count("Round 2") == 1
    assert (verdict.correct, verdict.faster) == (correct, faster)
    assert words in verdict.sentence


def test_a_formatter_that_failed_leaves_a_note(tmp_path):
    closed = formatted(tmp_path, None)
    assert closed.accepted
    assert "not formatted: the formatter failed: segmentation fault" in closed.judged.verdict.notes


class Flop(TextTimer):
    def benchmark(self, commit, *, level, source, shapes, repeat, purpose):
        found = super().benchmark(commit, level=level, source=source, shapes=shapes, repeat=repeat, purpose=purpose)
        if purpose != "final" or self.speed(commit) == 1.0:
            return found
        return BenchmarkFailed(commit=commit, reason="crash", detail="bus error", seconds=0.1)


class Suite(TextChecker):
    def suite(self, commit):
        return TestResult(passed=False, kind="incorrect", commit=commit, detail="3 failed", seconds=1.0)


@pytest.mark.feature("F065")
def test_a_final_acceptance_that_fails_is_in_the_report(tmp_path):
    campaign = make_campaign(tmp_path, "speed 130")
    read = campaign.ports.builder._read
    campaign.ports = replace(campaign.ports, timer=Flop(read), checker=Suite(read))
    campaign.drive()
    ended = campaign.history().concluded
    assert ended.project is None
    assert "full validation: the best version: no usable numbers (crash): bus error" in ended.final_note
    assert "fails the project's full suite" in ended.final_note
    assert "bus error" in campaign.files.read("final_report.md")


class Counting(TextProfiler):
    def __init__(self, timer):
        super().__init__(timer)
        self.asked = []

    def profile(self, commit, *, purpose):
        self.asked.append(purpose)
        return super().profile(commit, purpose=purpose)


class Twice(ScriptedPlanner):
    """Has no idea in round 4, until it was restarted."""

    def propose(self, briefing):
        if briefing.round == 4 and len(briefing.rounds) == 2:
            return super().propose(briefing.model_copy(update={"round": 99}))
        return super().propose(briefing)


@pytest.mark.feature("F085")
def test_a_restart_looks_at_the_best_version_afresh(tmp_path):
    campaign = make_campaign(tmp_path, planner=Twice("speed 120", "speed 90", "speed 130"))
    profiler = Counting(campaign.ports.timer)
    campaign.ports = replace(campaign.ports, profiler=profiler)
    campaign.drive()
    history = campaign.history()
    assert [restart.after_round for restart in history.restarts] == [3]
    assert [closed.round for closed in history.rounds] == [2, 3, 4]
    assert "round-4 best" in profiler.asked
    assert "round-3 best" not in profiler.asked


@pytest.mark.feature("F027")
def test_a_direction_ends_with_all_shapes(tmp_path):
    limits = make_limits("campaign", target_peak_fraction=None)
    campaign = make_campaign(tmp_path, "speed 120", "speed 80", "speed 81", "speed 82", "speed 83", limits=limits)
    campaign.drive()
    first, second = campaign.history().reviews
    best = campaign.history().rounds[0].commit
    assert (first.full.commit, first.full.level) == (best, "full")
    assert first.full_note.startswith("round-2 over all shapes: +")
    assert (second.full, second.full_note) == (None, "")
    assert "Full validation at the end of the direction: round-2" in campaign.files.read("logs/optimize.md")


@pytest.mark.feature("F006", "F017")
def test_records_of_a_campaign_that_nobody_was_asked_about(tmp_path):
    campaign = make_campaign(tmp_path, "speed 120", "speed 80", "speed 140")
    campaign.drive()
    history, written = campaign.history(), campaign.files.texts()
    assert history.opened.confirmation == "auto-confirmed"
    assert all(f"rounds/round-{number}/artifacts/benchmark.csv" in written for number in (1, 2, 3, 4))
    best, first = campaign.workspace.branch_log()
    assert [history.rounds[2].commit, history.rounds[0].commit] == [best, first]
    assert any(check.satisfied for check in history.concluded.checks)


class Timed(TextTimer):
    """Keeps which versions were timed."""

    def __init__(self, read):
        super().__init__(read)
        self.versions = []

    def benchmark(self, commit, **asked):
        self.versions.append(commit)
        return super().benchmark(commit, **asked)

    def compare(self, *, candidate, **asked):
        self.versions.append(candidate)
        return super().compare(candidate=candidate, **asked)


@pytest.mark.feature("F039")
def test_nothing_is_timed_before_its_test_passed(tmp_path):
    campaign = make_campaign(tmp_path, "speed 300 wrong", "speed 300 crashes", "speed 300 hangs", "speed 130")
    timer = Timed(campaign.ports.timer._read)
    campaign.ports = replace(campaign.ports, timer=timer)
    campaign.drive()
    assert campaign.verdicts() == ["incorrect", "test_crashed", "test_timeout", "faster"]
    assert {campaign.workspace.sources(commit)[0].text for commit in timer.versions} == {"speed 100\n", "speed 130\n"}


class Looking(ScriptedPlanner):
    """Looks at the tape on the disk when it is asked for an edit."""

    def __init__(self, path, *scripts):
        super().__init__(*scripts)
        self._path = path
        self.written, self.plans, self.memories, self.files = [], [], [], None

    def draft(self, briefing, proposal):
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        proposed = [line for line in lines if line["method"] == "propose"]
        self.written.append((briefing.round, proposal.hypothesis.claim in json.dumps(proposed[-1]), len(proposed)))
        self.plans.append(self.files.read(f"plans/v{briefing.round - 1}_plan.md"))
        self.memories.append(json.loads(self.files.read(f"memory/v{briefing.round - 1}.json")))
        return super().draft(briefing, proposal)


@pytest.mark.feature("F032", "F082")
def test_a_hypothesis_is_on_the_disk_before_its_edit_is_asked_for(tmp_path):
    planner = Looking(tmp_path / "tape.jsonl", "speed 120", "speed 80", "speed 140")
    campaign = make_campaign(tmp_path, planner=planner, tape=Tape(tmp_path / "tape.jsonl"))
    planner.files = campaign.files
    campaign.drive()
    assert planner.written == [(2, True, 1), (3, True, 2), (4, True, 3)]
    assert planner.plans == [campaign.files.read(f"plans/v{version}_plan.md") for version in (1, 2, 3)]
    before, after = (
        planner.memories,
        [json.loads(campaign.files.read(f"memory/v{version}.json")) for version in (1, 2, 3)],
    )
    assert [(memory["decision"], memory["quality_gate"]["result"]) for memory in before] == [("OPEN", "")] * 3
    assert [memory["decision"] for memory in after] == ["ACCEPTED", "ROLLED BACK", "ACCEPTED"]
    for open_one, closed in zip(before, after, strict=True):
        assert open_one.keys() <= closed.keys()
        same = ("action_category", "action_description", "expected_impact", "risks_and_rollback")
        assert [open_one["optimization"][name] for name in same] == [closed["optimization"][name] for name in same]
        assert open_one["optimization"]["performance_validated"] == ""
        assert open_one["profile_evidence"]["evidence_chain"] == closed["profile_evidence"]["evidence_chain"]


class Dispatching(ScriptedPlanner):
    """Asked for a split, writes this kernel."""

    def __init__(self, *scripts, specialised):
        super().__init__(*scripts)
        self._specialised = specialised

    def split(self, briefing, judged):
        return Draft(edits=(FileEdit(path=KERNEL, text=self._specialised),))


@pytest.mark.feature("F109")
@pytest.mark.parametrize(
    ("specialised", "reason"),
    [("speed 110 dispatch\n", "faster"), ("speed 110 dispatch divides\n", "core_regression")],
)
def test_a_split_is_kept_only_where_no_class_loses(tmp_path, specialised, reason):
    planner = Dispatching("speed 100 divides", specialised=specialised)
    limits = make_limits(target_peak_fraction=None, max_restarts=0)
    campaign = make_campaign(tmp_path, planner=planner, limits=limits)
    campaign.ports = replace(campaign.ports, timer=DividedTimer(campaign.ports.timer._read))
    campaign.drive()
    (closed,) = campaign.history().rounds
    assert find(closed.judged, Drafted).split
    assert closed.judged.verdict.reason == reason
    kept = "speed 100\n" if reason == "core_regression" else specialised
    assert campaign.workspace.sources(standing(campaign.history()).commit)[0].text == kept


class Listener(ScriptedPlanner):
    """Keeps what each round was told that the rollbacks before it had looked at."""

    def __init__(self, *scripts):
        super().__init__(*scripts)
        self.diagnoses = {}

    def propose(self, briefing):
        self.diagnoses[briefing.round] = briefing.diagnosis
        return super().propose(briefing)


@pytest.mark.feature("F040")
def test_rollbacks_look_deeper_and_deeper_by_themselves(tmp_path):
    planner = Listener("speed 120", *(f"speed {speed}" for speed in (110, 100, 90, 80, 70)), "speed 180")
    known = {"name": "hipBLASLt", "command": ("./known", "{csv}")}
    limits = make_limits("campaign", target_peak_fraction=None)
    campaign = make_campaign(tmp_path, planner=planner, limits=limits, best_known=known)
    profiled, timed = [], []
    profile, benchmark = campaign.ports.profiler.profile, campaign.ports.timer.benchmark

    def see_profile(commit, *, purpose):
        profiled.append(purpose)
        return profile(commit, purpose=purpose)

    def see_benchmark(commit, *, source, **asked):
        if source == "best_known":
            timed.append(asked["purpose"])
            return make_benchmark({label: 2 * value for label, value in VALUES.items()}, commit=commit, source=source)
        return benchmark(commit, source=source, **asked)

    campaign.ports.profiler.profile, campaign.ports.timer.benchmark = see_profile, see_benchmark
    campaign.drive()

    told = planner.diagnoses
    assert told[4] == told[5] == (), "one rollback, then two: the best version is profiled afresh, and that is all"
    assert next(purpose for purpose in profiled if purpose.endswith(" best")) == "round-5 best"
    third = next(number for number, lines in told.items() if lines)
    assert third == 6, "rounds 3, 4 and 5 were rolled back"
    assert told[6][0].startswith("machine code of best version against the original: instructions 1e+09 -> 8.33333e+08")
    assert told[6][1].startswith("machine code of rolled-back round 5 against the best version: instructions")
    assert timed == ["best known kernel"], "once, however many rollbacks follow"
    assert told[7][-1].startswith("best known kernel (hipBLASLt): the best version has")
    assert told[8][-1] == told[7][-1]
    plan = campaign.files.read("plans/v6_plan.md")
    assert "best known kernel (hipBLASLt): the best version has small 60 %" in plan
    assert "machine code of best version" in campaign.files.read("plans/v5_plan.md")
    assert "machine code" not in campaign.files.read("plans/v4_plan.md")
    measured = [closed.round for closed in campaign.history().rounds if closed.best_known is not None]
    assert measured == [7]
