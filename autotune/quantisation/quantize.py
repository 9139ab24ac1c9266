"""``autotune.quantize``: a network and the user's inputs in, a QDQ file and its loss out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx

from autotune.arguments import dims_of, integer_of, path_of
from autotune.disk.atomic_file import check_place, replace_file
from autotune.display import Card, Displayed
from autotune.errors import InputError, ModelError
from autotune.frontend.source_model import SourceModel
from autotune.quantisation.grid import Activations, Grid, Method, activation_grid
from autotune.quantisation.loss import Loss, check_outputs, loss_of
from autotune.quantisation.observation import observe, opened_model, run_all, serialised
from autotune.quantisation.products import KINDS, Network, Product
from autotune.quantisation.qdq import Scheme, narrow_tensors, write_qdq
from autotune.quantisation.samples import Run, Samples, read_samples
from autotune.quantisation.source import read_source
from autotune.runtime.session.defaults import resolve_model
from autotune.tuner.progress import Progress, silent

QUANTIZE_STAGES: Mapping[str, float] = {"calibrate": 0.6, "check": 0.4}
"""Phases in order with their shares of the time."""
DEFAULT_RUNS = 128
"""Runs that are used at most."""
DEFAULT_HELD_OUT = 0.25
"""Fraction of the runs that only judge the result."""
DEFAULT_PERCENTILE = 99.99
"""Per cent of the elements within the range of ``percentile``."""
Kind = TypeVar("Kind", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """A convolution or matrix product, its type in the file, and why it stayed float32 (else None)."""

    name: str
    kind: str
    type: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class QuantizeResult(Displayed):
    """A quantised network.

    ``losses`` are those of the held-out runs by measure, run from the written file on this CPU; empty
    without data. ``bytes_before`` and ``bytes_after`` are file sizes.
    """

    network: str
    file: Path
    scheme: Scheme
    products: tuple[ProductChoice, ...]
    losses: Mapping[Loss, float]
    calibration_runs: int
    held_out_runs: int
    unused_runs: int
    bytes_before: int
    bytes_after: int

    @property
    def quantised(self) -> int:
        """Number of quantised products."""
        return sum(one.reason is None for one in self.products)

    def _card(self) -> Card:
        facts = [
            ("file", str(self.file)),
            ("quantised", f"{self.quantised} of {len(self.products)}"),
            *((f"{measure} loss", f"{loss:.3g}") for measure, loss in self.losses.items()),
        ]
        rows = [(one.name, one.kind, one.type, one.reason or "") for one in self.products]
        return Card(f"quantised {self.network}", facts, ("operator", "kind", "type", "why"), rows)


def quantize(
    model: Path | str,
    data: Path | str | None,
    out: Path | str,
    *,
    method: Method | str = Method.MSE,
    activations: Activations | str = Activations.INT8,
    per_channel: bool = True,
    percentile: float = DEFAULT_PERCENTILE,
    weights_only: bool = False,
    hold_out: float = DEFAULT_HELD_OUT,
    runs: int = DEFAULT_RUNS,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> QuantizeResult:
    """Quantise the convolutions and matrix products of a network; write it in ONNX's QDQ form.

    ``model`` is an ONNX file in float32 or a shipped network's name. ``data`` is a folder of NPY and NPZ
    files, or one such file, with inputs as the network takes them; None is for ``weights_only``, which
    leaves activations in float32. ``runs`` of them are used at most, and the fraction ``hold_out`` of these only
    judges the result. ``method`` (``minmax``, ``percentile``, ``mse``) sets ranges from the other runs,
    ``percentile`` how many per cent of the elements are within them. ``activations`` is ``int8`` or
    ``uint8``; weights are int8, with a scale per output channel if ``per_channel``, and biases int32.

    Raises ``InputError`` for data that fits no run of the network, ``ModelError`` for a network that cannot be
    read, is quantised already, or has nothing to quantise.
    """
    scheme = Scheme(
        _choice(method, Method, "method"),
        _choice(activations, Activations, "activations"),
        per_channel,
        _within(percentile, "percentile", 50.0, 100.0),
        weights_only,
    )
    fraction = _within(hold_out, "hold_out", 0.0, 0.9)
    most, rng = integer_of(runs, "runs", 2), np.random.default_rng(integer_of(seed, "seed", 0))
    file, path, extents = path_of(out, "the quantised network"), resolve_model(model), dims_of(dims)
    check_place(file)
    if data is None and not weights_only:
        raise InputError("data is missing; only --weights-only needs none")
    network = Network(read_source(path))
    if not network.products:
        raise ModelError(
            f"{path}: has nothing to quantise: no {', '.join(KINDS)} with weights in float32"
        )
    samples = Samples((), ())
    if data is not None:
        inputs = SourceModel(network.model).inputs
        samples = read_samples(path_of(data, "data"), inputs, fraction, most, rng)
    try:
        return _quantize(network, path, file, scheme, samples, extents, progress or silent)
    except (ModelError, InputError) as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from None


def _quantize(
    network: Network,
    path: Path,
    file: Path,
    scheme: Scheme,
    samples: Samples,
    dims: Mapping[str, int],
    progress: Progress,
) -> QuantizeResult:
    grids, loose = _calibrate(network, scheme, samples, dims, progress)
    chosen = [
        p.name for p in network.products if not loose.intersection(_roots(network, p, scheme))
    ]
    if not chosen:
        raise InputError("no operator has finite activations on these inputs; nothing is quantised")
    made = write_qdq(network, chosen, grids, scheme)
    _describe(made, scheme)
    content = serialised(made)
    losses = _judge(network.model, made, samples.held_out, dims, progress)
    replace_file(file, content)
    return QuantizeResult(
        path.stem,
        file,
        scheme,
        tuple(
            ProductChoice(p.name, p.kind, "int8")
            if p.name in chosen
            else ProductChoice(p.name, p.kind, "float32", "its activations are not finite")
            for p in network.products
        ),
        losses,
        len(samples.calibration),
        len(samples.held_out),
        samples.unused,
        len(serialised(network.model)),
        len(content),
    )


def _calibrate(
    network: Network,
    scheme: Scheme,
    samples: Samples,
    dims: Mapping[str, int],
    progress: Progress,
) -> tuple[dict[str, Grid], frozenset[str]]:
    """Return the grids of all tensors that may be quantised, and the tensors that have none."""
    every = [p.name for p in network.products]
    roots = dict.fromkeys(network.root(x) for x in narrow_tensors(network, every, scheme))
    if not roots:
        return {}, frozenset()
    seen = observe(network.model, tuple(roots), samples.calibration, dims, progress)
    grids = {
        x: activation_grid(one, scheme.activations, scheme.method, scheme.percentile)
        for x, one in seen.items()
        if one.is_finite
    }
    return grids, frozenset(seen) - frozenset(grids)


def _roots(network: Network, product: Product, scheme: Scheme) -> set[str]:
    return {network.root(x) for x in narrow_tensors(network, [product.name], scheme)}


def _judge(
    model: onnx.ModelProto,
    made: onnx.ModelProto,
    runs: tuple[Run, ...],
    dims: Mapping[str, int],
    progress: Progress,
) -> dict[Loss, float]:
    """Return the losses of held-out runs by every measure."""
    if not runs:
        return {}
    with opened_model(model, dims) as session:
        wanted = run_all(session, runs)
    check_outputs(wanted)
    progress("check", 1, 2)
    with opened_model(made, dims) as session:
        found = run_all(session, runs)
    progress("check", 2, 2)
    return {measure: loss_of(wanted, found, measure) for measure in Loss}


def _describe(model: onnx.ModelProto, scheme: Scheme) -> None:
    """Note in the file what made it."""
    facts = {
        "autotune.quantize.method": scheme.method.value,
        "autotune.quantize.activations": "float32"
        if scheme.is_weights_only
        else scheme.activations.value,
    }
    present = {row.key for row in model.metadata_props}
    for key, value in facts.items():
        if key not in present:
            model.metadata_props.add(key=key, value=value)


def _choice(value: Kind | str, kind: type[Kind], what: str) -> Kind:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(one.value for one in kind)
        raise InputError(f"{what} is {value!r:.60}; choose among {names}") from None


def _within(value: float, what: str, least: float, largest: float) -> float:
    if not isinstance(value, (int, float)) or not least < value <= largest:
        raise InputError(
            f"{what} is {value!r:.60}; give a number above {least:g}, {largest:g} at most"
        )
    return float(value)
