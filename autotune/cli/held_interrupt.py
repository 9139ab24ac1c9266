"""Ctrl-C in the first seconds of a command, held back until its work can end with something to show.

Modules that are half imported cannot be imported again, and a network that is half opened has no plan.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from autotune.cli.console import say

_HELD = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object]


class HeldInterrupt:
    """Holds the first SIGINT or SIGTERM back until ``release``; a second one ends the command at once."""

    def __init__(self, promise: str) -> None:
        """``promise`` says in one line what comes before the end."""
        self._promise = promise
        self._number: int | None = None
        self._before: dict[int, Handler] = {
            number: handler for number in _HELD if callable(handler := signal.getsignal(number))
        }
        for number in self._before:  # an ignored one stays so
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        is_second, self._number = self._number is not None, number
        if is_second:
            self.release()
        else:
            say(self._promise)

    def release(self) -> None:
        """Let signals through from now on, the one that was held first."""
        number = self._number
        before = self.restore()
        if number is not None:
            before[number](number, sys._getframe())

    def restore(self) -> dict[int, Handler]:
        """Let signals through from now on, without the one that was held; return who takes them."""
        before, self._before, self._number = self._before, {}, None
        for number, handler in before.items():
            signal.signal(number, handler)
        return before


@contextmanager
def held_interrupt(promise: str) -> Iterator[HeldInterrupt | None]:
    """Hold Ctrl-C back in the block, until it is released; None outside of the main thread, which gets no signals."""
    try:
        held = HeldInterrupt(promise)
    except ValueError:
        yield None
        return
    try:
        yield held
        held.release()
    finally:
        held.restore()
