"""Copies of inputs: the newest ones, whatever callers write later; there is one at any time after the first."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from autotune.runtime.online import input_samples
from autotune.runtime.online.input_samples import KEPT, InputSamples


def test_the_newest_copies_are_kept() -> None:
    samples, x = InputSamples(), np.zeros(1, np.float32)
    for i in range(KEPT + 2):
        x[0] = i
        samples.offer({"x": x})
    assert [float(one["x"][0]) for one in samples.recorded()] == [2.0, 3.0, 4.0]


def test_a_large_one_takes_the_place_of_the_others_and_readers_never_find_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_samples, "LIMIT_BYTES", 8)  # one number is large
    samples, x = InputSamples(), {"x": np.zeros(1, np.float32)}
    samples.offer(x)
    lengths: set[int] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            lengths.add(len(samples.recorded()))

    reader, interval = threading.Thread(target=read), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for _ in range(40_000):
            samples.offer(x)
    finally:
        done.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert lengths == {1}
