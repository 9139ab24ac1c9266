"""Positions of each opcode's fields in a row of ``Program.table``; ``decode.h`` decodes by them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.isa.fields import CHAIN_STAGES, MAX_RANK
from autotune.isa.notation import OPERAND_PARTS
from autotune.isa.opcodes import Opcode
from autotune.isa.program import field_index
from autotune.isa.table import INSTRUCTIONS, OPERANDS

OPCODE_COUNT = 64
OPERAND_COUNT, STRIDED_COUNT = 5, 4
"""Operands with an address, and those of them with strides of their own."""


def _names_by_slot(opcode: Opcode) -> list[tuple[str, ...]]:
    """Names of the neighbouring fields in each slot of ``struct Layout``, in its order."""
    dims = range(MAX_RANK)
    operands = [name for name, _ in OPERANDS.get(opcode, ())]
    operands += ["none"] * (OPERAND_COUNT - len(operands))
    is_padding = opcode in (Opcode.LOAD, Opcode.GATHER, Opcode.LOOKUP)
    is_reduction = opcode is Opcode.REDUCE
    return [
        ("wait0", "wait1", "wait2"),
        ("signal0", "signal1", "signal2"),
        ("fn",),
        ("pad",) if is_padding else ("p0",),
        ("p1",),
        *(tuple(f"{name}_{part}" for part in OPERAND_PARTS) for name in operands),
        *(tuple(f"{name}_stride{d}" for d in dims) for name in operands[:STRIDED_COUNT]),
        tuple(f"size{d}" for d in dims),
        tuple(f"{part}{d}" for d in dims for part in ("coord", "step", "level")),
        tuple(f"extent{d}" for d in dims),
        ("tensor",),
        ("m", "n1", "n0", "k2", "k1", "k0"),
        ("a_m", "a_k2", "a_k1", "a_k0", "b_k2", "b_k1", "b_k0", "b_n1", "b_n0", "c_m", "c_n1", "c_n0"),
        ("none",) if is_reduction else ("accumulate", "epilogue", "k_level", "bias_axis"),
        ("accumulate",) if is_reduction else ("none",),
        ("trips",),
        ("level",),
        ("unit",),
        ("semaphore",),
        ("format",),
        ("scale",),
        ("adds",),
        ("r_m", "r_n1", "r_n0"),
        ("a_format", "b_format", "a_zero", "b_zero"),
        tuple(f"{part}{d}" for d in dims for part in ("axis", "hop")),
        ("size0", "size1", "dst_stride0", "dst_stride1", "src_stride0", "src_stride1", "state_stride0"),
        ("accumulate", "k_level"),
        tuple(f"stage{i}_{part}" for i in range(CHAIN_STAGES) for part in ("kind", "fn", "p0", "p1")),
        ("dst_format", "src_format", "divide", "scale", "src_zero", "dst_zero"),
        ("forward",),
        ("parameter", "low", "high"),
        ("transform",),
        ("biased",),
        ("size2", "size3", "size4"),
        ("src_stride0",),
    ]  # fmt: skip


def _first_position(index: dict[str, int], names: tuple[str, ...]) -> int:
    """Position of the first field if the row holds all of them side by side, else −1."""
    first = index.get(names[0], -1)
    positions = [index.get(name, -1) for name in names]
    return first if positions == list(range(first, first + len(names))) else -1


def _layouts() -> npt.NDArray[np.int32]:
    slots = len(_names_by_slot(Opcode.HALT))
    layouts = np.full((OPCODE_COUNT, slots + 1), -1, np.int32)
    for opcode, row in INSTRUCTIONS.items():
        index = field_index(opcode)
        layouts[opcode, :slots] = [_first_position(index, n) for n in _names_by_slot(opcode)]
        layouts[opcode, slots] = row.unit
    layouts.setflags(write=False)
    return layouts


LAYOUTS = _layouts()
"""``[OPCODE_COUNT, slots + 1]`` int32: one ``struct Layout`` per opcode, its unit in the last column."""
