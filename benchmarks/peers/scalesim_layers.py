"""Layers of SCALE-Sim as tile programs, to compare the emulator's matrix unit with.

Each row of a table of results becomes a ``Layer``, and each layer a tile program. The emulator
executes it, and the busy cycles of its matrix unit are compared with the cycles that SCALE-Sim
printed (Samajdar et al., "A systematic methodology for characterizing scalability of DNN
accelerators using SCALE-Sim", ISPASS 2020; version 3.0.0). For a table of your own:

    python -m benchmarks.peers.scalesim_layers FILE.csv --rows 16 --cols 16 --dataflow ws

A layer with padded input ``ifh × ifw``, filter ``fh × fw`` over ``ch`` channels, ``nf`` filters and
stride ``sh × sw`` is the product of M×K and K×N with oh = ⌈(ifh − fh + sh) ÷ sh⌉, ow likewise,
M = oh·ow, K = fh·fw·ch, N = nf.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autotune.disk.regular_file import regular_text
from autotune.errors import AutotuneError, InputError, SpecError
from autotune.isa.functions import When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec, MatrixSpec
from benchmarks.table import Table

EXTENT_LIMIT = (1 << 16) - 1
"""Of M, K and N: what an extent of a LOAD or MATMUL holds."""
RESIDENT_LIMIT_ELEMENTS = (1 << 25) - 1
"""Of all operands together: what a step of a scratchpad address holds."""
SIZE_LIMIT_BYTES = 1 << 24
"""More than any table of layers; protects against being handed something else."""

_SHAPE = ("ifh", "ifw", "fh", "fw", "ch", "nf", "sh", "sw")
_CYCLES, _STALLS = "total_cycles", "stall_cycles"
COLUMNS = ("name", *_SHAPE, _CYCLES, _STALLS)
"""Columns that a table must have; others are ignored."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A product of ``m × k`` and ``k × n``; ``last_cycle`` is what SCALE-Sim prints for it: the
    index of the last busy cycle, counted from 0."""

    name: str
    m: int
    k: int
    n: int
    last_cycle: int

    def __post_init__(self) -> None:
        for dimension in "mkn":
            extent = getattr(self, dimension)
            if not 1 <= extent <= EXTENT_LIMIT:
                raise InputError(
                    f"layer {self.name!r}: {dimension.upper()} = {extent} is not in "
                    f"1..{EXTENT_LIMIT}; correct its shape or leave it out"
                )


@dataclass(frozen=True, slots=True)
class LayerRun:
    """What one execution of a layer's program took."""

    layer: Layer
    last_cycle: int
    """Index of the matrix unit's last busy cycle, counted from 0."""
    folds: int
    utilisation: float
    """Useful multiply-adds per cell of the array and busy cycle, 0 to 1."""

    @property
    def agrees(self) -> bool:
        """Whether the execution took as long as SCALE-Sim says."""
        return self.last_cycle == self.layer.last_cycle


