"""Configurations of a timing function's parameters: each once, all of a small space, many of a large one."""

from __future__ import annotations

import json

from autotune.targets.plugins.tunables import MOST_WEIGHED, configurations


def test_all_of_a_small_space_are_weighed() -> None:
    found = list(configurations((("threads", (1, 2)), ("mode", ("a", "b")))))
    assert len(found) == 4 and {"threads": 2, "mode": "a"} in found


def test_none_of_a_large_space_is_weighed_twice() -> None:
    space = (("rows", tuple(range(33))), ("columns", tuple(range(32))))
    texts = [json.dumps(one) for one in configurations(space)]
    assert len(texts) == MOST_WEIGHED == len(set(texts))
