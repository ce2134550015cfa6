"""A draft on its way to a measurement: applied, built and tested, without asking anybody to mend it."""

from typing import cast

from langgraph.runtime import Runtime

from ridgeline.graph.nodes.round.apply import apply
from ridgeline.graph.nodes.round.compile import compile  # noqa: A004 - the phase's name
from ridgeline.graph.nodes.round.verify import verify
from ridgeline.graph.ports import Ports
from ridgeline.graph.state import State
from ridgeline.graph.trial import Drafted, Failed, Verified


def tried(ports: Ports, drafted: Drafted) -> Verified | Failed:
    """What a person's edit comes to, by the very nodes that a round takes it through."""
    runtime = Runtime(context=ports)
    trial: object = drafted
    for node in (apply, compile, verify):
        trial = node(cast("State", {"trial": trial}), runtime)["trial"]
        if isinstance(trial, Failed):
            return trial
    assert isinstance(trial, Verified)
    return trial
