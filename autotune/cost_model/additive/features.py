"""Features and counted work of every operator of a group, from structure and shapes alone; one row per column."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from autotune.cost_model.additive.operator_work import OperatorWork
from autotune.cost_model.additive.surroundings import Neighbour, Surroundings
from autotune.fusion.group import Group
from autotune.operators.families import FAMILIES
from autotune.operators.family import Work
from autotune.operators.op import Family, OpKind

Floats = npt.NDArray[np.float64]

VERSION = 2
"""Of the tables of this file; part of every stored model."""

Question = Callable[[OperatorWork, Surroundings], float]


class Sort(IntEnum):
    """Operators whose work has unit costs of its own."""

    CONV = 0
    DEPTHWISE = 1
    GROUPED = 2
    PRODUCT = 3
    PRODUCT_OF_COMPUTED = 4
    SIMPLE = 5
    TRANSCENDENTAL = 6
    FOLLOWING = 7
    BINARY = 8
    POOL = 9
    REDUCE = 10
    SOFTMAX = 11
    NORM = 12
    TRANSPOSE = 13
    MOVE = 14
    VIEW = 15


_OWN_SORTS = {
    Family.WINOGRAD: Sort.CONV,
    Family.REDUCE: Sort.REDUCE,
    Family.SOFTMAX: Sort.SOFTMAX,
    Family.LAYER_NORM: Sort.NORM,
    Family.TRANSPOSE: Sort.TRANSPOSE,
    Family.RESHAPE: Sort.VIEW,
}
"""Families whose unit costs are not those of their sort of work."""
_BY_WORK = {
    Work.MATRIX: Sort.PRODUCT,
    Work.VECTOR: Sort.SIMPLE,
    Work.WINDOW: Sort.POOL,
    Work.MOVE: Sort.MOVE,
}
_SORTS = {family: _OWN_SORTS.get(family, _BY_WORK[row.work]) for family, row in FAMILIES.items()}


def sort_of(work: OperatorWork, at: Surroundings) -> Sort:
    """Return the sort of an operator; ``FOLLOWING`` are element-wise ones that fusing systems compute
    within the contraction before."""
    op = work.op
    match op.family:
        case Family.CONV:
            if work.is_depthwise:
                return Sort.DEPTHWISE
            return Sort.GROUPED if op.int("group") > 1 else Sort.CONV
        case Family.MATMUL:
            held = op.inputs[1] in at.group.constants
            return Sort.PRODUCT if held else Sort.PRODUCT_OF_COMPUTED
        case Family.UNARY | Family.BINARY:
            if at.steps_since_contraction(op) == 1 and at.is_only_reader(op):
                return Sort.FOLLOWING
            if op.family is Family.BINARY and not work.is_transcendental:
                return Sort.BINARY
            return Sort.TRANSCENDENTAL if work.is_transcendental else Sort.SIMPLE
        case _:
            return _SORTS[op.family]


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One feature; a ``size`` enters as log2(1 + value)."""

    name: str
    doc: str
    value: Question
    is_size: bool = False


def _size(name: str, doc: str, value: Question) -> FeatureRow:
    return FeatureRow(name, doc, value, is_size=True)


def _kind(sort: Sort) -> FeatureRow:
    name = sort.name.lower()
    return FeatureRow(f"is_{name}", f"1 for sort {name}", lambda w, at: sort_of(w, at) is sort)


def _near(
    name: str, doc: str, sort: Neighbour, ask: Callable[[OperatorWork, Surroundings], Neighbour]
) -> FeatureRow:
    return FeatureRow(
        f"{name}_{sort.name.lower()}", f"1 if {doc} is of sort {sort.name.lower()}",
        lambda w, at: ask(w, at) is sort,
    )  # fmt: skip


def _before(work: OperatorWork, at: Surroundings) -> Neighbour:
    return at.before(work.op)


def _before_second(work: OperatorWork, at: Surroundings) -> Neighbour:
    return at.before(work.op, 1)


def _after(work: OperatorWork, at: Surroundings) -> Neighbour:
    return at.after(work.op)


