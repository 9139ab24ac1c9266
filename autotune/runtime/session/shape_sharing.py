"""Programs of several shapes of a network as one: the emulated machine dispatches on the shape."""

from __future__ import annotations

import time
from collections.abc import Sequence

from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.guards.sharing import count_programs, share_programs
from autotune.runtime.session.graph_session import GraphSession
from autotune.targets.emulator.target import EmulatorTarget


def share_shapes(sessions: Sequence[GraphSession]) -> tuple[Event, ...]:
    """Let sessions of one network at several shapes share programs; tell of it where that makes fewer.

    Sessions that learn, and those with variants, keep their own: their programs change. Elsewhere than on an emulated
    machine nothing happens.
    """
    held = [one for one in sessions if isinstance(one.target, EmulatorTarget) and one.is_fixed]
    if len(held) < 2:
        return ()
    tables = [one.table for one in held]
    made = share_programs(tables[0], tables[1:], held[0].target.spec)
    before = len({id(step.program) for table in tables for step in table.group_steps})
    after = count_programs(made)
    if after >= before:
        return ()
    for one, table in zip(held, made, strict=True):
        one.share(table)
    text = (
        f"{held[0].name}: {after} programs in place of {before} for {len(held)} shapes: the machine dispatches "
        "on the shape"
    )
    figures = {"programs_before": float(before), "programs": float(after)}
    return (Event(EventKind.SPECIALISED, 0, time.time(), text, figures),)
