"""A search that Ctrl-C ended: the interrupt carries the best plan so far."""

from __future__ import annotations

from typing import Generic, TypeVar

Result = TypeVar("Result")


class SearchInterrupted(KeyboardInterrupt, Generic[Result]):
    """Ctrl-C in a search that has a plan already: ``result`` is that of the search so far."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result
