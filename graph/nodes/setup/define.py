"""DEFINE_TARGET: fill every parameter from the contract, the instruction and this machine; ask, never guess."""

from langgraph.runtime import Runtime

from graph.errors import NeedsAnswer
from graph.policy.define import Questions, resolve
from graph.ports import Ports
from graph.state import Setting, State, Update


def define(state: State, runtime: Runtime[Ports]) -> Update:
    request, machine = state["request"], runtime.context.device.machine()
    target = resolve(
        request.contract,
        instruction=request.instruction,
        created=request.created,
        contract_path=request.contract_path,
        machine=machine,
        overrides=dict(request.overrides),
    )
    if isinstance(target, Questions):
        raise NeedsAnswer("; ".join(f"{q.field}: {q.message}" for q in target.questions))
    if request.campaign:
        target = target.model_copy(update={"campaign": request.campaign})
    return {"setting": Setting(target=target, machine=machine)}
