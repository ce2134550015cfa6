"""Recorded answers given again: each at its place, each once, none that tells another campaign's numbers."""

import json
import re
from pathlib import Path

import pytest

from ridgeline.agent.campaign import settings
from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.conversation import Question, Wrong, talk
from ridgeline.agent.providers.base import Ask, Message, Reply, StopAsked
from ridgeline.agent.providers.budget import forecast, open_model
from ridgeline.agent.providers.choice import Choice, choose
from ridgeline.agent.providers.recorded import AnswersEnded, quote_directions, read_answers, read_limits
from ridgeline.agent.providers.tape import FILE, ModelTape
from ridgeline.graph.limits import Limits
from ridgeline.sandbox.store.campaign_folder import request_stop

CAMPAIGNS = Path(__file__).parents[2] / "evals" / "campaigns"
ALL = """CANDIDATE 1
tiles

# CANDIDATE 2 (two)
rows
CANDIDATE 3
waves
"""
ASKED = (
    ("round-2 propose 1", (), "three directions"),
    ("round-2 drafts 1", ("tile", "row", "wave"), "an answer that could not be used"),
    ("round-2 drafts 2", ("tile", "row", "wave"), ALL),
    ("round-3 repair-1 1", ("row",), "the second mended"),
    ("round-4 reflect 1", ("wave",), "the third was twice as fast"),
    ("round-5 propose 1", (), "two more"),
    ("round-5 draft 1", ("pair",), "edits of the first"),
    ("round-6 draft 1", ("half",), "edits of the second"),
    ("round-7 propose 1", (), '{"directions": [], "exhausted": "gains under 25.8 % are not visible here"}'),
)


def ask(purpose: str, *about: str) -> Ask:
    """A question as a campaign words it, with hypotheses and other text that looks like some."""
    names = "\n\n".join(f"CANDIDATE {number}\n[{name}] I expect ..." for number, name in enumerate(about, 1))
    head = f"## Hypotheses\nThey are fixed.\n```\n{names}\n```\n\n" if about else ""
    return Ask(purpose=purpose, messages=(Message(role="user", text=f"# {purpose}\n\n{head}## Sources\n[x] y\n"),))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A campaign's folder with those questions on its tape."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    request = {"request": {"planner": "llm:openai/x", "limits": {"preset": "evidence", "candidates": 4}}}
    (folder / "request.json").write_text(json.dumps(request))
    tape = ModelTape(folder / FILE)
    for purpose, about, text in ASKED:
        tape.record(ask(purpose, *about), Reply(text=text, model="x"))
    tape.refuse(ask("round-8 propose 1"), "a person asked to stop")
    return folder


def begin(recording: Path, campaign: Path):
    campaign.mkdir(exist_ok=True)
    return open_model(Choice(name=f"recorded:{recording}"), campaign=campaign, limits=Limits())


def test_answers_go_by_what_is_asked_about_whatever_the_rounds_are_called_now(recording: Path, tmp_path: Path) -> None:
    model = begin(recording, tmp_path / "ours")
    assert model.ask(ask("round-3 propose 1")).text == "three directions"
    assert model.ask(ask("round-3 drafts 1", "tile", "row", "wave")).text == "an answer that could not be used"
    assert model.ask(ask("round-3 drafts 2", "tile", "row", "wave")).text == ALL
    assert model.ask(ask("round-4 repair-1 1", "row")).text == "the second mended"
    assert model.ask(ask("round-7 propose 1")).text == "two more"
    assert model.ask(ask("round-8 draft 1", "half")).text == "edits of the second"
    reply = model.ask(ask("round-7 draft 1", "pair"))
    assert (reply.text, reply.model, reply.cost.tokens) == ("edits of the first", "recorded:theirs", 0)


def test_edits_are_of_their_hypothesis_where_another_one_was_dropped(recording: Path, tmp_path: Path) -> None:
    model = begin(recording, tmp_path / "ours")
    model.ask(ask("round-2 propose 1"))
    model.ask(ask("round-2 drafts 1", "row", "wave"))
    text = model.ask(ask("round-2 drafts 2", "wave", "row", "other")).text
    assert text == "# CANDIDATE 2 (two)\nrows\nCANDIDATE 1\nwaves\n"


