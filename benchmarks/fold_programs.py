"""Tile programs that compute a layer as a systolic array folds it: one MATMUL per fold.

The loop nest visits the folds of the dataflow; operands lie in a scratchpad padded to whole folds,
since a fold takes the same cycles whether it fills the array or not. No DRAM: FILLs write the
operands once, so the matrix unit's busy cycles are the array's own, as SCALE-Sim counts them with
unlimited bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.isa.program import Instruction, Program
from autotune.isa.table import Opcode, When
from autotune.targets.library import load_spec
from autotune.targets.spec import HardwareSpec
from topology import Case, Layer

SCRATCHPAD_BYTES = 1 << 28
"""The largest that a spec may have; AlexNet's first dense layer needs 144 MiB."""


@dataclass(frozen=True, slots=True)
class Folding:
    """Extents of one fold and folds along M, K, N."""

    tile: tuple[int, int, int]
    folds: tuple[int, int, int]

    @classmethod
    def of(cls, product: tuple[int, int, int], case: Case) -> Folding:
        """What the array holds in place has the array's extents, the third dimension streams."""
        m, k, n = product
        tiles = {
            "os": (case.rows, k, case.cols),
            "ws": (m, case.rows, case.cols),
            "is": (case.cols, case.rows, n),
        }
        tile = tiles[case.dataflow]
        counts = tuple(-(-extent // size) for extent, size in zip(product, tile, strict=True))
        return cls(tile, counts)

    @property
    def padded(self) -> tuple[int, int, int]:
        """M, K, N rounded up to whole folds."""
        (tm, tk, tn), (fm, fk, fn) = self.tile, self.folds
        return tm * fm, tk * fk, tn * fn


def array_spec(case: Case) -> HardwareSpec:
    """A machine with the case's array, no set-up, and a scratchpad that holds whole layers."""
    base = load_spec("mobile")
    return replace(
        base,
        name=case.name,
        matrix=replace(
            base.matrix, rows=case.rows, cols=case.cols, dataflow=case.dataflow, setup_cycles=0
        ),
        scratchpad=replace(base.scratchpad, size_bytes=SCRATCHPAD_BYTES),
    )


def fold_program(layer: Layer, case: Case) -> Program:
    """The program of one layer: operands filled, then every fold, reduction innermost."""
    folding = Folding.of(layer.product, case)
    m, k, n = folding.padded
    a, b, c = 0, m * k, m * k + k * n
    fills = [_fill(a, m, k, signal0=1), _fill(b, k, n, signal0=2)]
    trips = (folding.folds[0], folding.folds[2], folding.folds[1])
    stream = [
        *fills,
        *(Instruction.make(Opcode.WAIT, unit=2, semaphore=semaphore) for semaphore in (1, 2)),
        *(Instruction.make(Opcode.LOOP, trips=t, level=i) for i, t in enumerate(trips)),
        _fold(folding, (a, b, c)),
        *(Instruction.make(Opcode.END, level=i) for i in (2, 1, 0)),
        Instruction.make(Opcode.HALT),
    ]
    return Program(layer.name, (), (tuple(stream),), ((0, 0, 0),), m * k + k * n + m * n)


def _fill(base: int, rows: int, cols: int, **header: int) -> Instruction:
    sizes = {"size3": rows, "size4": cols, "dst_stride3": cols, "dst_stride4": 1}
    return Instruction.make(Opcode.FILL, dst_base=base, **sizes, **header)


def _fold(folding: Folding, bases: tuple[int, int, int]) -> Instruction:
    """One fold at loop indices (level 0: M, level 1: N, level 2: K); operands are row-major."""
    _, k, n = folding.padded
    tm, tk, tn = folding.tile
    # a dimension of one fold has no step: K · N of a whole layer would not fit the field
    sm, sk, sn = (
        size if count > 1 else 0 for size, count in zip(folding.tile, folding.folds, strict=True)
    )
    a, b, c = bases
    return Instruction.make(
        Opcode.MATMUL,
        a_base=a,
        a_step0=sm * k,
        a_level0=0,
        a_step1=sk,
        a_level1=2,
        b_base=b,
        b_step0=sn,
        b_level0=1,
        b_step1=sk * n,
        b_level1=2,
        c_base=c,
        c_step0=sm * n,
        c_level0=0,
        c_step1=sn,
        c_level1=1,
        m=tm,
        n0=tn,
        k0=tk,
        a_m=k,
        a_k0=1,
        b_k0=n,
        b_n0=1,
        c_m=n,
        c_n0=1,
        accumulate=When.BY_LEVEL,
        k_level=2,
    )
