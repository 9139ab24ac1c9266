"""Answers that a service has given: a fixed model gives them again."""

from __future__ import annotations

from collections import OrderedDict

MOST = 65_536
"""Answers that are kept; the oldest ones go."""
LONGEST = 4096
"""Bytes of a request that is remembered."""


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
