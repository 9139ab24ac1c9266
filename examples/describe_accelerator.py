"""Describe an accelerator in TOML, and see what fusion buys on it for two DRAM bandwidths.

python examples/describe_accelerator.py
"""

import tempfile
from pathlib import Path

import autotune

SPEC = """
description = "8x8 array with 64 KiB of scratchpad"
sources = ["an example: every number is assumed"]
cores = 1
clock_hz = 1.0e9

[matrix]
rows = 8
cols = 8
dataflow = "os"
setup_cycles = 4

[vector]
lanes = 8
setup_cycles = 8
divide_cycles = 8
transcendental_cycles = 8

[scratchpad]
size_bytes = 65_536
banks = 8
ports = 4

[dram]
bytes_per_cycle = {bandwidth}
burst_bytes = 64
row_bytes = 4096
banks = 8
activate_cycles = 18
precharge_cycles = 18
column_cycles = 18
turnaround_cycles = 10
setup_cycles = 42

[control]
dispatch_cycles = 1
queue_depth = 16

[energy]
mac_fj = 4600
mac_bf16_fj = 2000
mac_int8_fj = 300
vector_fj = 2300
scratchpad_read_byte_fj = 1770
scratchpad_write_byte_fj = 1770
dram_read_byte_fj = 160_000
dram_write_byte_fj = 160_000
dram_activate_fj = 0
dispatch_fj = 25_000
static_cycle_fj = 118_000
"""

with tempfile.TemporaryDirectory() as folder:
    for bandwidth in (3.2, 12.8):
        spec = Path(folder, f"mine-{bandwidth}.toml")
        spec.write_text(SPEC.format(bandwidth=bandwidth))
        machine = autotune.target(spec)
        autotune.calibrate(machine, budget=150, models=["mlp"])
        result = autotune.search("mlp", machine, trials=30, measure=30)
        unfused, found = result.unfused, result.found
        gain = unfused.measured_cycles / found.measured_cycles
        print(
            f"{bandwidth} bytes per cycle: {unfused.measured_cycles:,} cycles unfused, "
            f"{found.measured_cycles:,} fused ({gain:.2f} x); "
            f"DRAM {unfused.dram_bytes:,} to {found.dram_bytes:,} bytes"
        )
