"""Rows of records: the codec between ``Record`` and the tables.

Texts that many records share stand once, in ``texts``, under their hash: the group, and the names
of the counters, whose values are packed. At 120 counters that is a quarter of the space and of the
reading time of JSON per record.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Row

from autotune.store.records import Outcome, Record
from autotune.store.schema import RECORDS

_PLAIN = tuple(
    column.name
    for column in RECORDS.columns
    if column.name not in ("id", "outcome", "group_digest", "counters_digest", "counters")
)

COLUMNS = (*_PLAIN, "outcome", "group_digest", "counters_digest", "counters")
"""Columns of encoded records, in their order; the database numbers them."""
TEXT_COLUMNS = ("digest", "text")
_plain = attrgetter(*_PLAIN)


def digest(text: str) -> bytes:
    """Return the key of a text in ``texts``: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(text.encode()).digest()[:16]


def to_rows(records: Iterable[Record]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Encode records as rows of ``texts`` (``TEXT_COLUMNS``) and rows of ``records`` (``COLUMNS``)."""
    digests: dict[str, bytes] = {}
    name_lists: dict[tuple[str, ...], tuple[bytes, struct.Struct]] = {}
    last: tuple[str, ...] | None = None
    rows = []
    for record in records:
        group, counters = record.group_json, record.counters
        if group not in digests:
            digests[group] = digest(group)
        key = tuple(counters)
        if key != last:  # equal names are mostly the same objects: faster than their hash
            if key not in name_lists:
                names = json.dumps(key, separators=(",", ":"))
                digests[names] = digest(names)
                name_lists[key] = digests[names], struct.Struct(f"<{len(key)}q")
            last, (names_digest, codec) = key, name_lists[key]
        packed = codec.pack(*counters.values())
        rows.append((*_plain(record), record.outcome.value, digests[group], names_digest, packed))
    return [(d, text) for text, d in digests.items()], rows


def from_rows(rows: Sequence[Row[Any]], texts: Mapping[bytes, str]) -> Iterator[Record]:
    """Decode rows of ``records``, with the texts by hash.

    Raises ``ValueError`` naming the row when one is damaged.
    """
    sound = {d: text for d, text in texts.items() if digest(text) == d}
    names: dict[bytes, tuple[str, ...]] = {}
    for row in rows:
        try:
            if row.counters_digest not in names:
                names[row.counters_digest] = tuple(json.loads(sound[row.counters_digest]))
            counters = names[row.counters_digest]
            values = struct.unpack(f"<{len(counters)}q", row.counters)
            yield Record(
                group_json=sound[row.group_digest],
                outcome=Outcome(row.outcome),
                counters=dict(zip(counters, values, strict=True)),
                **{name: getattr(row, name) for name in _PLAIN},
            )
        except KeyError:
            raise ValueError(f"record {row.id} is damaged (a text it refers to is lost)") from None
        except (ValueError, TypeError, struct.error) as error:
            raise ValueError(f"record {row.id} is damaged ({error})") from error
