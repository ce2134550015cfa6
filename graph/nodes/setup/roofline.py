"""Step 0: the ceilings of this machine, as far as they can be measured; the shapes meet them at the baseline.

`recall` puts what documents state of the product beside them.
"""

from langgraph.runtime import Runtime

from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State, Update


def roofline(state: State, runtime: Runtime[Ports]) -> Update:
    setting = state["setting"]
    assert setting is not None
    ceilings = runtime.context.device.ceilings(setting.target.dtype)
    return {"setting": setting.model_copy(update={"ceilings": ceilings})}
