"""The parts of a network with control flow, as ``autotune run`` and ``autotune explain`` show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.cli.console import emit, show

if TYPE_CHECKING:
    from autotune.graph.passes.note import Note
    from autotune.runtime.session.network_session import NetworkSession


def parts_document(session: NetworkSession) -> dict[str, Any]:
    """The JSON form of what the parts of the last run cost; nothing for a network that is one."""
    return {"parts": _rows(session)} if len(session.parts) > 1 else {}


def tell_parts(session: NetworkSession) -> None:
    """Print what each part of the last run cost; nothing for a network that is one."""
    if len(session.parts) < 2:
        return
    rows = [
        (row["name"], str(row["groups"]), f"{row['runs']:,}", f"{row['cycles']:,}")
        for row in _rows(session)
    ]
    show("parts of the network", ("part", "groups", "group runs", "cycles"), rows)


def _rows(session: NetworkSession) -> list[dict[str, Any]]:
    """Per part: its groups, how often groups of it ran in the last run, and their cycles."""
    found = []
    groups = session.last_run.groups
    for name, part in session.parts.items():
        own = {id(step) for step in part.table.group_steps}
        runs = [run for run in groups if id(run.step) in own]
        cycles = sum(run.execution.cycles for run in runs)
        found.append({"name": name, "groups": len(own), "runs": len(runs), "cycles": cycles})
    return found


def explain_tree(path: Path, dims: dict[str, int], json: bool) -> None:
    """Show the pieces and control nodes of a network, and what folding and the passes removed."""
    from autotune.graph.passes import simplify
    from autotune.runtime.session.exploration import explored

    found = explored(path, dims)
    notes: list[Note] = list(found.notes)
    rows: list[dict[str, Any]] = []
    for part in found.parts:
        before = 0 if part.graph is None else len(part.graph.ops)
        after = 0
        if part.graph is not None:
            result = simplify(part.graph)
            after = len(result.graph.ops)
            notes += result.notes
        rows.append({"part": part.label, "depth": part.depth, "kind": part.kind or "piece",
                     "operators_before": before, "operators_after": after})  # fmt: skip
    if json:
        plain = [{"pass": n.pass_name, "removed": n.removed, "reason": n.reason} for n in notes]
        emit({"parts": rows, "notes": plain})
        return
    show(
        f"{path.stem}: a tree of {len(found.graphs)} graphs",
        ("part", "kind", "operators", "after passes"),
        [("  " * r["depth"] + r["part"], r["kind"], *_counts(r)) for r in rows],
    )
    show(
        "what went",
        ("pass", "removed", "why"),
        [(note.pass_name, note.removed, note.reason) for note in notes],
    )


def _counts(row: dict[str, Any]) -> tuple[str, str]:
    if row["kind"] != "piece":
        return "", ""
    if row["operators_before"] == 0:
        return "known at import", ""
    return str(row["operators_before"]), str(row["operators_after"])
