"""Formats that several machines share: what each of them can read, and none that only some multiply."""

from __future__ import annotations

from autotune.isa.formats import (
    CACHED_BF16_FORMATS,
    CACHED_FORMATS,
    CONVERTED_FORMATS,
    FLOAT32_ONLY,
    Format,
    Formats,
)

BYTES = frozenset((Format.FP32, Format.INT8, Format.UINT8))
ARRAYS_OF_BYTES = Formats(BYTES, BYTES)
EVERY_ARRAY = Formats(BYTES | {Format.BF16}, BYTES | {Format.BF16})
HALF_ARRAYS = Formats(frozenset((Format.FP32, Format.BF16)), frozenset((Format.FP32, Format.BF16)))


def test_one_machine_shares_all_that_it_has() -> None:
    assert Formats.common([CACHED_BF16_FORMATS]) == CACHED_BF16_FORMATS


def test_machines_without_a_format_in_common_share_float32() -> None:
    assert Formats.common([ARRAYS_OF_BYTES, HALF_ARRAYS]) == FLOAT32_ONLY


def test_a_format_that_only_some_multiply_is_not_stored() -> None:
    assert Formats.common([EVERY_ARRAY, CACHED_FORMATS]) == ARRAYS_OF_BYTES


def test_a_format_limited_to_constants_on_one_machine_is_limited_for_all() -> None:
    common = Formats.common([EVERY_ARRAY, CACHED_BF16_FORMATS])
    assert common.multiplied == EVERY_ARRAY.multiplied
    assert common.by_constants == {Format.BF16}


def test_fp16_is_converted_where_all_machines_do() -> None:
    """Beside a CPU, which keeps weights alone in it, only those stay two bytes."""
    assert Formats.common([CONVERTED_FORMATS] * 2) == CONVERTED_FORMATS
    beside = Formats.common([CONVERTED_FORMATS, CACHED_FORMATS])
    assert Format.FP16 in beside.stored and not beside.converted
    assert Format.FP16 not in Formats.common([CONVERTED_FORMATS, EVERY_ARRAY]).stored
    assert len({x.text for x in (CONVERTED_FORMATS, beside, EVERY_ARRAY)}) == 3
