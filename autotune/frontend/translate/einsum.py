"""ONNX's Einsum: diagonals and sums of single operands, then pairs from left to right.

Each pair is one matrix multiply over labels that it shares and nothing later needs. Axes have
labels: letters, and numbers for those of an ellipsis, counted from the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, broadcast, permute, reshape, slice_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

Labels = tuple[str, ...]
TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor of any shape, and the labels of its axes in the order of its elements."""

    tensor: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class _Contraction:
    """Translation of one node; ``extents`` maps every label to its extent."""

    scope: Scope
    node: Node
    extents: dict[str, int]

    def shape(self, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.extents[label] for label in labels)

    def permute_to(self, term: _Term, labels: Labels, shape: Sequence[int]) -> str:
        """Return the tensor with its axes in the order of ``labels``, in a shape."""
        order = [term.labels.index(label) for label in labels]
        own = self.shape(term.labels)
        return permute(self.scope, self.node, term.tensor, own, order, shape)

    def sum_out(self, term: _Term, needed: set[str]) -> _Term:
        """Sum over the labels that nothing else needs."""
        rest = tuple(label for label in term.labels if label in needed)
        gone = tuple(label for label in term.labels if label not in needed)
        if not gone:
            return term
        rows, columns = math.prod(self.shape(rest)), math.prod(self.shape(gone))
        x = self.permute_to(term, rest + gone, (rows, columns))
        return _Term(self.scope.step(self.node, OpKind.REDUCE_SUM, x, axes=(1,)), rest)

    def contract(self, a: _Term, b: _Term, needed: set[str]) -> _Term:
        """Multiply two terms; sum over labels that both have and nothing else needs."""
        batch = tuple(x for x in a.labels if x in b.labels and x in needed)
        shared = tuple(x for x in a.labels if x in b.labels and x not in needed)
        own_a = tuple(x for x in a.labels if x not in b.labels)
        own_b = tuple(x for x in b.labels if x not in a.labels)
        times, rows, inner, columns = (
            math.prod(self.shape(labels)) for labels in (batch, own_a, shared, own_b)
        )
        result = batch + own_a + own_b
        if not shared:
            left = self.permute_to(a, batch + own_a, (times, rows, 1))
            right = self.permute_to(b, batch + own_b, (times, 1, columns))
            return _Term(self.scope.step(self.node, OpKind.MUL, left, right), result)
        count = (times,) if batch else ()
        trans_a = a.labels == batch + shared + own_a
        trans_b = b.labels == batch + own_b + shared
        left = self.permute_to(
            a,
            batch + (shared + own_a if trans_a else own_a + shared),
            (*count, *((inner, rows) if trans_a else (rows, inner))),
        )
        right = self.permute_to(
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
        wide = broadcast(scope, node, tensor, contraction.shape(own))
        terms.append(_Term(wide, own))
    total = terms[0]
    for place, term in enumerate(terms):
        later = {label for other in terms[place + 1 :] for label in other.labels} | set(result)
        if place == 0:
            total = contraction.sum_out(term, later)
            continue
        alone = contraction.sum_out(term, later | set(total.labels))
        total = contraction.contract(total, alone, later)
    shape = contraction.shape(result)
    return scope.reshape_result(node, contraction.permute_to(total, result, shape), shape)


def _labels(node: Node, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Return the labels of every operand and of the result."""
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
        operands.append(_spell(term, more))
    most = max((int(x) + 1 for own in operands for x in own if x.isdigit()), default=0)
    if not arrow:
        letters = re.sub("[.,]", "", given)
        wanted = "..." + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    result = _spell(wanted, most)
    unknown = set(result) - {x for own in operands for x in own}
    if unknown or len(set(result)) != len(result):
        raise ModelError(f"{node.label}: Einsum {equation!r} has no such result")
    return operands, result


def _spell(term: str, more: int) -> Labels:
    """Return a term's labels, with ``more`` of them for its ellipsis."""
    before, dots, after = term.partition("...")
    numbers = [str(i) for i in reversed(range(more))] if dots else []
    return (*before, *numbers, *after)


def _diagonal(scope: Scope, node: Node, x: str, labels: Labels) -> tuple[str, Labels]:
    """Return a tensor without repeated labels: the diagonal of axes that share one."""
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
    flat = permute(scope, node, x, shape, (first, second, *rest), (extent**2, math.prod(others)))
    taken = slice_axis(scope, node, flat, 0, Run(0, extent + 1, extent))
    whole = reshape(scope, node, taken, (extent, *others))
    return _diagonal(scope, node, whole, (twice, *(labels[axis] for axis in rest)))


def _extents(scope: Scope, node: Node, terms: Sequence[tuple[str, Labels]]) -> dict[str, int]:
    """Return the extent of every label; extents of 1 broadcast."""
    extents: dict[str, int] = {}
    for tensor, labels in terms:
        for label, extent in zip(labels, scope.shape(tensor), strict=True):
            before = extents.get(label, 1)
            if 1 not in (before, extent) and before != extent:
                raise ModelError(
                    f"{node.label}: Einsum label {label!r} stands for {before} and {extent}"
                )
            extents[label] = max(before, extent)
    return extents


EINSUM: dict[str, Translate] = {"Einsum": _einsum}
