"""Which taps of a window read the image, against walking along it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.window import WindowAxis

AXES = st.builds(
    WindowAxis,
    size=st.integers(1, 20),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 9),
    before=st.integers(0, 20),
    after=st.integers(0, 20),
)


@given(axis=AXES)
def test_positions_at_which_a_tap_reads_the_image(axis: WindowAxis) -> None:
    for tap in range(axis.kernel):
        places = [
            i * axis.stride + tap * axis.dilation - axis.before for i in range(axis.positions)
        ]
        wanted = [i for i, place in enumerate(places) if 0 <= place < axis.size]
        assert list(range(*axis.reading(tap))) == wanted
        assert axis.reads(tap) == bool(wanted)


@given(axis=AXES.filter(lambda a: a.positions > 0), data=st.data())
def test_elements_are_those_from_the_first_to_the_last_read(axis: WindowAxis, data) -> None:
    first = data.draw(st.integers(0, axis.positions - 1))
    positions = first, data.draw(st.integers(first + 1, axis.positions))
    tap = data.draw(st.integers(0, axis.kernel - 1))
    taps = tap, data.draw(st.integers(tap + 1, axis.kernel))
    read = [
        i * axis.stride + t * axis.dilation - axis.before
        for i in range(*positions)
        for t in range(*taps)
    ]
    assert axis.elements(positions, taps) == (min(read), max(read) + 1)
