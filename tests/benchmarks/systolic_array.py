"""A systolic array simulated register by register: an oracle for cycles that knows no formula.

A cell has a register for each operand that reaches it and one for its sum. On a clock edge every
register takes what stood at its input before: operands come from the neighbour on the left or above
(at the border: from the wires), a sum takes what the cell's operand registers held multiplied. One
tag travels with the operands from the left; by it alone the array knows on which edge the last
result of a fold is registered, and on that edge the next fold's first operand is on the wires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]
VALID, FIRST, LAST = 1, 2, 4
"""Tags: an operand at all; of the first, of the last vector of a fold."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came out, and on which clock edge; edge 1 registers the first operand."""

    product: Matrix
    edges: int
    """The edge that registers the last result, by its tag."""
    changes: tuple[int, ...]
    """The edges on which a register that results are read from changed."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """``streamed[s, row]`` enters on the left, one vector per edge, skewed by one edge per row.
    ``other`` enters from above: ``[s, col]``, skewed alike (`os`), or the held block (others)."""

    streamed: Matrix
    other: Matrix


class _OutputStationary:
    """Both operands move on, sums stay; what the registers hold when a fold ends is its result."""

    def __init__(self, rows: int, cols: int) -> None:
        self.a, self.tag, self.b, self.sum = (np.zeros((rows, cols), np.int64) for _ in range(4))

    def edge(self, fold: _Fold | None, step: int) -> bool:
        """One clock edge, the ``step``-th of a fold; whether a sum changed."""
        left, tags = _wires(None if fold is None else fold.streamed, step, len(self.a))
        above, _ = _wires(None if fold is None else fold.other, step, len(self.a.T))
        before = self.sum
        self.sum = np.where(self.tag & FIRST, 0, before) + self.a * self.b
        self.a, self.tag, self.b = (
            _right(self.a, left),
            _right(self.tag, tags),
            _down(self.b, above),
        )
        return bool((self.sum != before).any())

    def result(self) -> Matrix:
        """``[row, col]`` of the fold that has just ended."""
        return self.sum


class _WeightStationary:
    """One operand is shifted in from above and held; sums move down and leave at the bottom."""

    def __init__(self, rows: int, cols: int) -> None:
        self.a, self.tag, self.held, self.sum = (np.zeros((rows, cols), np.int64) for _ in range(4))
        self.left_below: list[list[int]] = [[] for _ in range(cols)]

    def edge(self, fold: _Fold | None, step: int) -> bool:
        """One clock edge, the ``step``-th of a fold; whether a result was registered."""
        rows = len(self.a)
        left, tags = _wires(None if fold is None else fold.streamed, step - rows, rows)
        above = np.zeros_like(self.sum[0])
        self.sum = _down(self.sum, above) + self.a * self.held
        leaving = np.flatnonzero(self.tag[-1] & VALID)
        for col in leaving:
            self.left_below[col].append(int(self.sum[-1, col]))
        if fold is not None and step < rows:
            self.held = _down(self.held, fold.other[rows - 1 - step])
        self.a, self.tag = _right(self.a, left), _right(self.tag, tags)
        return bool(leaving.size)

    def result(self) -> Matrix:
        """``[s, col]`` of the fold that has just ended."""
        found, self.left_below = np.array(self.left_below).T, [[] for _ in self.left_below]
        return found


def _wires(vectors: Matrix | None, step: int, width: int) -> tuple[Matrix, Matrix]:
    """Values and tags at one border in one step: wire ``w`` is ``w`` steps behind wire 0."""
    values, tags = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for w in range(width):
        s = step - w
        if vectors is not None and 0 <= s < len(vectors):
            values[w] = vectors[s, w]
            tags[w] = VALID | FIRST * (s == 0) | LAST * (s == len(vectors) - 1)
    return values, tags


def _right(registers: Matrix, wires: Matrix) -> Matrix:
    return np.column_stack((wires, registers[:, :-1]))


def _down(registers: Matrix, wires: Matrix) -> Matrix:
    return np.vstack((wires, registers[:-1]))


def _run(
    array: _OutputStationary | _WeightStationary, folds: list[_Fold]
) -> tuple[list[Matrix], int, tuple[int, ...]]:
    """All folds, one after the other; results, the last edge, the edges of changes."""
    results: list[Matrix] = []
    changes: list[int] = []
    edge = step = 0
    while len(results) < len(folds):
        ends = bool(array.tag[-1, -1] & LAST)
        if ends:
            step = 0
        at = len(results) + ends
        edge += 1
        if array.edge(folds[at] if at < len(folds) else None, step):
            changes.append(edge)
        if ends:
            results.append(array.result())
        step += 1
    return results, edge, tuple(changes)


def simulate(dataflow: str, left: Matrix, right: Matrix, rows: int, cols: int) -> Simulated:
    """``left[m, k] @ right[k, n]``; what does not fill the array is padded with zeros."""
    if dataflow == "is":  # the inputs are held as the weights are in `ws`
        turned = simulate("ws", right.T, left.T, rows, cols)
        return Simulated(turned.product.T, turned.edges, turned.changes)
    held = dataflow == "ws"
    a = _padded(left, 1, rows) if held else _padded(left, rows, 1)
    b = _padded(right, rows if held else 1, cols)
    product = np.zeros((len(a), len(b.T)), np.int64)
    places = list(_places(product.shape[1], cols, a.shape[1] if held else len(a), rows))
    if held:
        folds = [_Fold(a[:, r], b[r, c]) for c, r in places]
    else:
        folds = [_Fold(a[r].T, b[:, c]) for c, r in places]
    array = _WeightStationary(rows, cols) if held else _OutputStationary(rows, cols)
    results, edges, changes = _run(array, folds)
    for (c, r), result in zip(places, results, strict=True):
        product[slice(None) if held else r, c] += result
    return Simulated(product[: len(left), : right.shape[1]], edges, changes)


def _padded(matrix: Matrix, rows: int, cols: int) -> Matrix:
    """Zeros appended up to a multiple of either number."""
    return np.pad(matrix, ((0, -len(matrix) % rows), (0, -matrix.shape[1] % cols)))


def _places(width: int, cols: int, height: int, rows: int) -> Iterator[tuple[slice, slice]]:
    for c in range(0, width, cols):
        for r in range(0, height, rows):
            yield slice(c, c + cols), slice(r, r + rows)
