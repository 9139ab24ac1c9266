"""Nodes that rearrange values, for the test that every ONNX operator means what ONNX says."""

from __future__ import annotations

import numpy as np


def normal(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(abs(hash(shape)) % 2**32)
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def f32(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


X4 = normal(2, 4, 7, 9)
X5 = normal(2, 4, 5, 6, 7)
NONE = np.zeros(0, np.float32)
GRID = 1.6 * np.tanh(normal(2, 3, 5, 2))

# operator, inputs, opset, constant positions, attributes
MOVING = [
    ("Slice", [X4], 9, (), {"starts": [1, -5], "ends": [3, 1000], "axes": [1, 3]}),
    ("Slice", [X4, ints(0, 1), ints(2, 3)], 13, (1, 2), {}),
    ("Slice", [X4, ints(-1, 8), ints(-1000, 1), ints(2, -1), ints(-1, -3)], 13, (1, 2, 3, 4), {}),
    ("Slice", [X4, ints(1), ints(7), ints(2), ints(2)], 13, (1, 2, 3, 4), {}),
    ("Split", [X4], 11, (), {"split": [4], "axis": 1}),
    ("Pad", [X4], 9, (), {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 1.5}),
    ("Pad", [X4, ints(0, 1, 0, 2, 0, 0, 3, 1), f32(2.5).reshape(())], 13, (1, 2), {}),
    ("Pad", [X4, ints(0, 0, 3, 2, 0, 0, 1, 8)], 13, (1,), {"mode": "reflect"}),
    ("Pad", [X4, ints(0, 0, 3, 2, 0, 1, 0, 1)], 13, (1,), {"mode": "edge"}),
    ("Pad", [X4, ints(0, 0, 3, 2, 0, 1, 0, 11)], 19, (1,), {"mode": "wrap"}),
    ("Pad", [X4, ints(1, 2, 0, 3), None, ints(-1, 1)], 18, (1, 3), {}),
    ("Expand", [normal(3, 1), ints(2, 1, 6)], 13, (1,), {}),
    ("Expand", [normal(2, 3, 1, 5), ints(1, 4, 1)], 13, (1,), {}),
    ("Tile", [X4, ints(1, 2, 3, 1)], 13, (1,), {}),
    ("Tile", [normal(3, 1), ints(2, 5)], 9, (1,), {}),
    ("CenterCropPad", [X4, ints(10, 4)], 18, (1,), {"axes": [2, 3]}),
    ("CenterCropPad", [X4, ints(2, 7, 6, 9)], 18, (1,), {}),
    ("DepthToSpace", [normal(2, 12, 3, 4)], 11, (), {"blocksize": 2}),
    ("DepthToSpace", [normal(1, 12, 3, 4)], 11, (), {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", [normal(2, 3, 4, 6)], 13, (), {"blocksize": 2}),
    ("ReverseSequence", [normal(5, 3, 2), ints(5, 1, 3)], 10, (1,), {}),
    ("ReverseSequence", [normal(2, 6), ints(4, 4)], 10, (1,), {"batch_axis": 0, "time_axis": 1}),
    ("Transpose", [normal(2, 3, 2, 3, 2, 2)], 13, (), {"perm": [3, 0, 5, 2, 1, 4]}),
    ("Gather", [X4, ints(2, 0, -1)], 13, (1,), {"axis": 1}),
    ("Gather", [X4, ints(0, 0, 1, 5, 5, 2).reshape(2, 3)], 13, (1,), {"axis": 2}),
    ("Gather", [X4, np.asarray(3)], 13, (1,), {"axis": 3}),
    ("GatherElements", [normal(3, 4), ints(0, 2, 1, 1, -1, 0).reshape(3, 2)], 13, (1,), {"axis": 1}),
    ("GatherND", [X4, ints(0, 1, 1, -1).reshape(2, 2)], 13, (1,), {}),
    ("GatherND", [X4, ints(3, 0).reshape(2, 1)], 13, (1,), {"batch_dims": 1}),
    ("Upsample", [X4, f32(1, 1, 2, 3)], 9, (1,), {}),
    ("Resize", [X4, NONE, f32(1, 1, 0.6, 2.3)], 13, (1, 2), {"mode": "linear"}),
    ("Resize", [X4, NONE, NONE, ints(2, 4, 11, 5)], 13, (1, 2, 3), {"mode": "cubic"}),
    ("Resize", [X4, NONE, f32(1, 1, 2.5, 0.5)], 13, (1, 2), {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}),
    ("Resize", [X4, None, f32(1, 1, 0.6, 0.4)], 18, (2,), {"mode": "linear", "antialias": 1}),
    ("Resize", [X4, None, f32(1, 1, 0.6, 0.4)], 18, (2,), {"mode": "cubic", "antialias": 1}),
    ("Resize", [X4, None, None, ints(20, 12)], 18, (3,), {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}),
    ("Resize", [X4, None, f32(2.3, 1.7)], 19, (2,), {"axes": [3, 2], "mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    ("Resize", [X4, f32(0, 0, 0.3, -0.2, 1, 1, 1.4, 0.7), None, ints(2, 4, 5, 6)], 13, (1, 3), {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}),
    ("ConvTranspose", [X4, normal(4, 3, 3, 3)], 11, (1,), {}),
    ("ConvTranspose", [X4, normal(4, 3, 4, 3), normal(3)], 11, (1, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    ("ConvTranspose", [X4, normal(4, 2, 2, 2)], 11, (), {"strides": [2, 2]}),
    ("ConvTranspose", [X4, normal(4, 2, 3, 3)], 11, (1,), {"strides": [3, 2], "output_padding": [2, 1]}),
    ("ConvTranspose", [X4, normal(4, 2, 3, 2)], 11, (1,), {"strides": [2, 1], "dilations": [2, 3]}),
    ("ConvTranspose", [X4, normal(4, 2, 3, 3)], 11, (1,), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("ConvTranspose", [normal(2, 4, 9), normal(4, 3, 3), normal(3)], 11, (), {"strides": [2], "pads": [1, 1]}),
    ("Conv", [X5, normal(3, 4, 3, 2, 3), normal(3)], 11, (1, 2), {"strides": [2, 1, 2], "pads": [1, 0, 1, 2, 1, 0]}),
    ("Conv", [X5, normal(6, 2, 2, 1, 3)], 11, (), {"group": 2, "dilations": [2, 1, 1], "auto_pad": "SAME_UPPER"}),
    ("MaxPool", [X5], 12, (), {"kernel_shape": [3, 2, 3], "strides": [2, 1, 2], "dilations": [1, 2, 1]}),
    ("MaxPool", [X5], 12, (), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}),
    ("AveragePool", [X5], 19, (), {"kernel_shape": [3, 3, 3], "pads": [1, 1, 1, 1, 1, 1]}),
    ("AveragePool", [X5], 19, (), {"kernel_shape": [3, 2, 2], "strides": [2, 2, 2], "pads": [1, 0, 0, 1, 0, 0], "count_include_pad": 1}),
    ("AveragePool", [X4], 19, (), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1, "ceil_mode": 1}),
    ("AveragePool", [normal(2, 3, 9)], 19, (), {"kernel_shape": [4], "strides": [3], "count_include_pad": 1, "ceil_mode": 1}),
    ("ConvTranspose", [normal(2, 4, 3, 2, 4), normal(4, 2, 3, 2, 3), normal(2)], 11, (1,), {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 0], "dilations": [2, 1, 1]}),
    ("ConvTranspose", [normal(1, 4, 2, 2, 2), normal(4, 2, 1, 2, 2)], 11, (), {"strides": [2, 2, 2], "output_padding": [1, 0, 1]}),
    ("Col2Im", [normal(2, 12, 20), ints(5, 6), ints(2, 2)], 18, (1, 2), {}),
    ("Col2Im", [normal(1, 8, 12), ints(7, 6), ints(2, 2)], 18, (1, 2), {"strides": [2, 2], "dilations": [2, 1], "pads": [1, 0, 1, 1]}),
    ("GridSample", [X4, GRID], 16, (), {"mode": "nearest"}),
    ("GridSample", [X4, GRID], 20, (), {"mode": "linear", "padding_mode": "border", "align_corners": 1}),
    ("GridSample", [X4, GRID], 20, (), {"mode": "nearest", "padding_mode": "reflection"}),
    ("GridSample", [X4, GRID], 20, (), {"mode": "cubic"}),
    ("GridSample", [X4, GRID], 20, (), {"mode": "cubic", "padding_mode": "reflection", "align_corners": 1}),
    ("GridSample", [normal(1, 2, 3, 4, 5), np.tanh(normal(1, 2, 2, 3, 3))], 20, (), {"mode": "linear"}),
]  # fmt: skip
