"""The layers that `make bench-systolic` gives to SCALE-Sim and to the emulator, and on which arrays.

Tables in the columns that SCALE-Sim reads (input extents as it takes them):

- resnet50: He et al., Deep residual learning, CVPR 2016; the 54 rows of SCALE-Sim's Resnet50.csv
- alexnet: Krizhevsky et al., ImageNet classification with deep convolutional neural networks,
  NIPS 2012; the convolutions as SCALE-Sim's alexnet.csv has them, the dense layers as in the paper
- gemm_sweep: matrix products that fill an array exactly, leave edges, or leave most of it idle
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent
REFERENCE = HERE.parent / "tests" / "benchmarks" / "reference" / "scalesim"
TABLES = {  # what SCALE-Sim computed for a topology is a test's reference; its columns do for both
    "resnet50": REFERENCE / "resnet50_arr32_os.csv",
    "alexnet": HERE / "alexnet.csv",
    "gemm_sweep": REFERENCE / "gemm_sweep_arr16_os.csv",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One row of a topology: input, filter, channels, filters, strides."""

    name: str
    ifh: int
    ifw: int
    fh: int
    fw: int
    ch: int
    nf: int
    sh: int
    sw: int

    def __post_init__(self) -> None:
        extents = [getattr(self, field.name) for field in fields(self)[1:]]
        if min(extents) < 1:
            raise ValueError(f"{self.name}: extents {extents} must all be at least 1")
        if self.fh > self.ifh or self.fw > self.ifw:
            raise ValueError(
                f"{self.name}: filter {self.fh}×{self.fw} exceeds input {self.ifh}×{self.ifw}; "
                "give the padded input"
            )

    @property
    def product(self) -> tuple[int, int, int]:
        """M, K, N of the layer as a matrix product; output extents as SCALE-Sim rounds them: up."""
        high = -(-(self.ifh - self.fh + self.sh) // self.sh)
        wide = -(-(self.ifw - self.fw + self.sw) // self.sw)
        return high * wide, self.fh * self.fw * self.ch, self.nf

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        m, k, n = self.product
        return m * k * n


@dataclass(frozen=True, slots=True)
class Case:
    """One topology on one array; ``chosen`` are the layers of the short run."""

    topology: str
    rows: int
    cols: int
    dataflow: str
    chosen: tuple[str, ...]

    @property
    def name(self) -> str:
        """As the tables show it."""
        return f"{self.topology} {self.rows}×{self.cols} {self.dataflow}"

    def layers(self, full: bool) -> list[Layer]:
        """The topology's layers, or the chosen ones."""
        every = read_topology(TABLES[self.topology])
        return [layer for layer in every if full or layer.name in self.chosen]


GEMMS = ("g64x64x64", "g7x13x29", "g100x10x1000", "g257x129x65", "g64x512x64")
CASES = (  # SCALE-Sim takes about 30 CPU seconds for the chosen layers, a quarter of an hour for all
    Case("resnet50", 32, 32, "os", ("CB2a_1", "CB3a_1", "CB5a_1")),
    Case("alexnet", 32, 32, "os", ()),  # none is short
    Case("gemm_sweep", 16, 16, "os", GEMMS),
    Case("gemm_sweep", 16, 16, "ws", GEMMS),
    Case("gemm_sweep", 16, 16, "is", GEMMS),
)


def read_topology(path: Path) -> list[Layer]:
    """The layers of a CSV file with at least the columns that ``Layer`` has."""
    names = [field.name for field in fields(Layer)]
    with path.open(newline="") as file:
        return [
            Layer(row["name"], *(int(row[name]) for name in names[1:]))
            for row in csv.DictReader(file)
        ]
