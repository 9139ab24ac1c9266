"""``autotune store models``: the kept versions of machines' cost models, with their held-out figures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from autotune.cli.commands.store_exchange import TargetsOption, profiles_of
from autotune.cli.console import print_json, print_table
from autotune.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from autotune.store.store import Store, StoredModel

DIGITS = 12
"""Digits of hashes in the table; --json has all of them."""


def list_models(
    targets: TargetsOption = None, place: StoreOption = None, json: JsonOption = False
) -> None:
    """List the kept cost models of each machine, the newest first, and what they were trained on.

    'autotune predict --model ID' asks one of them.
    """
    from autotune.store.store import Store

    with Store.open(place, reading=True) as store:
        rows = [
            row for profile in profiles_of(store, targets) for row in _machine_rows(store, profile)
        ]
    if json:
        print_json(rows)
    else:
        columns = (
            "machine",
            "id",
            "model",
            "saved (UTC)",
            "measurements",
            "trained on",
            "mean error",
        )
        print_table("cost models", (*columns, "90 % interval"), list(map(_cells, rows)))


def _machine_rows(store: Store, profile: str) -> list[dict[str, Any]]:
    """Return the models of one machine, each as the JSON object that --json prints."""
    from autotune.store.contents import label, machines_of

    names = {name for one in machines_of(store) if one.profile_id == profile for name in one.names}
    return [_row(label(names) or profile, profile, one) for one in store.models(profile)]


def _row(name: str, profile: str, one: StoredModel) -> dict[str, Any]:
    from autotune.cost_model.additive.model import provenance_of as of_groups
    from autotune.cost_model.model_file import kind_of, provenance_of

    origin = provenance_of(one.blob) or of_groups(one.blob)
    return {
        "machine": name,
        "profile_id": profile,
        "id": one.sha256,
        "model": kind_of(one.blob) or "groups",
        "created_at": one.created_at,
        "bytes": len(one.blob),
        "feature_version": one.feature_version,
        "trained_on": None if origin is None else origin.plain(),
        "metrics": dict(one.metrics),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    origin, metrics = row["trained_on"], row["metrics"]
    return (
        row["machine"],
        row["id"][:DIGITS],
        row["model"],
        f"{datetime.fromtimestamp(row['created_at'], UTC):%Y-%m-%d %H:%M}",
        "–" if origin is None else f"{origin['measurements']:,}",
        "–" if origin is None else origin["fingerprint"][:DIGITS],
        *(f"{metrics[name]:.1%}" if name in metrics else "–" for name in ("mape", "coverage")),
    )
