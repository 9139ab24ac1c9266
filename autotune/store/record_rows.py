"""Rows of records: how a record lies in the tables; between ``Record`` and the database.

Texts that many records share stand once, in ``texts``, under their hash: the group, and the names
of the counters, whose values are packed. At 120 counters that is a quarter of the space and of the
reading time of JSON per record.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from autotune.store.records import Record
from autotune.store.schema import RECORDS

_PLAIN = tuple(
    column.name
    for column in RECORDS.columns
    if column.name not in ("id", "group_digest", "counters_digest", "counters")
)


def digest(text: str) -> bytes:
    """What a text is filed under."""
    return hashlib.sha256(text.encode()).digest()[:16]


def to_rows(records: Iterable[Record]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows for ``texts`` and for ``records``."""
    digests: dict[str, bytes] = {}
    listed: dict[tuple[str, ...], str] = {}
    rows = []
    for record in records:
        counted = tuple(record.counters)
        if counted not in listed:
            listed[counted] = json.dumps(counted, separators=(",", ":"))
        names = listed[counted]
        for text in (record.group_json, names):
            if text not in digests:
                digests[text] = digest(text)
        rows.append(
            {
                **{name: getattr(record, name) for name in _PLAIN},
                "group_digest": digests[record.group_json],
                "counters_digest": digests[names],
                "counters": struct.pack(f"<{len(record.counters)}q", *record.counters.values()),
            }
        )
    return [{"digest": d, "text": text} for text, d in digests.items()], rows


def from_rows(rows: Sequence[Row[Any]], texts: Mapping[bytes, str]) -> Iterator[Record]:
    """Records from rows of ``records`` and the texts by hash.

    Raises ``ValueError`` naming the row when one is damaged.
    """
    sound = {d: text for d, text in texts.items() if digest(text) == d}
    names: dict[bytes, tuple[str, ...]] = {}
    for row in rows:
        try:
            if row.counters_digest not in names:
                names[row.counters_digest] = tuple(json.loads(sound[row.counters_digest]))
            counted = names[row.counters_digest]
            values = struct.unpack(f"<{len(counted)}q", row.counters)
            yield Record(
                group_json=sound[row.group_digest],
                counters=dict(zip(counted, values, strict=True)),
                **{name: getattr(row, name) for name in _PLAIN},
            )
        except KeyError:
            raise ValueError(f"record {row.id} is damaged (a text it refers to is lost)") from None
        except (ValueError, TypeError, AssertionError, struct.error) as error:
            raise ValueError(f"record {row.id} is damaged ({error})") from error
