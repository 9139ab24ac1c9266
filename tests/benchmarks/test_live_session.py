"""The picture of a session that learns shows what both sessions took, and where it swapped."""

from __future__ import annotations

from benchmarks.learning_picture import learning_picture
from benchmarks.live_session import Served


def test_the_line_tells_the_medians_of_the_first_and_the_last_requests() -> None:
    served = Served((4.0,) * 40, (5.0,) * 20 + (2.0,) * 20, (20,))
    assert served.text == "40 requests; as opened 4.00 → 4.00 ms; learning 5.00 → 2.00 ms"


def test_the_picture_has_a_line_for_each_session_and_each_swap() -> None:
    served = Served((4.0,) * 40, (5.0,) * 20 + (2.0,) * 20, (20, 30))
    drawn = learning_picture("net", 1, served.fixed_ms, served.learning_ms, served.swaps)
    assert drawn.count('class="swap"') == 2 + 1, "two swaps, and the key"
    for style in ("fixed", "learning"):
        assert drawn.count(f'class="{style}"') == 2, "a curve, and the key"
