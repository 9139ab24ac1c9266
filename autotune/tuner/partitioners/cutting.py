"""Cuts the groups of a partition where that is cheaper: before products, and where narrow tensors pass."""

from __future__ import annotations

from itertools import combinations

from autotune.fusion.partition import Names, Partition
from autotune.isa.formats import Format
from autotune.operators.op import Family
from autotune.tuner.partitioners.climbing import connected_parts
from autotune.tuner.problem import FusionProblem

_PRODUCTS = (Family.CONV, Family.WINOGRAD, Family.MATMUL, Family.STRASSEN)
MOST_PIECES = 8
"""Pieces of a group at most that are joined to segments."""


def cut_groups(problem: FusionProblem, partition: Partition) -> Partition:
    """Return the cheapest partition whose groups are segments of those of ``partition``, in running order.

    Segments end before products, and behind operators whose results are narrow. Segments that are apart are groups
    of their own.
    """
    pieces = [_pieces(problem, names) for names in partition.groups]
    problem.prepare(
        part
        for one in pieces
        for first, last in combinations(range(len(one) + 1), 2)
        for part in _parts(problem, one[first:last])
        if problem.may_try(part)
    )
    return Partition.of(problem.graph, [part for one in pieces for part in _cheapest(problem, one)])


def _pieces(problem: FusionProblem, names: Names) -> list[Names]:
    """Return the operators between places where a group may be cut."""
    ops = {op.name: op for op in problem.graph.ops}
    pieces: list[list[str]] = [[]]
    for name in names:
        if pieces[-1] and ops[name].family in _PRODUCTS and len(pieces) < MOST_PIECES:
            pieces.append([])
        pieces[-1].append(name)
        is_narrow = problem.graph.types[ops[name].output].storage is not Format.FP32
        if is_narrow and len(pieces) < MOST_PIECES:
            pieces.append([])
    return [tuple(one) for one in pieces if one]


def _parts(problem: FusionProblem, pieces: list[Names]) -> tuple[Names, ...]:
    return connected_parts(problem.graph, tuple(name for piece in pieces for name in piece))


def _cheapest(problem: FusionProblem, pieces: list[Names]) -> tuple[Names, ...]:
    """Return the cheapest way to join neighbouring pieces, by dynamic programming."""
    best: list[tuple[float, tuple[Names, ...]]] = [(0.0, ())]
    for last in range(1, len(pieces) + 1):
        found = []
        for first in range(last):
            parts = _parts(problem, pieces[first:last])
            if all(map(problem.may_try, parts)) and (cost := problem.total(parts)) is not None:
                before, groups = best[first]
                found.append((before + cost, (*groups, *parts)))
        best.append(min(found, key=lambda one: one[0]))
    return best[-1][1]
