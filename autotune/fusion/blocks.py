"""Blocks: groups of several anchors that a rule joins, for machines that keep intermediates in
cache.

A softmax joins the product that makes its rows, and the product of its result. So scores of a few
rows of a head at a time never leave the cache. Transposes of these products' operands and result
join as views that a product reads or writes in place. A classifier's single row stays apart from
its large product, which cores share.

Two dense products of small weights join if the tensor between them is too large for the cache. It
is then made and read by rows.

A depthwise convolution joins the products before and behind it if the tensor between them is too
large for the cache. The first product writes into the padded tile at once, which saves a copy. The
second reads the tile while it is near (docs/decisions/0020-blocks.md has the measurements).
"""

from __future__ import annotations

import math

from autotune.fusion.nest import EPILOGUE_FNS
from autotune.fusion.partition import Fits, Partition
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph
from autotune.operators.contraction import is_depthwise
from autotune.operators.op import Family, Op

_PRODUCTS = (Family.CONV, Family.MATMUL)
FAR_ELEMENTS = 256 * 1024
"""Elements of a tensor that no longer fits a second-level cache when it is read (1 MiB)."""


def with_blocks(partition: Partition, fits: Fits) -> Partition:
    """Return the partition with softmaxes, depthwise convolutions and dense pairs in blocks that
    ``fits``."""
    graph = partition.graph
    quotient = Quotient(graph, partition.groups)
    for op in graph.ops:
        if op.family is Family.SOFTMAX:
            _Block(graph, quotient, fits).around(op)
        elif op.family is Family.CONV and is_depthwise(op, graph.types):
            _Block(graph, quotient, fits).between(op)
        elif op.family in (Family.CONV, Family.MATMUL):
            _Block(graph, quotient, fits).through(op)
    return Partition(graph, quotient.groups())


class _Block:
    """Joins the operators of one block, around a softmax, depthwise convolution or product."""

    def __init__(self, graph: Graph, quotient: Quotient, fits: Fits) -> None:
        self._graph, self._quotient, self._fits = graph, quotient, fits
        self._ops = {op.name: op for op in graph.ops}

    def around(self, softmax: Op) -> None:
        """Join the products before and behind a softmax, then their transposes."""
        maker = self._graph.producer.get(softmax.inputs[0])
        if maker is None or not self._has_product(maker) or self._is_classifier(softmax, maker):
            return
        if not self._join(maker, softmax):
            return
        user = self._only_reader(softmax)
        if user is not None and user.family is Family.MATMUL:
            self._join(softmax, user)
        for product in self._members(softmax):
            if product.family is Family.MATMUL:
                self._turn(product)

    def _is_classifier(self, softmax: Op, maker: Op) -> bool:
        """Return True if one row is made of far weights; cores can share those only without the
        softmax."""
        if math.prod(self._graph.shape(softmax.output)) != self._graph.shape(softmax.output)[-1]:
            return False
        weights = (op.inputs[1] for op in self._members(maker) if op.family is Family.MATMUL)
        return any(
            x in self._graph.constants and math.prod(self._graph.shape(x)) >= FAR_ELEMENTS
            for x in weights
        )

    def between(self, depthwise: Op) -> None:
        """Join the products before and behind, including element-wise operators at their ends."""
        maker = self._graph.producer.get(depthwise.inputs[0])
        if maker is not None and self._is_far(maker) and self._leaves_a_product(maker):
            self._join(maker, depthwise)
        last = self._members(depthwise)[-1]
        user = self._only_reader(last)
        if user is not None and self._is_far(last) and self._is_product(user):
            self._join(last, user)

    def through(self, product: Op) -> None:
        """Join a dense product and the only reader of its group's result, if that is one as
        well."""
        last = self._members(product)[-1]
        user = self._only_reader(last)
        if user is None or not self._is_far(last):
            return
        pair = [op for x in (product, user) for op in self._members(x) if op.family in _PRODUCTS]
        if pair != [product, user] or not all(map(self._is_dense, pair)):
            return
        weights = sum(math.prod(self._graph.shape(op.inputs[1])) for op in pair)
        if weights <= FAR_ELEMENTS and user.inputs[0] == last.output:
            self._join(last, user)

    def _is_dense(self, op: Op) -> bool:
        """Return True if an operator multiplies every pixel or row by one constant matrix."""
        if op.inputs[1] not in self._graph.constants:
            return False
        if op.family is Family.MATMUL:
            return True
        is_pointwise = set(op.axes.taps(self._graph.shape(op.inputs[1]))) == {1}
        return is_pointwise and op.int("group") == 1 and set(op.ints("strides")) == {1}

    def _leaves_a_product(self, op: Op) -> bool:
        """Return True if a result comes out of a product's accumulator.

        Its group must have no depthwise convolution, as that window would make the next one's tiles
        overlap twice.
        """
        if op.kind in EPILOGUE_FNS:
            op = self._graph.producer.get(op.inputs[0], op)
        convolutions = (x for x in self._members(op) if x.family is Family.CONV)
        return self._is_product(op) and all(map(self._is_product, convolutions))

    def _is_product(self, op: Op) -> bool:
        if op.family is Family.CONV:
            return not is_depthwise(op, self._graph.types)
        return op.family is Family.MATMUL

    def _members(self, op: Op) -> list[Op]:
        """Return the operators of an operator's group."""
        return [self._ops[name] for name in self._quotient.names(self._quotient.home(op.name))]

    def _is_far(self, op: Op) -> bool:
        return math.prod(self._graph.shape(op.output)) >= FAR_ELEMENTS

    def _turn(self, product: Op) -> None:
        for x in dict.fromkeys(product.inputs):
            maker = self._graph.producer.get(x)
            if maker is not None and maker.family is Family.TRANSPOSE:
                self._join(maker, product)
        user = self._only_reader(product)
        if user is not None and user.family is Family.TRANSPOSE:
            self._join(product, user)

    def _has_product(self, op: Op) -> bool:
        return any(member.family is Family.MATMUL for member in self._members(op))

    def _only_reader(self, op: Op) -> Op | None:
        readers = self._graph.consumers[op.output]
        alone = len(readers) == 1 and op.output not in self._graph.outputs
        return readers[0] if alone else None

    def _join(self, maker: Op, user: Op) -> bool:
        """Join the groups of two operators of which only the second reads the first's result."""
        if self._only_reader(maker) is not user:
            return False
        first, second = self._quotient.home(maker.name), self._quotient.home(user.name)
        if not self._quotient.may_merge(first, second):
            return False
        if not self._fits(self._quotient.together(first, second)):
            return False
        self._quotient.merge(first, second)
        return True
