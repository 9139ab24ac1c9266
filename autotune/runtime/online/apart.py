"""Calls a function in a process of its own: what learns for seconds there takes no lock that runs need.

A thread that fits or searches holds Python's lock, and at the lowest priority it holds it while others
have the core: runs would wait for it. A process can also be ended when it hangs, and may run out of memory alone.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from autotune.errors import AutotuneError

P = ParamSpec("P")
R = TypeVar("R")

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from autotune.runtime.online.apart import answer; answer(int(sys.argv[1]))"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_LOOK_SECONDS = 0.1
"""Time between two looks at whether the caller still wants the answer."""

SUPPORTED = os.name == "posix" and bool(sys.executable)
"""Whether a process can be started here whose parent it watches."""


class Apart:
    """Calls functions of importable modules in processes, one after another, each at the lowest priority.

    ``stopping`` ends a call at once. ``limit_seconds`` is how long one may take.
    """

    def __init__(self, stopping: Callable[[], bool], limit_seconds: float = 1200.0) -> None:
        self._stopping, self._limit_seconds = stopping, limit_seconds

    def call(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R | None:
        """Return what ``function`` returns; None when ``stopping``.

        Raises ``AutotuneError`` when it raises, its process dies, or it takes too long.
        """
        work = pickle.dumps((function, args, named), pickle.HIGHEST_PROTOCOL)
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(os.getpid()), *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_ONE_THREAD | dict(os.environ),
            process_group=0,  # Ctrl-C is for the parent to handle
        )
        try:
            answer = self._answer(process, work)
        finally:
            process.kill()
            process.wait()
        if answer is None:
            return None
        is_done, result = pickle.loads(answer)
        if not is_done:
            raise AutotuneError(f"{function.__name__} in a process of its own: {result}")
        done: R = result
        return done

    def _answer(self, process: subprocess.Popen[bytes], work: bytes) -> bytes | None:
        end = time.monotonic() + self._limit_seconds
        sent: bytes | None = work
        while not self._stopping():
            try:
                answer, _ = process.communicate(sent, timeout=_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                sent = None  # it goes on with what it was given
                if time.monotonic() > end:
                    text = f"learning in a process of its own: no answer after {self._limit_seconds:g} s"
                    raise AutotuneError(text) from None
                continue
            if process.returncode != 0 or not answer:
                raise AutotuneError(f"learning in a process of its own: {_death(process)}")
            return answer
        return None


def _death(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code == -signal.SIGKILL:
        return "it was killed (out of memory?)"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def answer(parent: int) -> None:
    """Call what stands on stdin and write what came of it to stdout; the body of the process."""
    from autotune.measure.orphan import end_with_parent

    end_with_parent(parent)
    os.nice(19)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the work prints is no answer
    function, args, named = pickle.load(sys.stdin.buffer)
    out.write(_outcome(function, args, named))
    out.close()
    os._exit(0)  # the watching thread may be asleep


def _outcome(function: Callable[..., Any], args: Any, named: Any) -> bytes:
    try:
        return pickle.dumps((True, function(*args, **named)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  # the caller raises it
        return pickle.dumps((False, f"{type(error).__name__}: {error}"))
