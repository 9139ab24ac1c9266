"""``autotune calibrate``: measure fused operators on a target and train its cost model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from autotune.cli.console import emit, facts, show
from autotune.cli.options import (
    MOST_COUNTED,
    AccuracyOption,
    JsonOption,
    SeedOption,
    TargetOption,
    ThreadsOption,
    machine_name,
)
from autotune.cli.progress import progress
from autotune.tuner.progress import CALIBRATION_STAGES


def calibrate(
    target: TargetOption = None,
    threads: ThreadsOption = None,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            min=1,
            max=MOST_COUNTED,
            help="Measurements; default: under 90 s on two cores, minutes for cpu.",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--models", help="ONNX file or shipped network to draw groups from; repeatable."
        ),
    ] = None,
    accuracy: AccuracyOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Measure fused operators on the target and train the cost model on them.

    Ctrl-C keeps what was measured; running again continues.
    """
    with progress("calibrate", CALIBRATION_STAGES) as heard:
        from autotune import api  # takes seconds
        from autotune.cli.drift_memory import open_machine

        machine = open_machine(machine_name(target, threads))
        heard.title = f"calibrate {machine.name}"
        result = api.calibrate(
            machine,
            budget,
            models or api.CALIBRATED_ON,
            seed,
            progress=heard,
            accuracy=accuracy,
        )
    metrics = {name: float(value) for name, value in result.metrics.items()}
    if json:
        emit(
            {
                "measured": result.measured,
                "failed": result.failed,
                "known_before": result.knew,
                "seconds": result.seconds,
                "metrics": metrics,
                "worst": [asdict(group) for group in result.worst],
            }
        )
        return
    facts(
        {
            "measured now": f"{result.measured} ({result.failed} failed), {result.knew} known before",
            "seconds": f"{result.seconds:.1f}",
            "held-out MAPE": f"{metrics['mape']:.2%}  (networks that the model was not trained on)",
            "held-out Spearman": f"{metrics['spearman']:.4f}",
            "held-out top-1 regret": f"{metrics['top1_regret']:.2%}",
            "interval coverage": f"{metrics['coverage']:.1%}  (of nominal 90 %)",
        }
    )
    show(
        "groups that it is worst at",
        ("operators", "network", "measured / predicted", "runs"),
        [(" ".join(g.kinds), g.network, f"{g.factor:.2f}", str(g.runs)) for g in result.worst],
    )
