"""DEFINE_TARGET: fill every parameter from the contract, the instruction and this machine; ask, never guess."""

from langgraph.runtime import Runtime

from ridgeline.graph.errors import NeedsAnswer
from ridgeline.graph.policy.define import Questions, resolve
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import BRANCHES, Setting, State, Update


def define(state: State, runtime: Runtime[Ports]) -> Update:
    request, machine = state["request"], runtime.context.device.machine()
    target = resolve(
        request.contract,
        instruction=request.instruction,
        created=request.created,
        contract_path=request.contract_path,
        machine=machine,
        overrides=dict(request.overrides),
        branch_prefix=BRANCHES.get(request.limits.preset, "optimize"),
    )
    if isinstance(target, Questions):
        raise NeedsAnswer("; ".join(f"{q.field}: {q.message}" for q in target.questions))
    if request.campaign:
        branch = target.git_branch.replace(target.campaign, request.campaign)
        target = target.model_copy(update={"campaign": request.campaign, "git_branch": branch})
    return {"setting": Setting(target=target, machine=machine)}
