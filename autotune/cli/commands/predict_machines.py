"""``autotune predict`` of what runs no programs of ours: machines that time ONNX models, recorded tuning spaces."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.options import MOST_COUNTED
from autotune.report.view import group_label

MIN_READ = 10
"""Evaluations below which a recorded space teaches nothing."""

ReplayOption = Annotated[
    Path | None,
    typer.Option(
        "--replay", help="Recorded tuning space: Kernel Tuner cache or T4 file, may be gzipped."
    ),
]
EvaluationsOption = Annotated[
    int,
    typer.Option(
        "--evaluations", min=MIN_READ, max=MOST_COUNTED, help="Configurations that --replay reads."
    ),
]


def print_replay(file: Path, evaluations: int, seed: int, json: bool) -> None:
    """Learn a recorded tuning space and print what was found."""
    from autotune.cost_model.recorded import replay
    from autotune.targets.recorded_space import RecordedSpace

    result = replay(RecordedSpace.read(file), evaluations, seed)
    if json:
        print_json(asdict(result) | {"regret": result.regret})
        return
    best = ", ".join(f"{name}={value}" for name, value in result.best.items())
    print_facts(
        {
            "space": f"{result.space}: {result.configurations:,} configurations, "
            f"{result.invalid:,} of them fail",
            "read": f"{result.evaluations:,} ({result.failed} failed)",
            "best read": f"{result.best_seconds * 1e3:.4g} ms: {best}",
            "optimum": f"{result.optimum_seconds * 1e3:.4g} ms; the best read is "
            f"{result.regret:.2%} above it, of as many random ones "
            f"{result.random_seconds / result.optimum_seconds - 1:.2%}",
            "error on the unread": f"MAPE {result.mape:.2%} (their median alone "
            f"{result.baseline_mape:.2%}), Spearman {result.spearman:.3f}",
        }
    )


def print_seconds(
    model: str,
    target: str,
    dims: dict[str, int],
    store: str | None,
    version: str | None,
    json: bool,
) -> None:
    """Predict a network on a machine that times ONNX models and fuses by itself."""
    from autotune import api

    cost = api.predict_network(model, target, dims, store, version)
    if json:
        print_json(
            {
                "predicted_seconds": cost.seconds,
                "low_seconds": cost.low_seconds,
                "high_seconds": cost.high_seconds,
                "configuration": dict(cost.configuration),
                "operators": [asdict(part) for part in cost.parts],
            }
        )
        return
    print_table(
        f"{cost.network} on {cost.target}: {cost.seconds * 1e3:,.3f} ms predicted, "
        f"{cost.low_seconds * 1e3:,.3f} to {cost.high_seconds * 1e3:,.3f}",
        ("operator", "µs"),
        [
            (group_label(part.kinds, part.operators), f"{part.seconds * 1e6:,.1f}")
            for part in cost.parts
        ],
    )
    if cost.configuration:
        best = ", ".join(f"{name}={value}" for name, value in cost.configuration.items())
        say(f"in the best configuration by the model: {best}")
    say("the interval holds 90 % of measurements")
