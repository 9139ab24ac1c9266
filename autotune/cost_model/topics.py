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
_RAW = {
    "array use": (
        *(
            "product",
            "spec_rows",
            "spec_cols",
            "spec_dataflow",
            "multiply_adds",
            "im2col",
            "trivial_products",
        ),
        *("unit_matrix", "priced_product_calls", "priced_products", "priced_array"),
    ),
    "vector work and bank conflicts": (
        *("vector_operations", "operations_per_byte", "trivial_operations", "spec_lanes"),
        *("spec_vector", "spec_divide", "spec_transcendental", "unit_vector"),
        *(
            "priced_moved",
            "priced_vector",
            "priced_reduced",
            "priced_product_results",
            "priced_divide",
            "priced_transcendental",
        ),
    ),
    "DRAM traffic": (
        *("load", "loaded", "store", "stored", "fills", "multiply_adds_per_byte", "trivial_bytes"),
        *("spec_bandwidth", "spec_burst", "spec_row_miss", "spec_row", "spec_latency"),
        *("unit_load", "unit_store", "priced_load", "priced_store"),
    ),
    "overlap of units": ("buffers", "trivial", "log_priced"),
    "tiles and their rests": (
        "dim",
        "reduced_extent",
        "reduced_tile",
        "reduced_parts",
        "loops",
        "tiles",
        "priced_tiles",
    ),
    "scratchpad and its ports": ("held", "spec_scratchpad", "spec_banks"),
    "launch": (
        *("spec_dispatch", "spec_queue", "spec_matrix_setup", "unit_control"),
        *("priced_nests", "priced_calls"),
    ),
    "sharing by cores": ("cores", "balance", "spec_cores"),
    "operators": ("count", "views", "links"),
}
"""How names of raw features begin, by topic; the longest counts."""
_RAW_TOPIC = {start: topic for topic, starts in _RAW.items() for start in starts}


def raw_topic_of(feature: str) -> str:
    """Return the topic of a raw feature; each has one."""
    starts = [start for start in _RAW_TOPIC if feature.startswith(start)]
    return _RAW_TOPIC[max(starts, key=len)]


def topic_of(feature: str) -> str:
    """Return the topic of a feature; of one that counts work of a CPU, the kind of work."""
    if feature in _TOPIC:
        return _TOPIC[feature]
    return feature.removeprefix("log_").removesuffix("_share").replace("_", " ")
