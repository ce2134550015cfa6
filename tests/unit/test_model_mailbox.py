"""The mailbox: one file per question, readable, answered once, in any copy of the folder."""

import json

import pytest

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.providers.base import Ask, Message, without_secrets
from ridgeline.agent.providers.mailbox import LONGEST, Mailbox, MailboxAnswer, MailboxModel, check_answer, open_request
from ridgeline.graph.values import Cost

SCHEMA = json.dumps(
    {
        "$defs": {"Item": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
            "kind": {"enum": ["up", "down"]},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["items"],
    }
)


def ask(text="what?", **changes):
    messages = (Message(role="system", text="rules"), Message(role="user", text=text))
    return Ask(**{"purpose": "round-2 propose 1", "messages": messages, "answer_schema": SCHEMA, **changes})


def store(box, asked, text="{}"):
    return box.store(asked, MailboxAnswer(digest=asked.digest, text=text, author="me", tokens=5, dollars=0.1))


def test_a_question_waits_until_it_is_answered(tmp_path):
    model, box = MailboxModel(tmp_path), Mailbox(tmp_path)
    for _ in range(2):
        with pytest.raises(Waiting, match="001.request.md") as caught:
            model.ask(ask())
        assert caught.value.exit_code == 3
        assert str(caught.value).endswith(f"`ridgeline answer {tmp_path} FILE --resume`"), "one next step"
    assert open_request(tmp_path) == str(tmp_path / "mailbox" / "001.request.md")
    store(box, box.open_request(), "the answer")
    assert open_request(tmp_path) is None
    said = model.ask(ask())
    assert (said.text, said.model, said.cost) == ("the answer", "mailbox (me)", Cost(tokens=5, dollars=0.1))
    with pytest.raises(Waiting, match="002.request.md"):
        model.ask(ask("and now?"))


def test_the_open_request_is_always_the_newest(tmp_path):
    model, box = MailboxModel(tmp_path), Mailbox(tmp_path)
    for text in ("first", "second", "first"):
        with pytest.raises(Waiting):
            model.ask(ask(text))
    assert [asked.ask.messages[-1].text for asked in box.requests()] == ["first", "second", "first"]
    assert box.open_request().number == 3


def test_the_page_says_all_that_is_needed(tmp_path):
    page = Mailbox(tmp_path)
    page.post(ask("look at\n```c\nint x;\n```"))
    text = (tmp_path / "mailbox" / "001.request.md").read_text()
    assert "## Rules\n\nrules" in text
    assert "int x;" in text
    assert '"items": [\n  {\n   "name": "<text>"\n  }\n ]' in text
    assert '"kind": "up | down"' in text
    assert "run `ridgeline answer CAMPAIGN FILE` with this campaign's folder" in text
    assert "one of your two tries" in text
    assert "unless a partial restart is left" in text
    assert text.count('"kind": "up | down"') == 1
    assert "$defs" not in text, "the schema is for programs: it stands in the JSON file"
    assert str(tmp_path) not in text, "the folder may be copied"
    page.post(ask(answer_schema="", max_output_tokens=50))
    assert "Plain text, at most about 50 tokens" in (tmp_path / "mailbox" / "002.request.md").read_text()


def test_a_second_try_says_what_was_wrong_first_and_refers_to_the_question(tmp_path):
    box, first = Mailbox(tmp_path), ask("the long question")
    box.post(ask("another question"))
    store(box, box.post(first), '{"items": 3}')
    again = (Message(role="assistant", text='{"items": 3}'), Message(role="user", text="What was wrong: items"))
    number = box.post(ask(messages=(*first.messages, *again), purpose="round-2 propose 2")).number
    text = (tmp_path / "mailbox" / "003.request.md").read_text()
    assert number == 3
    assert text.index("What was wrong with the answer to request 002") < text.index("What was wrong: items")
    assert "the long question" not in text
    assert "`002.request.md`, unchanged; `002.answer.json`" in text
    assert "second and last try" in text
    assert "the long question" in (tmp_path / "mailbox" / "003.request.json").read_text(), "programs get the whole"


def test_checks_travel_with_the_question_and_are_no_part_of_it(tmp_path):
    plain, checked = ask(), ask(checks='{"kind": "reflect"}')
    assert plain.digest == checked.digest
    asked = Mailbox(tmp_path).post(checked)
    assert Mailbox(tmp_path).open_request().digest == plain.digest
    assert asked.checks == Mailbox(tmp_path).open_request().checks
    assert asked.checks == '{"kind": "reflect"}'
    assert "the form, the names, the citations" in (tmp_path / "mailbox" / "001.request.md").read_text()


def test_an_answer_is_judged_before_it_is_stored(tmp_path):
    asked = Mailbox(tmp_path).post(ask())
    good = '{"items": [{"name": "a"}], "kind": "up"}'
    assert json.loads(check_answer(good.encode(), asked, source="f")) == json.loads(good)
    assert check_answer(f"\ufeff```json\r\n{good}\r\n```\n".encode(), asked, source="f") == check_answer(
        good.encode(), asked, source="f"
    )
    free = asked.model_copy(update={"ask": ask(answer_schema="")})
    assert check_answer(b" any \x1b[2Jtext\x00\n", free, source="f") == "any [2Jtext"


# made up, and put together here so that nobody's scanner takes them for real ones
OPENAI = "sk-" + "proj-" + "a1b2c3d4" * 4
GITHUB = "ghp" + "_" + "Ab1" * 12
AMAZON = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.mark.parametrize(
    "secret", [OPENAI, GITHUB, AMAZON, "-----BEGIN " + "PRIVATE KEY-----", "a-value-of-this-machine"]
)
def test_a_key_enters_a_campaign_neither_by_command_nor_by_file(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("VENDOR_API_KEY", "a-value-of-this-machine")
    asked = Mailbox(tmp_path).post(ask())
    text = json.dumps({"items": [{"name": f"use {secret} for it"}]}, indent=1)
    with pytest.raises(UserError, match="line 4 has .* take it out and revoke it") as caught:
        check_answer(text.encode(), asked, source="f")
    assert secret not in str(caught.value)
    stored = MailboxAnswer(digest=asked.digest, text=text, author=f"me {secret}", tokens=5, dollars=0.1)
    Mailbox(tmp_path).store(asked, stored)
    reply = MailboxModel(tmp_path).ask(ask())
    assert secret not in reply.model_dump_json()
    assert len(json.loads(reply.text)["items"]) == 1


def test_a_key_is_seen_in_the_escapes_of_json_too(tmp_path):
    asked = Mailbox(tmp_path).post(ask())
    escaped = "".join(f"\\u{ord(letter):04X}" for letter in OPENAI)
    text = f'{{"items": [{{"name": "{escaped}"}}]}}'
    assert OPENAI in json.loads(text)["items"][0]["name"]
    with pytest.raises(UserError, match="line 1 has what looks like a key"):
        check_answer(text.encode(), asked, source="f")
    Mailbox(tmp_path).store(asked, MailboxAnswer(digest=asked.digest, text=text, author="me", tokens=5, dollars=0.1))
    assert json.loads(MailboxModel(tmp_path).ask(ask()).text) == {"items": [{"name": "[key]"}]}


@pytest.mark.parametrize("text", [r'"\\u0073k-a" \u0022 \u005c', r"a = '\u0041'"])
def test_escapes_that_hide_no_key_stay(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "text", ["sk-learn and task-based", "int sk_buff = 1;", "AKIA", "tokens per second", "a = keys[0];"]
)
def test_ordinary_words_are_no_keys(tmp_path, text):
    asked = Mailbox(tmp_path).post(ask(answer_schema=""))
    assert check_answer(text.encode(), asked, source="f") == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"x" * (LONGEST + 1), "at most"),
        (b"Sure! {}", "line 1: is not JSON"),
        (b"{}", "'items' is a required property"),
        (b'{"items": [{}]}', r"\$.items\[0\]: 'name' is a required property"),
        (b'{"items": [], "kind": "left"}', "is not one of"),
        (b'{"items": [{}, {"name": 3}], "kind": "left"}', r"is not one of.*'name' is a required.*3 is not of type"),
        (b"[" * 100_000, "is not JSON|nested too deeply"),
    ],
)
def test_a_wrong_answer_is_one_line(tmp_path, text, words):
    with pytest.raises(UserError, match=words) as caught:
        check_answer(text, Mailbox(tmp_path).post(ask()), source="answer.txt")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("answer.txt: ")


def test_damaged_files_are_told(tmp_path):
    box = Mailbox(tmp_path)
    asked = box.post(ask())
    other = box.post(ask("other"))
    path = store(box, other)
    path.rename(box.path(asked.number, "answer.json"))
    with pytest.raises(UserError, match="answers another question"):
        box.answer_to(asked)
    box.path(asked.number, "request.json").write_text("{")
    with pytest.raises(UserError, match="not JSON any more"):
        box.requests()
    box.path(asked.number, "request.json").write_text('{"schema_version": 7}')
    with pytest.raises(UserError, match="not of schema 1"):
        box.requests()
