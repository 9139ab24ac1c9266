"""Contents of a store as a folder of Parquet files, which other tools read; extra ``autotune[parquet]``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import StoreError
from autotune.store.contents import BATCH, ModelRow, ProfileRow, StoreContents
from autotune.store.data_card import CARD, data_card
from autotune.store.export_columns import VERSION, exported, schema, writer
from autotune.store.export_process import can_read, write_apart
from autotune.store.record_columns import AT_ONCE, RecordColumns, read_columns, read_texts
from autotune.store.record_rows import COLUMNS
from autotune.store.records import Outcome, Record
from autotune.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, PROFILES, MODELS = "records.parquet", "profiles.parquet", "models.parquet"
APART_FROM = 50_000
"""Measurements from which a process of its own pays."""


def write_folder(
    store: Store, folder: Path, profile_ids: Sequence[str], apart_from: int = APART_FROM
) -> int:
    """Write the contents of a store that concern some machines, with a data card; return the number of
    measurements.

    From ``apart_from`` measurements on, a process of its own reads them where it can. Raises ``StoreError`` without
    pyarrow, for a damaged measurement, and for a folder that cannot be written.
    """
    pq, source = _parquet(), StoreContents(store)
    machines = [row for one in profile_ids if (row := source.profile(one)) is not None]
    models = [row for one in profile_ids for row in source.models(one)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(pq, folder / PROFILES, [asdict(row) for row in machines], ProfileRow)
        _write(pq, folder / MODELS, [asdict(row) for row in models], ModelRow)
        part = folder / f"{RECORDS}.part"
        count = _write_records(pq, part, store, profile_ids, apart_from)
        part.replace(folder / RECORDS)
        (folder / CARD).write_text(data_card(ParquetContents(folder)), "utf-8")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error}; give another folder") from None
    return count


def _write_records(
    pq: Any, path: Path, store: Store, profile_ids: Sequence[str], apart_from: int
) -> int:
    place = store.database.source
    can_leave = place is not None and store.is_writable and can_read(place)
    if place is not None and can_leave and sum(map(store.count, profile_ids)) >= apart_from:
        count = write_apart(place, COLUMNS, _names(Record), profile_ids, path)
        if count is not None:
            return count
    kept, texts, count = _schema(Record), _arrow_texts(store), 0
    with writer(pq, path, kept) as file:
        for columns in read_columns(store, profile_ids):
            file.write_table(_table(columns, texts, kept, store.path))
            count += columns.count
    return count


def _arrow_texts(store: Store) -> tuple[Any, Any]:
    import pyarrow as pa

    texts = read_texts(store)
    return pa.array(list(texts), pa.binary()), pa.array(list(texts.values()), pa.string())


def _table(columns: RecordColumns, texts: tuple[Any, Any], kept: pa.Schema, place: str) -> pa.Table:
    """Return measurements as Parquet has them. Raises ``StoreError`` for a damaged one."""
    import pyarrow as pa

    try:
        arrays = {name: pa.array(values) for name, values in columns.values.items()}
        return exported(arrays, texts, kept)
    except (ValueError, pa.ArrowException) as error:
        raise StoreError(
            f"{place}: a measurement is damaged ({error}); 'autotune store verify' tells which"
        ) from None


def _write(pq: Any, path: Path, rows: Sequence[dict[str, Any]], kind: type) -> None:
    import pyarrow as pa

    pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema(kind)), path)


def _names(kind: type) -> list[str]:
    names = [field.name for field in fields(kind)]
    return [*names, "counter_names"] if kind is Record else names


def _schema(kind: type) -> pa.Schema:
    return schema(_names(kind), kind is Record)


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

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield columns of all measurements as batches of Arrow, in the order they came."""
        with self._read(RECORDS, self._pq.ParquetFile) as file:
            yield from file.iter_batches(AT_ONCE, columns=list(columns))

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
