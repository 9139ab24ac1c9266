"""The least bytes between DRAM and scratchpads: over one group, or over every partition of a network.

A tensor that is made and read inside costs nothing. Which ones are is a choice where fusion is free;
relaxed to shares between 0 and 1 the cheapest choice is a linear programme, whose optimum no plan undercuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.fusion.group import Group
from autotune.isa.formats import ELEMENT_BYTES
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.contraction import is_depthwise
from autotune.operators.op import Family, Op
from autotune.tuner.bound.capacity import TiledProduct, tiled_product
from autotune.tuner.bound.chains import ELEMENTWISE
from autotune.tuner.bound.demand import Demand
from autotune.tuner.bound.operator_work import nonzero_share

Edge = tuple[str, str]
"""A tensor made in the group, and the operator that reads it."""
Row = tuple[dict[str | Edge, float], float]
"""Factors of variables, elements of a tensor or the share of an edge that is cut; and their least sum."""
_MOST_PATHS = 8
"""Paths that are followed from one product; to leave some out only loosens the bound."""
_TOLERANCE = 1e-6
"""Part of an optimum that the solver's rounding may add."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Least bytes in both directions, loaded, and stored; each for itself.

    ``distinct_bytes`` are those of inputs, constants and outputs, once each; ``loads`` is the number of
    tensors that are loaded whatever is fused.
    """

    total_bytes: float
    loaded_bytes: float
    stored_bytes: float
    distinct_bytes: float
    loads: int


def least_traffic(group: Group, demand: Demand, capacity: int, fused: bool) -> Traffic:
    """Return the least traffic of a group; its operators are one program if ``fused``.

    Otherwise they may be any partition into programs. ``capacity`` is a scratchpad's elements; of
    narrow ones it may hold more.
    """
    narrowest = min(kind.storage.bytes for _, kind in group.types)
    capacity *= ELEMENT_BYTES // narrowest
    return _Programme(group, demand, capacity, fused).solved()


@dataclass(slots=True)
class _Programme:
    """Variables and rows of the linear programme: elements loaded by tensor, edges that are cut."""

    group: Group
    demand: Demand
    capacity: int
    fused: bool
    home: dict[str, str] = field(init=False)
    """Tensor to the one that it is a view of."""
    least: dict[str, float] = field(init=False)
    """Elements that are loaded of every tensor from outside, at the least."""
    edges: dict[Edge, float] = field(init=False)
    """Elements that are loaded of a tensor made here if its reader is in another program."""
    rows: list[Row] = field(init=False)
    """Sums of variables that are at least a number."""

    def __post_init__(self) -> None:
        self.home, self.least, self.edges, self.rows = {}, {}, {}, []
        for op in self.group.ops:
            if op.family is Family.RESHAPE:
                self.home[op.output] = self._root(op.inputs[0])
                continue
            for index, x in enumerate(op.inputs):
                self._read(op, index, self._root(x))
        for op in self.group.ops:
            product = tiled_product(op, self.group, self.demand)
            if product is not None:
                self._require_product(op, product)

    def _root(self, tensor: str) -> str:
        return self.home.get(tensor, tensor)

    def _read(self, op: Op, index: int, x: str) -> None:
        elements = float(self.demand.read[op.name, index])
        blocks = zero_blocks(op) if index == 1 else None
        if blocks is not None:
            elements *= nonzero_share(blocks, op, self.group.type_of[op.inputs[1]].shape)
        if x not in self.group.producer:
            self.least[x] = max(self.least.get(x, 0.0), elements)
        elif not self.fused:
            self.edges[x, op.name] = max(self.edges.get((x, op.name), 0.0), elements)

    def _require_product(self, op: Op, product: TiledProduct) -> None:
        """Add what the scratchpad forces on a product's operands."""
        weight = self._root(product.weight.tensor)
        if weight in self.group.producer:
            return
        both = product.least_elements(self.capacity)
        once = self.least[weight]
        sources, cuts = self._behind(op)
        loads: dict[str | Edge, float] = {weight: 1.0, **dict.fromkeys(sources, 1.0)}
        outside = [x for x in sources if x not in self.group.producer]
        if outside and outside[-1] == sources[-1] == self._root(product.data.tensor):
            self.rows.append((loads, both))
        elif both > once:
            for cut in cuts:
                self.rows.append(({**loads, cut: once - both}, once))
        if product.repeats == 1:
            self._require_whole_lines(op, product, weight)

    def _behind(self, op: Op) -> tuple[list[str], list[Edge]]:
        """Return the tensors that a product's data comes from, first to last, through element-wise
        operators of equal shape, and the edges between them that a partition may cut."""
        sources, reader = [self._root(op.inputs[0])], op
        cuts: list[Edge] = []
        while sources[0] in self.group.producer:
            cuts.insert(0, (sources[0], reader.name))
            reader = self.group.producer[sources[0]]
            if reader.family not in ELEMENTWISE:
                break
            maker = self._root(reader.inputs[0])
            same = self.group.type_of[maker].shape == self.group.type_of[reader.output].shape
            if not same:
                break
            sources.insert(0, maker)
        return sources, [cut for cut in cuts if cut in self.edges]

    def _require_whole_lines(self, op: Op, product: TiledProduct, weight: str) -> None:
        inside, once = product.inside_elements(self.capacity), self.least[weight]
        if inside <= once:
            return
        for path in self._paths_to_reductions(op)[:_MOST_PATHS]:
            if math.isinf(inside):
                if not self.fused:
                    self.rows.append((dict.fromkeys(path, 1.0), 1.0))
                continue
            terms: dict[str | Edge, float] = {weight: 1.0}
            terms.update(dict.fromkeys(path if not self.fused else (), inside))
            self.rows.append((terms, inside))

    def _paths_to_reductions(self, op: Op) -> list[list[Edge]]:
        """Return the edges from a product to each reader that reduces over its columns."""
        channel = op.axes.channel if op.family is Family.CONV else -1
        found: list[list[Edge]] = []
        waiting: list[tuple[str, list[Edge]]] = [(op.output, [])]
        while waiting and len(found) < _MOST_PATHS:
            tensor, path = waiting.pop()
            for user in self.group.ops:
                if tensor not in user.inputs:
                    continue
                further = [*path, (tensor, user.name)]
                if _reduces(user, tensor, channel, self.group):
                    found.append(further)
                elif user.family in ELEMENTWISE and self._is_alike(tensor, user.output):
                    waiting.append((user.output, further))
        return found

    def _is_alike(self, tensor: str, result: str) -> bool:
        return self.group.type_of[tensor].shape == self.group.type_of[result].shape

    def solved(self) -> Traffic:
        """Return the least traffic of the programme."""
        outputs = dict.fromkeys(map(self._root, self.group.outputs))
        made = (x for x in outputs if x in self.group.producer)
        stored = float(sum(self._words(x) * self._elements(x) for x in made))
        once = float(sum(self._words(x) * elements for x, elements in self.least.items()))
        total = (
            max(once + stored, self._optimum(set(outputs)) + stored) if self.rows else once + stored
        )
        loaded = total - stored if self.fused else once
        scale = float(ELEMENT_BYTES)
        loads = sum(elements > 0 for elements in self.least.values())
        return Traffic(
            scale * total, scale * loaded, scale * stored, scale * (once + stored), loads
        )

    def _words(self, tensor: str) -> float:
        """Return the words of an element, as it is stored."""
        return self.group.type_of[tensor].storage.bytes / ELEMENT_BYTES

    def _elements(self, tensor: str) -> int:
        return self.group.type_of[tensor].elements

    def _optimum(self, outputs: set[str]) -> float:
        """Return the least words loaded, and stored besides ``outputs``."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        made = tuple(dict.fromkeys(x for x, _ in self.edges))
        stores = tuple(("stored", x) for x in made if x not in outputs)
        names = (*self.least, *made, *self.edges, *stores)
        at = {name: i for i, name in enumerate(names)}
        unit = max(1.0, *self.least.values())
        rows = [*self.rows, *self._cuts(outputs)]
        scaled = [_scaled(terms, bound, unit) for terms, bound in rows]
        entries = [
            (row, at[name], -value)
            for row, (terms, _) in enumerate(scaled)
            for name, value in terms.items()
        ]
        row, column, value = zip(*entries, strict=True)
        matrix = coo_array((value, (row, column)), (len(rows), len(names)))
        loads = len(self.least) + len(made)
        cost = [self._words(x) for x in (*self.least, *made)] + [0.0] * len(self.edges)
        cost += [self._words(x) * self._elements(x) / unit for _, x in stores]
        limits: list[tuple[float, float | None]] = [(n / unit, None) for n in self.least.values()]
        limits += [(0.0, None)] * len(made) + [(0.0, 1.0)] * (len(names) - loads)
        answer = linprog(cost, matrix.tocsr(), [-bound for _, bound in scaled], bounds=limits)
        return (1 - _TOLERANCE) * float(answer.fun) * unit if answer.success else 0.0

    def _cuts(self, outputs: set[str]) -> list[Row]:
        """Return what an edge that is cut costs: its tensor is loaded, and stored before."""
        rows: list[Row] = []
        for edge, elements in self.edges.items():
            rows.append(({edge[0]: 1.0, edge: -elements}, 0.0))
            if edge[0] not in outputs:
                rows.append(({("stored", edge[0]): 1.0, edge: -1.0}, 0.0))
        return rows


def _scaled(terms: Mapping[str | Edge, float], bound: float, unit: float) -> Row:
    """Return a row with elements in units of ``unit``; rows of shares alone stay as they are."""
    if all(isinstance(name, tuple) for name in terms):
        return dict(terms), bound
    scale = {name: 1.0 if isinstance(name, str) else unit for name in terms}
    return {name: value / scale[name] for name, value in terms.items()}, bound / unit


def _reduces(op: Op, tensor: str, channel: int, group: Group) -> bool:
    """Return True if every tile of an operator's result needs all of a tensor's dimension ``channel``."""
    shape = group.type_of[tensor].shape
    place = op.inputs.index(tensor)
    last = channel % len(shape) == len(shape) - 1
    match op.family:
        case Family.CONV:
            alone = op.int("group") == 1 and not is_depthwise(op, group.type_of)
            return place == 0 and alone and op.axes.channel == channel
        case Family.MATMUL:
            return place == 0 and last and not op.int("trans_a") and not _weighs(op, group)
        case Family.STRASSEN:
            return place == 0 and last
        case Family.LAYER_NORM:
            return place == 0 and op.int("axis") <= channel % len(shape)
        case Family.REDUCE:
            return channel % len(shape) in op.ints("axes")
        case _:
            return False


def _weighs(op: Op, group: Group) -> bool:
    """Return True if a product takes the weights of a softmax, whose sums may come tile by tile."""
    maker = group.producer.get(op.inputs[0])
    return maker is not None and maker.family is Family.SOFTMAX
