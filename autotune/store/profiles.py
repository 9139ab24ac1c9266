"""Stored profiles: the spec behind a hardware profile id, kept so that old measurements explain
themselves; written when a target is first measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A hardware profile, the name it was first seen under, the text of its spec, and seconds
    since 1970."""

    profile_id: str
    name: str
    spec_json: str
    created_at: float