@pytest.mark.parametrize(
    ("purpose", "about", "why"),
    [
        ("round-4 repair-1 1", "wave", "no recorded"),
        ("round-2 split 1", "row", "no recorded"),
        ("round-4 reflect 1", "wave", "lessons"),
        ("round-4 diagnose 1", "row", "lessons"),
        ("round-4 deep 1", "row", "deep round"),
    ],
)
def test_what_was_not_answered_and_lessons_of_other_numbers_are_not_given(
    recording, tmp_path, purpose, about, why
) -> None:
    model = begin(recording, tmp_path / "ours")
    model.ask(ask("round-2 propose 1"))
    with pytest.raises(AnswersEnded, match=why):
        model.ask(ask(purpose, about))


def test_the_last_answer_of_a_place_is_final_so_that_the_question_is_not_put_again(recording, tmp_path) -> None:
    model = begin(recording, tmp_path / "ours")
    model.ask(ask("round-2 propose 1"))
    drafts = [model.ask(ask(f"round-2 drafts {number}", "tile", "row", "wave")) for number in (1, 2)]
    assert [reply.final for reply in drafts] == [False, True]
    asked: list[Ask] = []

    class Final:
        name, tools = "recorded:theirs", False

        def count(self, text: str) -> int:
            return len(text)

        def ask(self, question: Ask) -> Reply:
            asked.append(question)
            return Reply(text="edits", model=self.name, final=True)

    found = talk(
        Final(), Question(purpose="round-3 draft", system="", text="?"), lambda text: Wrong(why="no such text")
    )
    assert (len(asked), found.final, found.complaints) == (1, True, ("no such text",))


def test_what_a_direction_rests_on_says_where_it_was_seen(recording: Path, tmp_path: Path) -> None:
    step = {"measured": "s1 time", "evidence": "0.4566 ms", "inference": "slow", "action": "tile"}
    given = {"id": "tile", "bottleneck": "memory: 11 %", "evidence": [step], "diagnosis": ""}
    text = json.dumps({"directions": [given]})
    (said,) = json.loads(quote_directions(text, "theirs", diagnose=True))["directions"]
    assert said["bottleneck"] == "(seen in theirs, not here) memory: 11 %"
    (again,) = json.loads(quote_directions(json.dumps({"directions": [said]}), "a rerun", diagnose=True))["directions"]
    assert again == said, "a campaign of theirs that was recorded again quotes whoever saw it first"
    assert said["evidence"] == [{**step, "evidence": "(seen in theirs, not here) 0.4566 ms"}]
    assert said["diagnosis"] == "(a direction of theirs, written before this rollback)"
    (calm,) = json.loads(quote_directions(f"Here: {text} done", "theirs", diagnose=False))["directions"]
    assert calm["diagnosis"] == ""
    assert quote_directions("no JSON", "theirs", diagnose=True) == "no JSON"


def test_a_review_ends_nothing_and_tells_nothing(recording: Path, tmp_path: Path) -> None:
    model = begin(recording, tmp_path / "ours")
    model.ask(ask("round-2 propose 1"))
    assert (model.ask(ask("round-5 review 1")).text, model.ask(ask("round-5 review 1")).final) == ("", True)
    assert model.ask(ask("round-6 propose 1")).text == "two more"


def test_a_campaign_that_goes_on_continues_where_it_was_and_needs_the_folder_no_more(recording, tmp_path) -> None:
    begin(recording, tmp_path / "ours").ask(ask("round-2 propose 1"))
    recording.rename(tmp_path / "gone")
    model = begin(recording, tmp_path / "ours")
    assert model.ask(ask("round-2 propose 1")).text == "three directions", "the same question has the same answer"
    assert model.ask(ask("round-4 propose 1")).text == "two more"
    with pytest.raises(AnswersEnded) as ended:
        model.ask(ask("round-9 propose 1"))
    assert (
        str(ended.value) == "the recorded answers are used up: recorded:theirs has those to 2 questions for directions"
    )


