"""Correctness before any performance conclusion."""

from langgraph.runtime import Runtime

from graph.context import history
from graph.ports import Ports
from graph.state import State, Update
from graph.trial import Broken, Built, Failed, Verified


def verify(state: State, runtime: Runtime[Ports]) -> Update:
    trial, ports = state["trial"], runtime.context
    assert isinstance(trial, Built)
    repairs = len(trial.applied.drafted.repairs)
    test = ports.checker.check(trial.applied.commit, purpose=f"round-{trial.applied.drafted.proposed.round}")
    match test.kind:
        case "pass":
            return {"trial": Verified(built=trial, test=test)}
        case "incorrect":
            broken = Broken(built=trial, test=test)
            if repairs < history(ports).limits.max_repairs:
                return {"trial": broken}
            return {"trial": Failed(reached=broken, reason="incorrect", detail=test.detail)}
        case "timeout":
            return {"trial": Failed(reached=trial, reason="test_timeout", detail=test.detail)}
        case "crash":
            return {"trial": Failed(reached=trial, reason="test_crashed", detail=test.detail)}
        case "tampered":
            return {"trial": Failed(reached=trial, reason="tampered", detail=test.detail)}
