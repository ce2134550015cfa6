"""A long list in pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Paged(Generic[T]):
    """One page of a list."""

    items: Sequence[T]
    page: int
    """The first is 1."""
    pages: int
    """At least 1."""
    total: int
    first: int
    """Number of the first item on this page, counted from 1; 0 where there is none."""

    @property
    def last(self) -> int:
        """Number of the last item on this page."""
        return self.first + len(self.items) - 1 if self.items else 0

    @staticmethod
    def of(everything: Sequence[T], page: int, size: int) -> "Paged[T]":
        """That page of the list; the last one where there are fewer."""
        pages = max(1, -(-len(everything) // size))
        page = min(page, pages)
        items = everything[(page - 1) * size : page * size]
        return Paged(
            items=items, page=page, pages=pages, total=len(everything), first=(page - 1) * size + 1 if items else 0
        )
