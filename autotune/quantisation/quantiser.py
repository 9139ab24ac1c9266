"""The way of a network into int8 or bf16: calibrate, choose the products, write, judge by runs that were held out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from autotune.disk.atomic_file import replace_file
from autotune.errors import InputError
from autotune.quantisation.grid import Grid, NarrowFormat, activation_grid
from autotune.quantisation.loss import Loss, Outputs, check_outputs, loss_of
from autotune.quantisation.observation import observe, opened_model, run_all, serialised
from autotune.quantisation.precision import Choice, PrecisionResult, search_precision
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Scheme, narrow_tensors, write_qdq
from autotune.quantisation.result import FrontPoint, ProductChoice, QuantizeResult
from autotune.quantisation.samples import Samples
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

    def write(self, file: Path) -> QuantizeResult:
        """Quantise, and write the file whole or not at all. Raises ``InputError`` and ``ModelError``."""
        grids = self._calibrate()
        names = self._finite(grids)
        wanted = self._float_outputs()
        found, gain_unit = None, ""
        if self.limit is not None:
            gains, gain_unit = self._gains(names, grids)
            switched = with_switches(self.network, names, grids, self.scheme)
            found = search_precision(
                switched, self.samples, self.measure, self.limit, gains, self.dims, self.progress
            )
        chosen, made, losses = self._judged(names, found, grids, wanted)
        content = serialised(made)
        replace_file(file, content)
        return QuantizeResult(
            self.name,
            file,
            self.scheme,
            self._products(chosen, names, found),
            losses,
            len(self.samples.calibration),
            len(self.samples.held_out),
            self.samples.unused,
            len(serialised(self.network.model)),
            len(content),
            self.measure,
            self.limit,
            gain_unit,
            self._front(found, chosen, losses, grids),
        )

    def _calibrate(self) -> dict[str, Grid]:
        """Return the grids of all tensors that products narrow and that are finite, by ``Network.root``."""
        if not self.scheme.has_grids:
            return {}
        every = [p.name for p in self.network.products]
        tensors = narrow_tensors(self.network, every, self.scheme)
        roots = tuple(dict.fromkeys(map(self.network.root, tensors)))
        runs = self.samples.calibration
        seen = observe(self.network.model, roots, runs, self.dims, self.progress)
        method, percentile = self.scheme.method, self.scheme.percentile
        return {
            x: activation_grid(one, self.scheme.activations, method, percentile)
            for x, one in seen.items()
            if one.is_finite
        }

    def _finite(self, grids: Mapping[str, Grid]) -> tuple[str, ...]:
        """Return the products whose tensors have grids, if these need some. Raises ``InputError`` if there
        are none."""
        if not self.scheme.has_grids:
            return tuple(p.name for p in self.network.products)
        names = tuple(
            p.name
            for p in self.network.products
            if all(
                self.network.root(x) in grids
                for x in narrow_tensors(self.network, [p.name], self.scheme)
            )
        )
        if not names:
            raise InputError(
                "no operator has finite activations on these inputs; nothing is quantised"
            )
        return names

    def _float_outputs(self) -> list[Outputs]:
        """Return the held-out outputs in float32. Raises ``InputError`` for those without a loss."""
        if not self.samples.held_out:
            return []
        with opened_model(self.network.model, self.dims) as session:
            wanted = run_all(session, self.samples.held_out)
        check_outputs(wanted)
        self.progress("check", 1, 2)
        return wanted

    def _gains(
        self, names: Sequence[str], grids: Mapping[str, Grid]
    ) -> tuple[dict[str, float], str]:
        """Return what the narrow format gains at each product, and the unit of it."""
        run = self.samples.calibration[0]
        if self.costs is not None:
            saved = self.costs.savings(self.network, names, grids, self.scheme, run, self.progress)
            if max(saved.values()) > 0:
                return saved, f"predicted seconds saved on {self.costs.target}"
        if self.scheme.is_weights_only:
            work, unit = elements_of_weights(self.network), "elements of weights"
        else:
            work, unit = multiplications(self.network, run), "multiplications"
        if self.costs is not None:
            unit = f"{unit}; {self.scheme.format} is predicted no faster on {self.costs.target}"
        return {name: work[name] for name in names}, unit

    def _judged(
        self,
        names: Sequence[str],
        found: PrecisionResult | None,
        grids: Mapping[str, Grid],
        wanted: Sequence[Outputs],
    ) -> tuple[tuple[str, ...], onnx.ModelProto, dict[Loss, float]]:
        """Write the chosen products and run the result; while it is beyond the limit, leave more of them out.

        The search left roundings of biases out, and rounding ties fall elsewhere in a file.
        """
        order = list(names)
        if found is not None:
            order = [x.name for x in found.ranked if x.name in found.kept.names]
        dropped = 1
        while order:
            made = write_qdq(self.network, order, grids, self.scheme)
            _describe(made, self.scheme)
            losses = self._losses(made, wanted)
            if self.limit is None or losses[self.measure] <= self.limit:
                return tuple(x for x in names if x in order), made, losses
            order, dropped = order[dropped:], 2 * dropped
        raise InputError(
            f"no choice of products is within a {self.measure} loss of {self.limit:.3%} on the held-out runs; "
            "raise --max-loss, or keep the network in float32"
        )

    def _losses(self, made: onnx.ModelProto, wanted: Sequence[Outputs]) -> dict[Loss, float]:
        """Return the losses of held-out runs by every measure."""
        if not wanted:
            return {}
        with opened_model(made, self.dims) as session:
            outputs = run_all(session, self.samples.held_out)
        self.progress("check", 2, 2)
        return {measure: loss_of(wanted, outputs, measure) for measure in Loss}

    def _products(
        self, chosen: Collection[str], names: Collection[str], found: PrecisionResult | None
    ) -> tuple[ProductChoice, ...]:
        """Return the choice of every product, in the order of the file."""
        ranked = {} if found is None else {one.name: one for one in found.ranked}
        total = sum(one.gain for one in ranked.values())
        choices = []
        for p in self.network.products:
            reason = None if p.name in chosen else "it harms most for its gain"
            if p.name not in names:
                reason = NOT_FINITE
            one = ProductChoice(
                p.name, p.kind, self.scheme.format.value if reason is None else "float32", reason
            )
            if p.name in ranked:
                share = ranked[p.name].gain / total if total else 0.0
                one = replace(one, sensitivity=ranked[p.name].loss, gain=share)
            choices.append(one)
        return tuple(choices)

    def _front(
        self,
        found: PrecisionResult | None,
        chosen: tuple[str, ...],
        losses: Mapping[Loss, float],
        grids: Mapping[str, Grid],
    ) -> tuple[FrontPoint, ...]:
        """Return the front with the file's own choice in it."""
        if found is None:
            return ()
        gains = {one.name: one.gain for one in found.ranked}
        share = sum(gains[x] for x in chosen) / (sum(gains.values()) or 1.0)
        kept = Choice(chosen, share, self._greater_loss(found, chosen, losses))
        others = [one for one in found.front if set(one.names) != set(chosen)]
        points = sorted([*others, kept], key=lambda one: (-one.gain, one.loss))
        return tuple(
            FrontPoint(
                len(one.names),
                one.gain,
                one.loss,
                self._seconds(one.names, grids, number, len(points)),
                one is kept,
            )
            for number, one in enumerate(points)
        )

    def _greater_loss(
        self, found: PrecisionResult, chosen: tuple[str, ...], losses: Mapping[Loss, float]
    ) -> float:
        """Return the file's loss on held-out runs, or the choice's on both kinds of runs if that is greater."""
        is_same = set(chosen) == set(found.kept.names)
        return max(losses[self.measure], found.kept.loss if is_same else 0.0)

    def _seconds(
        self, names: Sequence[str], grids: Mapping[str, Grid], number: int, count: int
    ) -> float | None:
        if self.costs is None:
            return None
        self.progress("predict", number, count)
        return self.costs.seconds(write_qdq(self.network, names, grids, self.scheme), self.dims)


def _describe(model: onnx.ModelProto, scheme: Scheme) -> None:
    """Note in the file what made it."""
    facts = {
        "autotune.quantize.format": scheme.format.value,
        "autotune.quantize.activations": scheme.stored_activations,
    }
    if scheme.format is NarrowFormat.INT8:
        facts["autotune.quantize.method"] = scheme.method.value
    present = {row.key for row in model.metadata_props}
    for key, value in facts.items():
        if key not in present:
            model.metadata_props.add(key=key, value=value)
