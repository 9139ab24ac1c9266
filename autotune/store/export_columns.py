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


JOINED = {
    "kind": (
        ("profile_id", "target", "network", "source", "outcome", "reason", "toolchain"),
        "counters_digest",
    ),
    "group_of": (("group_key",), "group_digest"),
}
"""Columns of few values that a bulk read asks for as one: texts, each with a separator behind it, then a hash."""
SEPARATOR = b"\xff"
"""No UTF-8 has this byte."""
_DIGEST_BYTES = 16
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


def parted(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of which those of ``JOINED`` came as one: what each stands for, every value once.

    Raises ``ValueError`` for damage: a text that is not UTF-8, a hash of another length, something that is missing.
    """
    found = dict(columns)
    for name, (texts, last) in JOINED.items():
        found |= _parted(found.pop(name), texts, last)
    return found


def _parted(column: Any, texts: Sequence[str], last: str) -> dict[str, Any]:
    import pyarrow as pa

    encoded = column.dictionary_encode()
    if column.null_count:
        raise ValueError("something of it is missing")
    values = encoded.dictionary.to_pylist()
    rows = [value[:-_DIGEST_BYTES].split(SEPARATOR) for value in values]
    if any(len(row) != len(texts) + 1 or row[-1] for row in rows):
        raise ValueError("a text that is not UTF-8, or a hash of another length")
    parts = {text: pa.array([row[n] for row in rows], pa.binary()) for n, text in enumerate(texts)}
    parts[last] = pa.array([value[-_DIGEST_BYTES:] for value in values], pa.binary())
    return {name: _spread(part, encoded.indices) for name, part in parts.items()}


def _spread(values: Any, places: Any) -> Any:
    """Return a column of values by their places, each different one stored once."""
    import pyarrow as pa

    own = values.dictionary_encode()
    indices = places if len(own.dictionary) == len(values) else own.indices.take(places)
    return pa.DictionaryArray.from_arrays(indices, own.dictionary)


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
        return _encoded(columns[field.name])
    return columns[field.name].cast(field.type)


def _encoded(column: Any) -> Any:
    """Return texts, each stored once. Raises ``ValueError`` for bytes that are not UTF-8."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))


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
