"""ONNX's Einsum: diagonals and sums of single operands, then pairs from left to right, each one matrix
multiply over what the pair shares and nothing later needs.

Axes have labels: letters, and numbers for those that an ellipsis stands for, counted from the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, part, seen_as, stretched, turned
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

Labels = tuple[str, ...]
TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor of any shape, and the labels of the axes that its elements are in the order of."""

    tensor: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class _Contraction:
    """One node's translation; ``extents`` of every label."""

    scope: Scope
    node: Node
    extents: dict[str, int]

    def shape(self, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.extents[label] for label in labels)

    def ordered(self, term: _Term, labels: Labels, shape: Sequence[int]) -> str:
        """The tensor with its axes in this order, seen in a shape."""
        order = [term.labels.index(label) for label in labels]
        own = self.shape(term.labels)
        return turned(self.scope, self.node, term.tensor, own, order, shape)

    def reduced(self, term: _Term, kept: set[str]) -> _Term:
        """Summed over the labels that nothing else needs."""
        rest = tuple(label for label in term.labels if label in kept)
        gone = tuple(label for label in term.labels if label not in kept)
        if not gone:
            return term
        rows, columns = math.prod(self.shape(rest)), math.prod(self.shape(gone))
        x = self.ordered(term, rest + gone, (rows, columns))
        return _Term(self.scope.step(self.node, OpKind.REDUCE_SUM, x, axes=(1,)), rest)

    def pair(self, a: _Term, b: _Term, kept: set[str]) -> _Term:
        """The product of two terms, summed over what they share and nothing else needs."""
        batch = tuple(x for x in a.labels if x in b.labels and x in kept)
        shared = tuple(x for x in a.labels if x in b.labels and x not in kept)
        own_a = tuple(x for x in a.labels if x not in b.labels)
        own_b = tuple(x for x in b.labels if x not in a.labels)
        times, rows, inner, columns = (
            math.prod(self.shape(labels)) for labels in (batch, own_a, shared, own_b)
        )
        result = batch + own_a + own_b
        if not shared:
            left = self.ordered(a, batch + own_a, (times, rows, 1))
            right = self.ordered(b, batch + own_b, (times, 1, columns))
            return _Term(self.scope.step(self.node, OpKind.MUL, left, right), result)
        count = (times,) if batch else ()
        trans_a = a.labels == batch + shared + own_a
        trans_b = b.labels == batch + own_b + shared
        left = self.ordered(
            a,
            batch + (shared + own_a if trans_a else own_a + shared),
            (*count, *((inner, rows) if trans_a else (rows, inner))),
        )
        right = self.ordered(
            b,
            batch + (own_b + shared if trans_b else shared + own_b),
            (*count, *((columns, inner) if trans_b else (inner, columns))),
        )
        flags = {"trans_a": int(trans_a), "trans_b": int(trans_b)}
        return _Term(self.scope.step(self.node, OpKind.MATMUL, left, right, **flags), result)


def _einsum(scope: Scope, node: Node) -> str:
    tensors = [scope.tensor(node, index) for index in range(len(node.inputs))]
    operands, result = _labels(node, [len(scope.shape(x)) for x in tensors])
    pairs = [_diagonal(scope, node, x, own) for x, own in zip(tensors, operands, strict=True)]
    extents = _extents(scope, node, pairs)
    contraction = _Contraction(scope, node, extents)
    terms = []
    for tensor, own in pairs:
        wide = stretched(scope, node, tensor, contraction.shape(own))
        terms.append(_Term(wide, own))
    total = terms[0]
    for place, term in enumerate(terms):
        later = {label for other in terms[place + 1 :] for label in other.labels} | set(result)
        if place == 0:
            total = contraction.reduced(term, later)
            continue
        alone = contraction.reduced(term, later | set(total.labels))
        total = contraction.pair(total, alone, later)
    shape = contraction.shape(result)
    return scope.reshaped(node, contraction.ordered(total, result, shape), shape)


def _labels(node: Node, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of every operand and of the result."""
    equation = node.text("equation", "").replace(" ", "")
    given, arrow, wanted = equation.partition("->")
    terms = given.split(",")
    if len(terms) != len(ranks) or not all(TERM.fullmatch(x) for x in (*terms, wanted)):
        raise ModelError(
            f"{node.label}: Einsum {equation!r} does not read as {len(ranks)} terms of letters"
        )
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        more = rank - len(term.replace("...", ""))
        if more < 0 or (more and "..." not in term):
            raise ModelError(f"{node.label}: Einsum term {term!r} does not fit rank {rank}")
        operands.append(_spelled(term, more))
    most = max((int(x) + 1 for own in operands for x in own if x.isdigit()), default=0)
    if not arrow:
        letters = re.sub("[.,]", "", given)
        wanted = "..." + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    result = _spelled(wanted, most)
    unknown = set(result) - {x for own in operands for x in own}
    if unknown or len(set(result)) != len(result):
        raise ModelError(f"{node.label}: Einsum {equation!r} has no such result")
    return operands, result


def _spelled(term: str, more: int) -> Labels:
    """A term's labels, ``more`` of them for its ellipsis."""
    before, dots, after = term.partition("...")
    numbers = [str(i) for i in reversed(range(more))] if dots else []
    return (*before, *numbers, *after)


def _diagonal(scope: Scope, node: Node, x: str, labels: Labels) -> tuple[str, Labels]:
    """A tensor of which no label comes twice: equal places of axes that share one."""
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is None:
        return x, labels
    shape = scope.shape(x)
    first, second = [axis for axis, label in enumerate(labels) if label == twice][:2]
    extent = shape[first]
    if shape[second] != extent:
        raise ModelError(
            f"{node.label}: Einsum label {twice!r} stands for {extent} and {shape[second]}"
        )
    rest = [axis for axis in range(len(shape)) if axis not in (first, second)]
    others = tuple(shape[axis] for axis in rest)
    flat = turned(scope, node, x, shape, (first, second, *rest), (extent**2, math.prod(others)))
    taken = part(scope, node, flat, 0, Run(0, extent + 1, extent))
    whole = seen_as(scope, node, taken, (extent, *others))
    return _diagonal(scope, node, whole, (twice, *(labels[axis] for axis in rest)))


def _extents(scope: Scope, node: Node, terms: Sequence[tuple[str, Labels]]) -> dict[str, int]:
    """The extent of every label; axes of 1 stretch."""
    found: dict[str, int] = {}
    for tensor, labels in terms:
        for label, extent in zip(labels, scope.shape(tensor), strict=True):
            known = found.get(label, 1)
            if 1 not in (known, extent) and known != extent:
                raise ModelError(
                    f"{node.label}: Einsum label {label!r} stands for {known} and {extent}"
                )
            found[label] = max(known, extent)
    return found


EINSUM: dict[str, Translate] = {"Einsum": _einsum}
