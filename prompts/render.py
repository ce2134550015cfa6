"""Render a versioned template. Pure: same name and variables, same text; a missing variable is an error."""

from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

TEMPLATES = Path(__file__).parent / "templates"


class Templates:
    """The templates that ship, or others that stand before them."""

    def __init__(self, before: Path | None = None) -> None:
        """`before`: a folder whose templates take the place of those of the same name, wherever they are included."""
        self._folders = (TEMPLATES,) if before is None else (before, TEMPLATES)
        self.identity = lru_cache(maxsize=None)(self._identity)
        """`name@sha256` with the first 12 digits: what the ledger cites."""

    @cached_property
    def environment(self) -> Environment:
        """Strict; pages (`.html.j2`) escape what they are given, Markdown and plain text do not."""
        return Environment(
            loader=FileSystemLoader(self._folders),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=select_autoescape(enabled_extensions=("html.j2",), default=False, default_for_string=False),
            auto_reload=False,
        )

    def render(self, name: str, **variables: Any) -> str:
        """Text of `<name>.j2`, for example `summary.v1.md`."""
        return self.environment.get_template(f"{name}.j2").render(**variables)

    def _identity(self, name: str) -> str:
        file = next(path for folder in self._folders if (path := folder / f"{name}.j2").is_file())
        return f"{name}@{sha256(file.read_bytes()).hexdigest()[:12]}"


SHIPPED = Templates()


def render(name: str, **variables: Any) -> str:
    """Text of `templates/<name>.j2`, for example `summary.v1.md`."""
    return SHIPPED.render(name, **variables)
