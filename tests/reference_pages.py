"""The reference parts of docs/contract.md, docs/task.md and docs/api.md, from the program: one source for each word.

`python -m tests.reference_pages` writes them between their two marks; `make docs` does it first.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ridgeline
from ridgeline.graph.contract import Contract
from ridgeline.graph.task import Task
from ridgeline.graph.values import Value

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- from the program: `make docs` writes this -->", "<!-- end -->"
RESULTS = {"compare": "Comparison", "judge": "Judgment", "optimize": "Outcome", "read_profile": "tuple[Recording, ...]"}
"""Public names of what each call returns."""


def main() -> None:
    """Write all of them."""
    for page, text in render_pages().items():
        path = DOCS / page
        path.write_text(replace_part(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def render_pages() -> dict[str, str]:
    """Markdown by page."""
    return {
        "contract.md": render_fields(Contract),
        "task.md": render_fields(Task),
        "api.md": "\n\n".join(render_call(name) for name in RESULTS),
    }


def replace_part(page: str, text: str) -> str:
    """The page with this between the marks. Raises ValueError for a page without them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if BEGIN not in page or END not in rest:
        raise ValueError(f"the page has not the two marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def render_fields(model: type[Value]) -> str:
    """One table for the file, and one for each kind of entry inside."""
    schema = model.model_json_schema()
    parts = [_table(schema)]
    parts += [
        f"### {name}\n\n{_table(inner)}" for name, inner in schema.get("$defs", {}).items() if "properties" in inner
    ]
    return "\n\n".join(parts)


def render_call(name: str) -> str:
    """Signature and description of a public call."""
    call = getattr(ridgeline, name)
    arguments = list(_arguments(call))
    shown = ", ".join(arguments) if len(arguments) < 5 else "\n" + "".join(f"    {one},\n" for one in arguments)
    result = RESULTS[name]
    return f"### {name}\n\n```python\nridgeline.{name}({shown}) -> {result}\n```\n\n{inspect.getdoc(call)}"


def _arguments(call: Any) -> Iterator[str]:
    starred = False
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def _table(schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        default = (
            "required"
            if name in required
            else f"`{field['default']!r}`"
            if field.get("default") not in _NOTHING
            else ""
        )
        if isinstance(field.get("default"), dict):
            default = ""
        rows.append(f"| `{name}` | {_cell(default)} | {_cell(' '.join((_meaning(field)).split()))} |")
    return "\n".join(rows)


_NOTHING = (None, "", [], ())


def _meaning(field: dict[str, Any]) -> str:
    """The field's own words, else what may stand there."""
    words = field.get("description", "")
    inner = [field, field.get("items", {}), *field.get("anyOf", ())]
    choices = [str(choice) for one in inner for choice in one.get("enum", ())]
    kinds = [one["$ref"].rpartition("/")[2] for one in inner if "$ref" in one]
    more = [f"One of {', '.join(f'`{choice}`' for choice in choices)}."] if choices else []
    more += [f"See [{kind}](#{kind.lower()})." for kind in kinds]
    return " ".join([words, *more])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
