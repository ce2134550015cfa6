"""The model client against a real local server: real litellm, real sockets; good, bad and hostile answers."""

import json
import logging
import time

import pytest
from pytest_socket import enable_socket, socket_allow_hosts

from ridgeline.agent.providers.base import Ask, Call, KeyMissing, Message, Tool, Unanswerable, Unreachable
from ridgeline.agent.providers.choice import Choice, Price
from ridgeline.agent.providers.client import LitellmModel, Patience
from tests.model_server import Reply, failed, said, serve

pytestmark = pytest.mark.slow  # importing litellm alone takes seconds
KEY = "very-secret-key-0123456789"
SCHEMA = '{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}'
READ = Tool(name="read", description="Reads.", parameters='{"type": "object", "properties": {}}')
TALK = (Message(role="system", text="rules"), Message(role="user", text="question"))


@pytest.fixture
def sockets(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    enable_socket()
    socket_allow_hosts(["127.0.0.1"])


@pytest.fixture
def play(sockets):
    """`play(reply, ...)` -> a server that plays them."""
    stops = []

    def start(*replies):
        script, stop = serve(*replies)
        stops.append(stop)
        return script

    yield start
    for stop in stops:
        stop()


class Pauses:
    """Sleeps that are only noted."""

    def __init__(self):
        self.slept = []

    def __call__(self, seconds):
        self.slept.append(seconds)


def model(server, *, pauses=None, fallbacks=(), timeout_s=20.0, total_s=900.0, price=None):
    choice = Choice(
        name="openai/some-model",
        base_url=server.url,
        fallbacks=fallbacks,
        timeout_s=timeout_s,
        total_s=total_s,
        price=price,
    )
    patience = Patience(attempts=4, total_s=total_s, sleep=pauses or Pauses(), draw=lambda: 0.5)
    return LitellmModel(choice, patience=patience)


def ask(**changes):
    return Ask(**{"purpose": "round-2 propose 1", "messages": TALK, "max_output_tokens": 77, **changes})


def test_what_is_sent_and_what_is_made_of_the_answer(play):
    server = play(said("an answer"))
    conversation = (
        *TALK,
        Message(role="assistant", text="", calls=(Call(id="c1", name="read", arguments='{"path": "a.c"}'),)),
        Message(role="tool", text="the file", answers="c1"),
    )
    found = model(server).ask(ask(messages=conversation, tools=(READ,)))
    assert found.text == "an answer"
    assert found.model == "openai/some-model (served-model)"
    assert (found.cost.tokens, found.cost.dollars) == (120, None), "the price of somebody's own server is not known"
    sent = server.heard[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body["model"] == "some-model"
    assert sent.body["max_tokens"] == 77
    assert sent.body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads.", "parameters": json.loads(READ.parameters)},
        }
    ]
    assert "response_format" not in sent.body, "a grammar for the final answer would forbid the tool call"
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent.body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"path": "a.c"}'
    assert sent.body["messages"][3]["tool_call_id"] == "c1"
    assert sent.body["messages"][0]["content"] == "rules", "no cache marks where the provider has none"


def test_the_form_of_the_answer_is_asked_for_and_left_out_where_it_is_not_known(play):
    server = play(said('{"x": 1}'))
    assert model(server).ask(ask(answer_schema=SCHEMA)).text == '{"x": 1}'
    form = server.heard[0].body["response_format"]
    assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", json.loads(SCHEMA))

    server = play(failed(400, "response_format is not supported by this model"), said("{}"))
    asked = model(server)
    assert asked.ask(ask(answer_schema=SCHEMA)).text == "{}"
    assert asked.ask(ask(answer_schema=SCHEMA)).text == "{}"
    assert ["response_format" in heard.body for heard in server.heard] == [True, False, False], "learned once"

    server = play(failed(400, '"auto" tool choice requires a flag'), said("no tools here"))
    assert model(server).ask(ask(tools=(READ,))).text == "no tools here"
    assert ["tools" in heard.body for heard in server.heard] == [True, False]


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (failed(401, "Incorrect API key"), KeyMissing, "OPENAI_API_KEY"),
        (failed(403, "not for you"), KeyMissing, "OPENAI_API_KEY"),
        (failed(404, "no such model"), KeyMissing, "does not know the model"),
        (failed(400, "maximum context length is 10 tokens"), Unanswerable, "context length"),
        (failed(429, "You exceeded: insufficient_quota"), Unanswerable, "no credit"),
    ],
)
def test_refusals_are_typed_and_asked_once(play, reply, error, words):
    server = play(reply)
    with pytest.raises(error, match=words) as caught:
        model(server).ask(ask())
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    assert "litellm" not in str(caught.value)
    assert len(server.heard) == 1


def test_litellm_has_no_words_for_a_422(play):
    with pytest.raises(Unanswerable, match="refused the question .422."):
        model(play(failed(422, "cannot process"))).ask(ask())


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (failed(500, "oops"), "500: oops"),
        (failed(503, "overloaded"), "overloaded"),
        (Reply(status=502, body=b"<html>bad gateway</html>"), "bad gateway"),
        (Reply(body=b'{"choices": ['), "no answer in 4 attempts"),
        (Reply(body=b"<html>"), "no answer in 4 attempts"),
        (Reply(body=b"{}"), "no answer in 4 attempts"),
        (Reply(body=b"[1, 2]"), "no answer in 4 attempts"),
        (Reply(body=b""), "no answer in 4 attempts"),
        (said(choices=[]), "without any choice"),
        (said(choices=[{"index": 0, "message": None, "finish_reason": "stop"}]), "no answer in 4 attempts"),
        (said(choices=[{"index": 0, "message": {"role": "assistant", "content": 5}}]), "no answer in 4 attempts"),
        (said(usage={"prompt_tokens": "many", "completion_tokens": None}), "no answer in 4 attempts"),
    ],
)
def test_what_may_pass_is_asked_again_with_growing_pauses(play, reply, words):
    server, pauses = play(reply), Pauses()
    with pytest.raises(Unreachable, match=words) as caught:
        model(server, pauses=pauses).ask(ask())
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    assert pauses.slept == [1.0, 2.0, 4.0]
    assert len(server.heard) == 4


