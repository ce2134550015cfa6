"""Render a versioned template. Pure: same name and variables, same text; a missing variable is an error."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The one strict environment; pages (`.html.j2`) escape what they are given, Markdown and plain text do not."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=select_autoescape(enabled_extensions=("html.j2",), default=False, default_for_string=False),
        auto_reload=False,
    )


def render(name: str, **variables: Any) -> str:
    """Text of `templates/<name>.j2`, for example `summary.v1.md`."""
    return environment().get_template(f"{name}.j2").render(**variables)


@cache
def identity(name: str) -> str:
    """`name@sha256` with the first 12 digits: what the ledger cites."""
    digest = sha256((TEMPLATES / f"{name}.j2").read_bytes()).hexdigest()
    return f"{name}@{digest[:12]}"
