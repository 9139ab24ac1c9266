"""``autotune run``: costs of the parts of a network with control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_table

if TYPE_CHECKING:
    from autotune.runtime.session.network_session import NetworkSession


def parts_document(session: NetworkSession) -> dict[str, Any]:
    """Return the costs of the last run by part, as JSON has them; nothing for a network of one part."""
    return {"parts": _rows(session)} if len(session.parts) > 1 else {}


def print_parts(session: NetworkSession) -> None:
    """Print the costs of the last run by part; nothing for a network of one part."""
    if len(session.parts) < 2:
        return
    rows = [
        (row["name"], str(row["groups"]), f"{row['runs']:,}", f"{row['cycles']:,}")
        for row in _rows(session)
    ]
    print_table("parts of the network", ("part", "groups", "group runs", "cycles"), rows)


def _rows(session: NetworkSession) -> list[dict[str, Any]]:
    """Return the groups of each part, how often they ran in the last run, and their cycles."""
    rows = []
    groups = session.last_run.groups
    for name, part in session.parts.items():
        steps = {id(step) for step in part.table.group_steps}
        runs = [run for run in groups if id(run.step) in steps]
        cycles = sum(run.execution.cycles for run in runs)
        rows.append({"name": name, "groups": len(steps), "runs": len(runs), "cycles": cycles})
    return rows
