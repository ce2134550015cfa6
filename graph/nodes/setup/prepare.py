"""PREPARE_ENVIRONMENT: the branch, beside the user's checkout."""

from langgraph.runtime import Runtime

from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update


def prepare(state: State, runtime: Runtime[Ports]) -> Update:
    setting = state["setting"]
    assert setting is not None
    base = runtime.context.workspace.open(setting.target.git_branch)
    return {"setting": setting.model_copy(update={"base": base})}
