from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MAX_DEPTH: int
MAX_LEVELS: int
MAX_COLUMNS: int
ROWS_APART: int

class PackedForest:
    def __init__(
        self,
        features: int,
        base: float,
        columns: Sequence[npt.ArrayLike],
        threshold: npt.ArrayLike,
        trees: Sequence[npt.ArrayLike],
        nodes: Sequence[npt.ArrayLike],
        value: npt.ArrayLike,
    ) -> None: ...
    def predict(
        self, x: npt.NDArray[np.float32] | npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]: ...
