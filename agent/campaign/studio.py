"""The compiled graph as `langgraph.json` names it, for LangGraph Studio and `langgraph dev`: to look at, not to run.

A campaign needs a repository, a device and a ledger, which no form of Studio can give; `ridgeline run` does.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

from langgraph.graph.state import CompiledStateGraph

from ridgeline.agent.errors import UserError
from ridgeline.graph.loop.build import build_loop


@dataclass(frozen=True)
class Nowhere:
    """Stands where a campaign has its ports, which have no JSON form."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # how Python itself looks for protocols
            raise AttributeError(name)
        raise UserError(f"{name}: Studio shows the graph and cannot run it; run a campaign with `ridgeline run`")


def graph() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The loop. A run of it ends at once; the server's log has one line that says how to begin a campaign."""
    loop: CompiledStateGraph[Any, Any, Any, Any] = build_loop()
    loop.name = "ridgeline"
    loop.context_schema = Nowhere
    return loop
