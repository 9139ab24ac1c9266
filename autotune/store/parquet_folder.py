"""Contents of a store as a folder of Parquet files, which other tools read; extra ``autotune[parquet]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import StoreError
from autotune.store.contents import BATCH, Contents, ModelRow, ProfileRow
from autotune.store.records import Outcome, Record

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, PROFILES, MODELS = "records.parquet", "profiles.parquet", "models.parquet"
VERSION = "1"
"""Version of the columns, in the metadata of the files."""
_NUMBERS = ("cycles", "energy_fj", "dram_bytes")
_REPEATED = ("group_key", "group_json", "profile_id", "target", "network", "source", "outcome")
"""Columns of few values, each stored once."""
_ROWS_AT_ONCE = 100_000


def write_folder(source: Contents, folder: Path, profile_ids: Iterable[str] | None = None) -> int:
    """Write the contents of a store, or of some of its machines; return the number of measurements.

    Raises ``StoreError`` without pyarrow, and for a folder that cannot be written.
    """
    pq = _parquet()
    chosen = list(source.profile_ids() if profile_ids is None else profile_ids)
    machines = [row for one in chosen if (row := source.profile(one)) is not None]
    models = [row for one in chosen for row in source.models(one)]
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(pq, folder / PROFILES, [asdict(row) for row in machines], ProfileRow)
        _write(pq, folder / MODELS, [asdict(row) for row in models], ModelRow)
        part = folder / f"{RECORDS}.part"
        with pq.ParquetWriter(part, _schema(Record), compression="zstd") as writer:
            for batch in (one for profile in chosen for one in source.records(profile)):
                count += len(batch)
                writer.write_table(_table(batch), row_group_size=_ROWS_AT_ONCE)
        part.replace(folder / RECORDS)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error}; give another folder") from None
    return count


def _write(pq: Any, path: Path, rows: Sequence[dict[str, Any]], kind: type) -> None:
    import pyarrow as pa

    pq.write_table(pa.Table.from_pylist(list(rows), schema=_schema(kind)), path)


def _table(batch: Sequence[Record]) -> pa.Table:
    import pyarrow as pa

    columns = {name: [getattr(one, name) for one in batch] for name in _names(Record)}
    columns["outcome"] = [one.value for one in columns["outcome"]]
    columns["counters"] = [list(one.items()) for one in columns["counters"]]
    return pa.Table.from_pydict(columns, schema=_schema(Record))


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _schema(kind: type) -> pa.Schema:
    import pyarrow as pa

    special = {name: pa.int64() for name in (*_NUMBERS, "feature_version")}
    special |= {name: pa.dictionary(pa.int32(), pa.string()) for name in _REPEATED}
    special |= {"created_at": pa.float64(), "blob": pa.binary()}
    special |= {"counters": pa.map_(pa.string(), pa.int64())}
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
            values = row | {"outcome": Outcome(row["outcome"]), "counters": dict(row["counters"])}
            return Record(**values)
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
