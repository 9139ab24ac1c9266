"""Every reason is given for the evidence that it speaks of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.runtime.session.roofline import Limit
from autotune.runtime.session.shortfall import GUESSES, Evidence, reason
from autotune.targets.native.linking.step_kinds import StepKind as S
from autotune.targets.native.linking.step_profile import ProgramProfile

PRODUCT = ProgramProfile(8, {S.PRODUCT: 1.0}, 1.0, 512)
VECTOR = ProgramProfile(8, {S.VECTOR: 1.0}, None, None)
BASE = Evidence(1e-3, 0.5, Limit.ARITHMETIC, PRODUCT, 2, False)

CASES = {
    "computed in place before": replace(BASE, profile=replace(VECTOR, steps={})),
    "": replace(BASE, fraction=0.9),
    "short: starting it takes as long": replace(BASE, seconds=1e-6),
    "kernels that are not generated (30%)": replace(
        BASE, profile=replace(PRODUCT, steps={S.PRODUCT: 0.7, S.COMPILED: 0.3})
    ),
    "1 part for 2 threads": replace(BASE, profile=replace(PRODUCT, parts=1)),
    "3 parts for 2 threads": replace(BASE, profile=replace(PRODUCT, parts=3)),
    "copies (40%)": replace(BASE, profile=replace(PRODUCT, steps={S.PRODUCT: 0.6, S.COPY: 0.4})),
    "Winograd's transforms (45%)": replace(
        BASE, profile=replace(PRODUCT, steps={S.PRODUCT: 0.55, S.TRANSFORM: 0.45})
    ),
    "transcendental functions in passes (100%)": replace(BASE, profile=VECTOR, functions=True),
    "memory-bound, below the measured bandwidth": replace(BASE, limit=Limit.MEMORY, profile=VECTOR),
    "passes of few operations per load (100%)": replace(BASE, profile=VECTOR),
    "products fill 75% of the lanes": replace(BASE, profile=replace(PRODUCT, lanes=0.75)),
    "short sums (16 products)": replace(BASE, profile=replace(PRODUCT, depth=16)),
    "passes beside the products (30%)": replace(
        BASE, profile=replace(PRODUCT, steps={S.PRODUCT: 0.7, S.ROWS: 0.3})
    ),
    "products below the peak": BASE,
    "not explained": replace(
        BASE, profile=ProgramProfile(8, {S.TRANSFORM: 0.39, S.PRODUCT: 0.49}, 1.0, 512)
    ),
}


@pytest.mark.parametrize("said", CASES)
def test_a_reason_is_that_of_its_evidence(said: str) -> None:
    assert reason(CASES[said]) == said


def test_every_guess_is_tried() -> None:
    first = [
        next(i for i, (holds, _) in enumerate(GUESSES) if holds(case)) for case in CASES.values()
    ]
    assert set(first) == set(range(len(GUESSES)))
