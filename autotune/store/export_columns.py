"""Columns of an export: encoded measurements as tables of Arrow, whoever read them from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "1"
"""Version of the columns, in the metadata of the files."""
TEXTS = {"group_json": "group_digest", "counter_names": "counters_digest"}
"""Columns of texts, by the column of their hashes in the store."""
_NUMBERS = ("cycles", "energy_fj", "dram_bytes", "feature_version")
_REPEATED = (
    *("group_key", "group_json", "profile_id", "target", "network", "source", "outcome", "reason"),
    *("toolchain", "counter_names"),
)
"""Columns of few values, each stored once."""


_ORDERED = ["profile_id", "target", "source", "cycles", "created_at"]
"""Columns by whose least and largest values readers skip row groups."""


def schema(names: Sequence[str], is_record: bool) -> pa.Schema:
    """Return the schema of a file with these columns; those of records repeat values."""
    import pyarrow as pa

    special = {name: pa.int64() for name in _NUMBERS}
    special |= {"created_at": pa.float64(), "blob": pa.binary(), "counters": pa.list_(pa.int64())}
    if is_record:
        special |= {name: pa.dictionary(pa.int32(), pa.string()) for name in _REPEATED}
    columns = [(name, special.get(name, pa.string())) for name in names]
    return pa.schema(columns, metadata={"autotune_columns": VERSION})


def writer(pq: Any, path: Any, kept: pa.Schema) -> Any:
    """Return a writer of measurements. Values are stored once only in columns of few: elsewhere it costs
    half the time and saves nothing."""
    import pyarrow as pa

    few = [field.name for field in kept if pa.types.is_dictionary(field.type)]
    options = {"compression": "zstd", "compression_level": 1, "use_dictionary": few}
    return pq.ParquetWriter(path, kept, write_statistics=_ORDERED, **options)


def exported(columns: Mapping[str, Any], texts: tuple[Any, Any], kept: pa.Schema) -> pa.Table:
    """Return measurements as a file has them.

    ``columns`` are arrays of the store's columns, ``texts`` one of hashes and one of their texts. Raises ``ValueError``
    for a damaged measurement: a text that is lost or not UTF-8, counters that are no integers.
    """
    import pyarrow as pa

    arrays = [_array(columns, texts, field) for field in kept]
    table = pa.Table.from_arrays(arrays, schema=kept)
    table.validate(full=True)
    return table


def _array(columns: Mapping[str, Any], texts: tuple[Any, Any], field: Any) -> Any:
    import pyarrow as pa

    if field.name == "counters":
        return _counters(columns["counters"])
    if field.name in TEXTS:
        return _shared(columns[TEXTS[field.name]], texts)
    if pa.types.is_dictionary(field.type):
        return columns[field.name].cast(pa.string()).dictionary_encode()
    return columns[field.name].cast(field.type)


def _counters(blobs: Any) -> Any:
    """Return packed counters as lists of integers, without a copy of them. Raises ``ValueError``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert not blobs.offset
    ends = pa.Array.from_buffers(pa.int32(), len(blobs) + 1, [None, blobs.buffers()[1]])
    if pc.any(pc.not_equal(pc.bit_wise_and(ends, 7), 0)).as_py():
        raise ValueError("its counters are no integers of 64 bits")
    count = ends[-1].as_py() // 8
    packed = blobs.buffers()[2] or pa.py_buffer(b"")
    values = pa.Array.from_buffers(pa.int64(), count, [None, packed])
    return pa.ListArray.from_arrays(pc.shift_right(ends, 3), values)


def _shared(hashes: Any, texts: tuple[Any, Any]) -> Any:
    """Return texts by hash, each stored once. Raises ``ValueError`` for one that is lost."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = hashes.dictionary_encode()
    places = pc.index_in(encoded.dictionary, texts[0])
    if places.null_count:
        raise ValueError("a text that it refers to is lost")
    return pa.DictionaryArray.from_arrays(encoded.indices, texts[1].take(places))
