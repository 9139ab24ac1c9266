"""What a bound program does: counts of all its kernels' calls, and the bytes that each level of the caches
hands to them.

A program is bound and never run. Its tree of loops says how often each call runs; a loop whose operands
fit into a cache together finds them there in its next trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import prod

from autotune.cost_model.bound.footprint import Cache, Reach
from autotune.cost_model.bound.kernel_kinds import COSTLY, function_kind
from autotune.cost_model.bound.kernel_work import Work, kernel_work
from autotune.cost_model.bound.traffic import Use, Visit, add_traffic, bytes_together
from autotune.isa.access import TILE_ROWS
from autotune.isa.fields import CHAIN_STAGES
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.functions import BinaryFn, StageKind, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.targets.native.analysis.copy_elision import TRANSFERS
from autotune.targets.native.analysis.memory_access import accesses_of
from autotune.targets.native.analysis.tree import Body, Leaf, Node, leaves
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.tasks import Part
from autotune.targets.native.binding.words import WORD_OPERANDS
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.rows.row_run import RowRun
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.codegen.winograd import TileTransform
from autotune.targets.native.linking.loader import Bound


def program_work(bound: Bound, caches: Sequence[Cache], threads: int) -> Work:
    """Return the counts of a program on its busiest thread; ``caches`` are those of a core,
    smallest first."""
    total = Work(programs=1)
    parts = bound.parts
    visits = [_visits(bound.program, part) for part in parts]
    several = len(parts) > 1
    together = (
        bytes_together(bound.program, [v for each in visits for v in each], 0) if several else 0
    )
    around = together / min(threads, len(parts))
    works = [
        _part_work(bound.program, part, each, caches)
        for part, each in zip(parts, visits, strict=True)
    ]
    for work in works:
        for name, value in work.items():
            total[name] += value
    if threads > 1 and several:
        weights = list(map(_weight, works))
        whole = sum(weights)
        share = busiest(weights, threads) / whole if whole else 1.0
        for name in total:
            total[name] *= share
        total["programs"] = 1
        total["synchronised"] = 1
        total["parts"] = len(parts)
        total["exchanged"] = around
    for before in bound.befores:
        ahead = _visits(bound.program, before)
        for name, value in _part_work(bound.program, before, ahead, caches).items():
            total[name] += value
    return total


def busiest(weights: Sequence[float], threads: int) -> float:
    """Return the work of the thread that ends last. A part takes as long as its weight says.

    Each thread has a share of neighbouring parts. It takes these first, then what is left of other threads' shares.
    """
    count = len(weights)
    bounds = [owner * count // threads for owner in range(threads + 1)]
    left = [deque(weights[first:end]) for first, end in pairwise(bounds)]
    turns = [(0.0, number) for number in range(threads)]
    ended = 0.0
    while turns:
        now, number = heappop(turns)
        shares = (left[(number + i) % threads] for i in range(threads))
        share = next((share for share in shares if share), None)
        if share is None:
            ended = max(ended, now)
        else:
            heappush(turns, (now + share.popleft(), number))
    return ended


def _weight(work: Work) -> float:
    return float(sum(value for name, value in work.items() if name in _HEAVY))


_HEAVY = frozenset(
    (
        *("product_fmas", "product_waits", "loads", "stores", "reduced", "transformed"),
        *map(function_kind, COSTLY),
    )
)


def _visits(program: Program, part: Part) -> list[Visit]:
    found: list[Visit] = []
    _collect(program, part.nodes, part.calls, (), found)
    return found


def _part_work(
    program: Program,
    part: Part,
    visits: Sequence[Visit],
    caches: Sequence[Cache],
) -> Work:
    """Return the counts of a part."""
    total = Work(trips=_trips(part.nodes, part.calls, 1))
    for visit in visits:
        runs = prod(visit.trips)
        total["calls"] += runs
        for name, value in _call_work(visit).items():
            total[name] += runs * value
    add_traffic(program, visits, caches, total)
    return total


def _trips(nodes: Sequence[Node], calls: Mapping[int, Call], runs: int) -> int:
    """Return the trips of all loops with calls in them, in ``runs`` runs of some nodes."""
    bodies = [node for node in nodes if isinstance(node, Body) and _has_calls(node, calls)]
    return sum(
        runs * body.block.trips + _trips(body.nodes, calls, runs * body.block.trips)
        for body in bodies
    )


def _has_calls(body: Body, calls: Mapping[int, Call]) -> bool:
    return any(leaf.place in calls for leaf in leaves(body.nodes))


def _collect(
    program: Program,
    nodes: Sequence[Node],
    calls: Mapping[int, Call],
    trips: tuple[int, ...],
    visits: list[Visit],
) -> None:
    for node in nodes:
        if isinstance(node, Body):
            _collect(program, node.nodes, calls, (*trips, node.block.trips), visits)
        elif node.place in calls:
            call = calls[node.place]
            visits.append(Visit(call, node, trips, _uses(program, call, node, trips)))


def _call_work(visit: Visit) -> Work:
    kernel = visit.call.kernel
    if isinstance(kernel, KernelSpec):
        return kernel_work(kernel)
    return _decoded_work(visit.leaf, kernel)


def _decoded_work(leaf: Leaf, opcode: Opcode) -> Work:
    """Counts of an instruction that a compiled kernel decodes."""
    touches = accesses_of(leaf)
    dims = max((touch.dims for touch in touches), key=lambda d: prod(n for n, _ in d), default=())
    elements = prod(n for n, _ in dims)
    run = next((n for n, stride in reversed(dims) if n > 1 and stride == 1), 1)
    rows = elements / run
    match opcode:
        case Opcode.LOAD | Opcode.STORE:
            return Work(copies=1, copied=elements, copied_rows=rows)
        case Opcode.MASK:
            return Work(masks=1, masked=elements, masked_rows=rows)
        case Opcode.GATHER | Opcode.LOOKUP:
            return Work(copies=1, looked_up=elements, copied_rows=rows)
        case Opcode.ONLINE:
            return Work(copies=1, online=elements, online_rows=rows)
        case Opcode.UNARY | Opcode.BINARY | Opcode.CHAIN:
            work = Work(runs=1)
            for fn in _functions(leaf.instruction):
                if fn.row.cpu_cycles:
                    work[function_kind(fn)] += elements
            return work
        case _:
            return Work(runs=1, decoded=elements, copied_rows=rows)


def _functions(instruction: Instruction) -> Iterator[UnaryFn | BinaryFn]:
    """Give the functions that an instruction applies to each element."""
    get = instruction.get
    match instruction.opcode:
        case Opcode.UNARY:
            yield UnaryFn(get("fn"))
        case Opcode.BINARY:
            yield BinaryFn(get("fn"))
        case _:
            for i in range(CHAIN_STAGES):
                kind, fn = get(f"stage{i}_kind"), get(f"stage{i}_fn")
                if kind != StageKind.NONE:
                    yield UnaryFn(fn) if kind == StageKind.UNARY else BinaryFn(fn)


def _uses(program: Program, call: Call, leaf: Leaf, trips: tuple[int, ...]) -> tuple[Use, ...]:
    found = []
    for dims, operand, written in _rectangles(call, leaf):
        if operand.space is Space.WORD:
            continue
        moves = tuple(
            (level, trips[level], step) for level, step in operand.at.terms if level < len(trips)
        )
        number = operand.number
        first = 0
        if operand.space is Space.SCRATCHPAD:
            first = operand.at.first
        if operand.space is Space.POOL:
            number, first = (call.packed.tensor, 1) if call.packed is not None else (0, 1)
        found.append(Use((int(operand.space), number, first), Reach.of(dims), moves, written))
    return tuple(found)


Dims = list[tuple[int, int]]


def _tile_rectangles(tile: TileRun, call: Call) -> list[tuple[Dims, Operand, bool]]:
    """Return those of a product but for its sums, then those of the run."""
    first = len(tile.operands)
    found = [
        (_narrow_dims(tile.product, name, call), operand, False)
        for name, operand in zip(tile.operands, call.operands[:first], strict=True)
    ]
    for i, operand in zip(tile.others, call.operands[first:], strict=True):
        dims = list(zip(tile.run.sizes, tile.strides(i), strict=True))
        found.append((dims, operand, i >= len(tile.run.inputs)))
    return found


def _rectangles(call: Call, leaf: Leaf) -> list[tuple[Dims, Operand, bool]]:
    """Return (extent, stride) dimensions of every operand, the operand, and whether it is written."""
    operands = call.operands
    if not isinstance(call.kernel, KernelSpec):
        return _decoded_rectangles(call, leaf)
    match call.kernel.constants:
        case GemmShape() as shape:
            return [
                (_product_dims(shape, name, call), operand, name == "c")
                for name, operand in zip(shape.operands, operands, strict=True)
            ]
        case NarrowShape() as narrow:
            return [
                (_narrow_dims(narrow, name, call), operand, name == "c")
                for name, operand in zip(narrow.product.operands, operands, strict=True)
            ]
        case TileRun() as tile:
            return _tile_rectangles(tile, call)
        case PanelCopy() as copy:
            return [
                ([copy.lanes, *copy.depths], operands[0], False),
                ([(copy.elements, 1)], operands[1], True),
            ]
        case VectorRun() | RowRun() as run:
            strides = [*run.inputs, *(output.strides for output in run.outputs)]
            return [
                (list(zip(run.sizes, each, strict=True)), operand, i >= len(run.inputs))
                for i, (each, operand) in enumerate(zip(strides, operands, strict=True))
            ]
        case Reduction() as reduction:
            return [
                (list(zip(reduction.sizes, reduction.dst_strides, strict=True)), operands[0], True),
                (
                    list(zip(reduction.sizes, reduction.src_strides, strict=True)),
                    operands[1],
                    False,
                ),
            ]
        case TileTransform() as transform:
            result, source = TILE_ROWS[transform.transform]
            around = (*transform.tiles, transform.channels)
            edges = {"src": source, "bias": 1}
            return [
                (
                    list(
                        zip(
                            (*(edges.get(name, result),) * 2, *around),
                            transform.strides(name),
                            strict=True,
                        )
                    ),
                    operand,
                    name == "dst",
                )
                for name, operand in zip(transform.operands, operands, strict=True)
            ]


def _decoded_rectangles(call: Call, leaf: Leaf) -> list[tuple[Dims, Operand, bool]]:
    touches = {touch.operand: touch for touch in accesses_of(leaf)}
    names = WORD_OPERANDS[leaf.opcode]
    found = [
        (list(touches[name].dims), operand, touches[name].written)
        for name, operand in zip(names, call.operands[1:], strict=False)
        if name in touches
    ]
    if leaf.opcode in TRANSFERS and found:
        dims, _, written = found[0]
        elements = prod(n for n, _ in dims)
        found.append(([(elements, 1)], call.operands[1 + len(names)], not written))
    return found


def _narrow_dims(narrow: NarrowShape, name: str, call: Call) -> Dims:
    """Return the words of an operand of a narrow product."""
    shape = narrow.product
    dims = _product_dims(shape, name, call)
    if name not in ("a", "b") or call.operands[shape.operands.index(name)].space is Space.POOL:
        return dims
    packed = ELEMENT_BYTES // narrow.a.format.bytes
    return [(-(-n // packed), 1) if step == 1 else (n, step // packed) for n, step in dims]


def _product_dims(shape: GemmShape, name: str, call: Call) -> Dims:
    if name == "bias":
        return [(max(shape.m, shape.n0), 1)]
    if call.packed is not None and name in ("a", "b") and _is_packed(call, shape, name):
        return [(call.packed.block_elements, 1)]
    if name == "b" and shape.group:  # the channels of all groups
        return [(getattr(shape, d), getattr(shape, f"b_{d}")) for d in ("k2", "k1", "n1", "n0")] + [
            (shape.m, 1)
        ]
    names = {
        "a": ("m", "k2", "k1", "k0"),
        "b": ("k2", "k1", "k0", "n1", "n0"),
        "c": ("m", "n1", "n0"),
        "r": ("m", "n1", "n0"),
    }[name]
    return [(getattr(shape, d), getattr(shape, f"{name}_{d}")) for d in names]


def _is_packed(call: Call, shape: GemmShape, name: str) -> bool:
    return call.operands[shape.operands.index(name)].space is Space.POOL
