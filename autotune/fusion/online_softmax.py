"""Attention whose softmax may be found tile by tile: which product of a group that is. Its reduction then
is one more dimension of the nest, so that rows of scores never have to be whole (Milakov and Gimelshein,
arXiv:1805.02867; Dao et al., arXiv:2205.14135)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.op import Family, Op

STATE_WORDS = 3
"""Of each row: its maximum, the sum of its weights, and the factor from the maximum before."""


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """The softmax, the product of its weights, and the nest's dimension that both reduce over."""

    softmax: str
    product: str
    dim: int

    def tile_reduction(self, op: Op, index: int, need: Footprint) -> Footprint:
        """What an operator needs of input ``index``, by tiles of the reduction where it is the
        product."""
        return tile_reduction(op, index, need, self.dim) if op.output == self.product else need


def tile_reduction(op: Op, index: int, need: Footprint, dim: int) -> Footprint:
    """What a product needs of input ``index`` by tiles of its reduction along ``dim``."""
    axis = len(need) - (2 if index == 1 and not op.int("trans_b") else 1)
    return (*need[:axis], AxisMap(dim, 1, 0, 1), *need[axis + 1 :])


def find_online_softmax(group: Group, root: str, ops: Sequence[Op]) -> OnlineSoftmax | None:
    """The one softmax of a nest that a product alone reads, and whose operand is made here."""
    found = [x for op in ops if (x := _pair(group, ops, op)) is not None]
    if len(found) != 1:
        return None
    softmax, product = found[0]
    return OnlineSoftmax(softmax, product, len(group.type_of[root].shape))


def _pair(group: Group, ops: Sequence[Op], product: Op) -> tuple[str, str] | None:
    if product.family is not Family.MATMUL or product.int("trans_a"):
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
    """Whether all that follows the product depends on every root dimension that may be ``split``: it
    is then made right behind the loop over the reduction."""
    behind = dependents(online.product, ((op.inputs, op.output) for op in ops))
    return all(split <= {axis.dim for axis in footprints[x]} for x in behind)


def dependents(tensor: str, steps: Iterable[tuple[tuple[str, ...], str]]) -> frozenset[str]:
    """A tensor and all that is made of it by ``steps`` (what each reads, what it makes) in order."""
    found = {tensor}
    for inputs, output in steps:
        if not found.isdisjoint(inputs):
            found.add(output)
    return frozenset(found)