FEATURES: tuple[FeatureRow, ...] = (
    *map(_kind, Sort),
    _size("multiply_adds", "multiply-adds of a contraction", lambda w, at: w.multiply_adds),
    _size("operations", "scalar operations", lambda w, at: w.operations),
    FeatureRow("operations_per_element", "scalar operations for each element of the result", lambda w, at: min(100.0, w.operations / max(1, w.elements))),
    _size("elements", "elements of the result", lambda w, at: w.elements),
    _size("read_elements", "elements of computed inputs", lambda w, at: w.read_elements),
    _size("weight_elements", "elements of constant inputs", lambda w, at: w.weight_elements),
    FeatureRow("intensity", "log2 of operations per byte", lambda w, at: math.log2((1 + w.operations) / (1 + w.moved_bytes))),
    _size("batch", "products or groups of a contraction", lambda w, at: w.matrix[0]),
    _size("rows", "rows of each product", lambda w, at: w.matrix[1]),
    _size("columns", "columns of each product", lambda w, at: w.matrix[2]),
    _size("depth", "depth of each product", lambda w, at: w.matrix[3]),
    FeatureRow("columns_past_16", "columns beyond a multiple of 16, as a share", lambda w, at: w.matrix[2] % 16 / 16),
    FeatureRow("kernel", "rows of the window", lambda w, at: w.window[0]),
    FeatureRow("kernel_columns", "columns of the window", lambda w, at: w.window[1]),
    FeatureRow("stride", "step of the window", lambda w, at: w.window[2]),
    _size("image_columns", "extent of the innermost axis of the result", lambda w, at: w.result[-1] if w.result else 1),
    _size("run", "elements in a row that are read and made alike", lambda w, at: w.run_elements),
    _size("reduced", "elements that become one", lambda w, at: w.reduced_elements),
    FeatureRow("rank", "axes of the result", lambda w, at: len(w.result)),
    FeatureRow("inputs", "number of inputs", lambda w, at: len(w.op.inputs)),
    FeatureRow("trans_b", "1 if the right operand is transposed", lambda w, at: w.op.family is Family.MATMUL and w.op.int("trans_b")),
    *(_near("after", "what makes the first input", sort, _before) for sort in Neighbour),
    *(_near("joins", "what makes the second input", sort, _before_second) for sort in Neighbour),
    *(_near("before", "the first reader", sort, _after) for sort in Neighbour),
    FeatureRow("activation", "1 for functions that systems fuse", lambda w, at: w.is_activation),
    FeatureRow("only_reader", "1 if nothing else reads the first input", lambda w, at: at.is_only_reader(w.op)),
    FeatureRow("only_second_reader", "1 if nothing else reads the second input", lambda w, at: at.is_only_reader(w.op, 1)),
    FeatureRow("readers", "operators that read the result", lambda w, at: min(8, at.reader_count(w.op))),
    FeatureRow("leaves", "1 if the result leaves the group", lambda w, at: w.op.output in at.group.outputs),
    FeatureRow("steps_since_contraction", "element-wise operators since a contraction", lambda w, at: at.steps_since_contraction(w.op)),
    FeatureRow("continues_image", "1 behind a convolution", lambda w, at: at.continues_image(w.op)),
    FeatureRow("feeds_image", "1 before a convolution or pool", lambda w, at: at.feeds_image(w.op)),
    _size("bytes_since", "bytes moved since the oldest input was made", lambda w, at: at.bytes_since(w.op)),
    _size("group_bytes", "bytes that the group moves", lambda w, at: at.total_bytes),
    _size("group_weights", "bytes of the group's constants", lambda w, at: at.weight_bytes),
    _size("node_operators", "operators that import made of the same node", lambda w, at: at.operators_of_node(w.op)),
    _size("group_operators", "operators of the group", lambda w, at: len(at.works)),
)  # fmt: skip

