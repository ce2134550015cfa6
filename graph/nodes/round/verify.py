"""Correctness before any performance conclusion."""

from typing import Literal

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.nodes.round.repair import repairs_left
from ridgeline.graph.nodes.round.tested import tested
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update
from ridgeline.graph.trial import Broken, Built, Failed, Verified

FAILED_TEST: dict[
    Literal["incorrect", "timeout", "crash", "tampered"],
    Literal["incorrect", "test_timeout", "test_crashed", "tampered"],
] = {"incorrect": "incorrect", "timeout": "test_timeout", "crash": "test_crashed", "tampered": "tampered"}
"""Kind of a failed test -> why the trial ended."""


def verify(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Built)
    test = tested(ports, trial.applied.commit, purpose=f"round-{trial.applied.drafted.proposed.round}")
    match test.kind:
        case "pass":
            return {"trial": Verified(built=trial, test=test)}
        case "incorrect":
            broken = Broken(built=trial, test=test)
            if repairs_left(trial.applied.drafted, history(ports).limits) > 0:
                return {"trial": broken}
            return {"trial": Failed(reached=broken, reason="incorrect", detail=test.detail)}
        case kind:
            return {"trial": Failed(reached=trial, reason=FAILED_TEST[kind], detail=test.detail)}
