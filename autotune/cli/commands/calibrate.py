"""``autotune calibrate``: measure fused operators on a target and train its cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_facts, print_json, print_table
from autotune.cli.failures import exit_on_defects, failure_document, say_failures
from autotune.cli.options import (
    MOST_COUNTED,
    AccuracyOption,
    JsonOption,
    SeedOption,
    StoreOption,
    TargetOption,
    ThreadsOption,
    TimeLimitOption,
    WorkersOption,
    machine_name,
)
from autotune.cli.progress import progress
from autotune.tuner.progress import CALIBRATION_STAGES

if TYPE_CHECKING:
    from autotune.cost_model.model import CostModel
    from autotune.tuner.calibrate import CalibrationResult
    from autotune.tuner.calibrate_groups import GroupCalibration

BudgetOption = Annotated[
    int | None,
    typer.Option(
        "--budget",
        min=1,
        max=MOST_COUNTED,
        help="Measurements; default: under 90 s on two cores, minutes for cpu.",
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--models", help="ONNX file or shipped network to draw groups from; repeatable."),
]


def calibrate(
    target: TargetOption = None,
    threads: ThreadsOption = None,
    budget: BudgetOption = None,
    models: ModelsOption = None,
    accuracy: AccuracyOption = None,
    seed: SeedOption = 0,
    time_limit: TimeLimitOption = None,
    store: StoreOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Measure fused operators on the target and train the cost model on them.

    Ctrl-C keeps what was measured; running again continues.
    """
    with progress("calibrate", CALIBRATION_STAGES) as report:
        from autotune import api  # takes seconds
        from autotune.runtime.session.defaults import choose_target
        from autotune.targets.opening import plugin_target
        from autotune.tuner.calibrate_groups import GroupCalibration

        name = machine_name(target, threads)
        machine = plugin_target(name) or choose_target(name)
        report.title = f"calibrate {machine.name}"
        result = api.calibrate(
            machine,
            budget,
            models or None,
            seed,
            store,
            progress=report,
            accuracy=accuracy,
            time_limit_seconds=time_limit,
            workers=workers,
        )
    say_failures(result.failures)
    if isinstance(result, GroupCalibration):
        _print_groups(result, json)
    elif json:
        print_json(_document(result))
    else:
        _print_result(result)
    exit_on_defects(result.failures)


def _print_groups(result: GroupCalibration, json: bool) -> None:
    """Print what a calibration of a machine without schedules found."""
    counts = {
        "measured": result.measured,
        "failed": result.failed,
        "known_before": result.known_before,
        "seconds": result.seconds,
        "repeated_calls": result.repeated_calls,
        "remark": result.remark,
        "kept": result.kept,
    }
    if json:
        failures = [asdict(failure) for failure in result.failures]
        print_json(counts | {"failures": failures, "metrics": result.model.metrics})
        return
    metrics = result.model.metrics
    repeated = f"{result.repeated_calls} failed and were made again, such as: {result.remark}"
    print_facts(
        {
            "measured now": f"{result.measured} ({result.failed} failed), "
            f"{result.known_before} known before",
            **({"calls": repeated} if result.repeated_calls else {}),
            "seconds": f"{result.seconds:.1f}",
            **({"kept": result.kept} if result.kept else {}),
            "held-out MAPE": f"{metrics['mape']:.2%}  (networks that the model was not trained on; "
            f"unit costs alone {metrics['formula_mape']:.2%})",
            "held-out median error": f"{metrics['median_error']:.2%}",
            "held-out within ±10 %": f"{metrics['within_10']:.1%}",
            "interval coverage": f"{metrics['coverage']:.1%}  (of nominal 90 %)",
        }
    )


def _document(result: CalibrationResult) -> dict[str, Any]:
    return {
        "measured": result.measured,
        "failed": result.failed,
        "failures": failure_document(result.failures),
        "measured_twice": result.doubtful,
        "known_before": result.known_before,
        "seconds": result.seconds,
        "model": result.model.kind,
        "chooses": result.model.chooser.kind,
        "kept": result.kept,
        "metrics": {name: float(value) for name, value in result.metrics.items()},
        "worst": [asdict(group) for group in result.worst],
    }


def _contenders(metrics: Mapping[str, float]) -> str:
    """Return the errors of the models that contended."""
    kinds = ("formula", "shipped", "guided", "raw")
    errors = {kind: metrics.get(f"{kind}_mape") for kind in kinds}
    return ", ".join(f"{kind} {error:.1%}" for kind, error in errors.items() if error is not None)


def _second_stage(metrics: Mapping[str, float]) -> dict[str, str]:
    """Say how far the second stage errs, by which searches on a CPU go."""
    if "verified_mape" not in metrics:
        return {}
    error, median = metrics["verified_mape"], metrics["verified_median_error"]
    return {
        "second stage": f"{error:.2%}  (what searches go by: bound programs, held out alike; "
        f"median error {median:.2%})"
    }


def _networks(metrics: Mapping[str, float]) -> dict[str, str]:
    """Say how far the times of whole networks err."""
    if "whole_networks" not in metrics:
        return {}
    error, near = metrics["whole_networks_mape"], metrics["whole_networks_within_10"]
    return {
        "whole networks": f"{error:.2%}  ({metrics['whole_networks']:.0f} were run, each predicted by what the others "
        f"teach; {near:.0%} within ±10 %)"
    }


def _choice(model: CostModel) -> str:
    """Say what chooses among the schedules of a group."""
    if model.learned.formula_chooses:
        return "prices what the formula chooses, for it chooses worse itself"
    return "chooses no worse than the formula on held-out networks"


def _print_result(result: CalibrationResult) -> None:
    metrics = result.metrics
    print_facts(
        {
            "measured now": f"{result.measured} ({result.failed} failed), "
            f"{result.known_before} known before, {result.doubtful} doubtful ones twice",
            "seconds": f"{result.seconds:.1f}",
            **({"kept": result.kept} if result.kept else {}),
            "model": f"{result.model.kind}  ({_choice(result.model)}; "
            f"held-out errors: {_contenders(metrics)})",
            "held-out MAPE": f"{float(metrics['mape']):.2%}  (networks that the model was not "
            f"trained on; {float(metrics['formula_mape']):.2%} by the formula alone)",
            "within ±10 %": f"{float(metrics['within_10']):.1%}  "
            f"(median error {float(metrics['median_error']):.2%})",
            "held-out Spearman": f"{float(metrics['spearman']):.3f}  (within a group, mean{_in_order(metrics)})",
            "held-out top-1 regret": f"{float(metrics['top1_regret']):.2%}  "
            f"(of some six schedules a group; {float(metrics['formula_top1_regret']):.2%} by the "
            "formula alone)",
            "interval coverage": f"{float(metrics['coverage']):.1%}  (of nominal 90 %)",
            **_second_stage(metrics),
            **_networks(metrics),
        }
    )
    print_table(
        "groups that it is worst at",
        ("operators", "network", "measured / predicted", "runs"),
        [(" ".join(g.kinds), g.network, f"{g.factor:.2f}", str(g.runs)) for g in result.worst],
    )


def _in_order(metrics: Mapping[str, object]) -> str:
    """Return what share of clearly different schedules is in order; nothing of a model of before that figure."""
    found = metrics.get("ordered")
    return f"; {found:.1%} of pairs 5 % apart are in order" if isinstance(found, float) else ""
