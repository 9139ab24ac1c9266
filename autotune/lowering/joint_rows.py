"""Batches of rows that one matrix multiplies, as the rows of one product."""

from __future__ import annotations

from autotune.isa.tile import View


def joint_rows(
    result: View, a: View, epilogue: dict[str, object], shape: tuple[int, ...]
) -> tuple[View, View, dict[str, object]]:
    """Join the innermost batch axes to the rows, of a product by one matrix for all of them.

    Rows of a tile that cuts the result's ``shape`` are evenly spaced in the scratchpad alone, so
    they stay apart: a machine that works in place reads them where the tensor lies.
    """
    residual = epilogue.get("residual")
    added = [residual.broadcast(result.sizes)] if isinstance(residual, View) else []
    views = [result, a.broadcast((*result.sizes[:-2], *a.sizes[-2:])), *added]
    whole = result.sizes[-2] == shape[-2]
    for axis in reversed(range(result.rank - 2)):
        batch, rows = views[0].sizes[axis : axis + 2]
        if min(batch, rows) > 1 and not (whole and all(view.joins(axis) for view in views)):
            break
        views = [view.join(axis) for view in views]
        whole = whole and batch == shape[axis]
    return views[0], views[1], {**epilogue, "residual": views[2]} if added else epilogue
