from collections.abc import Mapping, Sequence
from typing import Any

from autotune.isa.tile import Operand, TileWriter, View, Writer

STRIDE_LIMIT: int

def matmul(
    writer: TileWriter,
    c: View,
    a: View,
    b: View,
    reduction: Mapping[str, int],
    epilogue: Mapping[str, Any],
) -> None: ...
def conv(
    writer: TileWriter,
    y: View,
    x: View,
    w: View,
    strides: Sequence[int],
    dilations: Sequence[int],
    group: int,
    whole_rows: bool,
    reduction: Mapping[str, int],
    epilogue: Mapping[str, Any],
) -> None: ...
def conv_of_patches(
    writer: TileWriter,
    y: View,
    x: View,
    w: View,
    reduction: Mapping[str, int],
    epilogue: Mapping[str, Any],
) -> None: ...
def depthwise(
    writer: Writer,
    y: Operand,
    x: Operand,
    w: Operand,
    bias: Operand | None,
    channel: int,
    spatial: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None: ...
def multiply(
    writer: TileWriter,
    c: View,
    a: View,
    b: View,
    fields: Mapping[str, int],
    reduction: Mapping[str, int],
    epilogue: Mapping[str, Any],
) -> None: ...