WEIGHT_BYTES = (1 << 20, 1 << 23, 1 << 26)
"""Bytes of a group's constants up to which a byte of them costs the same: caches hold fewer or more."""
LARGE_BYTES = (1 << 23, 1 << 25)
"""Bytes of a tensor from which on a byte may cost more: many caches hold no tensor of the first size, and few one of the second."""
PARTS = (
    "calls",
    "operations",
    "bytes",
    "outer_bytes",
    *(f"weight_bytes_{place}" for place in range(len(WEIGHT_BYTES) + 1)),
    "inner_calls",
    "read_again",
    *(f"large_bytes_{place}" for place in range(len(LARGE_BYTES))),
)
"""Counted work of an operator: calls, operations, bytes of computed tensors, those of them that enter or leave the group; for
contractions bytes of weights, by the weights of the whole group. A node that import wrote in several operators counts these, and the
bytes of weights that it reads again, as every step of a recurrent layer does. Bytes of large computed tensors count once more."""
_INNER_CALLS, _READ_AGAIN = 1 + PARTS.index("inner_calls"), 1 + PARTS.index("read_again")
_LARGE = 1 + PARTS.index("large_bytes_0")
CONTRACTIONS = (
    Sort.CONV, Sort.DEPTHWISE, Sort.GROUPED, Sort.PRODUCT, Sort.PRODUCT_OF_COMPUTED,
)  # fmt: skip
COMPOSED = (
    "BatchNormalization", "Conv", "ConvTranspose", "Einsum", "GRU", "GroupNormalization", "HardSigmoid", "HardSwish",
    "InstanceNormalization", "LRN", "LSTM", "PRelu", "Pow", "RNN", "ReduceMean", "Resize",
)  # fmt: skip
"""Operators of files that import writes in others and that cost what these do not; any other costs what its largest one does."""
_COMPUTING = frozenset(
    (
        *(sort.name.lower() for sort in CONTRACTIONS),
        "Conv",
        "ConvTranspose",
        "Einsum",
        "GRU",
        "LSTM",
        "RNN",
    )
)
COSTED = (
    *(sort.name.lower() for sort in (*CONTRACTIONS, Sort.FOLLOWING)),
    *(kind.value for kind in OpKind),
    *COMPOSED,
)
"""What has unit costs of its own: sorts of operators, kinds of others, and nodes of a file."""
_PLACES = {name: place for place, name in enumerate(COSTED)}
OPERATIONS_OF_CONTRACTIONS = len(PARTS)
POOLS = np.array(
    [
        [
            OPERATIONS_OF_CONTRACTIONS if part == "operations" and name in _COMPUTING else place
            for place, part in enumerate(PARTS)
        ]
        for name in COSTED
    ]
)
"""Costs that are about the same, by number [K, P]: calls of all, bytes of all, operations of contractions, …"""


def operator_features(group: Group) -> tuple[Floats, Floats]:
    """Return the features [n, F] and the counted work [n, 1 + P] of the ``n`` operators of a group: first the number in ``COSTED``
    of what prices it. A node of a file is counted at the largest of the operators that import made of it."""
    at = Surroundings(group)
    x = np.array([[row.value(work, at) for row in FEATURES] for work in at.works], np.float64)
    sizes = [i for i, row in enumerate(FEATURES) if row.is_size]
    x[:, sizes] = np.log2(1.0 + x[:, sizes])
    counted = np.zeros((len(at.works), 1 + len(PARTS)))
    inner = {place for _, places in at.nodes for place in places}
    for place, work in enumerate(at.works):
        if place not in inner:
            counted[place] = _counted(_price_of(work, at), (work,), at)
    for operator, places in at.nodes:
        works = tuple(at.works[place] for place in places)
        main = max(places, key=lambda place: (at.works[place].operations, place))
        name = operator if operator in COMPOSED else _price_of(at.works[main], at)
        counted[main] = _counted(name, works, at)
    return x, counted


def _price_of(work: OperatorWork, at: Surroundings) -> str:
    """Return the name in ``COSTED`` of what prices an operator."""
    name = sort_of(work, at).name.lower()
    return name if name in _PLACES else work.op.kind.value


def _counted(name: str, works: Sequence[OperatorWork], at: Surroundings) -> list[float]:
    """Count the work of operators that are one node, priced as ``name``: its place, and its parts [P]."""
    made = {work.op.output for work in works}
    read = {x for work in works for x in work.op.inputs} - made
    constants = read & at.group.constants
    left = {x for x in made if x in at.group.outputs or not at.is_read_within(x, made)}
    outer = {x for x in read - constants if x not in at.group.producer}
    outer |= left & {*at.group.outputs}
    weights, sizes = at.bytes_of(constants), [at.bytes_of([x]) for x in (read - constants) | left]
    row = [0.0] * (1 + len(PARTS))
    row[:4] = _PLACES[name], 1, sum(work.operations for work in works), sum(sizes)
    row[4] = at.bytes_of(outer)
    if name in _COMPUTING:
        row[5 + bisect_left(WEIGHT_BYTES, at.weight_bytes)] = weights
    else:
        row[3] += weights
    if len(works) > 1:
        row[_INNER_CALLS] = len(works)
        again = sum(at.bytes_of({*work.op.inputs} & constants) for work in works)
        row[_READ_AGAIN] = again - weights
    row[_LARGE:] = [sum(size for size in sizes if size >= least) for least in LARGE_BYTES]
    return row
