"""How a question differs from the nearest one that was recorded: what changed in a prompt, in a few lines."""

from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff

from ridgeline.agent.models.base import Ask

LINES = 60
WIDTH = 200
COMPARED = 20_000
"""Characters of two questions that are compared to find the nearest."""


def difference(ask: Ask, recorded: Sequence[Ask]) -> str:
    """A unified diff against the nearest recorded question, bounded; says so when nothing was recorded."""
    near = nearest(ask, recorded)
    if near is None:
        return "the tape holds no question at all"
    lines = list(
        unified_diff(
            _lines(near),
            _lines(ask),
            fromfile=f"recorded {near.purpose}",
            tofile=f"asked {ask.purpose}",
            lineterm="",
            n=1,
        )
    )
    shown = [line if len(line) <= WIDTH else f"{line[:WIDTH]} ..." for line in lines[:LINES]]
    if len(lines) > LINES:
        shown.append(f"... {len(lines) - LINES} more lines differ")
    return "\n".join(shown) or "they read the same, but differ in how they are written"


def nearest(ask: Ask, recorded: Sequence[Ask]) -> Ask | None:
    """Of the same purpose where there is one, and of those the most alike; None when nothing was recorded."""
    same = [other for other in recorded if other.purpose == ask.purpose]
    text = _text(ask)[-COMPARED:]
    matcher = SequenceMatcher(None, b=text, autojunk=True)

    def likeness(other: Ask) -> float:
        matcher.set_seq1(_text(other)[-COMPARED:])
        return matcher.quick_ratio()

    return max(same or recorded, key=likeness, default=None)


def _text(ask: Ask) -> str:
    return "\n".join(_lines(ask))


def _lines(ask: Ask) -> list[str]:
    found = [f"at most {ask.max_output_tokens} tokens", f"tools {', '.join(tool.name for tool in ask.tools) or 'none'}"]
    for message in ask.messages:
        found += [f"[{message.role}]", *message.text.splitlines()]
        found += [f"call {call.name} {call.arguments}" for call in message.calls]
    found += [f"tool {tool.model_dump_json()}" for tool in ask.tools]
    return [*found, f"schema {ask.answer_schema}"]
