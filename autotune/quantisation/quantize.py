"""``autotune.quantize``: a network and the user's inputs in, a QDQ file and its loss out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import numpy as np

from autotune.arguments import dims_of, integer_of, path_of
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError, ModelError
from autotune.frontend.source_model import SourceModel
from autotune.quantisation.grid import Activations, Method, NarrowFormat
from autotune.quantisation.loss import Loss
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Scheme
from autotune.quantisation.quantiser import Quantiser
from autotune.quantisation.result import QuantizeResult
from autotune.quantisation.samples import Samples, read_samples
from autotune.quantisation.target_costs import TargetCosts
from autotune.runtime.session.defaults import resolve_model
from autotune.store.store import Store
from autotune.tuner.progress import Progress, silent

DEFAULT_RUNS = 128
"""Runs that are used at most."""
DEFAULT_HELD_OUT = 0.25
"""Fraction of the runs that only judge the result."""
DEFAULT_PERCENTILE = 99.99
"""Per cent of the elements within the range of ``percentile``."""
Kind = TypeVar("Kind", bound=StrEnum)


def quantize(
    model: Path | str,
    data: Path | str | None,
    out: Path | str,
    *,
    format: NarrowFormat | str | Sequence[NarrowFormat | str] = NarrowFormat.INT8,
    method: Method | str = Method.MSE,
    activations: Activations | str = Activations.INT8,
    per_channel: bool = True,
    percentile: float = DEFAULT_PERCENTILE,
    weights_only: bool = False,
    max_loss: float | str | None = None,
    loss: Loss | str = Loss.RELATIVE,
    target: Path | str | None = None,
    hold_out: float = DEFAULT_HELD_OUT,
    runs: int = DEFAULT_RUNS,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
) -> QuantizeResult:
    """Quantise the convolutions and matrix products of a network; write it in standard ONNX.

    ``model`` is an ONNX file in float32 or a shipped network's name. ``data`` is a folder of NPY and NPZ
    files, or one such file, with inputs as the network takes them. It may be None where no scales and no losses depend on
    it. ``runs`` of them are used at most. The fraction ``hold_out`` of these only judges the result.

    ``format`` is ``int8``, written in the QDQ form, or ``bf16``, written as casts, which has no scales. Of several,
    ``int8,bf16``, the ``max_loss`` and the ``target`` choose one for each product. ``weights_only`` leaves activations in
    float32. ``method`` (``minmax``, ``percentile``, ``mse``) sets ranges from the runs that are not held out;
    ``percentile`` is how many per cent of the elements are within them. ``activations`` is ``int8`` or
    ``uint8``. Weights are int8, with a scale per output channel if ``per_channel``, and biases int32.

    ``max_loss``, a number or a text such as ``0.5%``, bounds the loss of the held-out runs. Products stay in float32 for
    it, those first that harm most for what they gain. ``loss`` is its measure: ``relative`` (norm of the
    difference by that of the output), ``cosine`` (1 − cosine) or ``top1`` (fraction of rows whose largest element
    is another one). Gains are multiplications. With a ``target``, the name of a machine or its spec file, they are the
    seconds saved by its cost model (in ``store``, None: the user's, or the shipped one).

    Raises ``InputError`` for data that fits no run of the network, and for a loss that no product is within. Raises
    ``ModelError`` for a network that cannot be read, is quantised already, or has nothing to quantise. Raises
    ``AutotuneError`` for a target without a cost model.
    """
    scheme = Scheme(
        _choice(method, Method, "method"),
        _choice(activations, Activations, "activations"),
        per_channel,
        _within(percentile, "percentile", 50.0, 100.0),
        weights_only,
        _formats(format),
    )
    if NarrowFormat.INT8 not in scheme.formats:
        _check_bf16(scheme)
    measure, limit = measure_of(loss), limit_of(max_loss)
    fraction = _within(hold_out, "hold_out", 0.0, 0.9)
    most, rng = integer_of(runs, "runs", 2), np.random.default_rng(integer_of(seed, "seed", 0))
    file, path, extents = path_of(out, "the quantised network"), resolve_model(model), dims_of(dims)
    check_place(file)
    _check_together(scheme, limit, has_data=data is not None, has_target=target is not None)
    costs = None if target is None else TargetCosts(target, store)
    network = Network.read(path)
    samples = Samples((), ())
    if data is not None:
        inputs = [x.bound(extents) for x in SourceModel(network.model).inputs]
        samples = read_samples(path_of(data, "data"), inputs, fraction, most, rng)
    quantiser = Quantiser(
        network, path.stem, samples, scheme, measure, limit, costs, extents, progress or silent
    )
    try:
        return quantiser.write(file)
    except (ModelError, InputError) as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from None


def _check_together(
    scheme: Scheme, limit: float | None, *, has_data: bool, has_target: bool
) -> None:
    """Raise ``InputError`` for arguments that need another one."""
    if not has_data and (scheme.has_grids or limit is not None):
        raise InputError(
            "data is missing: give --data FOLDER|FILE; only --weights-only and --format bf16 need none, "
            "without --max-loss"
        )
    if len(scheme.formats) > 1 and (limit is None or not has_target):
        raise InputError(
            f"formats {scheme.name} are chosen among by a limit of the loss and a machine's costs; "
            "give --max-loss and --target too"
        )
    if has_target and limit is None:
        raise InputError("a target ranks the products of a limited loss; give --max-loss too")


def _check_bf16(scheme: Scheme) -> None:
    """Refuse settings of scales, which bf16 has not."""
    plain = Scheme(is_weights_only=scheme.is_weights_only, formats=scheme.formats)
    for field in fields(Scheme):
        value = getattr(scheme, field.name)
        if value != getattr(plain, field.name):
            name = field.name.removeprefix("is_")
            raise InputError(f"{name} {value} is for int8: bf16 has no scales; leave it out")


def _formats(
    given: NarrowFormat | str | Sequence[NarrowFormat | str],
) -> tuple[NarrowFormat, ...]:
    """Return the formats of a list or a text such as ``int8,bf16``, each once."""
    several = [part.strip() for part in given.split(",")] if isinstance(given, str) else given
    if not several:
        raise InputError("format is empty; name int8 or bf16")
    return tuple(dict.fromkeys(_choice(one, NarrowFormat, "format") for one in several))


def limit_of(value: float | str | None) -> float | None:
    """Return the limit of a loss: 0.005 for ``0.5%`` and for 0.005. Raises ``InputError``."""
    if value is None:
        return None
    text = str(value).strip()
    try:
        number = float(Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1))
    except ArithmeticError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"max_loss is {value!r:.60}; give a number above 0, such as 0.5% or 0.005")
    return number


def measure_of(value: Loss | str) -> Loss:
    """Return a measure of the loss by its name. Raises ``InputError``."""
    return _choice(value, Loss, "loss")


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
