"""The drawn loop is the compiled one."""

import re
from pathlib import Path

from ridgeline.graph.loop.build import build_loop

ROOT = Path(__file__).resolve().parents[2]


def test_the_diagram_is_the_compiled_graph():
    edge = re.compile(r"^\s*(\w+) (-->|-\.->) (\w+);", re.MULTILINE)
    document = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8")
    drawn = re.findall(r"```mermaid\n(.*?)```", document, re.DOTALL)
    assert len(drawn) == 1
    edges = edge.findall(drawn[0])
    assert len(edges) == len(set(edges))
    compiled = edge.findall(build_loop().get_graph().draw_mermaid())
    assert sorted(edges) == sorted(compiled), "copy the edges of `ridgeline graph` into docs/loop.md"
