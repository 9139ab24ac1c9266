"""What users and the command line call: open, calibrate, search; each a thin line through the flow."""

from autotune.api.calibration import CALIBRATED_ON, calibrate, predict_network, search_configuration
from autotune.api.device_search import search_devices
from autotune.api.front_search import search_front
from autotune.api.machine_studies import explore, planned_sweep, sweep
from autotune.api.network_search import search
from autotune.api.networks import load_network
from autotune.api.open_store import opened
from autotune.runtime.session.defaults import resolve_model

__all__ = [
    "CALIBRATED_ON",
    "calibrate",
    "explore",
    "load_network",
    "opened",
    "planned_sweep",
    "predict_network",
    "resolve_model",
    "search",
    "search_configuration",
    "search_devices",
    "search_front",
    "sweep",
]
