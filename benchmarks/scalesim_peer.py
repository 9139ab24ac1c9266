"""SCALE-Sim as a peer: writes its input files, runs it in a process of its own environment, and
reports its cycles, CPU seconds and peak memory.

Memory never stalls the array (``InterfaceBandwidth = CALC``), so its cycles are compute alone, and
traces are not saved, which is its fastest way to run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.child import ROOT, run_child
from benchmarks.topology import CASES, Case, Layer

PYTHON = ROOT / ".bench" / "scalesim" / "bin" / "python"
WORKER = "benchmarks.scalesim_worker"

CONFIG = """\
[general]
run_name = run
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {cols}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {dataflow}
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
"""
HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One case on SCALE-Sim: cycles and CPU seconds of each layer by name, without start-up; CPU
    seconds and peak resident bytes of the whole process."""

    cycles: dict[str, int]
    layer_cpu_seconds: dict[str, float]
    cpu_seconds: float
    peak_rss_bytes: int


def write_inputs(folder: Path, case: Case, layers: Sequence[Layer]) -> None:
    """SCALE-Sim's config, and for every layer a folder with its topology and layout.

    Raises ``ValueError`` for a layer that SCALE-Sim would read as another one.
    """
    sizes = {"rows": case.rows, "cols": case.cols, "dataflow": case.dataflow}
    (folder / "scale.cfg").write_text(CONFIG.format_map(sizes))
    for layer in layers:
        if layer.sh != layer.sw:
            raise ValueError(
                f"{layer.name}: SCALE-Sim's files hold one stride, not {layer.sh, layer.sw}"
            )
        if "DP" in layer.name:
            raise ValueError(f"{layer.name}: SCALE-Sim takes DP in a name as depthwise; rename it")
        place = folder / layer.name
        place.mkdir()
        columns = (
            layer.name,
            layer.ifh,
            layer.ifw,
            layer.fh,
            layer.fw,
            layer.ch,
            layer.nf,
            layer.sh,
        )
        (place / "topology.csv").write_text(
            HEADER + "".join(f"{value}," for value in columns) + "\n"
        )
        # read but without effect, as the config asks for no custom layout
        (place / "layout.csv").write_text(f"header\n{layer.name}," + "1," * 20 + "\n")


def simulate(case: Case, layers: Sequence[Layer], python: Path = PYTHON) -> PeerRun:
    """Run SCALE-Sim on some layers of a case. Raises ``RuntimeError`` if it fails or stalls."""
    if not python.exists():
        raise RuntimeError(
            f"{python} is missing; run `make bench-systolic`, which installs SCALE-Sim"
        )
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder), case, layers)
        answer = run_child(python, WORKER, [folder, *(layer.name for layer in layers)])
    for name, found in answer["layers"].items():
        if found["stall_cycles"] != 0:
            raise RuntimeError(
                f"{name}: SCALE-Sim reports {found['stall_cycles']} stall cycles, not 0"
            )
    return PeerRun(
        {name: found["cycles"] for name, found in answer["layers"].items()},
        {name: found["cpu_seconds"] for name, found in answer["layers"].items()},
        answer["cpu_seconds"],
        answer["peak_rss_bytes"],
    )


def main() -> None:
    """SCALE-Sim alone, as a table; ``--full`` for every layer."""
    for case in CASES:
        run = simulate(case, case.layers("--full" in sys.argv))
        for name, cycles in run.cycles.items():
            print(f"{case.name:24} {name:14} {cycles:9d} {run.layer_cpu_seconds[name]:8.2f} s")
        print(
            f"{case.name:24} {run.cpu_seconds:.1f} CPU s, {run.peak_rss_bytes / 2**20:.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
