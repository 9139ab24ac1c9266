"""The noise floor: differences of two passes over the same candidates."""

from __future__ import annotations

import pytest

from benchmarks.noise_floor import NoiseFloor, Pass, table


def test_differences_are_relative_to_the_first_pass() -> None:
    floor = NoiseFloor.of([100, 100, 100, 200], [100, 104, 92, 240])
    assert floor.count == 4
    assert floor.mean == pytest.approx((0 + 0.04 + 0.08 + 0.2) / 4)
    assert floor.median == pytest.approx(0.06)
    assert floor.worst == pytest.approx(0.2)
    assert (floor.within_5, floor.within_10) == (0.5, 0.75)


def test_a_common_shift_is_told_apart() -> None:
    assert NoiseFloor.of([10, 20], [11, 22]).geometric_shift == pytest.approx(0.1)


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], [1, 2])])
def test_series_that_cannot_be_compared_are_refused(
    first: list[float], second: list[float]
) -> None:
    with pytest.raises(ValueError, match="two equal series"):
        NoiseFloor.of(first, second)


def test_only_candidates_of_both_passes_are_compared_and_doubtful_ones_told_apart() -> None:
    first = Pass({"a": 10, "b": 20, "c": 30}, {"a": 1.0, "b": 0.1, "c": 1.0}, 1.0)
    second = Pass({"b": 40, "a": 10, "d": 5}, {"a": 1.0, "b": 1.0, "d": 1.0}, 1.0)
    rows = {row[0]: row for row in table(first, second).rows}
    assert rows["all"][1:3] == ("2", "50.0 %")
    assert rows["trusted"][1:3] == ("1", "0.0 %")
