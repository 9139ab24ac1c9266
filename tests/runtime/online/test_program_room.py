"""Programs for shapes and classes share one room of bytes; what costs least to be without leaves it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.online import program_room
from autotune.runtime.online.program_room import ProgramRoom, arenas_bytes, programs_bytes
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.session import Session


def held_bytes(table: ProgramTable) -> int:
    return programs_bytes(table) + arenas_bytes(table)


class Programs:
    """Programs that count their runs and note that they left."""

    def __init__(self) -> None:
        self.runs = 0
        self.has_left = False
        self.size_bytes = 0


def add(room: ProgramRoom, size_bytes: int, seconds: float = 1.0) -> Programs:
    made = Programs()
    made.size_bytes = size_bytes
    facts = vars(made)  # refers to no holder
    room.add(
        made,
        lambda: facts["size_bytes"],
        seconds,
        lambda: facts["runs"],
        lambda: facts.update(has_left=True),
    )
    return made


def test_the_least_used_for_their_bytes_and_seconds_leave() -> None:
    room = ProgramRoom(100, lambda: None)
    often, cheap, rare = add(room, 40, 1.0), add(room, 40, 0.1), add(room, 20, 1.0)
    often.runs, cheap.runs, rare.runs = 50, 50, 1
    newest = add(room, 60)
    assert [one.has_left for one in (often, cheap, rare, newest)] == [False, True, True, False]
    assert room.taken_bytes == 100


def test_uses_of_long_ago_count_less() -> None:
    room = ProgramRoom(100, lambda: None)
    old, new = add(room, 30), add(room, 30)
    old.runs = 40
    for _ in range(8):
        add(room, 1)
    new.runs = 10
    add(room, 41)
    assert old.has_left and not new.has_left


def test_the_newest_stay_though_they_do_not_fit_alone() -> None:
    room = ProgramRoom(100, lambda: None)
    small, large = add(room, 50), add(room, 500)
    assert small.has_left and not large.has_left


def test_what_grew_since_it_was_added_counts_as_it_is() -> None:
    room = ProgramRoom(100, lambda: None)
    one, other = add(room, 30), add(room, 30)
    one.size_bytes, other.runs = 60, 5
    assert room.taken_bytes == 90
    add(room, 20)
    assert one.has_left and not other.has_left


def test_a_machine_with_little_memory_left_has_a_smaller_room() -> None:
    room = ProgramRoom(1 << 30, lambda: 200)
    one = add(room, 20)
    other = add(room, 25)
    assert one.has_left and not other.has_left, "an eighth of 200 and what is held"


def test_what_is_gone_holds_nothing() -> None:
    room = ProgramRoom(100, lambda: None)
    one = add(room, 60)
    room.remove(one)
    other = add(room, 60)
    del other
    assert room.taken_bytes == 0


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "open.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    open (float[n, 64] x, float[64, 64] w) => (float[n, 64] y) { t = MatMul (x, w) y = Tanh (t) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize("target", ["edge", "cpu:1"])
def test_sessions_of_many_shapes_stay_within_the_room(
    network: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 64), np.float32)
    cases = [{"x": rng.standard_normal((n, 64), np.float32), "w": w} for n in (3, 17, 40, 90)]
    roomy = ProgramRoom(1 << 40, lambda: None)
    monkeypatch.setattr(program_room, "_ROOM", roomy)
    with Session(network, target) as session:
        for case in cases:
            session.traced_run(case)
        dynamic = session._network
        assert isinstance(dynamic, DynamicSession)
        sizes = [held_bytes(table) for table in dynamic.tables]
        assert len(sizes) == len(cases)
        assert roomy.taken_bytes == sum(sizes)
    assert roomy.taken_bytes == 0, "a closed session holds nothing"
    tight = ProgramRoom(sizes[-1] + sizes[-2], lambda: None)
    monkeypatch.setattr(program_room, "_ROOM", tight)
    with Session(network, target) as session:
        for case in [*cases, *cases]:
            made, _ = session.traced_run(case)
            np.testing.assert_allclose(made["y"], np.tanh(case["x"] @ w), rtol=1e-4, atol=1e-5)
            held = [held_bytes(table) for table in session._network.tables]
            assert tight.taken_bytes == sum(held) <= max(sizes[-1] + sizes[-2], held[-1])
        assert EventKind.FREED in [event.kind for event in session.events]
