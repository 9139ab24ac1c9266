"""What ``autotune.quantize`` returns: the file, its losses, the precision of each product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.display import Card, Displayed
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.loss import Loss
from autotune.quantisation.qdq import Scheme


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """A convolution or matrix product, its type in the file, and why it stayed float32 (else None).

    ``sensitivity`` is the loss with this product alone in that type, ``gain`` what that gains as a share of what all
    products could; a product in float32 has those of the first format. None without a limit of the loss.
    """

    name: str
    kind: str
    type: str
    reason: str | None = None
    sensitivity: float | None = None
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A choice between all products narrow and none: how many in each format, their share of the gain, the greater
    loss of calibration and held-out runs.

    ``seconds`` is the predicted time of one run on the target; None without a target. ``is_kept`` marks the file's own.
    """

    counts: Mapping[NarrowFormat, int]
    gain: float
    loss: float
    seconds: float | None
    is_kept: bool

    @property
    def quantised(self) -> int:
        """Number of narrow products."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, repr=False)
class QuantizeResult(Displayed):
    """A quantised network.

    ``losses`` are those of the held-out runs by measure, run from the written file on this CPU; empty
    without data. ``gain_unit`` says what gains are counted in. ``bytes_before`` and ``bytes_after`` are file sizes.
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
    measure: Loss
    limit: float | None = None
    gain_unit: str = ""
    front: tuple[FrontPoint, ...] = ()

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
