"""Blocks: groups of several anchors that a rule joins, beyond what greedy fusion does; for machines
whose intermediates stay in cache (search/by_rule.py).

A softmax joins the product that makes its rows, and the product of its result: scores of a few rows
of a head at a time never leave the cache. Transposes of these products' operands and result join as
views, that a product reads or writes in place.
"""

from __future__ import annotations

from autotune.fusion.candidates import Fits
from autotune.fusion.partition import Partition
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph
from autotune.graph.op import Family, Op


def with_blocks(partition: Partition, fits: Fits) -> Partition:
    """The partition with every softmax in a block, as far as joint groups ``fits``."""
    graph = partition.graph
    quotient = Quotient(graph, partition.groups)
    for op in graph.ops:
        if op.family is Family.SOFTMAX:
            _Block(graph, quotient, fits).around(op)
    return Partition(graph, quotient.groups())


class _Block:
    """Joins what belongs to one softmax."""

    def __init__(self, graph: Graph, quotient: Quotient, fits: Fits) -> None:
        self._graph, self._quotient, self._fits = graph, quotient, fits
        self._ops = {op.name: op for op in graph.ops}

    def around(self, softmax: Op) -> None:
        """The products before and behind it, then their transposes."""
        maker = self._graph.producer.get(softmax.inputs[0])
        if maker is None or not self._has_product(maker) or not self._join(maker, softmax):
            return
        user = self._only_reader(softmax)
        if user is not None and user.family is Family.MATMUL:
            self._join(softmax, user)
        group = self._quotient.names(self._quotient.home(softmax.name))
        for product in (self._ops[name] for name in group):
            if product.family is Family.MATMUL:
                self._turn(product)

    def _turn(self, product: Op) -> None:
        for x in dict.fromkeys(product.inputs):
            maker = self._graph.producer.get(x)
            if maker is not None and maker.family is Family.TRANSPOSE:
                self._join(maker, product)
        user = self._only_reader(product)
        if user is not None and user.family is Family.TRANSPOSE:
            self._join(product, user)

    def _has_product(self, op: Op) -> bool:
        names = self._quotient.names(self._quotient.home(op.name))
        return any(self._ops[name].family is Family.MATMUL for name in names)

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
