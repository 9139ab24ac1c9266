"""All open sessions of this process: their groups are one profile by machine, their status one list."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

from autotune.runtime.profile.graph_profile import PastGroups
from autotune.runtime.profile.group_profile import GroupProfile, RowKey, joined_rows
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.profile.status import SessionStatus
from autotune.runtime.profile.status_writer import StatusWriter

Describe = Callable[[], SessionStatus | None]
"""Returns the status of a session; None when the session is gone."""
MACHINES_KEPT = 16
"""Machines whose closed sessions leave groups behind."""


class Registry:
    """Open sessions, and the groups of closed ones. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[SessionProfile, Describe]] = {}
        self._past: dict[str, PastGroups] = {}
        self._writer = StatusWriter(self.statuses)

    def open(self, profile: SessionProfile, describe: Describe) -> None:
        """Add a session; status files show it from now on."""
        with self._lock:
            self._open[profile.number] = profile, describe
        self._writer.wake()

    def close(self, profile: SessionProfile) -> None:
        """Remove a session; its groups stay, within bounds. Closing again does nothing."""
        with self._lock:
            if self._open.pop(profile.number, None) is None:
                return
        rows = profile.rows()
        with self._lock:
            past = self._past.setdefault(profile.profile_id, PastGroups())
            past.add(rows)
            while len(self._past) > MACHINES_KEPT:
                del self._past[next(iter(self._past))]

    def groups(self, profile_id: str) -> tuple[GroupProfile, ...]:
        """Return a row for every group of all sessions on one machine, closed ones included."""
        with self._lock:
            profiles = [profile for profile, _ in self._open.values()]
            past = self._past.get(profile_id)
            old = [] if past is None else past.rows()
        live = (row for one in profiles if one.profile_id == profile_id for row in one.rows())
        return joined_rows([*live, *old])

    def usage(self, profile: SessionProfile) -> float:
        """Return a session's share of the runs of all open sessions on its machine; 1 before any."""
        with self._lock:
            profiles = [one for one, _ in self._open.values()]
        same = [one for one in profiles if one.profile_id == profile.profile_id]
        total = sum(one.runs_per_second() for one in same)
        return profile.runs_per_second() / total if total else 1.0

    def statuses(self) -> tuple[SessionStatus, ...]:
        """Return the status of every open session; groups that several run name all their networks."""
        with self._lock:
            sessions = list(self._open.values())
        found = [describe() for _, describe in sessions]
        return shared_names([one for one in found if one is not None])


def shared_names(statuses: Iterable[SessionStatus]) -> tuple[SessionStatus, ...]:
    """Return statuses whose groups name the networks of all of them that run the group."""
    known = tuple(statuses)
    if len(known) == 1:
        return known
    networks: dict[tuple[str, RowKey], dict[str, None]] = {}
    for status in known:
        for row in status.groups:
            names = networks.setdefault((status.profile_id, row.row_key), {})
            names.update(dict.fromkeys(row.networks))
    return tuple(
        replace(
            status,
            groups=tuple(
                replace(row, networks=tuple(networks[status.profile_id, row.row_key]))
                for row in status.groups
            ),
        )
        for status in known
    )


_REGISTRY = Registry()


def registry() -> Registry:
    """Return the registry of this process."""
    return _REGISTRY


def _forget() -> None:
    """Begin anew in a forked process: its parent has the sessions and the thread."""
    global _REGISTRY  # noqa: PLW0603 -- one a process
    _REGISTRY = Registry()


os.register_at_fork(after_in_child=_forget)
