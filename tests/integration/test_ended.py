"""`ridgeline stop` and "nothing is left" end a campaign: without a new question, and from any that is open."""

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.tape import PROTOCOLS, Tape, tape_port
from ridgeline.agent.errors import Waiting
from ridgeline.agent.planner.model import FrugalPlanner
from ridgeline.agent.providers.base import Ask, Message, StopAsked
from ridgeline.agent.providers.budget import open_model
from ridgeline.agent.providers.choice import Choice
from ridgeline.graph.approval import Decision
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.values import Cost
from ridgeline.sandbox.store.campaign_folder import StopFile, request_stop
from tests.builders import make_limits
from tests.campaigns import Campaign, make_campaign, saver
from tests.world import ScriptedPlanner

FASTER = "speed 120"


def campaign(tmp_path: Path, *gates: str, planner: object | None = None, **limits: object) -> Campaign:
    found = make_limits(target_peak_fraction=None, approve=",".join(gates), **limits)
    made = make_campaign(tmp_path, FASTER, "speed 130", "speed 140", limits=found, planner=planner)
    made.bare = made.ports
    on_tape(made, tmp_path)
    return made


def on_tape(made: Campaign, tmp_path: Path) -> None:
    """A process of its own: it has read what those before it wrote."""
    tape = Tape(tmp_path / "tape.jsonl")
    bare = replace(made.bare, signals=StopFile(tmp_path))
    made.ports = replace(bare, **{name: tape_port(name, getattr(bare, name), tape) for name in PROTOCOLS})


def waits(made: Campaign) -> None:
    with pytest.raises(Waiting):
        made.drive()


def reason(made: Campaign) -> str:
    ended = made.history().concluded
    assert ended is not None
    return ended.stop_reason


def decide(files: ApprovalFiles, choice: str, **more: object) -> None:
    (one,) = files.waiting()
    about = {"key": one.request.key, "choice": choice, "by": "Ada", "at": "2026-11-22T09:00:00+00:00", **more}
    files.decide(Decision.model_validate(about))


