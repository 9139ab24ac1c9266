"""The topics that features are about, in the field's terms: what explanations sum contributions by."""

from __future__ import annotations

_SCRATCHPAD = {
    "array use": (
        *(
            "fold_use",
            "narrow_share",
            "zero_share",
            "matrix_share",
            "matrix_inner",
            "matrix_instructions",
        ),
        *("log_pieces", "im2col", "spec_peak", "spec_dataflow", "spec_aspect"),
    ),
    "vector work and bank conflicts": (
        *("vector_share", "vector_inner", "vector_instructions", "spec_lanes"),
    ),
    "DRAM traffic": (
        *("load_share", "store_share", "channel_share", "load_inner", "store_inner"),
        *("load_instructions", "store_instructions", "load_bytes", "store_bytes", "burst_share"),
        *("log_run_bytes", "intensity", "loads", "stores"),
        *("spec_bandwidth", "spec_transfer_setup", "spec_row_miss", "spec_ridge"),
        *("spec_turnaround", "spec_row", "spec_burst", "spec_dram_banks"),
    ),
    "overlap of units": (
        *("log_estimate", "log_bottleneck", "bottleneck_share", "flow_share", "serial_share"),
        *("interval_share", "fill_share", "log_latency", "buffers"),
    ),
    "tiles and their rests": (
        *("log_trips", "log_innermost_trips", "depth", "innermost_rest", "rest_share"),
    ),
    "scratchpad and its ports": (
        *("fill_scratchpad", "spec_scratchpad", "port_share", "spec_ports", "spec_banks"),
    ),
    "launch": ("dispatch_share", "queue_pressure", "spec_dispatch", "spec_queue"),
    "sharing by cores": ("cores", "core_balance", "spec_cores"),
    "operators": (
        *("stages_contraction", "stages_elementwise", "stages_window", "stages_reduction"),
        *("stages_copy",),
    ),
}
_TOPIC = {name: topic for topic, names in _SCRATCHPAD.items() for name in names}


def topic_of(feature: str) -> str:
    """Return the topic of a feature; of one that counts work of a CPU, the kind of work."""
    if feature in _TOPIC:
        return _TOPIC[feature]
    return feature.removeprefix("log_").removesuffix("_share").replace("_", " ")
