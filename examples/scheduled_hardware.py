"""Bring hardware that runs groups by tiles: its raw model is learned, and schedules are searched.

python examples/scheduled_hardware.py
"""

import math

import autotune


def time_model(model, schedule):  # stands in for a device: a call, its tiles, its elements
    seconds = 2e-6
    for nest in schedule:
        pairs = zip(nest["shape"], nest["tile"], strict=True)
        tiles = math.prod(math.ceil(extent / tile) for extent, tile in pairs)
        seconds += tiles * 9e-7 / nest["buffers"] + math.prod(nest["shape"]) * 2e-9
    return seconds


time_model.spec = "edge"  # scratchpad and cores bound the tiles; speeds are learned


if __name__ == "__main__":
    autotune.register_target("tiled", time_model)
    model = autotune.calibrate("tiled", budget=200, models=["mlp"]).model
    found = autotune.search("mlp", "tiled", trials=20, measure=40)
    cycles = sum(group.measured_cycles for group in found.plan.graphs[0].groups)
    print(
        f"mlp: {cycles / model.spec.clock_hz * 1e6:.0f} µs by its plan, found by the {model.kind} model"
    )
