"""Online softmax: the softmax and product of an attention that may run tile by tile.

Their reduction becomes one more dimension of the nest, so no row of scores is ever whole (Milakov
and Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.op import Family, Op

STATE_WORDS = 3
"""State of a row: its maximum, the sum of its weights, and the factor from the maximum before."""


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """The softmax, the product of its weights, and the nest dimension that both reduce over."""

    softmax: str
    product: str
    dim: int

    def tile_reduction(self, op: Op, index: int, need: Footprint) -> Footprint:
        """Return the need of input ``index``, by tiles of the reduction if ``op`` is the
        product."""
        return tile_reduction(op, index, need, self.dim) if op.output == self.product else need


def tile_reduction(op: Op, index: int, need: Footprint, dim: int) -> Footprint:
    """Return the need of a product's input ``index`` by tiles of its reduction along ``dim``."""
    axis = len(need) - (2 if index == 1 and not op.int("trans_b") else 1)
    return (*need[:axis], AxisMap(dim, 1, 0, 1), *need[axis + 1 :])


def find_online_softmax(group: Group, root: str, ops: Sequence[Op]) -> OnlineSoftmax | None:
    """Return the nest's one softmax with a made operand and a product as its only reader."""
    pairs = [x for op in ops if (x := _pair(group, ops, op)) is not None]
    if len(pairs) != 1:
        return None
    softmax, product = pairs[0]
    return OnlineSoftmax(softmax, product, len(group.type_of[root].shape))


def _pair(group: Group, ops: Sequence[Op], product: Op) -> tuple[str, str] | None:
    if product.family is not Family.MATMUL or product.zeros or product.int("trans_a"):
        return None
    weights = product.inputs[0]
    softmax = group.producer.get(weights)
    if softmax is None or softmax.family is not Family.SOFTMAX or weights in group.outputs:
        return None
    shape = group.type_of[weights].shape
    alone = sum(op.inputs.count(weights) for op in ops) == 1
    over_last = softmax.int("axis") == len(shape) - 1 and shape[-1] > 1
    made = softmax.inputs[0] in group.producer
    return (weights, product.output) if alone and over_last and made else None


def can_follow_reduction(
    online: OnlineSoftmax,
    ops: Sequence[Op],
    footprints: Mapping[str, Footprint],
    split: frozenset[int],
) -> bool:
    """Return True if everything behind the product can run right behind the reduction's loop.

    Each tensor there must depend on every root dimension that may be ``split``.
    """
    behind = dependents(online.product, ((op.inputs, op.output) for op in ops))
    return all(split <= {axis.dim for axis in footprints[x]} for x in behind)


def dependents(tensor: str, steps: Iterable[tuple[tuple[str, ...], str]]) -> frozenset[str]:
    """Return a tensor and everything made of it by ``steps``, pairs of inputs and output in
    order."""
    tensors = {tensor}
    for inputs, output in steps:
        if not tensors.isdisjoint(inputs):
            tensors.add(output)
    return frozenset(tensors)
