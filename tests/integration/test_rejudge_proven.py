"""A campaign of then threw a proven gain away for its counters: judged again, it is kept, and the record still says what was.

The recording was made by the loop as it was, with real processes and git; stand-ins replay what profilers wrote. Its
kernel is 8 % faster in interleaved pairs, and a trace of it shows 48 bytes of scratch that the version before had not.
"""

import json
from pathlib import Path

import pytest

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "spilled_and_faster"


def test_the_recording_holds_a_proven_gain_that_was_rolled_back():
    lines = [json.loads(line)["body"] for line in (RECORDING / "ledger.jsonl").read_text().splitlines()]
    first = next(body for body in lines if body.get("kind") == "round")["judged"]["verdict"]
    assert (first["decision"], first["reason"], first["faster"]) == ("rolled_back", "isa_regression", "yes")
    assert first["lower"] > 0.07


@pytest.mark.parametrize(
    ("rule", "answer", "why"),
    [
        ("evidence", "kept", "faster"),
        ("campaign", "dropped", "isa_regression"),
        ("router", "dropped", "isa_regression"),
        ("autonomous", "dropped", "trace_not_improved"),
    ],
)
def test_judged_again_it_is_kept_but_by_presets_that_follow_a_document(cli, rule, answer, why):
    done = cli("rejudge", RECORDING, "--rule", rule, "--json")
    assert done.code == 0, done.err
    first, second = done.json["rules"][0]["decisions"]
    assert (first["round"], first["recorded"], first["answer"], first["why"]) == (2, "dropped", answer, why)
    assert first["claimed"] == pytest.approx(1.08 if answer == "kept" else 1.0, abs=0.001)
    assert (second["recorded"], second["answer"]) == ("dropped", "dropped")
