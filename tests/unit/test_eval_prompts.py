"""Other prompts at recorded decision points: which question they ask, who answered, and how answers are kept."""

import json
from pathlib import Path

import pytest

from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.model import PROMPTS
from ridgeline.agent.providers.tape import ModelTape
from ridgeline.evals.decisions.comparison import Order, Report, page, plain, run
from ridgeline.evals.decisions.contest import (
    SHIPPED,
    Answers,
    Contestant,
    RecordedAnswer,
    compare_scores,
    gather_points,
    page_of,
    prompt,
    repeat_points,
    score_contestant,
    shipped_folders,
    situations,
    taken_up,
    write_request,
)
from ridgeline.evals.decisions.points import decisions
from ridgeline.knowledge.library import Library
from ridgeline.prompts.render import TEMPLATES

CAMPAIGNS = Path(__file__).parents[2] / "evals" / "campaigns"
ONE = CAMPAIGNS / "reverse_cumsum_short_h100"
LONG = CAMPAIGNS / "attention_c_mailbox"


@pytest.fixture(scope="module")
def heard():
    return situations(LONG, [prompt(SHIPPED), prompt("careless"), prompt("v3")])


def question(situation, name) -> str:
    return situation.asks[name].messages[1].text


def test_every_round_asks_for_a_direction_and_a_draft(heard):
    assert [(one.point.round, one.point.kind) for one in heard if one.point.kind != "repair"] == [
        (number, kind) for number in range(2, 7) for kind in ("propose", "draft")
    ]
    assert heard[0].point.name == "attention_c_mailbox-r002-propose"


def test_a_wording_asks_in_its_own_words_of_the_same_state(heard):
    one = next(one for one in heard if one.point.round == 4 and one.point.kind == "propose")
    assert "## Directions that failed" in question(one, "v3")
    assert "## Directions that failed" not in question(one, "careless")
    assert "citations" not in question(one, "careless")
    assert "could not be measured" in question(one, SHIPPED)
    assert all("_mm256_fmadd_ps" in question(one, name) for name in one.asks), "the sources of then"
    assert one.checks.tried, "an answer is checked by what was known, whatever the wording showed"


def test_the_same_point_is_the_same_question_every_time(heard):
    again = situations(LONG, [prompt(SHIPPED)])
    assert [one.asks[SHIPPED].digest for one in again] == [one.asks[SHIPPED].digest for one in heard]


def test_read_only_files_of_a_shipped_task_are_shown(heard):
    assert "reference.py (read-only)" in question(heard[0], SHIPPED)
    assert "task.yaml (read-only)" in question(heard[0], SHIPPED)


def test_old_answers_stay_with_their_questions():
    tape = ModelTape(ONE / "model_tape.jsonl", repaired=False)
    asked = situations(ONE, [prompt(SHIPPED)])
    assert all(tape.find_answer(one.asks[SHIPPED]) is None for one in asked), "an older version asked it in other words"


@pytest.mark.parametrize(
    ("word", "first"), [(SHIPPED, PROMPTS["propose"][0]), ("v2", "propose.v2.md"), ("propose.v3", "propose.v3.md")]
)
def test_versions_by_name(word, first):
    assert prompt(word).wording.names["propose"][0] == first
    assert all(name.split("@")[1] for name in prompt(word).made_of)


def test_one_question_of_another_version_leaves_the_others():
    mixed = prompt("propose.v2").wording.names
    assert mixed["propose"] == ("propose.v2.md", "terms.v1.md", "context.v2.md")
    assert mixed["draft"] == PROMPTS["draft"]


def test_a_folder_stands_before_what_ships(tmp_path):
    own = tmp_path / "mine"
    own.mkdir()
    (own / "propose.v3.md.j2").write_text((TEMPLATES / "propose.v3.md.j2").read_text() + "\nNEW\n")
    (own / "context.v3.md.j2").write_text("ONLY THIS\n")
    mine = prompt(str(own))
    asked = situations(ONE, [mine])[0].asks["mine"].messages[1].text
    assert "NEW" in asked
    assert "ONLY THIS" in asked
    assert mine.made_of != prompt("v3").made_of


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("v0", "no such version"),
        ("plan.v1", "no question 'plan'"),
        ("nowhere", "no folder and no version"),
        (".", "holds no template that is used"),
    ],
)
def test_words_that_name_no_prompt_are_refused(word, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        prompt(word)


def test_a_version_that_wants_what_questions_no_longer_have_is_refused():
    with pytest.raises(UserError, match="no such part any more"):
        situations(ONE, [prompt("v1")])


def test_shipped_folders_are_wordings():
    assert {"careless", "reworded"} <= set(shipped_folders())
    assert all(prompt(name).name == name for name in shipped_folders())


def given(situation, name, text, model="somebody") -> RecordedAnswer:
    ask = situation.asks[name]
    return RecordedAnswer(point=situation.point, prompt=name, model=model, question=ask.digest, text=text, tokens=9)


def test_answers_are_kept_and_the_last_counts(tmp_path, heard):
    kept = Answers(tmp_path)
    assert kept.add([given(heard[0], SHIPPED, "one"), given(heard[2], SHIPPED, "two")]) == 2
    assert kept.add([given(heard[0], SHIPPED, "one")]) == 0
    kept.add([given(heard[0], SHIPPED, "three")])
    again = Answers(tmp_path)
    assert again.find(SHIPPED, "somebody", heard[0].point).text == "three"
    assert again.find(SHIPPED, "somebody else", heard[0].point) is None
    assert (again.models, again.prompts) == (("somebody",), (SHIPPED,))


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "answers.jsonl").write_text('{"point": 3}\n')
    with pytest.raises(UserError, match=r"answers.jsonl: line 1: point"):
        Answers(tmp_path)


