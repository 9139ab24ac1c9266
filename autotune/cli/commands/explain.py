"""``autotune explain``: the groups of a plan, or what import and passes made of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.commands.explain_build import explain_build
from autotune.cli.commands.explain_plan import explain_plan
from autotune.cli.console import print_json, print_table
from autotune.cli.options import (
    AccuracyOption,
    CoresOption,
    DimOption,
    JsonOption,
    MemoryOption,
    RangeOption,
    RunnableArgument,
    StoreOption,
    TargetOption,
    dimensions,
    input_ranges,
    machine_name,
)
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.graph.accuracy import Accuracy
    from autotune.graph.passes.note import Note
    from autotune.graph.ranges import Ranges
    from autotune.runtime.session.exploration import Exploration
    from autotune.targets.spec import HardwareSpec

GroupOption = Annotated[
    int | None, typer.Option("--group", min=0, help="Number of one group of a plan: all about it.")
]
BuildOption = Annotated[
    bool,
    typer.Option(
        "--build", help="Build it, and show tasks, times and the criteria of every fusion."
    ),
]
TriesOption = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="With --build on an emulated machine: measure every fusion beside its operators apart, and split those "
        "that do not pay.",
    ),
]
GraphOption = Annotated[
    bool,
    typer.Option("--graph", help="Run it once; show predicted and measured costs edge by edge."),
]
NOTE_COLUMNS = ("pass", "removed", "why")


def explain(
    model: RunnableArgument,
    target: TargetOption = None,
    dim: DimOption = None,
    range_: RangeOption = None,
    accuracy: AccuracyOption = None,
    group: GroupOption = None,
    graph: GraphOption = False,
    store: StoreOption = None,
    build: BuildOption = False,
    measure: TriesOption = False,
    cores: CoresOption = None,
    memory: MemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Show why a plan fuses and tiles as it does: gains, runners-up, rejected fusions. Of a network,
    show what the passes removed and why. With --build, build it and show how."""
    from autotune.frontend.importing import has_control_flow
    from autotune.runtime.session.defaults import choose_accuracy, resolve_model
    from autotune.runtime.session.request import open_request
    from autotune.targets.opening import load_spec

    path, dims, ranges = resolve_model(model), dimensions(dim), input_ranges(range_)
    options = {"--range": range_, "--accuracy": accuracy, "--target": target}
    if build:
        _refuse(path, "--build shows whole plans", {"--group": group})
        explain_build(
            open_request(
                path,
                target,
                dims=dims,
                accuracy=accuracy,
                ranges=ranges,
                cores=cores,
                memory=memory,
            ),
            json,
            measure,
        )
        return
    others = {"--cores": cores, "--memory": memory, "--measure": measure or None}
    _refuse(path, "{option} is for --build", others)
    if graph:
        if group is not None:
            raise InputError(f"{path}: --graph shows all groups; leave --group out")
        _explain_graph_costs(path, target, dims, accuracy, ranges, store, json)
        return
    if path.suffix == ".plan":
        _refuse(path, "a plan keeps its {name}", options)
        explain_plan(path, group, store, json)
        return
    if group is not None:
        raise InputError(f"{path}: --group is for plans; 'autotune search' makes one")
    if has_control_flow(path):
        _refuse(path, "{option} is for networks without control flow", options)
        _explain_tree(path, dims, json)
    else:
        spec = load_spec(machine_name(target, None))
        _explain_graph(path, dims, ranges, spec, choose_accuracy(accuracy, spec), json)


def _explain_graph_costs(
    path: Path,
    target: str | None,
    dims: dict[str, int],
    accuracy: Accuracy | None,
    ranges: Ranges,
    store: str | None,
    json: bool,
) -> None:
    """Open the network or plan on its machine, as ``run`` does, and show the costs of its edges."""
    from autotune.cli.commands.explain_graph import explain_graph
    from autotune.runtime.session.defaults import choose_target
    from autotune.runtime.session.session import Session

    machine = choose_target(machine_name(target, None, path))
    with Session(path, machine, dims=dims, accuracy=accuracy, ranges=ranges) as session:
        explain_graph(session, store, json)


def _refuse(path: Path, reason: str, options: Mapping[str, object]) -> None:
    """Raise ``InputError`` with the ``reason`` for the first option that has a value."""
    for option, value in options.items():
        if value is not None:
            text = reason.format(option=option, name=option[2:])
            raise InputError(f"{path}: {text}; leave {option} out")


def _explain_graph(
    path: Path,
    dims: dict[str, int],
    ranges: Ranges,
    spec: HardwareSpec,
    accuracy: Accuracy,
    json: bool,
) -> None:
    from autotune.frontend.importing import load_onnx
    from autotune.graph.passes import simplify
    from autotune.graph.ranges import intervals_by_input
    from autotune.operators.axes import Layout

    imported = load_onnx(path, dims)
    intervals = intervals_by_input(imported, ranges)
    result = simplify(imported, Layout(spec.layout), accuracy, intervals)
    before, after = len(imported.ops), len(result.graph.ops)
    if json:
        counts = {"operators_before": before, "operators_after": after}
        print_json(counts | {"notes": _note_documents(result.notes)})
        return
    title = f"{imported.name}: {before} operators, {after} after passes"
    print_table(title, NOTE_COLUMNS, _note_rows(result.notes))


def _explain_tree(path: Path, dims: dict[str, int], json: bool) -> None:
    """Show the pieces and control nodes of a network, and what folding and the passes removed."""
    from autotune.runtime.session.exploration import explored

    tree = explored(path, dims)
    parts, notes = _simplify_parts(tree)
    if json:
        print_json({"parts": parts, "notes": _note_documents(notes)})
        return
    print_table(
        f"{path.stem}: a tree of {len(tree.graphs)} graphs",
        ("part", "kind", "operators", "after passes"),
        [("  " * part["depth"] + part["part"], part["kind"], *_counts(part)) for part in parts],
    )
    print_table("what went", NOTE_COLUMNS, _note_rows(notes))


def _simplify_parts(tree: Exploration) -> tuple[list[dict[str, Any]], list[Note]]:
    """Simplify each part; return a row for each, and the notes of folding and passes."""
    from autotune.graph.passes import simplify

    notes = list(tree.notes)
    rows = []
    for part in tree.parts:
        before = after = 0
        if part.graph is not None:
            result = simplify(part.graph)
            before, after = len(part.graph.ops), len(result.graph.ops)
            notes += result.notes
        row = {"part": part.label, "depth": part.depth, "kind": part.kind or "piece"}
        rows.append(row | {"operators_before": before, "operators_after": after})
    return rows, notes


def _counts(part: dict[str, Any]) -> tuple[str, str]:
    """Return the operators of a part before and after the passes, as text."""
    if part["kind"] != "piece":
        return "", ""
    if part["operators_before"] == 0:
        return "known at import", ""
    return str(part["operators_before"]), str(part["operators_after"])


def _note_documents(notes: Iterable[Note]) -> list[dict[str, str]]:
    return [{"pass": n.pass_name, "removed": n.removed, "reason": n.reason} for n in notes]


def _note_rows(notes: Iterable[Note]) -> list[tuple[str, str, str]]:
    return [(note.pass_name, note.removed, note.reason) for note in notes]
