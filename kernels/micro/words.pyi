from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor

WORD_KERNELS: dict[Opcode, int]

class Words:
    count: int
    def __init__(self, table: npt.NDArray[np.int64], tensors: Sequence[DramTensor]) -> None: ...
    def addresses(self) -> list[int]: ...