def test_pages_are_answered_by_files_beside_them(tmp_path, heard):
    kept = Answers(tmp_path)
    path = write_request(kept, SHIPPED, heard[0])
    assert path == page_of(kept, SHIPPED, heard[0])
    assert question(heard[0], SHIPPED) in path.read_text()
    assert taken_up(kept, SHIPPED, heard, model="me") == ()
    answer = path.with_name("attention_c_mailbox-r002-propose.answer.md")
    answer.write_text(" \n")
    assert taken_up(kept, SHIPPED, heard, model="me") == (), "an empty file is no answer yet"
    answer.write_text('{"directions": []}\n')
    (one,) = taken_up(kept, SHIPPED, heard, model="me")
    assert (one.model, one.point, one.text) == ("me", heard[0].point, '{"directions": []}')


@pytest.fixture(scope="module")
def asked():
    return gather_points([LONG], [prompt("v3"), prompt("careless")], ("propose",))


def recorded_answers():
    return {one.round: one.answer for one in decisions(LONG) if one.kind == "propose" and one.attempt == 1}


def without_citations(text: str) -> str:
    told = json.loads(text)
    return json.dumps(
        {"directions": [{k: v for k, v in one.items() if k != "citations"} for one in told["directions"]]}
    )


def answered(tmp_path, asked) -> Answers:
    """Good answers to the one wording, the same without citations to the other."""
    kept, texts = Answers(tmp_path), recorded_answers()
    for one in asked:
        text = texts[one.point.round]
        kept.add([given(one.situation, "v3", text), given(one.situation, "careless", without_citations(text))])
    return kept


def test_contestants_are_scored_by_the_checks_of_the_loop(tmp_path, asked):
    kept, line = answered(tmp_path, asked), Library(()).line
    good = score_contestant(asked, Contestant(prompt="v3", model="somebody"), kept, line=line)
    bad = score_contestant(asked, Contestant(prompt="careless", model="somebody"), kept, line=line)
    assert len(good.scores) == len(asked) == 5
    assert good.of("propose").usable > 0.5
    assert (bad.of("propose").usable, bad.of("propose").cites) == (0, 0)
    assert (good.stale, good.unanswered) == (0, ())
    (found,) = compare_scores(good, bad)
    assert {one.metric: one.verdict for one in found.differences}["cites"] in ("worse", "no difference shown")
    assert found.differences[0].difference < 0


def test_answers_to_other_questions_are_counted_as_such(tmp_path, asked):
    kept = Answers(tmp_path)
    kept.add([given(asked[0].situation, "v3", "x").model_copy(update={"question": "0" * 64})])
    found = score_contestant(asked, Contestant(prompt="v3", model="somebody"), kept, line=lambda path, number: None)
    assert (found.stale, len(found.unanswered)) == (1, len(asked) - 1)


def order(tmp_path, **fields) -> Order:
    told = {"recordings": (LONG,), "prompts": ("v3", "careless"), "models": (), "answers": tmp_path, "answerer": ""}
    return Order(**{**told, "kinds": ("propose",), "tried": False, "repeat": 1, "logs": None, **fields})


def test_a_whole_comparison(tmp_path, asked):
    answered(tmp_path, asked)
    report = run(order(tmp_path))
    assert [len(one.scores) for one in report.scored] == [5, 5]
    assert report.compared[0].points == 5
    told = plain(report)
    assert told["contestants"][1]["kinds"]["propose"]["cites"] == 0
    assert json.loads(json.dumps(told)) == told


def test_points_can_be_repeated_to_measure_the_scoring(tmp_path, asked):
    assert len({one.point for one in repeat_points(asked, 3)}) == 15


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kinds": ("dream",)}, "--kind"),
        ({"repeat": 0}, "--repeat"),
        ({"recordings": (CAMPAIGNS,)}, "does not exist"),
        ({}, "holds no answers"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, fields, said):
    with pytest.raises(UserError, match=said):
        run(order(tmp_path, **fields))


def test_a_page_shows_names_as_text(tmp_path, asked):
    kept, texts = Answers(tmp_path), recorded_answers()
    evil = "<script>alert(1)</script>"
    for one in asked:
        text = texts[one.point.round]
        kept.add([given(one.situation, name, text, model=evil) for name in ("v3", "careless")])
    html = page(run(order(tmp_path)))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "not shown to differ" in html
    assert "http" not in html.replace("http-equiv", ""), "loads nothing"


def test_a_report_without_a_comparison_says_so(tmp_path, asked):
    kept = Answers(tmp_path)
    kept.add([given(asked[0].situation, "v3", recorded_answers()[2])])
    report = run(order(tmp_path, prompts=("v3",)))
    assert isinstance(report, Report)
    assert report.compared == ()
    assert "Nothing to compare" in page(report)
