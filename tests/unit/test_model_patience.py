"""Asking again: how often, after which pauses, for how long; what is kept out of what is said."""

import threading
import time

import pytest

from ridgeline.agent.providers.base import Unreachable, plain, redact, without_keys
from ridgeline.agent.providers.client import Patience, TransientFailure, within


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.at, self.slept = 0.0, []

    def sleep(self, seconds):
        self.at += seconds
        self.slept.append(seconds)


def insist(failures, *, took_s=0.0, **changes):
    clock, left = Time(), list(failures)

    def call(seconds):
        clock.at += took_s
        if left:
            raise left.pop(0)
        return seconds

    patience = Patience(now=lambda: clock.at, sleep=clock.sleep, draw=lambda: 0.5, **changes)
    try:
        return patience.insist(call, who="model"), clock.slept
    except Unreachable as error:
        return str(error), clock.slept


def test_pauses_double_up_to_a_bound_and_the_servers_word_wins():
    found, slept = insist([TransientFailure("x")] * 5, longest_s=6.0)
    assert slept == [1.0, 2.0, 4.0, 6.0, 6.0]
    assert found == 900.0 - sum(slept), "told how long it may take"
    assert insist([TransientFailure("x", after_s=0.0), TransientFailure("x", after_s=30.0)])[1] == [0.5, 30.5]


def test_it_ends():
    said, slept = insist([TransientFailure("busy")] * 9, attempts=3)
    assert (said, len(slept)) == ("model: no answer in 3 attempts: busy", 2)
    assert insist([TransientFailure("busy", after_s=100.0)], total_s=100.0) == (
        "model: no answer within 100 s: busy, and asks to wait 100 s",
        [],
    )
    said, slept = insist([TransientFailure("slow")] * 9, took_s=40.0, total_s=100.0)
    assert "within 100 s" in said
    assert len(slept) < 3


def test_a_call_is_left_behind_when_its_time_is_over():
    done = threading.Event()
    began = time.monotonic()
    with pytest.raises(TransientFailure, match="no complete answer"):
        within(0.05, lambda: done.wait(20))
    assert time.monotonic() - began < 5
    done.set()
    assert within(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)


def test_keys_are_taken_out():
    environment = {
        "MY_API_KEY": "abcdefgh",
        "LONG_TOKEN": "abcdefgh-and-more",
        "HOME": "/somewhere",
        "SHORT_KEY": "abc",
    }
    text = "abcdefgh-and-more abcdefgh /somewhere abc"
    assert without_keys(text, environment) == "[LONG_TOKEN] [MY_API_KEY] /somewhere abc"
    said = redact("bad key sk-proj-abc123**9 and Bearer abc.def\nand AKIAABCDEFGHIJKLMNOP\x00")
    assert said == "bad key [key] and Bearer [key] and [key]"
    assert redact("x" * 900).endswith(" ...")
    assert plain("a\tb\r\nc\x1b[0m\x85\ud800", limit=100) == "a\tb\nc[0m?"
    assert plain("a" * 10, limit=3) == "aaa"
