"""All choices of formats of one network: their losses from one switched session, and the files that hold them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from autotune.arguments import path_of
from autotune.errors import InputError
from autotune.frontend.source_model import SourceModel
from autotune.quantisation.grid import Grid, NarrowFormat
from autotune.quantisation.loss import Loss, Outputs, loss_of
from autotune.quantisation.observation import opened_model, run_all, serialised
from autotune.quantisation.precision import PrecisionSearch, rankings_of
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Formats, Scheme, write_qdq
from autotune.quantisation.quantiser import Quantiser
from autotune.quantisation.samples import Run, read_samples
from autotune.quantisation.steps import (
    Gains,
    Sensitivity,
    Step,
    formats_of,
    steps_towards,
    within_limit,
)
from autotune.quantisation.switched import with_switches
from autotune.quantisation.work import elements_of_weights, multiplications
from autotune.runtime.session.session import Session
from autotune.tuner.progress import Progress


@dataclass(frozen=True)
class PrecisionSpace:
    """Formats for the products of a network, each choice with its loss on runs held out."""

    quantiser: Quantiser
    grids: Mapping[str, Grid]
    names: Mapping[NarrowFormat, tuple[str, ...]]
    wanted: Sequence[Outputs]
    losses: PrecisionSearch
    sensitivities: tuple[Sensitivity, ...]

    @property
    def network(self) -> Network:
        """The network in float32, prepared."""
        return self.quantiser.network

    def work(self) -> dict[str, float]:
        """Return the multiplications of each product."""
        return multiplications(self.network, self.quantiser.samples.calibration[0])

    @property
    def reuse(self) -> float:
        """Multiplications by an element of a weight, in the mean: about 1 where one vector meets every weight."""
        elements = sum(elements_of_weights(self.network).values())
        return sum(self.work().values()) / elements if elements else math.inf

    @property
    def label(self) -> str:
        """What a format's name says beside it: nothing, or that weights alone are narrow."""
        return " weights" if self.quantiser.scheme.is_weights_only else ""

    @cached_property
    def fingerprint(self) -> str:
        """Twelve digits for the network, its inputs, the formats of its products and the code."""
        found = self.quantiser.findings.fingerprint
        names = sorted((str(format), names) for format, names in self.names.items())
        return hashlib.sha256(repr((found, names)).encode()).hexdigest()[:12]

    def uniform(self, format: NarrowFormat) -> dict[str, NarrowFormat]:
        """Return the choice of one format for every product that can have it."""
        return dict.fromkeys(self.names[format], format)

    def rankings(self, gains: Gains) -> list[tuple[Step, ...]]:
        """Return the steps of products that gain: among all formats, and among each by itself."""
        gained = [
            replace(one, gain=gains[one.name, one.format])
            for one in self.sensitivities
            if gains[one.name, one.format] > 0.0
        ]
        return rankings_of(gained)

    def within(self, steps: Sequence[Step], limit: float) -> dict[str, NarrowFormat]:
        """Return the choice of most gain along a ranking within a limit of the loss."""
        return formats_of(within_limit(steps, limit, self.losses.loss))

    def narrower_first(self, formats: Formats) -> list[dict[str, NarrowFormat]]:
        """Return a choice, and those that leave ever more of its harmful steps out."""
        steps = steps_towards(formats, self.sensitivities)
        kept, dropped = [formats_of(steps)], 1
        while steps := steps[dropped:]:
            kept.append(formats_of(steps))
            dropped *= 2
        return kept

    def write(self, formats: Formats, file: Path) -> float:
        """Write the network with these formats; return the loss of the held-out runs, run from what is written."""
        quantiser = self.quantiser
        made = write_qdq(quantiser.network, formats, self.grids, quantiser.scheme)
        file.write_bytes(serialised(made))
        return quantiser.losses(made, self.wanted)[quantiser.measure]

    @property
    def held_out(self) -> Run:
        """The first of the runs held out."""
        return self.quantiser.samples.held_out[0]

    def session_loss(self, session: Session) -> float:
        """Return the loss of the held-out runs as a session of the network computes them."""
        outputs = run_all(session, self.quantiser.samples.held_out)
        return loss_of(self.wanted, outputs, self.quantiser.measure)


@contextmanager
def opened_space(
    path: Path,
    data: Path | str,
    formats: Sequence[NarrowFormat],
    measure: Loss,
    hold_out: float,
    runs: int,
    dims: Mapping[str, int],
    seed: int,
    progress: Progress,
    is_weights_only: bool = False,
) -> Iterator[PrecisionSpace]:
    """Read network and inputs, calibrate, measure what each format of each product loses, or of its weights alone.

    Raises ``ModelError`` for a network without products in float32, ``InputError`` for data that fits no run of it.
    """
    network = Network.read(path)
    inputs = [x.bound(dims) for x in SourceModel(network.model).inputs]
    rng = np.random.default_rng(seed)
    samples = read_samples(path_of(data, "data"), inputs, hold_out, runs, rng)
    scheme = Scheme(formats=tuple(formats), is_weights_only=is_weights_only)
    quantiser = Quantiser(network, path.stem, samples, scheme, measure, None, None, dims, progress)
    grids = quantiser.calibrate()
    names = {format: quantiser.finite(grids, format) for format in formats}
    if not any(names.values()):
        raise InputError(f"{path}: no product has finite activations on these inputs")
    gains = {(name, format): 1.0 for format, own in names.items() for name in own}
    switched = with_switches(network, names, grids, scheme)
    wanted = quantiser.float_outputs()
    with opened_model(switched.model, dims) as session:
        losses = PrecisionSearch(
            switched, session, samples, measure, gains, quantiser.findings, None
        )
        found = losses.sensitivities(progress)
        yield PrecisionSpace(quantiser, grids, names, wanted, losses, found)