def read_layers(path: Path) -> tuple[Layer, ...]:
    """The layers of a CSV table with ``COLUMNS``, one row each, in file order.

    Raises ``InputError`` naming file, line and what was expected there.
    """
    try:
        if path.stat().st_size > SIZE_LIMIT_BYTES:
            raise InputError(
                f"{path}: larger than {SIZE_LIMIT_BYTES} bytes; give a table of layers"
            )
        lines = regular_text(path, "utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; give a CSV table of layers"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file; give a CSV table of layers") from None
    rows = csv.DictReader(lines, strict=True)
    try:
        _check_columns(rows.fieldnames or ())
        layers = tuple(_layer(row) for row in rows)
    except (AutotuneError, csv.Error) as error:
        raise InputError(f"{path}: line {max(rows.line_num, 1)}: {error}") from None
    if not layers:
        raise InputError(f"{path}: line 2: no layer follows the header; give one row per layer")
    return layers


def _check_columns(found: Collection[str]) -> None:
    missing = [column for column in COLUMNS if column not in found]
    if missing:
        raise InputError(
            f"no column {', '.join(missing)}; the header must name {', '.join(COLUMNS)}"
        )


def _layer(row: dict[str, str]) -> Layer:
    ifh, ifw, fh, fw, ch, nf, sh, sw = (_whole(row, column, 1) for column in _SHAPE)
    if _whole(row, _STALLS, 0):
        raise InputError(
            f"{_STALLS} is {row[_STALLS]}; run SCALE-Sim with unlimited bandwidth, so that "
            f"{_CYCLES} is compute alone"
        )
    if fh > ifh or fw > ifw:
        raise InputError(f"a {fh}×{fw} filter exceeds its {ifh}×{ifw} input; give the padded input")
    oh, ow = math.ceil((ifh - fh + sh) / sh), math.ceil((ifw - fw + sw) / sw)
    return Layer(row["name"] or "", oh * ow, fh * fw * ch, nf, _whole(row, _CYCLES, 0))


def _whole(row: dict[str, str], column: str, least: int) -> int:
    text = (row[column] or "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= least):
        raise InputError(f"{column}: {text!r} is not a whole number from {least} up; correct it")
    return int(text)


def systolic_machine(rows: int, cols: int, dataflow: str) -> HardwareSpec:
    """A machine whose array never waits: no set-up, no dispatch time, operands all resident.

    Raises ``SpecError`` for an array or a dataflow that no machine has.
    """
    base = load_spec("edge")
    size_bytes = 4 * (RESIDENT_LIMIT_ELEMENTS + 1)
    return replace(
        base,
        name=f"systolic-{rows}x{cols}-{dataflow}",
        description="a systolic array alone, with resident operands",
        matrix=replace(base.matrix, rows=rows, cols=cols, dataflow=dataflow, setup_cycles=0),
        scratchpad=replace(base.scratchpad, size_bytes=size_bytes),
        dram=replace(base.dram, bytes_per_cycle=1e5),
        control=replace(base.control, dispatch_cycles=0),
    )


def execute(layer: Layer, target: EmulatorTarget) -> LayerRun:
    """Execute a layer's program on a ``systolic_machine`` and read the counters of its array."""
    matrix = target.spec.matrix
    found = target.time(layer_program(layer, matrix)).counters
    busy = found["matrix_busy_cycles"]
    resident = found["core_cycles"] - found["load_idle_cycles"]
    causes = ("dispatch", "operand", "full", "semaphore")
    waited = sum(found[f"matrix_stall_{cause}_cycles"] for cause in causes)
    assert waited == resident, "the array waits for its operands once and never again"
    assert found["matrix_folds"] == found["executed_matmul"], "a MATMUL per fold"
    assert found["macs_useful"] == layer.m * layer.k * layer.n, "the blocks tile the product"
    cells = matrix.rows * matrix.cols
    return LayerRun(layer, busy - 1, found["matrix_folds"], found["macs_useful"] / (cells * busy))


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix in the scratchpad: where it begins, its dimensions and elements between neighbours
    in each. Strides of 0 make one element stand for all."""

    base: int
    extents: tuple[int, int]
    strides: dict[str, int]

    def address(self, name: str, outer: _Block, inner: _Block) -> dict[str, int]:
        """Fields of the operand ``name`` in loops over the blocks: outer level 0, inner level 1."""
        base = self.base
        fields: dict[str, int] = {}
        for level, block in enumerate((outer, inner)):
            stride = self.strides.get(block.dimension, 0)
            base += block.first * stride
            fields |= {f"{name}_level{level}": level}
            fields |= {f"{name}_step{level}": block.size * stride if block.trips > 1 else 0}
        return fields | {f"{name}_base": base}


@dataclass(frozen=True, slots=True)
class _Block:
    """Equal blocks of one dimension: ``trips`` of ``size`` from ``first`` on."""

    dimension: str
    first: int
    size: int
    trips: int


def _blocks(layer: Layer, dimension: str, size: int) -> Iterator[_Block]:
    """A dimension in blocks of the array's size, then what remains."""
    trips, rest = divmod(getattr(layer, dimension), size)
    if trips:
        yield _Block(dimension, 0, size, trips)
    if rest:
        yield _Block(dimension, trips * size, rest, 1)


def layer_program(layer: Layer, matrix: MatrixSpec) -> Program:
    """The layer as a tile program for an array: load both operands, multiply, store the product.

    Two hardware loops run over blocks of the operand that the array holds, one fold to a MATMUL;
    remainders follow as loops of their own. Where K is cut (``ws``, ``is``), its loop is the inner
    one and partial sums accumulate in the scratchpad. A layer larger than
    ``RESIDENT_LIMIT_ELEMENTS`` has one element stand for each operand (strides of 0): the same
    instructions and cycles, without the numbers.
    """
    left, right, product = _operands(layer)
    tensors = (
        DramTensor("left", left.extents, Role.INPUT),
        DramTensor("right", right.extents, Role.INPUT),
        DramTensor("product", product.extents, Role.OUTPUT),
    )
    wait = partial(Instruction.make, Opcode.WAIT, unit=int(Unit.CONTROL))
    stream = (
        _move(Opcode.LOAD, "dst", 0, left),
        _move(Opcode.LOAD, "dst", 1, right).replace(signal0=1),
        wait(semaphore=1),
        *_multiply(layer, matrix, {"a": left, "b": right, "c": product}),
        Instruction.make(Opcode.SIGNAL, unit=int(Unit.MATRIX), semaphore=2),
        _move(Opcode.STORE, "src", 2, product).replace(wait0=2),
        Instruction.make(Opcode.HALT),
    )
    elements = product.base + math.prod(product.extents)
    return Program(layer.name, tensors, (stream,), ((),), elements)


def _operands(layer: Layer) -> tuple[_Operand, ...]:
    shapes = (("m", "k"), ("k", "n"), ("m", "n"))
    whole = {d: getattr(layer, d) for d in "mkn"}
    dense = sum(whole[r] * whole[c] for r, c in shapes) <= RESIDENT_LIMIT_ELEMENTS
    operands, base = [], 0
    for r, c in shapes:
        extents = (whole[r], whole[c]) if dense else (1, 1)
        strides = {r: whole[c], c: 1} if dense else {r: 0, c: 0}
        operands.append(_Operand(base, extents, strides))
        base += math.prod(extents)
    return tuple(operands)


def _move(opcode: Opcode, side: str, tensor: int, operand: _Operand) -> Instruction:
    """LOAD or STORE of a whole operand."""
    rows, cols = operand.extents
    return Instruction.make(
        opcode,
        tensor=tensor,
        size0=rows,
        size1=cols,
        **{f"{side}_base": operand.base, f"{side}_stride0": cols, f"{side}_stride1": 1},
    )


def _multiply(
    layer: Layer, matrix: MatrixSpec, operands: dict[str, _Operand]
) -> Iterator[Instruction]:
    """Loops over the blocks of the held operand; the dimension that is not cut streams."""
    match matrix.dataflow:
        case "os":
            cuts = (("m", matrix.rows), ("n", matrix.cols))
        case "ws":
            cuts = (("n", matrix.cols), ("k", matrix.rows))
        case "is":
            cuts = (("m", matrix.cols), ("k", matrix.rows))
        case other:
            raise SpecError(f"matrix.dataflow: {other!r} has no mapping; use os, ws or is")
    (outer_dimension, outer_size), (inner_dimension, inner_size) = cuts
    for outer in _blocks(layer, outer_dimension, outer_size):
        yield Instruction.make(Opcode.LOOP, trips=outer.trips, level=0)
        for inner in _blocks(layer, inner_dimension, inner_size):
            yield Instruction.make(Opcode.LOOP, trips=inner.trips, level=1)
            yield _fold(layer, outer, inner, operands)
            yield Instruction.make(Opcode.END, level=1)
        yield Instruction.make(Opcode.END, level=0)


def _fold(layer: Layer, outer: _Block, inner: _Block, operands: dict[str, _Operand]) -> Instruction:
    size = {d: getattr(layer, d) for d in "mkn"} | {b.dimension: b.size for b in (outer, inner)}
    accumulate = When.NEVER
    if inner.dimension == "k":
        accumulate = When.ALWAYS if inner.first else When.BY_LEVEL
    extents = {"m": size["m"], "k0": size["k"], "n0": size["n"]}
    fields: dict[str, int] = {}
    for name, operand in operands.items():
        fields |= operand.address(name, outer, inner)
        for dimension, stride in operand.strides.items():
            fields[f"{name}_{dimension if dimension == 'm' else f'{dimension}0'}"] = stride
    return Instruction.make(
        Opcode.MATMUL, accumulate=int(accumulate), k_level=1, **extents, **fields
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute a table's layers and print both cycles; end with 1 if any differ, 2 for bad input."""
    parser = argparse.ArgumentParser(description="Compare the emulator with a SCALE-Sim table.")
    parser.add_argument("table", type=Path, metavar="FILE.csv", help="results, a row per layer")
    parser.add_argument("--rows", type=int, required=True, help="rows of the array")
    parser.add_argument("--cols", type=int, required=True, help="columns of the array")
    parser.add_argument("--dataflow", required=True, help="operand held: os, ws or is")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    try:
        target = EmulatorTarget(systolic_machine(chosen.rows, chosen.cols, chosen.dataflow))
        runs = [execute(layer, target) for layer in read_layers(chosen.table)]
    except AutotuneError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if chosen.json:
        print(json.dumps({"layers": list(map(_plain, runs))}))
    else:
        title = f"{chosen.table.name} on {chosen.rows}×{chosen.cols}, {chosen.dataflow}"
        print(_table(title, runs).text())
        print(f"{sum(run.agrees for run in runs)} of {len(runs)} layers take as long")
    sys.exit(0 if all(run.agrees for run in runs) else 1)


def _plain(run: LayerRun) -> dict[str, object]:
    layer = run.layer
    return {
        "name": layer.name,
        "m": layer.m,
        "k": layer.k,
        "n": layer.n,
        "expected": layer.last_cycle,
        "executed": run.last_cycle,
        "agrees": run.agrees,
        "folds": run.folds,
        "utilisation": run.utilisation,
    }


def _table(title: str, runs: Sequence[LayerRun]) -> Table:
    columns = ("layer", "M×K×N", "expected", "executed", "folds", "utilisation")
    rows = tuple(
        (
            run.layer.name,
            f"{run.layer.m}×{run.layer.k}×{run.layer.n}",
            f"{run.layer.last_cycle:,}",
            f"{run.last_cycle:,}",
            f"{run.folds:,}",
            f"{run.utilisation:.1%}",
        )
        for run in runs
    )
    return Table(title, columns, rows)


if __name__ == "__main__":
    main()
