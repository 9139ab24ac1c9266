"""Work with a deadline in this process: for targets that no other process can load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of ``work``, or raise what it raises.

    Raises ``TimeoutError`` when it takes longer. Its thread is then left behind: Python can end no
    thread, and the process still ends, as such threads are daemons. Code that never gives up the
    interpreter's lock cannot be left.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="measurement")
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no result within {seconds:g} s")
    return results[0]
