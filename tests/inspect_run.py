"""Asks a model at hand through Inspect AI twice, in a process of its own, because Inspect leaves streams open.

`python -m tests.inspect_run FOLDER` prints one JSON object.
"""

import json
import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log

from ridgeline.agent.providers.base import Ask, Reply, Unreachable
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.evals.decisions.comparison import ask
from ridgeline.evals.decisions.contest import gather_points, prompt
from ridgeline.evals.decisions.points import decisions
from ridgeline.graph.values import Cost

CAMPAIGNS = Path(__file__).parents[1] / "evals" / "campaigns"
ONE = CAMPAIGNS / "matmul_c_mailbox"
ANSWER = next(one.answer for one in decisions(ONE) if one.kind == "propose" and one.attempt == 1)


class Client:
    """Answers, and fails in one round."""

    name, tools = "fake", False

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, ask: Ask) -> Reply:
        self.asked += 1
        if "Round 4: which" in ask.messages[1].text:
            raise Unreachable("the provider gave no answer: 503")
        return Reply(text=ANSWER, model="fake/one", cost=Cost(tokens=11, dollars=0.5))

    def count(self, text: str) -> int:
        return estimate_tokens(text)

    def most(self, ask: Ask) -> Cost:
        return Cost()


def main(folder: Path) -> None:
    asked = gather_points([ONE, CAMPAIGNS / "layernorm_c_mailbox"], [prompt("v3")], ("propose",))
    client = Client()
    given, failed = ask(asked, "v3", "propose", model="fake/one", logs=folder, client=client)
    first = client.asked
    again, _ = ask(asked, "v3", "propose", model="fake/one", logs=folder, client=client)
    scores = read_eval_log(list_eval_logs(str(folder))[0]).results.scores
    told = {
        "points": len(asked),
        "answers": sorted({(one.text == ANSWER, one.tokens, one.dollars, one.model) for one in given}),
        "given": len(given),
        "failed": failed,
        "questions right": {one.question for one in given} <= {one.situation.asks["v3"].digest for one in asked},
        "scores": sorted(one.name for one in scores),
        "asked": [first, client.asked - first],
        "again": len(again),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
