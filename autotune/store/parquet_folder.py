"""Contents of a store as a folder of Parquet files, which other tools read; extra ``autotune[parquet]``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.errors import StoreError
from autotune.store.contents import BATCH, ModelRow, ProfileRow, StoreContents
from autotune.store.data_card import CARD, data_card
from autotune.store.record_columns import RecordColumns, read_columns, read_texts
from autotune.store.records import Outcome, Record
from autotune.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, PROFILES, MODELS = "records.parquet", "profiles.parquet", "models.parquet"
VERSION = "1"
"""Version of the columns, in the metadata of the files."""
_NUMBERS = ("cycles", "energy_fj", "dram_bytes")
_REPEATED = (
    *("group_key", "group_json", "profile_id", "target", "network", "source", "outcome", "reason"),
    *("toolchain", "counter_names"),
)
"""Columns of few values, each stored once."""
_TEXTS = {"group_json": "group_digest", "counter_names": "counters_digest"}
"""Columns of texts, by the column of their hashes in the store."""


def write_folder(store: Store, folder: Path, profile_ids: Sequence[str]) -> int:
    """Write the contents of a store that concern some machines, with a data card; return the number of
    measurements.

    Raises ``StoreError`` without pyarrow, and for a folder that cannot be written.
    """
    pq, source = _parquet(), StoreContents(store)
    machines = [row for one in profile_ids if (row := source.profile(one)) is not None]
    models = [row for one in profile_ids for row in source.models(one)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(pq, folder / PROFILES, [asdict(row) for row in machines], ProfileRow)
        _write(pq, folder / MODELS, [asdict(row) for row in models], ModelRow)
        part = folder / f"{RECORDS}.part"
        count = _write_records(pq, part, store, profile_ids)
        part.replace(folder / RECORDS)
        (folder / CARD).write_text(data_card(store, profile_ids), "utf-8")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error}; give another folder") from None
    return count


def _write_records(pq: Any, path: Path, store: Store, profile_ids: Sequence[str]) -> int:
    texts, count = read_texts(store), 0
    with pq.ParquetWriter(path, _schema(Record), compression="zstd", compression_level=1) as writer:
        for columns in read_columns(store, profile_ids):
            writer.write_table(_table(columns, texts, store.path))
            count += columns.count
    return count


def _table(columns: RecordColumns, texts: Mapping[bytes, str], place: str) -> pa.Table:
    """Return measurements as Parquet has them. Raises ``StoreError`` for a damaged one."""
    import pyarrow as pa

    schema = _schema(Record)
    try:
        arrays = [_array(columns, texts, field) for field in schema]
    except (KeyError, ValueError) as error:
        raise StoreError(
            f"{place}: a measurement is damaged ({error}); 'autotune store verify' tells which"
        ) from None
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(columns: RecordColumns, texts: Mapping[bytes, str], field: Any) -> Any:
    """Return a column; ``field`` is its name and type."""
    import pyarrow as pa

    if field.name == "counters":
        return _counters(columns.values["counters"])
    if field.name in _TEXTS:
        return _shared(columns.values[_TEXTS[field.name]], texts)
    if pa.types.is_dictionary(field.type):
        return pa.array(columns.values[field.name], pa.string()).dictionary_encode()
    return pa.array(columns.values[field.name], field.type)


def _counters(blobs: Sequence[bytes]) -> Any:
    """Return packed counters as lists of integers. Raises ``ValueError``."""
    import pyarrow as pa

    lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
    if np.any(lengths % 8):
        raise ValueError("its counters are no integers of 64 bits")
    offsets = np.concatenate(([0], np.cumsum(lengths // 8))).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, np.frombuffer(b"".join(blobs), "<i8"))


def _shared(digests: Sequence[bytes], texts: Mapping[bytes, str]) -> Any:
    """Return texts by hash, each stored once. Raises ``KeyError`` for one that is lost."""
    import pyarrow as pa

    numbers = {one: number for number, one in enumerate(dict.fromkeys(digests))}
    indices = np.fromiter(map(numbers.__getitem__, digests), np.int32, len(digests))
    return pa.DictionaryArray.from_arrays(indices, pa.array([texts[one] for one in numbers]))


def _write(pq: Any, path: Path, rows: Sequence[dict[str, Any]], kind: type) -> None:
    import pyarrow as pa

    pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema(kind)), path)


def _names(kind: type) -> list[str]:
    names = [field.name for field in fields(kind)]
    return [*names, "counter_names"] if kind is Record else names


def _schema(kind: type) -> pa.Schema:
    import pyarrow as pa

    special = {name: pa.int64() for name in (*_NUMBERS, "feature_version")}
    special |= {name: pa.dictionary(pa.int32(), pa.string()) for name in _REPEATED}
    special |= {"created_at": pa.float64(), "blob": pa.binary(), "counters": pa.list_(pa.int64())}
    columns = [(name, special.get(name, pa.string())) for name in _names(kind)]
    return pa.schema(columns, metadata={"autotune_columns": VERSION})


class ParquetContents:
    """The contents of a folder that ``write_folder`` wrote."""

    def __init__(self, folder: Path) -> None:
        """Check the folder's files. Raises ``StoreError``."""
        self.name = str(folder)
        self._folder = folder
        self._pq = _parquet()
        for name, kind in ((RECORDS, Record), (PROFILES, ProfileRow), (MODELS, ModelRow)):
            self._check(name, kind)

    def _check(self, name: str, kind: type) -> None:
        schema = self._read(name, self._pq.read_schema)
        version = (schema.metadata or {}).get(b"autotune_columns", b"none").decode()
        missing = sorted(set(_names(kind)) - set(schema.names))
        if version != VERSION or missing:
            raise StoreError(
                f"{self._folder / name}: not written by 'autotune store export' of this version "
                f"(columns of version {version}, {', '.join(missing) or 'none'} missing); export it again"
            )

    def _read(self, name: str, read: Any, **options: Any) -> Any:
        import pyarrow as pa

        try:
            return read(self._folder / name, **options)
        except (OSError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())[:120]
            raise StoreError(
                f"{self._folder / name}: cannot be read ({reason}); give a folder that 'autotune store "
                "export' wrote"
            ) from None

    @cached_property
    def _machines(self) -> dict[str, ProfileRow]:
        rows = self._read(PROFILES, self._pq.read_table).to_pylist()
        return {row["profile_id"]: ProfileRow(**row) for row in rows}

    @cached_property
    def _models(self) -> tuple[ModelRow, ...]:
        return tuple(ModelRow(**r) for r in self._read(MODELS, self._pq.read_table).to_pylist())

    def profile_ids(self) -> Sequence[str]:
        """Return the hardware profiles of all measurements, models and machines, in order."""
        column = self._read(RECORDS, self._pq.read_table, columns=["profile_id"])["profile_id"]
        models = {row.profile_id for row in self._models}
        return sorted({*column.unique().to_pylist(), *self._machines, *models})

    def profile(self, profile_id: str) -> ProfileRow | None:
        """Return the machine of a hardware profile; None where its numbers are not known."""
        return self._machines.get(profile_id)

    def models(self, profile_id: str) -> Sequence[ModelRow]:
        """Return the cost models of a machine."""
        return [row for row in self._models if row.profile_id == profile_id]

    def records(self, profile_id: str) -> Iterator[Sequence[Record]]:
        """Yield the measurements on a machine, in the order they came, in batches."""
        import pyarrow.compute as pc

        with self._read(RECORDS, self._pq.ParquetFile) as file:
            for batch in file.iter_batches(BATCH):
                ours = batch.filter(pc.equal(batch.column("profile_id"), profile_id))
                yield [self._record(row) for row in ours.to_pylist()]

    def _record(self, row: dict[str, Any]) -> Record:
        try:
            names = json.loads(row.pop("counter_names"))
            counters = dict(zip(names, row["counters"], strict=True))
            return Record(**row | {"outcome": Outcome(row["outcome"]), "counters": counters})
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self._folder / RECORDS}: a measurement of group {row['group_key']} is damaged "
                f"({error}); export it again"
            ) from None


def _parquet() -> Any:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise StoreError(
            f"Parquet files need the package {error.name}; install it with: pip install 'autotune[parquet]'"
        ) from None
    return pq
