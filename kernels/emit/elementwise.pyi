from collections.abc import Sequence

from autotune.isa.functions import ElementwiseFn, ReduceFn, StageKind
from autotune.isa.tile import Operand, Writer

Stage = tuple[StageKind, int, float, float]

def unary(
    writer: Writer, fn: ElementwiseFn, y: Operand, x: Operand, p0: float = 0.0, p1: float = 0.0
) -> None: ...
def binary(writer: Writer, fn: ElementwiseFn, y: Operand, lhs: Operand, rhs: Operand) -> None: ...
def fma(writer: Writer, y: Operand, lhs: Operand, rhs: Operand) -> None: ...
def chain(
    writer: Writer, y: Operand, x: Operand, stages: Sequence[Stage], sides: Sequence[Operand]
) -> None: ...
def fill(writer: Writer, y: Operand, value: float) -> None: ...
def reduce(writer: Writer, fn: ReduceFn, y: Operand, x: Operand) -> None: ...
def softmax(writer: Writer, y: Operand, x: Operand, rows: Operand) -> None: ...
def rms_norm(
    writer: Writer,
    y: Operand,
    x: Operand,
    scale: Operand,
    rows: Operand,
    count: int,
    epsilon: float,
) -> None: ...
def layer_norm(
    writer: Writer,
    y: Operand,
    x: Operand,
    scale: Operand,
    bias: Operand | None,
    rows: Operand,
    count: int,
    epsilon: float,
) -> None: ...
