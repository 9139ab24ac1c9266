"""A one-stage detector's head: images of features to boxes, and a choice of them picked out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from autotune.datasets.exporter import Exporter, floats, wholes
from autotune.datasets.image_blocks import check_multiple

ANCHORS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
"""Widths and heights in pixels of the boxes that predictions scale, by scale (section 2.3 of
arXiv:1804.02767)."""
STRIDES = (8, 16, 32)
"""Pixels from one place of an image of features to the next, by scale."""


@dataclass(frozen=True, slots=True)
class _Scale:
    name: str
    channels: int
    extent: int
    stride: int
    anchors: tuple[tuple[int, int], ...]


def yolo_head(
    side: int = 416,
    channels: Sequence[int] = (256, 512, 1024),
    classes: int = 80,
    keep: int = 100,
    seed: int = 0,
) -> onnx.ModelProto:
    """YOLOv3's predictions (arXiv:1804.02767) decoded as exporters of its successors write it.

    ``p0``, ``p1``, ``p2`` [1, channels, side / stride, side / stride] and row numbers ``kept`` [keep]
    (int64: what a suppression of overlaps chose) to ``boxes`` [1, all, 4] (corners, in pixels),
    ``scores`` [1, all, classes] and the chosen ones' ``kept_boxes`` [1, keep, 4].

    Raises ``ModelError`` when ``side`` is no multiple of 32.
    """
    check_multiple("yolo_head", "side", side, STRIDES[-1])
    export = Exporter(np.random.default_rng(seed))
    scales = [
        _Scale(f"p{i}", width, side // stride, stride, anchors)
        for i, (width, stride, anchors) in enumerate(zip(channels, STRIDES, ANCHORS, strict=True))
    ]
    found = [_decoded(export, scale, classes) for scale in scales]
    rows = export.node("Concat", *found, axis=1)
    export.node("Mul", export.slice(rows, 5, 5 + classes), export.slice(rows, 4, 5),
                output="scores")  # fmt: skip
    boxes = _corners(export, rows)
    export.node("Gather", boxes, "kept", output="kept_boxes", axis=1)
    count = sum(len(scale.anchors) * scale.extent**2 for scale in scales)
    return export.typed_model(
        "yolo_head",
        {s.name: floats((1, s.channels, s.extent, s.extent)) for s in scales}
        | {"kept": wholes((keep,))},
        {
            "boxes": floats((1, count, 4)),
            "scores": floats((1, count, classes)),
            "kept_boxes": floats((1, keep, 4)),
        },
    )


def _decoded(export: Exporter, scale: _Scale, classes: int) -> str:
    """Rows [1, anchors · extent², 5 + classes]: centre, size, whether there is a thing, and which."""
    anchors, fields, extent = len(scale.anchors), 5 + classes, scale.extent
    x = export.conv(scale.name, scale.name, (scale.channels, anchors * fields), 1, gain=1.0)
    shape = export.integers(f"{scale.name}_shape", 1, anchors, fields, extent, extent)
    x = export.node("Transpose", export.node("Reshape", x, shape), perm=[0, 1, 3, 4, 2])
    x = export.node("Sigmoid", x)
    two = export.number(f"{scale.name}_two", 2.0)
    centre = export.node("Mul", export.slice(x, 0, 2), two)
    centre = export.node("Add", centre, export.value(f"{scale.name}_grid", _grid(extent)))
    centre = export.node("Mul", centre, export.number(f"{scale.name}_stride", float(scale.stride)))
    size = export.node("Mul", export.slice(x, 2, 4), two)
    size = export.node("Pow", size, two)
    sizes = np.asarray(scale.anchors, np.float32).reshape(1, anchors, 1, 1, 2)
    size = export.node("Mul", size, export.value(f"{scale.name}_anchors", sizes))
    row = export.node("Concat", centre, size, export.slice(x, 4, fields), axis=-1)
    flat = export.integers(f"{scale.name}_rows", 1, anchors * extent * extent, fields)
    return export.node("Reshape", row, flat)


def _grid(extent: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Columns and rows of every place, half a place back: [1, 1, extent, extent, 2]."""
    rows, columns = np.indices((extent, extent), np.float32)
    return (np.stack((columns, rows), -1) - np.float32(0.5))[None, None]


def _corners(export: Exporter, rows: str) -> str:
    """Centres and sizes as the upper left and the lower right corner."""
    x, y, width, height = (
        export.node("Gather", rows, export.integer(f"column{i}", i), axis=2) for i in range(4)
    )
    two = export.number("half", 2.0)
    half = {size: export.node("Div", size, two) for size in (width, height)}
    ends = [
        export.node(operator, centre, half[size])
        for operator in ("Sub", "Add")
        for centre, size in ((x, width), (y, height))
    ]
    axis = export.integers("last_axis", -1)
    columns = [export.node("Unsqueeze", end, axis) for end in ends]
    return export.node("Concat", *columns, output="boxes", axis=-1)
