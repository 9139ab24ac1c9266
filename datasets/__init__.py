"""Networks and workloads to calibrate and test on."""

from autotune.datasets.networks import NETWORKS, Network, load
from autotune.datasets.onnx_light import LIGHT_MODELS, light_expected, light_path, light_seeded
from autotune.datasets.workloads import SHAPES, random_graphs

__all__ = [
    "LIGHT_MODELS",
    "NETWORKS",
    "SHAPES",
    "Network",
    "light_expected",
    "light_path",
    "light_seeded",
    "load",
    "random_graphs",
]
