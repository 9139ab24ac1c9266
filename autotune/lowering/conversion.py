"""Emits conversions of tiles between number formats, on the vector unit."""

from __future__ import annotations

from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import TileWriter, View, sizes_of


def convert(writer: TileWriter, result: View, source: View, to: Format, source_is: Format) -> None:
    """Emit ``result`` = ``source``, element by element; both have the same extents.

    ``to`` and ``source_is`` are the formats: a word of the scratchpad may hold FP32 or INT32.
    """
    writer.emit(
        Opcode.CONVERT,
        Unit.VECTOR,
        (result,),
        (source,),
        dst_format=int(to),
        src_format=int(source_is),
        **result.operand("dst"),
        **source.operand("src"),
        **sizes_of(result.sizes),
    )
