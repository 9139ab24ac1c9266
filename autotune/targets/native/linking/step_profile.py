"""What the native engine knows of a program beyond its time: where that goes, and how it is cut.

A session's profile of a network is made of it, group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.targets.native.codegen.gemm.loops import loops_of
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.linking.loader import Bound
from autotune.targets.native.linking.step_kinds import StepKind


@dataclass(frozen=True, slots=True)
class ProgramProfile:
    """``parts`` that threads may take; ``steps`` are shares of the calls' time by kind, which add up
    to 1. ``lanes`` is the share of vector lanes that its products fill and ``depth`` the products in
    their shortest sum, None for a program without products."""

    parts: int
    steps: Mapping[StepKind, float]
    lanes: float | None
    depth: int | None


def program_profile(bound: Bound, samples: Sequence[Mapping[StepKind, int]]) -> ProgramProfile:
    """Profile a bound program by the time that its calls took in some runs. The least time of a kind
    counts: other work of the machine only adds."""
    least = {kind: min(one.get(kind, 0) for one in samples) for kind in samples[0]}
    total = sum(least.values())
    shares = {kind: ns / total for kind, ns in least.items() if ns}
    products = list(_products(bound))
    return ProgramProfile(
        len(bound.parts),
        shares,
        _filled(products) if products else None,
        min((loops_of(shape).depth for shape, _ in products), default=None),
    )


def _products(bound: Bound) -> Iterable[tuple[GemmShape, int]]:
    """Shapes of the products, and lanes of a vector."""
    for call in bound.calls:
        if isinstance(call.kernel, KernelSpec) and isinstance(call.kernel.constants, GemmShape):
            yield call.kernel.constants, call.kernel.isa.lanes


def _filled(products: Iterable[tuple[GemmShape, int]]) -> float:
    """Elements of the results over those of whole vectors."""
    useful = padded = 0
    for shape, lanes in products:
        loops = loops_of(shape)
        rows = shape.m * shape.n1 * shape.n0 // loops.vector.size * loops.depth
        useful += rows * loops.vector.size
        padded += rows * -(-loops.vector.size // lanes) * lanes
    return useful / padded
