from collections.abc import Sequence

from autotune.fusion.patches import Patches
from autotune.isa.functions import ReduceFn
from autotune.isa.tile import TileWriter, View

Coordinates = Sequence[tuple[int, int, int]]

def pool(
    writer: TileWriter,
    fn: ReduceFn,
    y: View,
    x: View,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None: ...
def slide(writer: TileWriter, fn: ReduceFn, y: View, x: View, axis: int, window: int) -> None: ...
def window_counts(
    writer: TileWriter,
    counts: View,
    ones: View,
    coordinates: Coordinates,
    extents: Sequence[int],
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None: ...
def concat(writer: TileWriter, y: View, parts: Sequence[View], axis: int) -> None: ...
def mask(
    writer: TileWriter, y: View, coordinates: Coordinates, extents: Sequence[int], value: float
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
