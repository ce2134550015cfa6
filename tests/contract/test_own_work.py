"""Whose work a result is: what Ridgeline's own judge says in a campaign's test stands in the test's result."""

from pathlib import Path

import pytest

from ridgeline.agent.contract_file import load
from tests.rooms import open_room, script_contract

TASK = Path(__file__).parents[2] / "evals" / "tasks" / "layernorm_c"


@pytest.mark.slow
def test_the_judges_answer_is_part_of_a_tests_result(make_repository, tmp_path):
    files = {path.name: path.read_text(encoding="utf-8") for path in TASK.iterdir() if path.is_file()}
    contract = load(TASK / "ridgeline.yaml").contract
    assert contract.judged
    room = open_room(make_repository(files), tmp_path / "campaign", contract)
    honest = room.checker.check(room.base, purpose="baseline")
    assert (honest.kind, honest.own_work) == ("pass", "yes"), honest.detail
    wrong = room.checker.check(room.candidate({"kernel.c": files["kernel.c"].replace("/", "*")}), purpose="round-2")
    assert (wrong.passed, wrong.own_work) == (False, "unverified"), "nobody asks whose work a wrong result is"


def test_a_test_of_somebody_else_says_nothing_of_own_work(make_repository, tmp_path):
    script = {"kernel.sh": "#!/bin/sh\n", "test.sh": "#!/bin/sh\necho own work: yes\n", "bench.sh": "#!/bin/sh\n"}
    room = open_room(make_repository(script), tmp_path / "campaign", script_contract())
    told = room.checker.check(room.base, purpose="baseline")
    assert (told.kind, told.own_work) == ("pass", None)
