"""A candidate as an ONNX model, for machines that take no tile programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from autotune.errors import ScheduleError
from autotune.frontend.export.file_nodes import typed_inputs, with_weights
from autotune.frontend.export.model import export_model, row_numbers
from autotune.fusion.analysis import analyse
from autotune.fusion.file_part import FilePart
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.standalone import drawn_inputs, standalone
from autotune.schedule.configuration import Configuration
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.schedule import Schedule
from autotune.targets.plugins.model_target import ExportedGroup
from autotune.targets.spec import HardwareSpec


def export_candidate(
    group: Group, schedule: Schedule, spec: HardwareSpec | None = None
) -> ExportedGroup:
    """Return a candidate's model and drawn inputs; groups of equal key give equal ones, but for parts of a file, which are the
    nodes of that file.

    Stands in for ``lower``. A machine without a ``spec`` has no schedules but configurations; one with a spec gets the
    decisions of each nest as a dict: ``result`` names what it computes, ``shape`` has its extents, the others are those of ``NestSchedule``.
    Raises ``ModelError`` for an operator that ONNX does not have.
    """
    values = dict(schedule.values) if isinstance(schedule, Configuration) else {}
    decisions = () if spec is None else _decisions(group, schedule)
    if isinstance(group, FilePart):
        inputs = typed_inputs(group.model, drawn_inputs(group))
        return ExportedGroup(with_weights(group.model), inputs, values, decisions)
    alone = standalone(group.canonical)
    numbers = row_numbers(alone)
    drawn = {
        x: value.astype(np.int64) if x in numbers else value
        for x, value in drawn_inputs(group.canonical).items()
    }
    return ExportedGroup(export_model(alone), drawn, values, decisions)


def _decisions(group: Group, schedule: Schedule) -> tuple[dict[str, Any], ...]:
    """Return the decisions of each nest. Raises ``ScheduleError`` for a schedule of another group."""
    nests = analyse(group.canonical)
    if isinstance(nests, Rejection):
        raise ScheduleError(nests.reason)
    if not has_ranks_of(nests, schedule):
        raise ScheduleError("schedule was made for another group")
    pairs = zip(nests, schedule.nests, strict=True)
    return tuple(
        {"result": nest.root, "shape": nest.root_shape, **asdict(one)} for nest, one in pairs
    )
