"""Metrics are what Prometheus reads, and say what the status says."""

from __future__ import annotations

import re

import pytest

from autotune.report.exposition import exposition
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case
from tests.runtime.session.test_session import FUSED, GRAPH, plan_for

LINE = re.compile(r'^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
Samples = dict[str, list[tuple[dict[str, str], float]]]


def document(runs: int = 3) -> dict:
    with Session(GRAPH, case.InterpretedTarget(), plan=plan_for(GRAPH, *FUSED)) as session:
        for _ in range(runs):
            session.run(case.inputs(GRAPH))
        return {"pid": 12, "sessions": [session.status().to_json()]}


def parsed(text: str) -> Samples:
    """Samples by name, by the grammar of the format; every family is declared before its samples."""
    found: Samples = {}
    declared = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared = line.split()[2]
        if line.startswith("#"):
            continue
        match = LINE.match(line)
        assert match is not None, line
        name, labels, value = match.groups()
        assert name.startswith(declared)
        found.setdefault(name, []).append((dict(LABEL.findall(labels)), float(value)))
    return found


def test_samples_are_those_of_the_status() -> None:
    process = document()
    (session,) = process["sessions"]
    samples = parsed(exposition([process]))
    executions = {
        (labels["group"], labels["schedule"]): value
        for labels, value in samples["autotune_group_executions_total"]
    }
    assert executions == {(g["group"], g["schedule"]): g["executions"] for g in session["groups"]}
    ((_, count),) = samples["autotune_run_duration_seconds_count"]
    buckets = samples["autotune_run_duration_seconds_bucket"]
    assert count == session["runs"] == 3
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert (buckets[-1][0]["le"], buckets[-1][1]) == ("+Inf", count)
    seconds = sum(value for _, value in samples["autotune_group_duration_seconds_total"])
    total = sum(g["total_cycles"] for g in session["groups"])
    assert seconds == pytest.approx(total / session["clock_hz"])
    predicted = samples["autotune_group_predicted_duration_seconds"]
    assert {value for _, value in predicted} == {1000.0 / session["clock_hz"]}


def test_names_of_any_kind_stay_one_line() -> None:
    process = document(1)
    process["sessions"][0]["network"] = 'a "quoted"\\ name\nof two lines'
    labels = parsed(exposition([process]))["autotune_plan_version"][0][0]
    assert labels["network"] == 'a \\"quoted\\"\\\\ name\\nof two lines'


def test_no_process_gives_no_metrics() -> None:
    assert exposition([]) == ""


def test_the_reference_parser_reads_the_same() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    text = exposition([document()])
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families["autotune_run_duration_seconds"].type == "histogram"
    assert families["autotune_group_executions"].type == "counter"
    ours = sorted((name, value) for name, rows in parsed(text).items() for _, value in rows)
    theirs = sorted((s.name, s.value) for family in families.values() for s in family.samples)
    assert theirs == ours