def test_a_recording_without_answers_is_used_up_at_the_first_question(tmp_path: Path) -> None:
    model = begin(CAMPAIGNS / "matvec_h200", tmp_path / "ours")
    with pytest.raises(AnswersEnded, match="used up: recorded:matvec_h200 has none to a question for directions"):
        model.ask(ask("round-2 propose 1"))


def test_a_stop_is_heard_before_the_next_answer(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    request_stop(tmp_path / "ours")
    with pytest.raises(StopAsked):
        begin(recording, tmp_path / "ours").ask(ask("round-2 propose 1"))


def test_files_of_answers_are_read_in_their_order(tmp_path: Path) -> None:
    directions = json.dumps({"directions": [{"id": "a"}, {"id": "b"}]})
    files = {
        "01.propose.json": directions,
        "02.drafts.txt": "both",
        "03.propose.json": directions,
        "04.draft.txt": "one",
    }
    for name, text in {**files, "05.draft.txt": "other", "README.md": ""}.items():
        (tmp_path / name).write_text(text)
    found = [
        (*(answer.place.turn, answer.place.kind, answer.place.about), answer.text)
        for answer in read_answers(tmp_path).answers
    ]
    assert found == [
        (1, "propose", (), directions),
        (1, "drafts", ("a", "b"), "both"),
        (2, "propose", (), directions),
        (2, "draft", ("a",), "one"),
        (2, "draft", ("b",), "other"),
    ]
    assert read_limits(tmp_path) == {"max_restarts": 0}
    (tmp_path / "03.propose.json").write_text('{"directions": [{}]}')
    with pytest.raises(UserError, match=r"03.propose.json: directions: is not a list of objects with an `id` each"):
        read_answers(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("02.drft.txt", "x", "02.drft.txt: is not named as an answer; write 01.propose.json, then 02.draft.txt"),
        ("00.draft.txt", "x", "00.draft.txt: stands before any NN.propose.json; number it behind the directions"),
        ("02.propose.json", '{"directions": [}', "02.propose.json: line 1: is not JSON"),
        ("02.draft.txt", " ", "02.draft.txt: is empty; write the answer into it"),
    ],
)
def test_a_mistake_in_files_of_answers_names_the_file_and_the_mend(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    (tmp_path / "01.propose.json").write_text('{"directions": [{"id": "a"}]}')
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=re.escape(says)) as caught:
        read_answers(tmp_path)
    assert "\n" not in str(caught.value)


def test_every_recording_that_asked_a_model_can_be_made_again() -> None:
    for folder in sorted(path.parent for path in CAMPAIGNS.glob("*/model_tape.jsonl")):
        kinds = {answer.place.kind for answer in read_answers(folder).answers}
        assert "propose" in kinds, folder
        assert not kinds & {"reflect", "diagnose"}, folder
        (line,) = forecast(Choice(name=f"recorded:{folder}"), Limits())
        assert folder.name in line
        assert str(folder) not in line


def test_a_campaign_that_asked_nothing_is_made_again_too() -> None:
    assert read_answers(CAMPAIGNS / "matvec_h200").answers == ()
    assert "no questions for directions" in forecast(Choice(name=f"recorded:{CAMPAIGNS / 'matvec_h200'}"), Limits())[0]


def test_limits_are_those_of_the_recording_unless_somebody_says_other_ones(recording: Path) -> None:
    layer = settings.from_model(Choice(name=f"recorded:{recording}"))
    limits = settings.resolve([layer, settings.from_assignments(["candidates=2"])], model=True).limits
    assert (limits.preset, limits.candidates, limits.max_restarts) == ("evidence", 2, 0)
    assert settings.resolve([layer], model=True).limits.candidates == 4
    assert settings.from_model(Choice(name="mailbox")) == settings.from_model(None) == settings.Layer()


