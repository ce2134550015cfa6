"""Partial restart: about half of what is remembered is masked, the best version stays."""

from langgraph.runtime import Runtime

from ridgeline.graph.context import history
from ridgeline.graph.nodes.close.publish import publish
from ridgeline.graph.policy import history as fold
from ridgeline.graph.policy.restart import mask
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Restarted
from ridgeline.graph.state import State, Update
from ridgeline.graph.values import Cost


def restart(state: State, runtime: Runtime[Ports]) -> Update:
    ports = runtime.context
    last = fold.next_round(history(ports)) - 1
    known = history(ports, before=f"restart-after-{last}")
    masked = mask(known, seed=last)
    note = f"{state['exhausted']}; masked {', '.join(f'v{version}' for version in masked) or 'nothing'}"
    asked = state["proposal"]
    cost = asked.cost if asked and asked.hypothesis is None else Cost()  # of no round: nothing came of it
    ports.ledger.append(Restarted(after_round=last, masked=masked, note=note, cost=cost))
    publish(ports)
    return {"checks": None, "exhausted": ""}
