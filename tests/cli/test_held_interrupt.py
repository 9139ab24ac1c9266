"""Ctrl-C is held back until the work can end, once; the second one ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from autotune.cli.held_interrupt import held_interrupt


@pytest.fixture(autouse=True)
def same_handlers() -> Iterator[None]:
    """Ctrl-C interrupts, also where a shell's background job ignores it; handlers of before are back after each test."""
    numbers = signal.SIGINT, signal.SIGTERM
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before
    signal.signal(signal.SIGINT, outside)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_ctrl_c_comes_at_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_interrupt("soon") as held:
        assert held is not None
        interrupt()
        done.append("opened")
        held.release()
        done.append("searched")
    assert done == ["opened"]
    assert capsys.readouterr().err == "soon\n"


def test_the_second_ctrl_c_comes_at_once() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_interrupt("soon"):
        interrupt()
        done.append("first")
        interrupt()
        done.append("second")
    assert done == ["first"]


def test_after_the_release_nothing_is_held() -> None:
    with pytest.raises(KeyboardInterrupt), held_interrupt("soon") as held:
        assert held is not None
        held.release()
        interrupt()


def test_work_that_ends_before_its_release_is_interrupted_then() -> None:
    with pytest.raises(KeyboardInterrupt), held_interrupt("soon"):
        interrupt()


def test_an_error_says_more_than_the_ctrl_c_that_was_held() -> None:
    with pytest.raises(ValueError, match="no such network"), held_interrupt("soon"):
        interrupt()
        raise ValueError("no such network")
