"""Status of an open session: what its parts tell, beside the profile of its runs."""

from __future__ import annotations

import time
import weakref

from autotune.runtime.execution.memory_plan import memory_plan
from autotune.runtime.execution.program_table import ProgramTable, TableLayout
from autotune.runtime.profile.registry import registry, shared_names
from autotune.runtime.profile.status import SessionMemory, SessionStatus, by_cost
from autotune.runtime.session.network_session import NetworkSession

EVENTS_TOLD = 32
"""Events of a status, the newest."""
_ARENAS: weakref.WeakKeyDictionary[TableLayout, int] = weakref.WeakKeyDictionary()
"""Bytes of arenas without an executable, which take long to place."""


def register(session: NetworkSession) -> None:
    """Show a session to ``autotune status`` until it is closed or dropped."""
    found = weakref.ref(session)

    def describe() -> SessionStatus | None:
        known = found()
        return None if known is None else _status(known)

    weakref.finalize(session, registry().close, session.history).atexit = False
    registry().open(session.history, describe)


def status_of(session: NetworkSession) -> SessionStatus:
    """Return the status of a session; groups that others run as well name all networks."""
    own = _status(session)
    others = [one for one in registry().statuses() if one.session != own.session]
    return shared_names([own, *others])[0]


def _status(session: NetworkSession) -> SessionStatus:
    tables = session.tables
    constants = {id(x): x.nbytes for table in tables for x in table.graph.constants.values()}
    spec, history = session.target.spec, session.history
    return SessionStatus(
        history.number,
        session.name,
        session.target.name,
        spec.profile_id,
        spec.clock_hz,
        spec.cores,
        session.planned_by.value,
        session.is_online,
        session.is_closed,
        (
            max((table.plan_version for table in tables), default=0),
            max((table.model_version for table in tables), default=0),
        ),
        len(tables),
        history.opened_at_seconds,
        time.time(),
        history.durations(),
        SessionMemory(sum(constants.values()), sum(map(_arena_bytes, tables))),
        by_cost(history.rows()),
        history.pairs(),
        session.events[-EVENTS_TOLD:],
        history.builds,
        history.model,
    )


def _arena_bytes(table: ProgramTable) -> int:
    if table.executable is not None:
        return table.executable.memory_bytes
    known = _ARENAS.get(table.layout)
    if known is None:
        known = _ARENAS[table.layout] = memory_plan(table).arena_bytes
    return known
