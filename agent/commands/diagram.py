"""`graph` and `schema`: the machine-readable descriptions of what Ridgeline does and reads."""

from typing import Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.errors import UserError

Json = Annotated[bool, typer.Option("--json", help="Print nodes and edges as one JSON object.")]
Which = Annotated[str, typer.Argument(help="contract (ridgeline.yaml), ledger (one line of ledger.jsonl) or outcome.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(graph)
    app.command()(schema)


def graph(as_json: Json = False) -> None:
    """The loop, drawn from the compiled graph (Mermaid)."""
    from ridgeline.graph.build import build

    drawn = build().get_graph()
    if not as_json:
        console.say(drawn.draw_mermaid())
        return
    edges = [
        {"from": edge.source, "to": edge.target, "conditional": edge.conditional, "label": str(edge.data or "")}
        for edge in drawn.edges
    ]
    console.emit({"nodes": list(drawn.nodes), "edges": edges})


def schema(which: Which = "contract") -> None:
    """JSON Schema of a file that Ridgeline reads or writes."""
    from pydantic import BaseModel

    from ridgeline.agent.outcome import Outcome
    from ridgeline.graph.contract import Contract
    from ridgeline.graph.record import Line
    from ridgeline.sandbox.store.yaml_file import nearest

    known: dict[str, type[BaseModel]] = {"contract": Contract, "ledger": Line, "outcome": Outcome}
    if which not in known:
        raise UserError(f"WHICH: no schema {which!r}; {nearest(which, known)}")
    console.emit(known[which].model_json_schema())
