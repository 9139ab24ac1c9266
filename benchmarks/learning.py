"""The figures of `make bench-learning`: what feature families and measurements buy, on few networks of two targets.

A smaller setting than `make bench-model`: 14 networks, one set each, a calibration's share of programs to train on.
What a folder holds is not measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.model_baselines import BASELINES
from benchmarks.model_experiments import CURVE_FOLDS, ablate, learning_curves
from benchmarks.model_measure import (
    drawn_sets,
    in_turn,
    measure_missing,
    measured_sets,
    open_store,
    say,
)
from benchmarks.model_page import ablation_table, curves_table
from benchmarks.model_pictures import curves_picture
from benchmarks.model_scores import Scores, score
from benchmarks.model_study import Study
from benchmarks.model_training import drawn_training, training_records
from benchmarks.table import Table

TARGETS = ("edge", "tpuv1-like")
NETWORKS = (
    *("mlp", "mobilenet_v2", "light_resnet50", "bert_small", "vit_tiny", "gru"),
    *("transformer_block", "yolo_head", "efficientnet_b0", "norm_gelu", "poolformer_s12"),
    *("light_squeezenet", "attention", "mixer_s16"),
)
SHARE = 93
"""Programs to train on by each network, as a calibration over all networks draws."""
FOLDS = 4


def collected(name: str, folder: Path, networks: Sequence[str]) -> Study:
    """Measure what the folder does not hold of a target, and return it as a study."""
    drawn = drawn_sets(name, folder, networks, groups=1)
    training = drawn_training(name, folder, networks, SHARE * len(networks))
    with open_store(name, folder) as store:
        measure_missing(name, (*training, *in_turn(drawn)), store)
        measured = measured_sets(name, drawn, store)
    records = tuple(training_records(training, measured.records))
    return Study.of(measured.spec, measured.sets, measured.plans, records, FOLDS)


def section(name: str, study: Study, images: Path) -> str:
    """Return a target's part of the page; its picture goes to ``images``."""
    found = {}
    for predictor, train in BASELINES.items():
        say(f"{name}: {predictor}")
        found[predictor] = score(study.judged(study.predict(train)))
    say(f"{name}: ablation")
    ablation = ablate(study)
    say(f"{name}: learning curves")
    curves = learning_curves(study)
    picture = f"learning-{name}.svg"
    (images / picture).write_text(curves_picture(f"{name}: held-out networks", curves), "utf-8")
    origin = (
        f"{sum(map(len, study.sets)):,} programs in {len(study.sets)} sets, "
        f"{len(study.records):,} to train on, {FOLDS} folds."
    )
    parts = (
        f"## {name}",
        origin,
        _predictors(name, found).markdown(),
        f"![Learning curves on {name}](images/{picture})",
        curves_table(name, curves).markdown(),
        ablation_table(name, ablation).markdown(),
    )
    return "\n\n".join(parts)


def _predictors(name: str, found: Mapping[str, Scores]) -> Table:
    rows = tuple(
        (
            predictor,
            f"{one.mape:.1%}",
            f"{one.median_error:.1%}",
            f"{one.within_10:.1%}",
            f"{one.spearman:.3f}",
            f"{one.top1_regret:.1%}",
        )
        for predictor, one in found.items()
    )
    columns = ("predictor", "MAPE", "median", "within ±10 %", "Spearman in a set", "top-1 regret")
    return Table(f"{name}, held-out networks:", columns, rows)


def page(sections: Sequence[str]) -> str:
    """Return the page of all targets' parts."""
    head = (
        "# What the cost model learns from",
        f"Written by `make bench-learning`: a smaller setting than [figures-model.md](figures-model.md), with "
        f"{len(NETWORKS)} networks instead of 43, so that all is trained within minutes. Every network is held out "
        f"with those of its fold. Curves are of the networks of {CURVE_FOLDS} folds. *raw* are trees on counts of "
        "graph, schedule and spec; *priced raw* first fits a price to each kind of counted work, then trains trees on "
        "what these leave; *guided* corrects the analytic estimate. *active* adds the programs that a committee of "
        "four models disagrees most about. The last size of a curve stands for all programs that a fold may train on, "
        "which are fewer.",
    )
    return "\n\n".join((*head, *sections)) + "\n"


def main() -> None:
    """Collect, train, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", default=TARGETS)
    parser.add_argument("--folder", type=Path, default=Path(".bench/learning"), help="measurements")
    parser.add_argument("--networks", nargs="*", default=NETWORKS, help="shipped networks")
    parser.add_argument("--markdown", type=Path, required=True, help="the page to write")
    arguments = parser.parse_args()
    images = arguments.markdown.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = []
    for name in arguments.targets:
        study = collected(name, arguments.folder, arguments.networks)
        sections.append(section(name, study, images))
        arguments.markdown.write_text(page(sections), "utf-8")


if __name__ == "__main__":
    main()
