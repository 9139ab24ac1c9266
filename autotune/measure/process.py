"""The parent's end of a worker process: starts it, talks to it, ends it, says what it died of.

Workers are fresh interpreters and not ``multiprocessing`` processes: those import the user's main
module again (which breaks scripts without a ``__main__`` guard), fork processes that have threads,
or leave semaphores behind when killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Self

from autotune.measure.worker import Answer, Batch, Go

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from importlib import import_module; "
    "import_module(sys.argv[1]).serve(int(sys.argv[2]))"
)
_WORKER = "autotune.measure.worker"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""There is a worker per core already."""

_BUFFER_BYTES = 1 << 18
"""Answers that may wait until the parent reads them, before the worker has to."""

SUPPORTED = os.name == "posix" and bool(sys.executable)
"""Whether sockets can be handed to a new interpreter here."""


def own_niceness() -> int:
    """Return the priority of this thread, which processes that it starts inherit."""
    return os.getpriority(os.PRIO_PROCESS, 0) if os.name == "posix" else 0


def start_interpreter(module: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a fresh interpreter that calls ``serve`` of a module with its end of a socket; return it and our end.

    Raises ``OSError`` when it cannot be started."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, module, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_ONE_THREAD | dict(os.environ),
                # Out of the terminal's foreground group: Ctrl-C is for the parent to handle.
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
    return process, Connection(ours.detach())


class WorkerProcess:
    """A running worker. ``ready`` once it has said so. ``niceness`` is that of the thread that started it:
    the learner's workers yield to everything else, a search's do not."""

    def __init__(self, process: subprocess.Popen[bytes], line: Connection) -> None:
        self._process = process
        self._line = line
        self.ready = False
        self.niceness = own_niceness()

    @classmethod
    def start(cls) -> Self:
        """Start a worker; it loads its modules meanwhile. Raises ``OSError`` when it cannot."""
        return cls(*start_interpreter(_WORKER))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def fileno(self) -> int:
        """Readable when an answer waits, or the worker has died."""
        return self._line.fileno()

    def send(self, order: Batch | Go) -> None:
        """Send a batch to a worker that has none, or the word that it may time its own. Raises
        ``OSError`` when it has died."""
        self._line.send(order)

    def receive(self) -> Answer:
        """The next answer; blocks. Raises ``EOFError`` or ``OSError`` when the worker has died."""
        answer: Answer = self._line.recv()
        return answer

    def kill(self) -> None:
        """End it at once and reap it."""
        self._process.kill()
        self._line.close()
        self._process.wait()

    def cause_of_death(self) -> str:
        """Signal or exit code of a worker whose line was cut. ``kill`` it all the same."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "its connection broke"
        if code >= 0:
            return f"exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{name} (out of memory?)" if code == -signal.SIGKILL else name

    def abandon(self) -> None:
        """Close this process's end only: after a fork, the worker belongs to the parent."""
        self._line.close()
        self._process.returncode = 0  # keeps Popen from waiting for another process's child
