from collections.abc import Sequence

from autotune.isa.functions import ElementwiseFn, ReduceFn, StageKind
from autotune.isa.tile import TileWriter, View

Stage = tuple[StageKind, int, float, float]

def unary(
    writer: TileWriter, fn: ElementwiseFn, y: View, x: View, p0: float = 0.0, p1: float = 0.0
) -> None: ...
def binary(writer: TileWriter, fn: ElementwiseFn, y: View, lhs: View, rhs: View) -> None: ...
def fma(writer: TileWriter, y: View, lhs: View, rhs: View) -> None: ...
def chain(
    writer: TileWriter, y: View, x: View, stages: Sequence[Stage], sides: Sequence[View]
) -> None: ...
def fill(writer: TileWriter, y: View, value: float) -> None: ...
def reduce(writer: TileWriter, fn: ReduceFn, y: View, x: View) -> None: ...
def softmax(writer: TileWriter, y: View, x: View, rows: View) -> None: ...
def rms_norm(
    writer: TileWriter, y: View, x: View, scale: View, rows: View, epsilon: float
) -> None: ...
def layer_norm(
    writer: TileWriter,
    y: View,
    x: View,
    scale: View,
    bias: View | None,
    rows: View,
    epsilon: float,
) -> None: ...
