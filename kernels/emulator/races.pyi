from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.isa.program import Program

BUDGET: int
FINDING: np.dtype[np.void]

class Replayed:
    executed: int
    touched: int
    findings: npt.NDArray[Any]
    def __init__(
        self,
        program: Program,
        parameters: npt.NDArray[np.int64],
        shadowed: Mapping[int, int],
        limit: int,
        executed_limit: int,
    ) -> None: ...
    def run(self) -> npt.NDArray[Any]: ...
