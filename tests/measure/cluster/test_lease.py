"""Leases: who is alone has the machine alone, and a process that ends leaves everything."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autotune.measure.cluster.lease import Seat, lease


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_shared_leases_are_held_side_by_side_and_one_alone_waits_for_all() -> None:
    events: list[str] = []

    def measure_alone() -> None:
        with lease(alone=True):
            events.append("alone")

    with lease(alone=False), lease(alone=False):
        other = threading.Thread(target=measure_alone)
        other.start()
        events.append("shared")
    other.join(60)
    assert events == ["shared", "alone"]


def test_a_lease_alone_keeps_the_others_out() -> None:
    inside: list[int] = []
    most: list[int] = []

    def measure(alone: bool) -> None:
        with lease(alone):
            inside.append(1)
            most.append(len(inside) if alone else 1)
            inside.pop()

    threads = [threading.Thread(target=measure, args=(i % 2 == 0,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 16 and set(most) == {1}


def test_one_seat_a_machine_and_a_dead_process_leaves_it(tmp_path: Path) -> None:
    code = (
        "import sys; from autotune.measure.cluster.lease import Seat; seat = Seat(); "
        "print(seat.take(), flush=True); sys.stdin.read()"
    )
    mine = Seat()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        assert not mine.take()
        other.kill()
    assert mine.take() and mine.take()
    mine.leave()
    assert Seat().take()
