"""Runs a program unverified whose last word is number 63: what a sanitizer must see with 63 words.

Arguments: folder of the sanitized modules, opcode, scratchpad elements.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from tests.fuzz import sanitized

DST = {"dst_base": 60, "size0": 4, "dst_stride0": 1}
WORDS = {
    "fill": DST,
    "unary": {"dst_base": 0, "src_base": 60, "size0": 4, "dst_stride0": 1, "src_stride0": 1},
    "load": {"tensor": 0, **DST},
    "store": {"tensor": 1, "src_base": 60, "size0": 4, "src_stride0": 1},
    "gather": {"tensor": 0, **DST},
    "matmul": {"c_base": 60, "n0": 4, "c_n0": 1, "k0": 4, "a_k0": 1, "b_k0": 4, "b_n0": 1},
    "online": {"size1": 4, "dst_stride1": 1, "src_stride1": 1, "state_base": 61},
}


def main(modules: str, opcode: str, elements: str) -> None:
    """Run it."""
    sanitized.use(Path(modules))
    from autotune.kernels.emulator.engine import Loaded  # not before, nor what imports it
    from autotune.targets.opening import load_spec

    tensors = (DramTensor("x", (8,), Role.INPUT), DramTensor("y", (8,), Role.OUTPUT))
    word = Instruction.make(Opcode[opcode.upper()], **WORDS[opcode])
    stream = (word, Instruction.make(Opcode.HALT))
    program = Program("beyond", tensors, (stream,), ((),), int(elements))
    arrays = [np.zeros(8, np.float32), np.zeros(8, np.float32)]
    Loaded(program, load_spec("edge")).execute(1.0, arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
