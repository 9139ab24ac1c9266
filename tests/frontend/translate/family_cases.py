"""One-node cases of normalisation, masks, quantisation and integer operators."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def scalar(value: float, dtype: type = np.int64) -> np.ndarray:
    return np.asarray(value, dtype)


X3 = normal(2, 3, 8)
X4 = normal(2, 4, 3, 5)
NORM = [normal(4), normal(4), normal(4), np.abs(normal(4)) + np.float32(0.5)]
BYTES = RNG.integers(0, 255, (3, 8)).astype(np.uint8)
SIGNED = RNG.integers(-128, 127, (8, 5)).astype(np.int8)
IMAGE = RNG.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8)
KERNEL = RNG.integers(0, 255, (3, 2, 3, 3)).astype(np.uint8)
f32 = np.float32

FAMILY_CASES = [
    ("BatchNormalization", [X4, *NORM], 15, (), {}),
    ("BatchNormalization", [X4, *NORM], 15, (1, 4), {"epsilon": 1e-3}),
    ("InstanceNormalization", [X4, normal(4), normal(4)], 6 + 3, (), {"epsilon": 1e-2}),
    ("InstanceNormalization", [X3, normal(3), normal(3)], 22, (1, 2), {}),
    ("LpNormalization", [X4], 9, (), {}),
    ("LpNormalization", [np.abs(X4)], 22, (), {"axis": 1, "p": 1}),
    ("LpNormalization", [np.float32([[0, 0], [3, 4]])], 22, (), {"axis": 1, "p": 2}),
    ("Trilu", [X4], 14, (), {}),
    ("Trilu", [np.where(np.eye(3, 5, dtype=bool), np.float32(np.nan), X4)], 14, (), {"upper": 0}),
    ("Trilu", [X4, scalar(-1)], 14, (1,), {"upper": 0}),
    ("Hardmax", [X4], 13, (), {}),
    ("Hardmax", [np.round(X4)], 13, (), {"axis": 1}),
    ("CumSum", [X4, scalar(1, np.int32)], 14, (1,), {}),
    ("CumSum", [X4, scalar(-1, np.int32)], 14, (1,), {"exclusive": 1}),
    ("CumSum", [X4, scalar(0)], 11, (1,), {"reverse": 1}),
    ("CumSum", [X4, scalar(2)], 11, (1,), {"reverse": 1, "exclusive": 1}),
    ("OneHot", [np.int64([[0, 2], [-1, 7]]), scalar(4), f32([2, 5])], 11, (1, 2), {}),
    ("OneHot", [np.int64([1, 3]), scalar(4), f32([0, 1])], 11, (1, 2), {"axis": 0}),
    ("QuantizeLinear", [4 * X3, f32(0.05), np.uint8(128)], 13, (), {}),
    ("QuantizeLinear", [4 * X3, f32([0.1, 0.2, 0.3]), np.int8([1, -2, 3])], 13, (), {"axis": 1}),
    ("DequantizeLinear", [BYTES, f32(0.25), np.uint8(3)], 19, (), {}),
    ("DequantizeLinear", [SIGNED, f32([1, 2, 3, 4, 5])], 19, (), {"axis": 1}),
    ("MatMulInteger", [BYTES, SIGNED, np.uint8(12)], 10, (), {}),
    ("ConvInteger", [IMAGE, KERNEL, np.uint8(7)], 10, (), {"pads": [1, 1, 1, 1]}),
    ("QLinearMatMul", [BYTES, f32(0.01), np.uint8(9), SIGNED, f32(0.02), np.int8(1), f32(0.5), np.uint8(120)], 10, (), {}),
    ("QLinearConv", [IMAGE, f32(0.01), np.uint8(9), KERNEL, f32([0.1, 0.2, 0.3]), np.uint8([1, 2, 3]), f32(2), np.uint8(100)], 10, (), {}),
    ("BitShift", [np.uint8([16, 4, 255]), np.uint8([1, 2, 8])], 11, (), {"direction": "RIGHT"}),
    ("BitShift", [np.uint16([16, 4, 1]), np.uint16([1, 2, 11])], 11, (), {"direction": "LEFT"}),
    ("BitwiseNot", [np.int16([-3, 0, 32767])], 18, (), {}),
    ("BitwiseNot", [np.uint8([0, 1, 255])], 18, (), {}),
    ("Div", [np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])], 14, (), {}),
    ("Cast", [f32([-1.7, 0.0, 2.9])], 13, (), {"to": 7}),
    ("Cast", [f32([-1.7, 0.0, np.nan])], 13, (), {"to": 9}),
    ("Cast", [np.int8([-3, 0, 5])], 13, (), {"to": 1}),
]  # fmt: skip
"""Operator, inputs, opset, positions of constants, attributes."""
