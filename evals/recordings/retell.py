"""A campaign of an older version in the words of this one: what was answered stays, what the graph says of it is new.

A planner's answers are filed under the ledger as it was worded then, and an accepted commit's name holds its message.
Both are found by round instead, so that the same answers meet the same questions.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.agent.tape import TapeMiss
from ridgeline.evals.recordings.script import PromptedPort, Spoken, tape_lines
from ridgeline.evals.recordings.workspace import Answer
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import Line, RoundClosed

ROUND = re.compile(r"round (\d+)")
PLANNER = "planner"


def planner(tape: Path, heard: list[Spoken]) -> PromptedPort:
    """Port `Planner`: its answers of each kind and round, in the order in which they were given, noted in `heard`."""
    left: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for line in tape_lines(tape).values():
        if line["port"] == PLANNER and (found := ROUND.match(line["about"])):
            left[(line["method"], int(found[1]))].append(line["answer"])

    def answer(method: str, arguments: Sequence[Any]) -> Any:
        briefing = arguments[0]
        assert isinstance(briefing, Briefing)
        waiting = left[(method, briefing.round)]
        if not waiting:
            raise TapeMiss(f"planner.{method}(round {briefing.round}) was never recorded")
        heard.append(Spoken(port=PLANNER, method=method, answer=waiting.pop(0)))
        return heard[-1].answer

    return PromptedPort(PLANNER, answer)


def same_commits(answer: Answer, recorded: Sequence[Line]) -> Answer:
    """The workspace, where an accepted tree becomes the very commit that it became then."""
    rounds = [line.body for line in recorded if isinstance(line.body, RoundClosed)]
    then = {body.tree: body.commit for body in rounds if body.commit}

    def told(method: str, arguments: Mapping[str, Any]) -> Any:
        if method == "reset":  # the copied mirror's branch is where the campaign left it, and nobody looks at it
            return None
        commit = then.get(str(arguments.get("tree"))) if method == "accept" else None
        return commit or answer(method, arguments)

    return told
