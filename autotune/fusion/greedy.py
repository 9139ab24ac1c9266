"""Partitions by rule: every operator alone, or element-wise operators with their producers."""

from __future__ import annotations

from autotune.fusion.late_widening import with_late_widening
from autotune.fusion.partition import Fits, Names, Partition
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op

LARGEST = 32
"""Most operators of a group by rule or in a search. A transformer block is best as one group of 29;
looking at a group takes time in proportion to its square."""

EPILOGUES = frozenset((Family.UNARY, Family.BINARY))
"""Families that a rule-based compiler appends to the producer of their operand."""
LOADED_AS = frozenset((Family.SLICE, Family.PAD, Family.EXPAND))
"""Families that the loads of their reader perform on the way."""
_FREE = frozenset((*EPILOGUES, *LOADED_AS, Family.RESHAPE))


def unfused(graph: Graph) -> Partition:
    """Return the partition with every operator on its own."""
    return Partition.of(graph, [(op.name,) for op in graph.ops])


def greedy(graph: Graph, fits: Fits) -> Partition:
    """Return the partition of a rule-based compiler, with groups of at most ``LARGEST`` operators.

    Every element-wise operator joins the producers of its operands, latest first, if nothing
    outside of its group reads them and the joint group ``fits``. A group has one operator that is
    not element-wise: its anchor. A grown group is visited again, as its operators may now be the
    only readers of other operands. Operators in ``LOADED_AS`` join their only reader.
    """
    quotient = Quotient(graph)
    by_name = {op.name: op for op in graph.ops}
    refused: set[Names] = set()
    shared = {op.name for users in graph.consumers.values() if len(users) > 1 for op in users}

    def grows(name: str) -> bool:
        op = by_name[name]
        return op.family in EPILOGUES and _joins(quotient, op, by_name, fits, refused)

    for op in graph.ops:
        grew = grows(op.name)
        while grew:
            group = quotient.names(quotient.home(op.name))
            grew = any(grows(name) for name in reversed(group) if name in shared)
    _join_readers(graph, quotient, fits)
    return with_late_widening(Partition(graph, quotient.groups()), fits)


def _joins(
    quotient: Quotient, op: Op, by_name: dict[str, Op], fits: Fits, refused: set[Names]
) -> bool:
    """Merge an operator's group with its producers' where they fit; return True if any merged.

    The group must be the only reader of each producer. ``refused`` remembers groups that do not
    fit.
    """
    graph, merged = quotient.graph, False
    producers = [graph.producer[x] for x in dict.fromkeys(op.inputs) if x in graph.producer]
    for producer in sorted(producers, key=lambda p: -quotient.position[p.name]):
        first, second = quotient.home(producer.name), quotient.home(op.name)
        readers = graph.consumers[producer.output]
        if producer.output in graph.outputs or any(
            quotient.home(reader.name) != second for reader in readers
        ):
            continue
        if not quotient.may_merge(first, second):
            continue
        names = quotient.together(first, second)
        if len(names) > LARGEST or names in refused:
            continue
        if sum(by_name[name].family not in _FREE for name in names) <= 1 and fits(names):
            quotient.merge(first, second)
            merged = True
        else:
            refused.add(names)
    return merged


def _join_readers(graph: Graph, quotient: Quotient, fits: Fits) -> None:
    for op in reversed(graph.ops):
        readers = graph.consumers[op.output]
        if op.family not in LOADED_AS or len(readers) != 1 or op.output in graph.outputs:
            continue
        if op.family is Family.SLICE and set(op.ints("steps")) != {1}:
            continue  # single elements cost more per load, and a reader may load them often
        first, second = quotient.home(op.name), quotient.home(readers[0].name)
        if first == second or readers[0].family is Family.RESHAPE:
            continue
        if not quotient.may_merge(first, second):
            continue
        names = quotient.together(first, second)
        if len(names) <= LARGEST and fits(names):
            quotient.merge(first, second)
