"""A fabricated search result for the report's tests: sized like ResNet-50, numbers seeded."""

from __future__ import annotations

import numpy as np

from autotune.report.view import (
    FailureRow,
    FrontRow,
    GroupRow,
    PlanCosts,
    SearchCurve,
    SearchView,
    TrialPoint,
)
from autotune.targets.spec import (
    ControlSpec,
    DramSpec,
    EnergySpec,
    HardwareSpec,
    MatrixSpec,
    ScratchpadSpec,
    VectorSpec,
)

SPEC = HardwareSpec(
    name="tiny",
    description="A fabricated machine for tests",
    sources=(),
    cores=1,
    clock_hz=5e8,
    matrix=MatrixSpec(16, 16, "os", 4),
    vector=VectorSpec(16, 4, 4, 8),
    scratchpad=ScratchpadSpec(262144, 16, 4),
    dram=DramSpec(8.0, 64, 2048, 8, 10, 10, 10, 5, 30),
    control=ControlSpec(1, 16),
    energy=EnergySpec(4600, 2000, 300, 900, 1250, 1250, 20000, 20000, 0, 25000, 50000),
)

CHAINS = (
    ("conv", "relu"),
    ("conv", "relu", "conv", "relu"),
    ("conv", "add", "relu"),
    ("max_pool",),
    ("reduce_mean", "reshape"),
    ("matmul", "add", "gelu", "matmul", "add", "layer_norm", "softmax", "sigmoid", "mul", "concat"),
)


def group_row(rng: np.random.Generator, index: int) -> GroupRow:
    """One group with plausible figures; every fifth was not measured."""
    operators = CHAINS[int(rng.integers(len(CHAINS)))]
    traffic = int(rng.integers(20_000, 2_000_000))
    work = int(traffic * rng.uniform(0.5, 60)) if operators[0] in ("conv", "matmul") else 0
    bound = max(work / 256, traffic / 8)
    measured = int(bound * rng.uniform(1.05, 1.6))
    predicted = measured * rng.normal(1, 0.05)
    reads = {index - 1} if index else set()
    if index > 3 and index % 3 == 0:
        reads.add(index - 3)
    return GroupRow(
        index=index,
        operators=operators,
        names=tuple(f"{kind}_{index}_{i}" for i, kind in enumerate(operators)),
        output_shape=(1, 64, 56, 56),
        schedule="tile 1×64×8×56 · order 0 1 2 3 · k 64 · ×2",
        reads=tuple(sorted(reads)),
        multiply_adds=work,
        bound_cycles=bound,
        predicted_cycles=predicted,
        low_cycles=predicted * 0.92,
        high_cycles=predicted * 1.08,
        measured_cycles=None if index % 5 == 4 else measured,
        energy_fj=None if index % 5 == 4 else traffic * 30_000,
        dram_bytes=None if index % 5 == 4 else traffic,
        apart_cycles=tuple(measured * rng.uniform(0.3, 0.8) for _ in operators)
        if len(operators) > 1
        else (float(measured),),
    )


def search_view(groups: int = 57, trials: int = 200, seed: int = 0) -> SearchView:
    """A whole result with so many groups and trials."""
    rng = np.random.default_rng(seed)
    rows = tuple(group_row(rng, i) for i in range(groups))
    found = sum(row.cycles for row in rows)
    best = found * 1.5
    points = []
    for trial in range(trials):
        cost = found * (1 + 0.6 * float(np.exp(-trial / 40)) + rng.exponential(0.1))
        best = min(best, cost)
        points.append(TrialPoint(trial, cost, best, "tpe"))
    return SearchView(
        network="light_resnet50",
        objective="latency",
        spec=SPEC,
        cycles=PlanCosts(found * 1.61, found * 1.13, found),
        predicted_cycles=PlanCosts(found * 1.6, found * 1.15, best),
        energy_fj=PlanCosts(found * 3.1e6, found * 2.2e6, found * 1.9e6),
        dram_bytes=PlanCosts(found * 5, found * 3, found * 2.5),
        groups=rows,
        trials=tuple(points),
        model_metrics={"mape": 0.056, "spearman": 0.985, "top1_regret": 0.013, "coverage": 0.91},
        curves=(
            SearchCurve(
                "search", ((40, found * 1.6), (70, found * 1.2), (104, found), (128, found))
            ),
        ),
        failures=(FailureRow("refused", 3, "scratchpad: tiles take 300,000 bytes of 262,144"),),
        proofs=("Optimal for these costs over 412 groups.",),
        front=tuple(
            FrontRow(
                f"net.{n}.plan",
                f"latency+{n}e-07*energy",
                40 + n,
                found * slower,
                found * saved,
                1 << 17,
            )
            for n, slower, saved in ((1, 1.0, 2e6), (2, 1.1, 1.6e6), (3, 1.5, 1.5e6))
        ),
        facts=(("command", "autotune search light_resnet50.onnx --target tiny"), ("seed", "0")),
    )