def test_a_failure_that_passes_is_an_answer(play, caplog):
    server, pauses = play(failed(500, "oops"), failed(429, "slow down", Retry_After="7"), said("at last")), Pauses()
    with caplog.at_level(logging.WARNING):
        assert model(server, pauses=pauses).ask(ask()).text == "at last"
    assert pauses.slept == [1.0, 7.5], "the server's own word counts, and a little more"
    assert "asking again in" in caplog.text


def test_waiting_longer_than_patience_is_refused_at_once(play):
    server, pauses = play(failed(429, "slow down", Retry_After="3600")), Pauses()
    with pytest.raises(Unreachable, match="within 60 s.*asks to wait 3600 s"):
        model(server, pauses=pauses, total_s=60.0).ask(ask())
    assert pauses.slept == []


def test_nobody_there(sockets):
    class Nobody:
        url = "http://127.0.0.1:9/v1"

    with pytest.raises(Unreachable, match="Connection error"):
        model(Nobody()).ask(ask())


@pytest.mark.parametrize("reply", [Reply(delay_s=30), Reply(body=said("x" * 200).body, drip_s=0.2)])
def test_a_slow_or_dripping_server_does_not_hold_us(play, reply):
    server = play(reply)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        model(server, timeout_s=0.4, total_s=1.5).ask(ask())
    assert time.monotonic() - began < 8


def test_hostile_answers_become_plain_values(play):
    server = play(
        said("a\ud800b\x00\x1b[31mc\u202ed\r\ne"),
        said("x" * 3_000_000),
        said(None, calls=[{"id": "1", "type": "function", "function": {"name": "rm_rf", "arguments": "{not json"}}]),
        said(
            None,
            calls=[
                {"id": str(n), "type": "function", "function": {"name": "read", "arguments": "{}"}} for n in range(500)
            ],
        ),
        said("cut", finish="length"),
    )
    asked = model(server)
    assert asked.ask(ask()).text == "a?b[31mcd\ne"
    huge = asked.ask(ask())
    assert (len(huge.text), huge.truncated) == (400_000, True)
    unknown = asked.ask(ask(tools=(READ,)))
    assert unknown.calls == (Call(id="1", name="rm_rf", arguments="{not json"),), "judged by who offered the tools"
    assert len(asked.ask(ask(tools=(READ,))).calls) == 32
    assert asked.ask(ask()).truncated


def test_a_key_that_comes_back_is_taken_out(play, caplog):
    def echo(heard):
        assert heard.headers["Authorization"] == f"Bearer {KEY}"
        text = f"your key is {heard.headers['Authorization']}"
        calls = [{"id": "1", "type": "function", "function": {"name": "read", "arguments": text}}]
        return said(text, calls=calls, model=text)

    found = model(play(echo)).ask(ask(tools=(READ,)))
    assert KEY not in found.model_dump_json()
    assert "[OPENAI_API_KEY]" in found.text
    half = "Incorrect API key provided: sk-abcd****wxyz"
    with pytest.raises(KeyMissing) as caught:
        model(play(failed(401, f"{half} {KEY}"))).ask(ask())
    assert KEY not in str(caught.value)
    assert "sk-abcd" not in str(caught.value)
    with pytest.raises(Unreachable), caplog.at_level(logging.DEBUG):
        model(play(failed(500, f"Bearer {KEY}"))).ask(ask())
    assert KEY not in caplog.text


def test_a_server_of_ones_own_needs_no_key(play, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    server = play(said())
    assert model(server).ask(ask()).text == "hi"
    assert server.heard[0].headers["Authorization"] == "Bearer none"


def test_the_next_model_is_asked_when_the_first_is_down(play):
    def by_name(heard):
        return failed(500, "down") if heard.body["model"] == "some-model" else said("from the other")

    server = play(by_name)
    asked = model(server, fallbacks=("openai/other",))
    found = asked.ask(ask())
    assert (found.text, found.model) == ("from the other", "openai/other (served-model)")
    server = play(failed(500, "down"))
    with pytest.raises(Unreachable, match="some-model.*openai/other"):
        model(server, fallbacks=("openai/other",)).ask(ask())


def test_cost_by_a_price_that_a_person_gave(play):
    price = Price(input=2.0, output=10.0)
    found = model(play(said()), price=price).ask(ask())
    assert found.cost.dollars == pytest.approx((2.0 * 100 + 10.0 * 20) / 1e6)
    silent = model(play(said("four words are here", usage=None)), price=price)
    counted = silent.ask(ask()).cost
    assert 0 < counted.tokens < 30, "counted offline where the server does not say"
    assert counted.dollars > 0
    most = silent.most(ask())
    assert most.tokens >= 77
    assert most.dollars >= 10.0 * 77 / 1e6
    assert silent.count("one two three") == 3
