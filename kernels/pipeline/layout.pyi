import numpy as np
import numpy.typing as npt

from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

def lay_out(
    spec: HardwareSpec,
    unit: Ints,
    result: Ints,
    reads_at: Ints,
    reads: Ints,
    product: Ints,
    reduction: Ints,
    kinds_at: Ints,
    kind_dims: Ints,
    level: Ints,
    pieces: Floats,
    slots: Ints,
    turns: Ints,
    loop_dim: Ints,
    trips: Ints,
    rest: Ints,
    dim_full: Ints,
    dim_rest: Ints,
    depth: Ints,
    cores: Ints,
    cycles: Floats,
    channel: Floats,
    instructions: Floats,
    behind: Floats,
    best: tuple[Ints, Floats, Floats] | None = None,
) -> Floats: ...
