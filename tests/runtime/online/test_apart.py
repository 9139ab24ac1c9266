"""Work in a process of its own gives what it would give here; that process may fail, die or hang, and nothing else."""

from __future__ import annotations

import os
import signal
import time

import pytest

from autotune.errors import AutotuneError
from autotune.runtime.online.apart import SUPPORTED, Apart

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="processes watch their parent on POSIX only")


def test_a_function_is_called_with_its_arguments_at_the_lowest_priority() -> None:
    apart = Apart(lambda: False)
    assert apart.call(divmod, 7, 3) == (2, 1)
    assert apart.call(os.getpriority, os.PRIO_PROCESS, 0) == 19


def test_an_error_there_is_an_error_here() -> None:
    with pytest.raises(
        AutotuneError, match="int in a process of its own: ValueError: invalid literal"
    ):
        Apart(lambda: False).call(int, "no")


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(AutotuneError, match=r"it was killed \(out of memory\?\)"):
        Apart(lambda: False).call(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(AutotuneError, match="exit code 3"):
        Apart(lambda: False).call(os._exit, 3)


def test_work_that_hangs_is_ended() -> None:
    with pytest.raises(AutotuneError, match=r"no answer after 0\.1 s"):
        Apart(lambda: False, limit_seconds=0.1).call(time.sleep, 1000)


def test_closing_ends_the_work() -> None:
    assert Apart(lambda: True).call(time.sleep, 1000) is None
