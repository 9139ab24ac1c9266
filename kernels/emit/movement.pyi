from collections.abc import Sequence

from autotune.fusion.patches import Patches
from autotune.isa.functions import ReduceFn
from autotune.isa.tile import Operand, TileWriter, View, Writer

Coordinates = Sequence[tuple[int, int, int]]

def pool(
    writer: Writer,
    fn: ReduceFn,
    y: Operand,
    x: Operand,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None: ...
def slide(writer: Writer, fn: ReduceFn, y: Operand, x: Operand, axis: int, window: int) -> None: ...
def window_counts(
    writer: Writer,
    counts: Operand,
    ones: Operand,
    coordinates: Coordinates,
    extents: Sequence[int],
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None: ...
def concat(writer: Writer, y: Operand, parts: Sequence[Operand], axis: int) -> None: ...
def mask(
    writer: Writer, y: Operand, coordinates: Coordinates, extents: Sequence[int], value: float
) -> None: ...
def load(
    writer: TileWriter, y: View, tensor: int, coordinates: Coordinates, pad: float
) -> None: ...
def sample(
    writer: TileWriter,
    y: View,
    tensor: int,
    coordinates: Coordinates,
    hops: Sequence[int],
    pad: float,
) -> None: ...
def patches(
    writer: TileWriter, y: View, tensor: int, coordinates: Coordinates, way: Patches, pad: float
) -> None: ...
def lookup(
    writer: TileWriter, y: View, numbers: View, tensor: int, coordinates: Coordinates
) -> None: ...
def store(writer: TileWriter, x: View, tensor: int, coordinates: Coordinates) -> None: ...
