"""Products and quotients are read off the legal configurations, whatever parameters are called."""

from __future__ import annotations

from itertools import product

import numpy as np

from autotune.tuner.blackbox.space import Space

WIDTHS, HEIGHTS = (8, 16, 24, 32, 64), (1, 2, 4, 8, 16)


def derived(values: list[tuple[int, ...]]) -> dict[str, list[int]]:
    space = Space.of(("p", "q"), values)
    return {d.name: d.codes.tolist() for d in space.derived if not d.name.startswith("p: ")}


def test_a_product_is_told_where_the_legal_ones_are_bounded() -> None:
    values = [(w, h) for w, h in product(WIDTHS, HEIGHTS) if w * h <= 256]
    codes = derived(values)
    assert set(codes) == {"p × q", "p × q: factors of two"}
    threads = np.array([w * h for w, h in values])
    places = np.array(codes["p × q"])
    assert all(np.ptp(places[threads == count]) == 0 for count in set(threads.tolist()))
    assert (np.diff(places[np.argsort(threads, kind="stable")]) >= 0).all()


def test_a_quotient_is_told_where_it_is_always_whole() -> None:
    sizes = (8, 12, 16, 24, 32)
    values = [(size, part) for size, part in product(sizes, (2, 3, 4, 8)) if size % part == 0]
    assert "p ÷ q" in derived(values)


def test_nothing_is_told_of_a_full_grid_or_of_texts() -> None:
    assert not derived(list(product(WIDTHS, HEIGHTS)))
    texts = [(a, b) for a, b in product("abcdef", "uvwxyz") if ord(a) + ord(b) < 217]
    assert not Space.of(("p", "q"), texts).derived


def test_the_order_of_configurations_does_not_matter() -> None:
    values = [(w, h) for w, h in product(WIDTHS, HEIGHTS) if w * h <= 256]
    forth, back = derived(values), derived(values[::-1])
    assert forth == {name: codes[::-1] for name, codes in back.items()}
