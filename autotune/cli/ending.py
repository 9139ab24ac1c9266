"""The end of a command: one line on stderr, with --json an object on stdout, and an exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from autotune.errors import one_line

OK, MISMATCH, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
PRINTED = 1130
"""Status inside of this program: interrupted, and the command has printed what was done."""
_REMEDY = "what was measured is kept, run it again to go on"
_REMEDIES = {
    "quantize": f"no file was written; {_REMEDY}",
    "serve": "nothing was served yet, run it again",
}
"""Remedies of commands that leave more to tell, by command."""


class Ending:
    """The end of one command with its ``arguments``; ``is_terminated`` after SIGTERM."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._is_json = "--json" in arguments
        self._remedy = _REMEDIES.get(arguments[0], _REMEDY) if arguments else _REMEDY
        self.is_terminated = False

    def refuse(self, message: str) -> int:
        """Print an error of the user's; return the exit code."""
        line = one_line(" ".join(message.split()))
        print(f"autotune: error: {line}", file=sys.stderr)
        self._emit(line)
        return USAGE

    def interrupt(self, *, is_printed: bool = False) -> int:
        """Print that Ctrl-C or SIGTERM ended the command; return the exit code.

        ``is_printed`` says that stdout has its document already.
        """
        word = "terminated" if self.is_terminated else "interrupted"
        print(f"autotune: {word}; {self._remedy}", file=sys.stderr)
        if not is_printed:
            self._emit(f"{word}; {self._remedy}")
        return TERMINATED if self.is_terminated else INTERRUPTED

    @contextmanager
    def terminable(self) -> Iterator[None]:
        """Take the first SIGTERM in the block as Ctrl-C, which keeps measurements.

        A second one ends the process at once. Without effect outside of the main thread.
        """

        def interrupt(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.is_terminated = True
            raise KeyboardInterrupt

        try:
            before = signal.signal(signal.SIGTERM, interrupt)
        except ValueError:  # not the main thread
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)

    def _emit(self, message: str) -> None:
        if self._is_json:
            with contextlib.suppress(OSError):  # stderr has the message
                sys.stdout.write(json.dumps({"error": message}, indent=2) + "\n")
        settle_output()


def prepare_streams() -> None:
    """Make stdout and stderr usable: lead closed ones nowhere, spell out signs that the encoding lacks."""
    if sys.stdout is None or sys.stderr is None:
        _occupy_descriptors()
        sys.stdout = sys.stdout or _nowhere()
        sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def settle_output() -> None:
    """Flush stdout, and lead it nowhere if that fails: Python flushes it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = _nowhere()


def _occupy_descriptors() -> None:
    """Open descriptors 0, 1 and 2 where they are closed: a library may write to them, and a file of ours
    must not be there."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)


def _nowhere() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 -- for the process's life
