"""Options of an ``InferenceSession`` and of its runs, named as in ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from autotune.errors import InputError

CPU_PROVIDER = "CPUExecutionProvider"
"""The one execution provider: this machine's CPU."""


class GraphOptimizationLevel(IntEnum):
    """Levels of ONNX Runtime. Accepted and ignored: every network is optimised."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Modes of ONNX Runtime. Accepted and ignored: groups of a network run one after the other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass(slots=True)
class SessionOptions:
    """Options of a session.

    ``intra_op_num_threads`` is the number of threads (0: one per core). Free dimensions are bound by
    ``add_free_dimension_override_by_name``. The other fields are accepted and ignored, except for
    ``enable_profiling`` and ``optimized_model_filepath``: a session that is asked for these files
    warns, because it does not write them. A misspelt field raises ``AttributeError``.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: int = ExecutionMode.ORT_SEQUENTIAL
    execution_order: int = 0
    enable_profiling: bool = False
    profile_file_prefix: str = ""
    optimized_model_filepath: str = ""
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    dims: dict[str, int] = field(default_factory=dict)
    """Extents of symbolic dimensions, by name."""
    _entries: dict[str, str] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Bind a symbolic dimension of the network."""
        self.dims[dim_name] = int(dim_value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry. It has no effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry. Raises ``InputError`` for an unknown key."""
        if key not in self._entries:
            raise InputError(f"no session config entry {key!r}; add it first")
        return self._entries[key]

    def register_custom_ops_library(self, path: str) -> None:
        """Raise ``InputError``: custom operators are not supported."""
        raise InputError(
            f"{path}: custom operators are not supported; export the model with standard ones"
        )


@dataclass(slots=True)
class RunOptions:
    """Options of one run. Accepted and ignored."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False


def get_available_providers() -> list[str]:
    """Return the names of the execution providers."""
    return [CPU_PROVIDER]


def get_device() -> str:
    """Return the kind of device that sessions run on."""
    return "CPU"


def check_providers(providers: Any) -> None:
    """Warn about execution providers other than the CPU.

    ``providers`` is a sequence of names, or of pairs of a name and its options. Raises
    ``InputError`` for anything else.
    """
    if isinstance(providers, str):
        raise InputError(f"providers is a list of names, such as [{CPU_PROVIDER!r}]")
    for provider in providers or ():
        name = provider[0] if isinstance(provider, (tuple, list)) and provider else provider
        if not isinstance(name, str):
            raise InputError(f"a provider is a name, or a name and its options, not {provider!r}")
        if name != CPU_PROVIDER:
            warnings.warn(
                f"execution provider {name!r} is not available; the session runs on {CPU_PROVIDER}",
                stacklevel=3,
            )


def check_options(options: Any) -> None:
    """Raise ``InputError`` for what is neither None nor options of a session."""
    if options is not None and not hasattr(options, "intra_op_num_threads"):
        raise InputError(f"sess_options is a SessionOptions, not {type(options).__name__}")


def threads_of(options: Any) -> int | None:
    """Return the number of threads that options ask for; None is one per core.

    ``options`` may be ONNX Runtime's own. Raises ``InputError`` for a number below 0.
    """
    threads = int(getattr(options, "intra_op_num_threads", 0))
    if threads < 0:
        raise InputError(
            f"intra_op_num_threads is {threads}; give 1 or more, or 0 for one per core"
        )
    return threads or None


def dims_of(options: Any) -> Mapping[str, int]:
    """Return the extents of symbolic dimensions that options bind."""
    return dict(getattr(options, "dims", {}))


def warn_of_unwritten_files(options: Any) -> None:
    """Warn about files that options ask for and that no session writes."""
    if getattr(options, "enable_profiling", False):
        warnings.warn(
            "enable_profiling writes no file; use 'autotune run FILE --profile'", stacklevel=3
        )
    if getattr(options, "optimized_model_filepath", ""):
        warnings.warn(
            "optimized_model_filepath writes no file; 'autotune explain FILE' lists what was "
            "optimised",
            stacklevel=3,
        )
