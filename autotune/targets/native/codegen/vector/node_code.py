"""Code of one node of a run's body, given its arguments in registers: what vector and row runs share."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.isa.functions import BinaryFn
from autotune.targets.native.codegen.maths.maths import binary, power_of, unary
from autotune.targets.native.codegen.vector.vector_run import Binary, Constant, Fma, Unary
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

Computed = Constant | Unary | Binary | Fma
"""Nodes that need nothing but their arguments."""


def code_of(v: VectorBuilder, body: Sequence[object], node: Computed, given: Sequence[str]) -> str:
    """The node's value; ``given`` are the values of its arguments, nodes of ``body``."""
    match node:
        case Constant(value):
            return v.constant(value)
        case Unary(fn, _, p0, p1):
            return unary(v, fn, given[0], p0, p1)
        case Binary(fn, _, y):
            exponent = body[y]
            if fn is BinaryFn.POW and isinstance(exponent, Constant):
                return power_of(v, given[0], exponent.value)
            return binary(v, fn, *given)
        case Fma():
            return v.fma(*given)
