"""The way of a network into int8 or bf16: calibrate, choose the products, write, judge by runs that were held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx

from autotune.disk.atomic_file import replace_file
from autotune.errors import InputError
from autotune.frontend.source_model import SourceModel
from autotune.quantisation.findings import Findings
from autotune.quantisation.grid import Grid, NarrowFormat, activation_grid
from autotune.quantisation.loss import Loss, Outputs, check_outputs, loss_of
from autotune.quantisation.observation import observe, opened_model, run_all, serialised
from autotune.quantisation.precision import PrecisionResult, search_precision
from autotune.quantisation.prices import TargetPrices
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Formats, Scheme, narrow_tensors, write_qdq
from autotune.quantisation.result import FrontPoint, ProductChoice, QuantizeResult
from autotune.quantisation.samples import Samples
from autotune.quantisation.steps import (
    Choice,
    Gains,
    Step,
    formats_of,
    share_of,
    steps_towards,
)
from autotune.quantisation.switched import with_switches
from autotune.quantisation.target_costs import TargetCosts
from autotune.quantisation.work import elements_of_weights, multiplications
from autotune.tuner.progress import Progress

NOT_FINITE = "its activations are not finite"


@dataclass(frozen=True)
class Quantiser:
    """A network, its inputs, and how to quantise it; ``limit`` None quantises every product."""

    network: Network
    name: str
    samples: Samples
    scheme: Scheme
    measure: Loss
    limit: float | None
    costs: TargetCosts | None
    dims: Mapping[str, int]
    progress: Progress

    @cached_property
    def findings(self) -> Findings:
        """What was measured of this network on these inputs, by this run or another."""
        return Findings(self.network.model, self.samples, self.scheme, self.dims)

    def write(self, file: Path) -> QuantizeResult:
        """Quantise, and write the file whole or not at all. Raises ``InputError`` and ``ModelError``."""
        grids = self.calibrate()
        names = {format: self.finite(grids, format) for format in self.scheme.formats}
        if not any(names.values()):
            raise InputError(
                "no operator has finite activations on these inputs; nothing is quantised"
            )
        wanted = self.float_outputs()
        found: PrecisionResult | None = None
        gains: dict[tuple[str, NarrowFormat], float] = {}
        gain_unit = ""
        if self.limit is not None:
            gains, gain_unit, is_faster = self._gains(names, grids)
            found = self._searched(names, gains, grids, is_faster)
        chosen, made, losses = self._judged(names, found, grids, wanted)
        content = serialised(made)
        replace_file(file, content)
        return QuantizeResult(
            self.name,
            file,
            self.scheme,
            self._products(chosen, names, found, gains),
            losses,
            len(self.samples.calibration),
            len(self.samples.held_out),
            self.samples.unused,
            len(serialised(self.network.model)),
            len(content),
            self.measure,
            self.limit,
            gain_unit,
            self._front(found, chosen, gains, losses, grids),
        )

    def calibrate(self) -> dict[str, Grid]:
        """Return the grids of all tensors that products narrow and that are finite, by ``Network.root``."""
        if not self.scheme.has_grids:
            return {}
        known = self.findings.get("grids", self._observed)
        return {x: Grid(np.float32(scale), zero) for x, (scale, zero) in known.items()}

    def _observed(self) -> dict[str, tuple[float, int]]:
        """Return scale and zero point of those tensors."""
        every = dict.fromkeys((p.name for p in self.network.products), NarrowFormat.INT8)
        tensors = narrow_tensors(self.network, every, self.scheme)
        roots = tuple(dict.fromkeys(map(self.network.root, tensors)))
        runs = self.samples.calibration
        seen = observe(self.network.model, roots, runs, self.dims, self.progress)
        method, percentile = self.scheme.method, self.scheme.percentile
        grids = {
            x: activation_grid(one, self.scheme.activations, method, percentile)
            for x, one in seen.items()
            if one.is_finite
        }
        return {x: (float(grid.scale), grid.zero) for x, grid in grids.items()}

    def finite(self, grids: Mapping[str, Grid], format: NarrowFormat) -> tuple[str, ...]:
        """Return the products whose tensors have grids, if the format needs some."""
        if not self.scheme.has_grids or format is not NarrowFormat.INT8:
            return tuple(p.name for p in self.network.products)
        return tuple(
            p.name
            for p in self.network.products
            if all(
                self.network.root(x) in grids
                for x in narrow_tensors(self.network, {p.name: format}, self.scheme)
            )
        )

    def float_outputs(self) -> list[Outputs]:
        """Return the held-out outputs in float32. Raises ``InputError`` for those without a loss."""
        if not self.samples.held_out:
            return []
        with opened_model(self.network.model, self.dims) as session:
            wanted = run_all(session, self.samples.held_out)
        check_outputs(wanted)
        self.progress("check", 1, 2)
        return wanted

    def _gains(
        self, names: Mapping[NarrowFormat, Sequence[str]], grids: Mapping[str, Grid]
    ) -> tuple[dict[tuple[str, NarrowFormat], float], str, bool]:
        """Return what each format gains at each product, the unit of it, and whether it is time on the target."""
        run = self.samples.calibration[0]
        if self.costs is not None:
            saved = {
                (name, format): seconds
                for format, own in names.items()
                for name, seconds in self.costs.savings(
                    self.network, own, grids, self.scheme, format, run, self.progress
                ).items()
            }
            if max(saved.values()) > 0:
                return saved, f"predicted seconds saved on {self.costs.target}", True
        if self.scheme.is_weights_only:
            work, unit = elements_of_weights(self.network), "elements of weights"
        else:
            work, unit = multiplications(self.network, run), "multiplications"
        if self.costs is not None:
            unit = f"{unit}; {self.scheme.name} is predicted no faster on {self.costs.target}"
        gains = {(name, format): work[name] for format, own in names.items() for name in own}
        return gains, unit, False

    def _searched(
        self,
        names: Mapping[NarrowFormat, Sequence[str]],
        gains: Gains,
        grids: Mapping[str, Grid],
        is_faster: bool,
    ) -> PrecisionResult:
        """Return the choice within the limit, and the front around it."""
        assert self.limit is not None
        return search_precision(
            with_switches(self.network, names, grids, self.scheme),
            self.samples,
            self.measure,
            self.limit,
            gains,
            self.dims,
            self.findings,
            self._prices(grids) if is_faster else None,
            self.progress,
        )

    def _prices(self, grids: Mapping[str, Grid]) -> TargetPrices:
        """Return prices of whole networks; extents that ``dims`` leaves open are those of the first run."""
        assert self.costs is not None
        run = self.samples.calibration[0]
        extents = dict(self.dims)
        for one in SourceModel(self.network.model).inputs:
            extents |= one.bound(extents).extents(run[one.name].shape)
        return TargetPrices(self.costs, self.network, grids, self.scheme, extents, self.progress)

    def _judged(
        self,
        names: Mapping[NarrowFormat, Sequence[str]],
        found: PrecisionResult | None,
        grids: Mapping[str, Grid],
        wanted: Sequence[Outputs],
    ) -> tuple[Formats, onnx.ModelProto, dict[Loss, float]]:
        """Write the chosen products and run the result; while it is beyond the limit, take fewer steps.

        The search left roundings of biases out, and rounding ties fall elsewhere in a file.
        """
        if found is None:
            (format,) = self.scheme.formats
            steps = tuple(Step(name, None, format, 0.0) for name in names[format])
        else:
            steps = steps_towards(found.kept.formats, found.sensitivities)
        if not steps:
            assert self.costs is not None, "only prices of whole networks leave every product out"
            raise InputError(
                f"no product makes the whole network faster on {self.costs.target} in {self.scheme.name}, by its cost "
                "model; keep the network in float32, or leave --target out"
            )
        dropped = 1
        while steps:
            chosen = formats_of(steps)
            made = write_qdq(self.network, chosen, grids, self.scheme)
            _describe(made, self.scheme)
            losses = self.losses(made, wanted)
            if self.limit is None or losses[self.measure] <= self.limit:
                return chosen, made, losses
            steps, dropped = steps[dropped:], 2 * dropped
        raise InputError(
            f"no choice of products is within a {self.measure} loss of {self.limit:.3%} on the held-out runs; "
            "raise --max-loss, or keep the network in float32"
        )

    def losses(self, made: onnx.ModelProto, wanted: Sequence[Outputs]) -> dict[Loss, float]:
        """Return the losses of held-out runs by every measure."""
        if not wanted:
            return {}
        with opened_model(made, self.dims) as session:
            outputs = run_all(session, self.samples.held_out)
        self.progress("check", 2, 2)
        return {measure: loss_of(wanted, outputs, measure) for measure in Loss}

    def _products(
        self,
        chosen: Formats,
        names: Mapping[NarrowFormat, Collection[str]],
        found: PrecisionResult | None,
        gains: Gains,
    ) -> tuple[ProductChoice, ...]:
        """Return the choice of every product, in the order of the file."""
        alone = {} if found is None else {(x.name, x.format): x for x in found.sensitivities}
        choices = []
        for p in self.network.products:
            formats = [format for format, own in names.items() if p.name in own]
            reason = None if p.name in chosen else "it harms most for its gain"
            if not formats:
                reason = NOT_FINITE
            one = ProductChoice(p.name, p.kind, chosen.get(p.name, "float32"), reason)
            if formats and alone:
                told = chosen.get(p.name, formats[0])
                share = share_of({p.name: told}, gains)
                one = replace(one, sensitivity=alone[p.name, told].loss, gain=share)
            choices.append(one)
        return tuple(choices)

    def _front(
        self,
        found: PrecisionResult | None,
        chosen: Formats,
        gains: Gains,
        losses: Mapping[Loss, float],
        grids: Mapping[str, Grid],
    ) -> tuple[FrontPoint, ...]:
        """Return the front with the file's own choice in it."""
        if found is None:
            return ()
        seconds = found.kept.seconds
        if seconds is not None and chosen != found.kept.formats:
            seconds = self._prices(grids)(chosen)
        greater = self._greater_loss(found, chosen, losses)
        kept = Choice(chosen, share_of(chosen, gains), greater, seconds)
        others = [one for one in found.front if one.formats != chosen]
        points = sorted([*others, kept], key=lambda one: (one.cost, one.loss))
        return tuple(
            FrontPoint(
                Counter(one.formats.values()),
                one.gain,
                one.loss,
                one.seconds,
                one is kept,
            )
            for one in points
        )

    def _greater_loss(
        self, found: PrecisionResult, chosen: Formats, losses: Mapping[Loss, float]
    ) -> float:
        """Return the file's loss on held-out runs, or the choice's on both kinds of runs if that is greater."""
        is_same = found.kept.formats == chosen
        return max(losses[self.measure], found.kept.loss if is_same else 0.0)


def _describe(model: onnx.ModelProto, scheme: Scheme) -> None:
    """Note in the file what made it."""
    facts = {
        "autotune.quantize.format": scheme.name,
        "autotune.quantize.activations": scheme.stored_activations,
    }
    if NarrowFormat.INT8 in scheme.formats:
        facts["autotune.quantize.method"] = scheme.method.value
    present = {row.key for row in model.metadata_props}
    for key, value in facts.items():
        if key not in present:
            model.metadata_props.add(key=key, value=value)
