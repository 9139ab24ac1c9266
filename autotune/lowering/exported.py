"""A candidate as an ONNX model, for machines that take no tile programs."""

from __future__ import annotations

import numpy as np

from autotune.frontend.export.model import export_model, row_numbers
from autotune.fusion.group import Group
from autotune.fusion.standalone import drawn_inputs, standalone
from autotune.schedule.configuration import Configuration
from autotune.schedule.schedule import Schedule
from autotune.targets.plugins.model_target import ExportedGroup
from autotune.targets.spec import HardwareSpec


def export_candidate(
    group: Group, schedule: Schedule, spec: HardwareSpec | None = None
) -> ExportedGroup:
    """Return a candidate's model and drawn inputs; groups of equal key give equal ones.

    Stands in for ``lower``: a machine that times models has no spec, and no schedules but configurations.
    Raises ``ModelError`` for an operator that ONNX does not have.
    """
    alone = standalone(group.canonical)
    numbers = row_numbers(alone)
    inputs = {
        x: value.astype(np.int64) if x in numbers else value
        for x, value in drawn_inputs(group.canonical).items()
    }
    values = dict(schedule.values) if isinstance(schedule, Configuration) else {}
    return ExportedGroup(export_model(alone), inputs, values)
