"""Simulation: a cache's key over eight steps with fresh tensors, in the target's own interpreter."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.finding import KeyTerm, Lookup, Role, Simulation
from ridgeline.sandbox.isolation.process import run

STEPS = 8
SCRIPT = Path(__file__).with_name("fresh_steps.py")
NEW_EACH_STEP = ("activation", "gradient")


def simulate(
    key: Sequence[KeyTerm],
    *,
    python: str | tuple[str, ...],
    env: Mapping[str, str] | None = None,
) -> Simulation:
    """The audit's simulation of a cache: look-ups of its key in a child process with torch on the CPU.

    `python`: the interpreter, or the words up to it; `env`: the variables that it needs.

    A key that does more than ask tensors what they are is not evaluated. `unavailable`, with the reason, where there is
    no such interpreter or no torch in it, or the key cannot be evaluated: a cache that cannot be simulated is refused.
    """
    terms = [term for term in key if term.part != "other"]
    if not terms or any(not term.name for term in terms):
        return Simulation(method="unavailable", detail="the key cannot be evaluated on its own")
    role = _role(terms)
    question = {
        "steps": STEPS,
        "role": role,
        "terms": [{"text": term.text, "name": term.name} for term in terms if _about(term, role)],
    }
    try:
        argv = ((python,) if isinstance(python, str) else python) + ("-B", str(SCRIPT), json.dumps(question))
        ended = run(argv, cwd=SCRIPT.parent, timeout_s=60.0, env=env)
    except ProgramMissing as error:
        return Simulation(method="unavailable", detail=str(error))
    if not ended.ok:
        last_line = ended.output.strip().splitlines()[-1:] or ["no answer in time" if ended.timed_out else "no answer"]
        return Simulation(method="unavailable", detail=last_line[0])
    return _parse_output(ended.output, role)


def read_recording(lookups: Sequence[Lookup]) -> Simulation:
    """The audit's simulation from a trace of keys that a run wrote down, where no interpreter has torch."""
    if not lookups:
        return Simulation(method="unavailable", detail="no keys were recorded")
    return Simulation(method="recorded keys", lookups=tuple(lookups))


def _role(key: Sequence[KeyTerm]) -> Role:
    parts = {term.part for term in key}
    if "gradient" in parts:
        return "gradient"
    return "weight" if "weight" in parts and "activation" not in parts else "activation"


def _about(term: KeyTerm, role: Role) -> bool:
    """The audit: whether a term is of the tensor that the cache is about: one name, one tensor."""
    own_parts = ("weight", "weight_version") if role == "weight" else NEW_EACH_STEP
    return term.part in (*own_parts, "address", "content", "layout")


def _parse_output(output: str, role: Role) -> Simulation:
    try:
        answer = json.loads(output.strip().splitlines()[-1])
        lookups = tuple(Lookup(role=role, **lookup) for lookup in answer["lookups"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return Simulation(method="unavailable", detail=f"unreadable answer: {type(error).__name__}")
    return Simulation(method="tensors", lookups=lookups)
