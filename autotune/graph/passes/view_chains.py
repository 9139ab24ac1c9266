"""Pass: a chain of transposes and reshapes becomes one reshape, or one transpose between reshapes.

Exporters turn images into rows of tokens and back around every attention; holding images channels-last
adds transposes beside those. Only what such a chain does to the order of elements matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.transpose_motion import keeps_order
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import TensorType

VIEWS = (OpKind.RESHAPE, OpKind.TRANSPOSE)

Atoms = tuple[tuple[int, int], ...]
"""Pieces of the source's axes in the order of the view, outermost to innermost. Each is a pair: the
piece's stride in the source, in elements, and its extent. Pieces of extent 1 are left out."""


@dataclass(frozen=True, slots=True)
class ViewChains:
    """Chains of views that transpose more than once, or back to the first order."""

    name: str = "view-chains"

    def run(self, graph: Graph) -> PassResult:
        """One sweep; views that nothing else reads are dead then."""
        producer: dict[str, Op] = {}
        kept: list[Op] = []
        notes: list[Note] = []
        types: dict[str, TensorType] = {}
        taken = {*graph.types, *(op.name for op in graph.ops)}
        for op in graph.ops:
            written = _shortened(op, producer, graph, taken) if _moves(op, graph) else None
            if op.kind in VIEWS:
                producer[op.output] = op
            if written is None:
                kept.append(op)
                continue
            kept += [one for one, _ in written]
            dtype = graph.types[op.output].dtype
            types |= {one.output: TensorType(shape, dtype) for one, shape in written[:-1]}
            left = "a reshape" if len(written) == 1 else "one transpose"
            notes.append(Note(self.name, op.name, f"with the views before it, it is {left}"))
        return PassResult(rebuilt(graph, kept, types=types) if notes else graph, tuple(notes))


def _moves(op: Op, graph: Graph) -> bool:
    """Return True if this is a transpose that changes the order of elements."""
    if op.kind is not OpKind.TRANSPOSE:
        return False
    return not keeps_order(op.ints("perm"), graph.shape(op.inputs[0]))


Written = list[tuple[Op, tuple[int, ...]]]
"""Views and the shapes that they make."""


def _shortened(op: Op, producer: dict[str, Op], graph: Graph, taken: set[str]) -> Written | None:
    """Return the views that replace ``op`` and its chain, with at most one transpose.

    None if the chain has no other transpose, cuts axes across each other, or needs a transpose of
    more axes than an instruction moves.
    """
    chain = _chain(op, producer, graph)
    if sum(_moves(one, graph) for one in chain) < 2:
        return None
    for first in range(len(chain) - 1):
        part = chain[first:]
        if sum(_moves(one, graph) for one in part) < 2:
            return None
        atoms = _followed(part, graph)
        pieces = None if atoms is None else _joined(atoms)
        if pieces is not None and len(pieces) <= MAX_MOVED_AXES:
            return _written(op, part[0].inputs[0], pieces, graph, taken)
    return None


def _chain(op: Op, producer: dict[str, Op], graph: Graph) -> list[Op]:
    """Return the views that end in ``op``, all of one element type, first to last."""
    chain = [op]
    while (before := producer.get(chain[0].inputs[0])) is not None:
        if graph.types[before.inputs[0]].dtype is not graph.types[op.output].dtype:
            break
        chain.insert(0, before)
    return chain


def _followed(chain: Sequence[Op], graph: Graph) -> Atoms | None:
    """Return the source's pieces in the last view's order; None if a reshape cuts one unevenly."""
    axes = _axes(graph.shape(chain[0].inputs[0]))
    for op in chain:
        if op.kind is OpKind.TRANSPOSE:
            axes = [axes[axis] for axis in op.ints("perm")]
            continue
        regrouped = _regrouped([atom for axis in axes for atom in axis], graph.shape(op.output))
        if regrouped is None:
            return None
        axes = regrouped
    return tuple(atom for axis in axes for atom in axis)


def _axes(shape: Sequence[int]) -> list[Atoms]:
    """Return every axis as one piece: its stride in elements, and its extent."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    pairs = zip(reversed(strides), shape, strict=True)
    return [((stride, extent),) if extent != 1 else () for stride, extent in pairs]


def _regrouped(atoms: list[tuple[int, int]], shape: Sequence[int]) -> list[Atoms] | None:
    """Return the pieces cut evenly by the axes of a reshape."""
    left, axes = list(atoms), list[Atoms]()
    for extent in shape:
        axis: list[tuple[int, int]] = []
        wanted = extent
        while wanted > 1:
            stride, size = left.pop(0)
            if wanted % size == 0:
                axis.append((stride, size))
                wanted //= size
            elif size % wanted == 0:
                inner = size // wanted
                axis.append((stride * inner, wanted))
                left.insert(0, (stride, inner))
                wanted = 1
            else:
                return None
        axes.append(tuple(axis))
    return axes


def _written(op: Op, source: str, pieces: Atoms, graph: Graph, taken: set[str]) -> Written:
    """Return a reshape of ``source``, or a transpose between reshapes, that makes ``op``'s
    output."""
    shape = graph.shape(op.output)
    order = sorted(range(len(pieces)), key=lambda index: -pieces[index][0])
    cut = tuple(pieces[index][1] for index in order)
    turned = tuple(size for _, size in pieces)
    perm = tuple(order.index(index) for index in range(len(pieces)))
    views, x = Written(), source
    if cut == turned and perm == tuple(range(len(perm))):
        return [(Op.make(op.name, OpKind.RESHAPE, (x,), op.output, {"shape": shape}), shape)]
    if graph.shape(source) != cut:
        x = _fresh(f"{op.output}.cut", taken)
        views.append((Op.make(x, OpKind.RESHAPE, (source,), x, {"shape": cut}), cut))
    if turned == shape:
        return [*views, (replace(op, inputs=(x,), attrs=(("perm", perm),)), shape)]
    y = _fresh(f"{op.output}.turned", taken)
    views.append((Op.make(y, OpKind.TRANSPOSE, (x,), y, {"perm": perm}), turned))
    return [*views, (Op.make(op.name, OpKind.RESHAPE, (y,), op.output, {"shape": shape}), shape)]


def _joined(atoms: Atoms) -> Atoms:
    """Join pieces that are neighbours in the source."""
    joined: list[tuple[int, int]] = []
    for stride, size in atoms:
        if joined and joined[-1][0] == stride * size:
            joined[-1] = (stride, joined[-1][1] * size)
        else:
            joined.append((stride, size))
    return tuple(joined)


def _fresh(stem: str, taken: set[str]) -> str:
    name = fresh(stem, taken)
    taken.add(name)
    return name
