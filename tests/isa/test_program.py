"""Programs: an object that exists is well formed."""

import pytest

from autotune.errors import ProgramError
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role


def test_two_tensors_of_one_name_are_refused_since_arrays_go_by_it() -> None:
    x, y = DramTensor("x", (4,), Role.INPUT), DramTensor("y", (4,), Role.OUTPUT)
    other = DramTensor("x", (8,), Role.OUTPUT)
    streams = ((Instruction.make(Opcode.HALT),),)
    assert Program("p", (x, y), streams, ((0,),), 1).tensors == (x, y)
    with pytest.raises(ProgramError, match="p: 2 tensors are named 'x'; name each tensor once"):
        Program("p", (x, y, other), streams, ((0,),), 1)
