"""What requests leave for learning is taken in by another thread, in order, and by a request where no thread comes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.online.looks import AT_ONCE, MOST_WAITING, Look, Looks


def look(number: int) -> Look:
    table: Any = None
    return Look(table, RunTrace((), 0, 0), None, None, number, 0, 0)


def test_looks_are_taken_in_by_all_in_their_order() -> None:
    first, second = list[int](), list[int]()
    looks = Looks(lambda one: first.append(one.requests))
    looks.takers += (lambda one: second.append(one.requests),)
    for number in range(100):
        looks.add(look(number))
    assert not first, "a request leaves that to another thread"
    looks.take_in()
    assert first == second == list(range(100))
    looks.take_in()
    assert len(first) == 100


def test_a_request_takes_in_what_no_thread_takes() -> None:
    taken: list[int] = []
    looks = Looks(lambda one: taken.append(one.requests))
    for number in range(MOST_WAITING - 1):
        looks.add(look(number))
    assert not taken
    looks.add(look(MOST_WAITING - 1))
    assert taken == list(range(AT_ONCE)), "no request takes in many"


def test_threads_that_add_and_take_lose_no_look() -> None:
    taken: list[int] = []
    looks = Looks(lambda one: taken.append(one.requests))

    def add(part: int) -> None:
        for number in np.arange(1000) + 1000 * part:
            looks.add(look(int(number)))

    threads = [threading.Thread(target=add, args=(part,)) for part in range(4)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        looks.take_in()
    looks.take_in()
    assert sorted(taken) == list(range(4000))
