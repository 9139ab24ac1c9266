"""``autotune explain --graph``: operators, transfers and control flow with their costs on the edges."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from autotune.cli.console import print_json, print_table, say

if TYPE_CHECKING:
    from autotune.cost_model.shipped import Answer
    from autotune.graph.cost_edges import CostEdge
    from autotune.runtime.session.cost_graph import PartCosts
    from autotune.runtime.session.session import Session

LISTED = 24
"""Edges that the table lists, the dearest; ``--json`` has all of them."""
WARM_UP = 2
"""Runs before the one that counts."""


def explain_graph(session: Session, store: str | None, json: bool) -> None:
    """Run a network on drawn inputs; print what the run took and was predicted to take, edge by edge."""
    from autotune.cli.run_check import random_inputs
    from autotune.runtime.session.cost_graph import cost_graph

    answer = _answer(session, store)
    feeds = random_inputs(session, 0)
    for _ in range(WARM_UP + 1):
        session.traced_run(feeds)
    parts = cost_graph(session, None if answer is None else answer.model.predict)
    origin = "predicted by the plan" if answer is None else answer.line
    if json:
        print_json(
            {
                "network": session.name,
                "predicted_by": origin,
                "parts": [_document(part) for part in parts],
            }
        )
        return
    say(origin)
    for part in parts:
        _print(part)


def _answer(session: Session, store: str | None) -> Answer | None:
    """Return the model that answers for groups without a prediction; None where the plan predicts all of them."""
    steps = (step for table in session.tables for step in table.group_steps)
    if session.tables and all(step.predicted_cycles is not None for step in steps):
        return None
    from autotune.cost_model.shipped import predicting_model
    from autotune.store.store import Store

    target = session.target
    with Store.open(store, reading=True) as records:
        return predicting_model(records, target.spec, target.name)


def _document(part: PartCosts) -> dict[str, object]:
    return {"part": part.name, "runs": part.runs, "edges": [asdict(edge) for edge in part.edges]}


def _print(part: PartCosts) -> None:
    from autotune.runtime.session.cost_graph import total

    edges = sorted(part.edges, key=lambda edge: edge.cycles or 0.0, reverse=True)
    shown = edges[:LISTED]
    more = len(edges) - len(shown)
    whole = total(edge.cycles for edge in edges if edge.kind != "control")
    title = f"{part.name}: {len(edges)} edges"
    title += f", the {len(shown)} dearest" if more else ""
    print_table(
        title + ("" if whole is None else f" of {whole:,.0f} cycles"),
        ("kind", "from", "to", "bytes", "predicted", "measured", "µJ"),
        [_row(edge) for edge in shown],
    )


def _row(edge: CostEdge) -> tuple[str, ...]:
    return (
        edge.kind.value,
        edge.source,
        edge.target,
        f"{edge.moved_bytes:,}" if edge.moved_bytes else "",
        *(_cycles(cost) for cost in (edge.predicted_cycles, edge.measured_cycles)),
        "" if edge.energy_fj is None else f"{edge.energy_fj / 1e9:,.3f}",
    )


def _cycles(cost: float | None) -> str:
    return "" if cost is None else f"{cost:,.0f}"
