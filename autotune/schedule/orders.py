"""Loop orders that differ in what they keep resident; the space tries one of each kind."""

from __future__ import annotations

from itertools import permutations

from autotune.fusion.nest import Nest

Order = tuple[int, ...]


def distinct_orders(nest: Nest, split: tuple[int, ...], shared: bool) -> tuple[Order, ...]:
    """Orders of all root dimensions, split ones first, of which no two refill the same buffers
    and run the same stages equally often; ``shared``: the outermost loop is divided over cores,
    so that it tells orders apart as well and must be one that can be. Of equal orders the first in dimension order stays: it
    walks DRAM rows in sequence."""
    rest = tuple(d for d in range(len(nest.root_shape)) if d not in split)
    contents = {nest.buffers[i].dims for i in nest.loads}
    contents |= {
        frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)
        for stage in nest.stages
    }
    found: dict[tuple[object, ...], Order] = {}
    for order in permutations(split):
        outermost = order[:1] if shared else ()
        if not nest.shareable.issuperset(outermost) or nest.reduced in order[:-1]:
            continue
        signature = (outermost, *(_around(order, dims) for dims in sorted(contents, key=sorted)))
        found.setdefault(signature, (*order, *rest))
    return tuple(found.values())


def _around(order: Order, dims: frozenset[int]) -> frozenset[int]:
    """Loops that enclose what depends on ``dims``: all up to the innermost of them."""
    depth = max((position for position, d in enumerate(order) if d in dims), default=-1)
    return frozenset(order[: depth + 1])
