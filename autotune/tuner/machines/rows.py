"""Rows of tables of machines: figures of a network as texts."""

from __future__ import annotations

from autotune.tuner.machines.figures import NetworkFigures, Outcome

FIGURE_COLUMNS = (
    *("network", "cycles", "ms", "speed-up", "energy µJ", "DRAM MB", "array use", "busiest"),
    "groups",
)
"""Columns of figures: one run of a network. ``speed-up`` is over the first machine, ``array use`` the useful
multiply-adds over those of all cells, ``busiest`` the busy share of the busiest part."""

_NONE = "–"


def figure_row(outcome: Outcome, first: Outcome) -> tuple[str, ...]:
    """Return the texts of ``FIGURE_COLUMNS``; ``first`` is the same network on the first machine."""
    if not isinstance(outcome, NetworkFigures):
        return (outcome.network, "does not fit", *[_NONE] * (len(FIGURE_COLUMNS) - 2))
    gain = _NONE
    if isinstance(first, NetworkFigures):
        gain = f"{first.seconds / outcome.seconds:.2f}"
    return (
        outcome.network,
        f"{outcome.cycles:,}",
        f"{outcome.seconds * 1e3:,.3f}",
        gain,
        f"{outcome.energy_fj / 1e9:,.1f}",
        f"{outcome.dram_bytes / 1e6:,.2f}",
        f"{outcome.array_use:.0%}",
        f"{outcome.bound} {outcome.use[outcome.bound]:.0%}",
        str(outcome.groups),
    )