@pytest.mark.parametrize("gate", ["hypothesis", "change"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_stop_ends_a_waiting_campaign_at_the_next_resume(tmp_path, gate, killed):
    made, files = campaign(tmp_path, gate), ApprovalFiles(tmp_path)
    waits(made)
    request_stop(tmp_path)
    if killed:
        made.saver = saver()
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T4 a person asked to stop"
    rejected = [
        (closed.judged.verdict.reason, [one.by for one in closed.decisions]) for closed in made.history().rounds
    ]
    assert rejected == ([] if killed else [("rejected", ["policy"])]), "without a checkpoint the ledger alone goes on"
    assert len([*files.folder.glob("*.request.json")]) == 1, "nobody was asked anything new"


def test_what_was_decided_before_the_resume_counts_and_then_it_ends(tmp_path):
    made, files = campaign(tmp_path, "change"), ApprovalFiles(tmp_path)
    waits(made)
    request_stop(tmp_path)
    decide(files, "approve")
    made.drive()
    assert made.verdicts() == ["faster"]
    assert reason(made) == "T4 a person asked to stop"


def test_a_stop_in_a_running_campaign_still_asks_once_about_a_measured_change(tmp_path):
    made = campaign(tmp_path, "change")
    request_stop(tmp_path)
    made.ports = replace(made.ports, signals=type("Later", (), {"stop_requested": lambda *about, **more: False})())
    waits(made)
    assert len(ApprovalFiles(tmp_path).waiting()) == 1


class Asks(ScriptedPlanner):
    """Waits for an answer to one kind of question, as a mailbox does, and is refused where a person asked to stop."""

    def __init__(self, kind: str, folder: Path, *scripts: str, after: int = 2) -> None:
        super().__init__(*scripts)
        self._kind, self._folder, self._after = kind, folder, after
        self.asked = 0

    def _ask(self, kind: str, round: int) -> None:
        if kind != self._kind or round < self._after:
            return
        if StopFile(self._folder).stop_requested(0):
            raise StopAsked(f"round-{round} {kind}")
        self.asked += 1
        raise Waiting("mailbox")

    def propose(self, briefing: Briefing) -> Proposal:
        self._ask("propose", briefing.round)
        return super().propose(briefing)

    def draft(self, briefing, proposal):
        self._ask("draft", briefing.round)
        return super().draft(briefing, proposal)

    def review(self, briefing: Briefing, trigger: str) -> Review:
        self._ask("review", briefing.round)
        return super().review(briefing, trigger)

    def reflect(self, briefing, judged):
        self._ask("reflect", briefing.round)
        return super().reflect(briefing, judged)


@pytest.mark.parametrize("kind", ["propose", "draft", "reflect", "review"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_stop_ends_a_campaign_that_waits_for_a_model_whatever_was_asked(tmp_path, kind, killed):
    asks = Asks(kind, tmp_path, "speed 90", "speed 80", "speed 70", "speed 60")
    planner = FrugalPlanner(asks, cost_so_far=Cost)
    made = campaign(tmp_path, planner=planner, stagnation_rollbacks=2)
    waits(made)
    request_stop(tmp_path)
    if killed:
        made.saver = saver()
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T4 a person asked to stop"
    assert asks.asked == 1


def test_a_stop_after_a_partial_restart_ends_it_too(tmp_path):
    class Restarting(Asks):
        def propose(self, briefing: Briefing) -> Proposal:
            if briefing.round == 3 and not self.restarted:
                self.restarted = True
                return Proposal(hypothesis=None, exhausted="no idea")
            return super().propose(briefing)

    planner = Restarting("propose", tmp_path, "speed 90", "speed 80", after=3)
    planner.restarted = False
    made = campaign(tmp_path, planner=FrugalPlanner(planner, cost_so_far=Cost), max_restarts=1)
    waits(made)
    assert made.history().restarts
    request_stop(tmp_path)
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T4 a person asked to stop"
    assert planner.asked == 1


def test_a_model_that_was_not_answered_is_not_asked_anew_and_a_given_answer_is_heard(tmp_path):
    question = Ask(purpose="round-2 propose 1", messages=(Message(role="user", text="what next?"),))
    model = open_model(Choice(name="mailbox"), campaign=tmp_path, limits=make_limits())
    with pytest.raises(Waiting):
        model.ask(question)
    request_stop(tmp_path)
    stopped = open_model(Choice(name="mailbox"), campaign=tmp_path, limits=make_limits())
    other = Ask(purpose="round-2 draft 1", messages=(Message(role="user", text="the edits?"),))
    with pytest.raises(StopAsked, match="a person asked to stop"):
        stopped.ask(other)
    assert len([*(tmp_path / "mailbox").glob("*.request.json")]) == 1
    from ridgeline.agent.providers.mailbox import Mailbox, MailboxAnswer

    box = Mailbox(tmp_path)
    (asked,) = box.requests()
    box.store(asked, MailboxAnswer(digest=asked.digest, text="tile it", author="Ada", tokens=3, dollars=None))
    assert stopped.ask(question).text == "tile it"


@pytest.mark.parametrize("choice", ["approve", "reject"])
@pytest.mark.parametrize("gate", ["hypothesis", "change"])
def test_a_person_ends_it_at_any_question_with_the_answer_to_it(tmp_path, choice, gate):
    made, files = campaign(tmp_path, gate, max_restarts=1), ApprovalFiles(tmp_path)
    waits(made)
    decide(files, choice, reason="fine", exhausted="the roof is near")
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T4 Ada says that nothing is left: the roof is near"
    (closed,) = made.history().rounds
    assert closed.accepted == (choice == "approve")


def test_a_model_ends_it_in_a_review(tmp_path):
    class Reviewer(ScriptedPlanner):
        def review(self, briefing: Briefing, trigger: str) -> Review:
            return Review(directions=(), exhausted="every category was tried")

    planner = Reviewer("speed 90", "speed 80", "speed 70", "speed 60")
    made = campaign(tmp_path, planner=planner, stagnation_rollbacks=2, max_restarts=0)
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T8 search exhausted: every category was tried"
    assert len(made.history().rounds) == 2
    assert made.history().reviews[-1].exhausted == "every category was tried"


class Ender(ScriptedPlanner):
    """A planner that says at one kind of question that nothing is left."""

    def __init__(self, kind: str, *moves: str):
        super().__init__(*moves)
        self.kind = kind

    def draft(self, briefing, proposal):
        if self.kind == "draft":
            return Draft(edits=(), refusal="nothing is left: bytes are at the roof", exhausted="bytes are at the roof")
        return super().draft(briefing, proposal)

    def repair(self, briefing, broken, attempt):
        return Draft(edits=(), refusal="nothing is left: bytes are at the roof", exhausted="bytes are at the roof")

    def reflect(self, briefing, judged):
        reflection = super().reflect(briefing, judged)
        return reflection.model_copy(update={"exhausted": "bytes are at the roof" if self.kind == "reflect" else ""})


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("kind", "first"), [("draft", "speed 90"), ("repair", "wrong"), ("reflect", "speed 90")])
def test_a_model_ends_it_at_any_question(tmp_path, kind, first, killed):
    made = campaign(tmp_path, planner=Ender(kind, first, "speed 80", "speed 70"), max_restarts=0)
    on_tape(made, tmp_path)
    made.drive()
    assert reason(made) == "T8 search exhausted: bytes are at the roof"
    (closed,) = made.history().rounds
    assert closed.exhausted == "bytes are at the roof"
    if killed:  # what ended it is on record: a resume from the ledger alone asks nothing
        made.saver = saver()
        made.drive()
        assert len(made.history().rounds) == 1


def test_a_killed_replay_asks_after_a_review_again_and_hears_what_its_recording_heard_before_it(tmp_path):
    """Found by `make soak`: the campaign that was recorded asked once after that round, and was never killed."""
    signals = tape_port("signals", StopFile(tmp_path), Tape(tmp_path / "tape.jsonl"))
    before = signals.steering(3, later_events=0), signals.stop_requested(3)
    replayed = tape_port("signals", None, Tape(tmp_path / "tape.jsonl", mode="replay"))
    assert (replayed.steering(3, later_events=1), replayed.stop_requested(3, later_events=1)) == before
