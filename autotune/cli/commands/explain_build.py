"""``autotune explain --build``: how a plan was built, and the criteria of every fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.report.view import group_label

if TYPE_CHECKING:
    from autotune.runtime.builder.criteria import FusionCriteria
    from autotune.runtime.builder.trials import Trial
    from autotune.runtime.session.build_report import BuildReport
    from autotune.runtime.session.request import OpenRequest

_MEASURED = ("saves cycles, measured",)
_LISTED = 24
"""Fusions that are listed: those that pay most."""


def explain_build(request: OpenRequest, json: bool, tries: bool = False) -> None:
    """Build a network or plan within its limits, and print how; with ``tries`` fusions are measured.

    Raises ``AutotuneError`` as a session does.
    """
    from autotune.runtime.session.build_report import report_build

    reports = report_build(request, tries)
    if json:
        documents = [report.document() for report in reports]
        print_json(documents[0] if len(documents) == 1 else {"builds": documents})
        return
    for report in reports:
        _print_report(report)


def _print_report(report: BuildReport) -> None:
    trace = report.trace
    print_facts(_facts(report))
    print_table(
        "tasks",
        ("stage", "uses", "tasks", "predicted ms", "ms"),
        [
            (
                stage.value,
                stage.load.value,
                str(row.tasks),
                f"{1e3 * row.predicted_seconds:,.1f}",
                f"{1e3 * row.seconds:,.1f}",
            )
            for stage, row in trace.stages.items()
        ],
        texts=2,
    )
    if report.fusions:
        shown = report.fusions[:_LISTED]
        print_table(
            f"fusions: {len(shown)} of {len(report.fusions)}, the best-paying first",
            ("operators", "pays µs", "overlap µs", "bytes saved", "scratchpad", "instructions", "beside", "built", *_MEASURED[: any(one.trial for one in shown)]),
            [_fusion_row(fusion) for fusion in shown],
        )  # fmt: skip
    if report.split:
        print_table(
            "split into operators",
            ("group", "why"),
            [(", ".join(group.operators), group.reason) for group in report.split],
            texts=2,
        )
    say("pays: what a run saves at most by the roofline; overlap: compute beside memory; beside: groups that could run meanwhile")  # fmt: skip


def _facts(report: BuildReport) -> dict[str, Any]:
    from autotune.runtime.builder.limits import size_text

    trace = report.trace
    limit = "any" if trace.memory_bytes is None else size_text(trace.memory_bytes)
    return {
        "network": f"{report.network} on {report.target}: {report.groups} groups, {report.programs} programs",
        "on disk": f"{report.kept_programs} of {report.programs} programs",
        "build": f"{1e3 * trace.seconds:,.1f} ms on {trace.threads} cores; one after the other its tasks "
        f"take {1e3 * trace.work_seconds:,.1f} ms",
        "paired": f"{1e3 * trace.paired_seconds:,.1f} ms with unlike tasks side by side",
        "memory": f"{size_text(trace.reserved_bytes)} reserved at most by prediction; limit: {limit}; "
        f"{trace.waited} tasks waited for it, {trace.divided} were divided",
    }


def _fusion_row(fusion: FusionCriteria) -> tuple[str, ...]:
    payoff = fusion.payoff
    share = fusion.scratchpad_bytes / fusion.scratchpad_limit_bytes
    return (
        group_label(fusion.kinds, fusion.operators),
        f"{1e6 * payoff.seconds:,.1f}",
        f"{1e6 * payoff.overlap_seconds:,.1f}",
        f"{payoff.saved_bytes:,}",
        f"{share:.0%}",
        f"{fusion.instructions:,}",
        str(fusion.beside),
        "shared" if fusion.order is None else f"#{fusion.order}",
        *(() if fusion.trial is None else (_saved(fusion.trial),)),
    )


def _saved(trial: Trial) -> str:
    saved = trial.apart_cycles - trial.fused_cycles
    return f"{saved:,} of {trial.apart_cycles:,}"
