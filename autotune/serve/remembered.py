"""Answers that a service has given: a fixed model gives them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MOST = 65_536
"""Answers that are kept; the oldest ones go."""
LONGEST = 4096
"""Bytes of a request that is remembered."""

Work = Callable[[bytes], Awaitable[bytes]]
"""From the document of a request to that of its answer."""


class Remembered:
    """Answers by the bytes of their request: parsing one takes longer than predicting it.

    The event loop alone looks and keeps.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()

    def find(self, body: bytes) -> bytes | None:
        """Return the answer to an equal request, None without one."""
        return self._answers.get(body)

    def keep(self, body: bytes, answer: bytes) -> None:
        """Keep an answer to a short request; the oldest one goes."""
        if len(body) <= LONGEST:
            self._answers[body] = answer
            if len(self._answers) > MOST:
                self._answers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Desk:
    """What answers the requests of one path; ``remembered`` is None where the store may change answers."""

    work: Work
    remembered: Remembered | None

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to a request, from memory if it was asked before. Raises what ``work`` raises."""
        if self.remembered is None:
            return await self.work(body)
        found = self.remembered.find(body)
        if found is None:
            found = await self.work(body)
            self.remembered.keep(body, found)
        return found
