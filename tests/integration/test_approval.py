"""Campaigns that wait for a person: the real graph, interrupts, files and ledger around a scripted world."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from ridgeline.agent.campaign.approvals import ApprovalFiles, Deferral
from ridgeline.agent.campaign.tape import Tape
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.errors import TargetRefused
from ridgeline.graph.record import Spec, key
from ridgeline.graph.rules.stagnation import consecutive_rollbacks
from ridgeline.graph.trial import Drafted, find
from ridgeline.graph.values import FileEdit
from tests import text_project
from tests.builders import make_limits
from tests.campaigns import Campaign, make_campaign, saver
from tests.world import KERNEL, StepClock

FASTER = "speed 120"


def campaign(tmp_path: Path, *gates: str, **limits: object) -> Campaign:
    found = make_limits(**{"target_peak_fraction": None, "approve": ",".join(gates), "max_rounds": 1, **limits})
    return make_campaign(tmp_path, FASTER, limits=found, tape=Tape(tmp_path / "tape.jsonl"))


def waits(made: Campaign, files: ApprovalFiles) -> ApprovalRequest:
    """Drive until a person is asked; the one open question."""
    with pytest.raises(Waiting, match="ridgeline queue"):
        made.drive()
    (one,) = files.waiting()
    return one.request


def decide(files: ApprovalFiles, request: ApprovalRequest, choice: str, **more: object) -> None:
    told = {"key": request.key, "choice": choice, "by": "Ada", "at": "2026-11-22T09:00:00+00:00", **more}
    files.decide(Decision.model_validate(told))


def test_every_gate_asks_and_the_ledger_says_who_decided(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "target", "hypothesis", "change"), ApprovalFiles(tmp_path)
    gates = []
    for _ in range(3):
        request = waits(made, files)
        gates.append(request.gate)
        decide(files, request, "approve")
    made.drive()
    known = made.history()
    assert gates == ["target", "hypothesis", "change"]
    assert known.opened.confirmation == "confirmed by Ada, 2026-11-22T09:00:00+00:00"
    assert [one.by for one in known.opened.decisions] == ["Ada"]
    assert [(one.choice, one.by) for one in known.rounds[0].decisions] == [("approve", "Ada"), ("approve", "Ada")]
    assert known.rounds[0].accepted
    assert files.waiting() == ()


@pytest.mark.feature("F055")
def test_a_gain_that_nothing_explains_is_asked_about_where_people_are_asked_at_all(tmp_path: Path) -> None:
    limits = make_limits(target_peak_fraction=None, approve="hypothesis", max_rounds=1)
    made = make_campaign(tmp_path, "speed 500", limits=limits, tape=Tape(tmp_path / "tape.jsonl"))
    files = ApprovalFiles(tmp_path)
    gates = []
    for _ in range(2):
        request = waits(made, files)
        gates.append(request.gate)
        decide(files, request, "approve")
    made.drive()
    assert gates == ["hypothesis", "change"]
    (kept,) = made.history().rounds
    assert kept.accepted
    assert any(note.startswith("unexplained: +") for note in kept.judged.verdict.notes)


@pytest.mark.feature("F118")
def test_a_campaign_that_asks_nobody_waits_for_nobody(tmp_path: Path) -> None:
    made = campaign(tmp_path)
    made.drive()
    assert made.verdicts() == ["faster"]
    assert not (tmp_path / "approvals").exists()


def test_a_rejected_target_ends_before_anything_is_made(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "target"), ApprovalFiles(tmp_path)
    decide(files, waits(made, files), "reject", reason="wrong kernel")
    with pytest.raises(TargetRefused, match="rejected by Ada: wrong kernel"):
        made.drive()
    assert made.ports.ledger.lines() == ()


@pytest.mark.parametrize("gate", ["hypothesis", "change"])
def test_a_rejection_is_a_round_that_was_rolled_back_with_the_persons_words(tmp_path: Path, gate: str) -> None:
    made, files = campaign(tmp_path, gate), ApprovalFiles(tmp_path)
    decide(files, waits(made, files), "reject", reason="we tried that in June")
    made.drive()
    (closed,) = made.history().rounds
    assert (closed.accepted, closed.judged.verdict.reason) == (False, "rejected")
    assert "rejected by Ada: we tried that in June" in closed.judged.verdict.sentence
    assert closed.decisions[0].reason == "we tried that in June"


def edit(files: ApprovalFiles, request: ApprovalRequest, text: str, **more: object) -> None:
    edits = [FileEdit(path=KERNEL, text=text + "\n").model_dump()]
    decide(files, request, "edit", edits=edits, **more)


def test_an_edit_is_a_round_of_its_own_and_what_it_replaces_keeps_its_result(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    first = waits(made, files)
    assert first.options == ()
    edit(files, first, "speed 140", reason="wider")
    second = waits(made, files)
    assert second.key != first.key
    assert [(one.round, one.author, one.acceptable) for one in second.options] == [(2, "", True), (3, "Ada", True)]
    (page,) = (one.page for one in files.waiting())
    text = Path(page).read_text()
    assert "| Against the best version | round 2 | round 3 |" in text
    decide(files, second, "approve", round=3)
    made.drive()
    model, person = made.history().rounds
    assert (model.round, model.accepted, model.judged.verdict.reason) == (2, False, "replaced")
    assert "measured +20.0% (at least +19.6%), replaced by an edit of Ada (round 3)" in model.judged.verdict.sentence
    assert model.judged.verdict.gain == pytest.approx(0.2, abs=0.01)
    assert (model.author, model.reflection.lesson) == ("", "tiles of 64 help"), "it taught what it measured"
    assert [one.choice for one in model.decisions] == ["edit", "approve"]
    assert (person.round, person.accepted, person.author) == (3, True, "Ada")
    assert person.judged.verdict.gain == pytest.approx(0.4, abs=0.01)
    assert (person.reflection.lesson, person.prediction, person.decisions) == (None, None, ())
    drafted = find(person.judged, Drafted)
    assert drafted is not None
    assert (drafted.proposed.edits_round, drafted.repairs) == (2, ())
    assert made.history().concluded is not None
    assert ("T3", "1 of 1 rounds") in [(one.id, one.description) for one in made.history().concluded.checks]
    assert "speed 140" in made.workspace.sources(person.commit or "")[0].text


def test_the_measured_original_stays_acceptable_after_an_edit_that_is_slower(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    edit(files, waits(made, files), "speed 80")
    second = waits(made, files)
    assert [(one.round, one.acceptable) for one in second.options] == [(2, True), (3, False)]
    decide(files, second, "approve")
    made.drive()
    model, person = made.history().rounds
    assert (model.accepted, model.judged.verdict.reason) == (True, "faster")
    assert (person.accepted, person.author) == (False, "Ada")
    assert person.judged.verdict.gain == pytest.approx(-0.2, abs=0.01), "its own measurement and its own verdict"
    assert consecutive_rollbacks(made.history().rounds) == 0, "the planner has nothing to explain"
    assert person.tree == model.tree, "the best version after it"


def test_the_original_may_be_chosen_over_a_faster_edit_and_the_edit_says_so(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    edit(files, waits(made, files), "speed 150")
    decide(files, waits(made, files), "approve", round=2)
    made.drive()
    model, person = made.history().rounds
    assert model.accepted
    assert (person.accepted, person.judged.verdict.reason) == (False, "replaced")
    assert "replaced by round 2, which it edits" in person.judged.verdict.sentence


def test_an_edit_of_an_edit_and_a_rejection_of_all(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    edit(files, waits(made, files), "speed 130")
    edit(files, waits(made, files), "speed 140", by="Bela")
    third = waits(made, files)
    assert [(one.round, one.author) for one in third.options] == [(2, ""), (3, "Ada"), (4, "Bela")]
    decide(files, third, "reject", reason="unreadable")
    made.drive()
    assert made.verdicts() == ["rejected"] * 3
    assert [closed.round for closed in made.history().rounds] == [2, 3, 4]
    gains = [closed.judged.verdict.gain for closed in made.history().rounds]
    assert gains == pytest.approx([0.2, 0.3, 0.4], abs=0.01)


@pytest.mark.parametrize("text", ["speed 200\nwrong", "speed 200\nno build"])
def test_an_edit_that_fails_in_its_round_is_not_mended_by_the_planner_and_costs_the_original_nothing(
    tmp_path: Path, text: str
) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    edit(files, waits(made, files), text)
    second = waits(made, files)
    assert [one.acceptable for one in second.options] == [True, False]
    decide(files, second, "approve")
    made.drive()
    model, person = made.history().rounds
    assert model.accepted
    drafted = find(person.judged, Drafted)
    assert drafted is not None
    assert (person.accepted, drafted.repairs) == (False, ())


def test_when_nobody_decides_after_an_edit_the_greatest_proven_gain_is_accepted(tmp_path: Path) -> None:
    made = campaign(tmp_path, "change", approval_hours=8, approval_late="accept")
    began = datetime(2026, 11, 21, 10, tzinfo=UTC)
    files = ApprovalFiles(tmp_path, now=lambda: began)
    made.ports = replace(made.ports, approvals=files)
    edit(files, waits(made, files), "speed 110")
    waits(made, files)
    made.ports = replace(made.ports, approvals=ApprovalFiles(tmp_path, now=lambda: began + timedelta(hours=99)))
    made.drive()
    assert [(closed.round, closed.accepted) for closed in made.history().rounds] == [(2, True), (3, False)]


def test_a_campaign_that_is_killed_while_an_edit_waits_closes_both_rounds_or_none(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    edit(files, waits(made, files), "speed 140")
    made.saver = saver()  # the checkpoint is lost, as after a kill
    second = waits(made, files)
    assert [one.round for one in second.options] == [2, 3]
    made.saver = saver()
    decide(files, second, "approve", round=3)
    written = []
    ledger = made.ports.ledger

    class Watched:
        lines = ledger.lines

        def append(self, *bodies: object) -> None:
            written.append([key(body) for body in bodies])
            ledger.append(*bodies)

    made.ports = replace(made.ports, ledger=Watched())
    made.drive()
    assert ["round-2", "round-3"] in written, "one write"
    assert [closed.accepted for closed in made.history().rounds] == [False, True]


def test_what_is_deferred_stays_in_the_queue(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    request = waits(made, files)
    files.defer(request.key, Deferral(reason="after lunch", by="Ada", at="2026-11-22T09:00:00+00:00"))
    assert waits(made, files).key == request.key
    (one,) = files.waiting()
    assert one.deferred is not None
    assert one.deferred.reason == "after lunch"


@pytest.mark.parametrize(
    ("late", "hours_later", "expected"),
    [
        ("hold", 100, None),
        ("reject", 7.9, None),
        ("reject", 8.1, "rejected"),
        ("accept", 7.9, None),
        ("accept", 8.1, "faster"),
    ],
)
def test_when_nobody_decides_in_time(tmp_path: Path, late: str, hours_later: float, expected: str | None) -> None:
    made, files = campaign(tmp_path, "change", approval_hours=8, approval_late=late), ApprovalFiles(tmp_path)
    began = datetime(2026, 11, 21, 10, tzinfo=UTC)  # of the scripted clock
    made.ports = replace(made.ports, approvals=ApprovalFiles(tmp_path, now=lambda: began))
    asked = datetime.fromisoformat(waits(made, files).asked_at)
    later = ApprovalFiles(tmp_path, now=lambda: asked.astimezone(UTC) + timedelta(hours=hours_later))
    made.ports = replace(made.ports, approvals=later)
    if expected is None:
        waits(made, files)
        return
    made.drive()
    assert made.verdicts() == [expected]
    assert made.history().rounds[0].decisions[0].by == "policy"


class Overnight(StepClock):
    """Whatever comes after the first answer comes nine hours later."""

    def now(self, moment: str) -> str:
        early = "check after round-1" in moment or "asked" in moment or "opened" in moment
        return super().now(moment) if early else super().now(moment).replace("T10:", "T19:")


def test_a_night_of_waiting_is_no_time_of_the_campaign(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change", max_minutes=60), ApprovalFiles(tmp_path)
    made.ports = replace(made.ports, clock=Overnight())
    decide(files, waits(made, files), "approve")
    made.drive()
    (closed,) = made.history().rounds
    assert closed.decisions[0].waited_s == 9 * 3600
    ended = made.history().concluded
    assert ended is not None
    assert not next(check for check in ended.checks if check.id == "T7").satisfied


def test_a_killed_campaign_asks_the_same_question_and_takes_the_answer(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "hypothesis", "change"), ApprovalFiles(tmp_path)
    request = waits(made, files)
    decide(files, request, "approve")
    made.saver = saver()  # the checkpoint is lost, as after a kill
    second = waits(made, files)
    assert (second.gate, second.round) == ("change", request.round)
    made.saver = saver()
    assert waits(made, files).key == second.key
    decide(files, second, "approve")
    made.saver = saver()
    made.drive()
    assert made.verdicts() == ["faster"]


def test_a_decision_for_another_question_is_refused(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    request = waits(made, files)
    with pytest.raises(UserError, match="has no question"):
        decide(files, request.model_copy(update={"key": "round-9-change-000000000000"}), "approve")
    decide(files, request, "approve")
    with pytest.raises(UserError, match="decided already"):
        decide(files, request, "reject")
    path = files.folder / f"{request.key}.decision.json"
    shutil.copy(path, path.with_name("kept.json"))
    path.write_text(path.read_text().replace(request.key, "round-9-change-000000000000"))
    with pytest.raises(UserError, match="the open question is"):
        made.drive()
    path.write_text("{}")
    with pytest.raises(UserError, match="Field required"):
        made.drive()


def test_the_page_has_what_a_reviewer_needs(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    waits(made, files)
    (one,) = files.waiting()
    page = Path(one.page).read_text()
    for heading in ("## Hypothesis", "## Measured", "## Correctness", "## Counters", "## Audit", "## Cost"):
        assert heading in page
    assert "| Shape | Class | Gain |" in page
    assert "Predicted: " in page
    assert "campaign so far" in page


@pytest.mark.feature("F006")
def test_the_target_page_has_all_that_is_confirmed_and_an_adjusted_value_is_in_the_manifest(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "target", max_rounds=3), ApprovalFiles(tmp_path)
    request = waits(made, files)
    page = Path(files.page(request.key)).read_text()
    for name, value in {
        "target_op": "matmul_fp32",
        "target_backend": "C",
        "target_gpu": "Test CPU (x86_64)",
        "primary_metric": "GFLOPS (the contract's own columns)",
        "performance_target": "none",
        "execution_mode": "repo",
        "git_commit": "True",
        "git_branch": "optimize/",
        "max_iterations": "3",
        "max_rounds": "3",
    }.items():
        assert f"| {name} | {value}" in page
    assert "## Constraints\n\n- Editable: `kernel.c`" in page
    adjusted = {"target": [("performance_target", ">2x")], "limits": [("max_rounds", 1)]}
    decide(files, request, "approve", **adjusted)
    made.drive()
    opened = made.history().opened
    assert opened.confirmation == (
        "confirmed by Ada, 2026-11-22T09:00:00+00:00; adjusted: performance_target=>2x, max_rounds=1"
    )
    assert (opened.limits.max_rounds, opened.target.performance_target.text) == (1, ">2x")
    assert len(made.history().rounds) == 1
    assert yaml.safe_load(made.files.read("manifest.yaml"))["performance_target"] == ">2x"


@pytest.mark.feature("F006")
def test_a_real_target_is_adjusted_from_the_command_line(cli, make_repository) -> None:
    root = make_repository(text_project.files())
    fast = [
        word for pair in ("looks=2", "calibration_pairs=0", "blocks=2", "final_pairs=3") for word in ("--set", pair)
    ]
    assert cli("run", root, "--approve", "target", "--max-rounds", "9", *fast).code == 3
    (folder,) = (root / "agent" / "workspace").iterdir()
    edited = cli("approve", folder, "--edit", root)
    assert edited.code == 2
    assert "a target has no code to edit; adjust it: --yes --target NAME=VALUE --set LIMIT=VALUE" in edited.complaint
    assert "git_branch" in cli("approve", folder, "--yes", "--target", "git_branch=..").complaint
    assert "margin" in cli("approve", folder, "--yes", "--set", "margin=lots").complaint
    changes = ("--target", "git_branch=none", "--set", "max_rounds=1", "--by", "Ada")
    said = cli("approve", folder, "--yes", *changes, "--resume", "--json")
    assert said.code == 0, said.err
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text())
    assert (manifest["git_branch"], manifest["max_iterations"]) == ("none", None)
    assert "max_rounds=1" in (folder / "logs" / "optimize.md").read_text()
    assert cli("resume", folder).code == 0


STATED = Spec(metric="hbm_bandwidth", value=5.3, unit="TB/s", source="hardware/amd.md:L7")
UNKNOWN = Spec(metric="fp4_dense", value=None, unit="TFLOPS", source="gpu-wiki not found")


@pytest.mark.feature("F069")
@pytest.mark.parametrize("specs", [(STATED,), (STATED, UNKNOWN)])
def test_a_person_is_asked_whether_a_number_without_a_source_may_be_done_without(tmp_path: Path, specs) -> None:
    made, files = campaign(tmp_path, "target"), ApprovalFiles(tmp_path)
    made.request = made.request.model_copy(update={"specs": specs})
    request = waits(made, files)
    sections = {section.heading: section.text for section in request.sections}
    assert ("Numbers without a source" in sections) == (UNKNOWN in specs)
    if UNKNOWN in specs:
        asked = sections["Numbers without a source"]
        assert asked.startswith("- fp4_dense: UNKNOWN (gpu-wiki not found)\n\nIs it acceptable to go on without them?")
        assert "hbm_bandwidth" not in asked
    decide(files, request, "approve")
    made.drive()
    confirmation = made.history().opened.confirmation
    assert confirmation.endswith("; goes on without a source for: fp4_dense") == (UNKNOWN in specs)
    pitfalls = json.loads(made.files.read("memory/v0.json"))["pitfalls_and_fixes"]
    assert [entry["error_message"] for entry in pitfalls if "fp4_dense" in entry["error_message"]] == (
        ["fp4_dense: UNKNOWN (gpu-wiki not found)"] if UNKNOWN in specs else []
    )


@pytest.mark.feature("F069")
def test_who_does_not_go_on_without_a_source_begins_nothing(tmp_path: Path) -> None:
    made, files = campaign(tmp_path, "target"), ApprovalFiles(tmp_path)
    made.request = made.request.model_copy(update={"specs": (UNKNOWN,)})
    decide(files, waits(made, files), "reject", reason="I attach the data sheet first")
    with pytest.raises(TargetRefused, match="I attach the data sheet first"):
        made.drive()
    assert made.ports.ledger.lines() == ()