def resolve(recording: Path, *, flags=None, assignments=(), environment=None) -> settings.Settings:
    layers = [
        settings.from_model(Choice(name=f"recorded:{recording}")),
        settings.from_environment(environment or {}),
        settings.from_flags(flags or {}),
        settings.from_assignments(assignments),
    ]
    return settings.resolve(layers, model=True)


def test_what_nobody_is_asked_or_paid_for_is_said_to_be_unused(recording: Path) -> None:
    choice = Choice(name=f"recorded:{recording}")
    given = {"max_dollars": 5.0, "max_rounds": 3, "candidates": 3, "preset": "evidence"}
    found = resolve(recording, flags=given, assignments=["tool_calls=2"], environment={"RIDGELINE_MAX_TOKENS": "9"})
    (line,) = settings.describe_unused(found, choice)
    assert line == (
        "not used: RIDGELINE_MAX_TOKENS, --budget-usd, --set tool_calls: with recorded answers nobody is asked, and nothing is paid"
    )
    assert settings.describe_unused(resolve(recording), choice) == ()
    assert settings.describe_unused(found, Choice(name="mailbox")) == ()


def test_more_candidates_than_were_answered_at_once_are_refused(recording: Path) -> None:
    choice = Choice(name=f"recorded:{recording}")
    assert settings.describe_unused(resolve(recording, flags={"candidates": 4}), choice) == ()
    with pytest.raises(
        UserError, match="--candidates: is 5, and recorded:theirs has edits of 4 at once; give at most 4"
    ):
        settings.describe_unused(resolve(recording, flags={"candidates": 5}), choice)
    (recording / "request.json").write_text('{"request": {"planner": "mailbox", "limits": {}}}')
    with pytest.raises(UserError, match="--set candidates: is 4, and recorded:theirs has edits of 3 at once"):
        settings.describe_unused(resolve(recording, assignments=["candidates=4"]), choice)


def test_a_preset_that_takes_one_candidate_names_itself_beside_a_recording_of_several(recording: Path) -> None:
    with pytest.raises(UserError, match="leave out --preset, or give --set candidates=1 too") as caught:
        resolve(recording, flags={"preset": "campaign"})
    assert "\n" not in str(caught.value)
    limits = resolve(recording, flags={"preset": "campaign"}, assignments=["candidates=1"]).limits
    assert (limits.preset, limits.candidates) == ("campaign", 1)


def test_the_place_of_the_folder_is_in_no_ledger(recording: Path) -> None:
    choice = choose(
        f"recorded:{recording}", base_url=None, fallbacks=(), environment={"RIDGELINE_BASE_URL": "http://h"}
    )
    assert choice is not None
    assert (choice.planner, choice.base_url, choice.recording) == ("recorded:theirs", "", recording)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "recorded:x", "base_url": "http://h"}, "asks nobody"),
        ({"name": "recorded:x", "fallbacks": ("openai/x",)}, "asks nobody"),
        ({"name": "openai/x", "fallbacks": ("recorded:x",)}, "stand alone"),
        ({"name": "recorded:"}, "names no folder"),
    ],
)
def test_what_cannot_be_chosen_is_one_line(arguments, words) -> None:
    with pytest.raises(UserError, match=words) as caught:
        choose(
            arguments.get("name"),
            base_url=arguments.get("base_url"),
            fallbacks=arguments.get("fallbacks", ()),
            environment={},
        )
    assert "\n" not in str(caught.value)


def test_a_folder_without_answers_says_what_is_missing(tmp_path: Path) -> None:
    for folder, words in (
        (tmp_path / "none", "no such folder"),
        (tmp_path, "is no recording, and has no file such as"),
    ):
        with pytest.raises(UserError, match=words):
            read_answers(folder)
    (tmp_path / "request.json").write_text('{"request": {"planner": "catalog", "limits": {}}}')
    with pytest.raises(UserError, match="request.planner: is catalog, which asked no model; use --planner catalog"):
        read_answers(tmp_path)
    (tmp_path / "request.json").write_text("{}")
    with pytest.raises(UserError, match="request.limits: is missing"):
        read_answers(tmp_path)
