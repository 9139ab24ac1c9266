"""The figures of `make bench-misjudged`: which model answers where a machine is not what its spec says.

Each machine is calibrated as a user's is; figures are of held-out networks, of every model that contended.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.api.networks import load_all
from autotune.cost_model.model_file import FORMULA, GUIDED, RAW, SHIPPED
from autotune.store.store import Store
from autotune.tuner.calibrate import calibrate
from benchmarks.hidden_machine import MACHINES, STATED, Hidden
from benchmarks.table import Table

NETWORKS = (
    *("light_squeezenet", "light_resnet50", "mlp", "transformer_block", "mobilenet_v2"),
    *("bert_small", "vit_tiny", "gru", "yolo_head", "efficientnet_b0", "norm_gelu"),
    *("poolformer_s12", "attention", "mixer_s16"),
)
BUDGET = 1500
CONTENDERS = (FORMULA, SHIPPED, GUIDED, RAW)
_PAGE = """# Machines that are not what their spec says

Written by `make bench-misjudged`. Every machine states the spec `{stated}` and hides another one behind it; its analytic
estimate is wrong. Each was calibrated as a user's machine is, on {budget:,} programs of {networks} networks and of generated
graphs. Errors and regrets are of held-out networks, regrets of some five schedules a group. *formula* is the plain analytic
estimate, *shipped* the model in the package, *guided* trees that correct it, *raw* prices of counted work with trees on
what these leave. The one that *answers* is chosen by regret first, then by error; where it errs clearly less but chooses worse,
the formula chooses and it prices. A dash says that raw was not trained, or given up after one fold.

{table}

{note}
"""


def measured(hidden: Hidden, folder: Path) -> Mapping[str, Any]:
    """Calibrate a machine, or go on with it; what the folder holds whole is read."""
    file = folder / f"{hidden.name}.json"
    if file.exists():
        return dict(json.loads(file.read_text("utf-8")))
    target = hidden.open()
    graphs = load_all(NETWORKS, target.spec.layout, None)
    with Store.open(folder / f"{hidden.name}.db") as store:
        result = calibrate(target, budget=BUDGET, graphs=graphs, store=store)
    found = {
        "kind": result.model.kind,
        "chooses": result.model.chooser.kind,
        "failed": result.failed,
        "metrics": {name: float(value) for name, value in result.metrics.items()},
    }
    file.write_text(json.dumps(found), "utf-8")
    return found


def table(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return error and regret of every contender by machine."""
    rows = []
    for name, one in found.items():
        metrics, kind = one["metrics"], one["kind"]
        cells = [_cell(metrics, contender) for contender in CONTENDERS]
        held = f"{metrics['within_10']:.0%}, {metrics['coverage']:.0%}"
        answers = kind if one.get("chooses", kind) == kind else f"{kind}, choices of the formula"
        rows.append((name, MACHINES[name].doc, *cells, answers, held))
    columns = ("machine", "hidden", *CONTENDERS, "answers", "within ±10 %, in its interval")
    title = "Mean error / top-1 regret:"
    return Table(title, columns, tuple(rows))


def _cell(metrics: Mapping[str, float], kind: str) -> str:
    if f"{kind}_mape" not in metrics:
        return "–"
    return f"{metrics[f'{kind}_mape']:.1%} / {metrics[f'{kind}_top1_regret']:.1%}"


def note(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Say how often each kind answers, and that none chooses worse than its formula."""
    kinds = [one["kind"] for one in found.values()]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in CONTENDERS if kind in kinds)
    worse = sum(
        one["metrics"]["top1_regret"] > one["metrics"][f"{FORMULA}_top1_regret"] + 1e-12
        for one in found.values()
    )
    return f"Of {len(found)} machines answer: {counts}. A model with a larger regret than its formula: {worse}."


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    return _PAGE.format(
        stated=STATED,
        budget=BUDGET,
        networks=len(NETWORKS),
        table=table(found).markdown(),
        note=note(found),
    )


def main() -> None:
    """Calibrate what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".bench/misjudged"))
    parser.add_argument("--machines", nargs="*", default=tuple(MACHINES))
    parser.add_argument("--markdown", type=Path, help="the page to write, once all are measured")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    names: Sequence[str] = arguments.machines
    found = {}
    for name in names:
        found[name] = measured(MACHINES[name], arguments.folder)
        print(f"{name}: {found[name]['kind']}", file=sys.stderr, flush=True)
    print(table(found).text())
    if arguments.markdown is not None:
        arguments.markdown.write_text(page(found), "utf-8")


if __name__ == "__main__":
    main()
