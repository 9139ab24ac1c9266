"""Values of a dynamic run: arrays, sequences and optionals, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

AnyArray = npt.NDArray[Any]
"""An array of any element type."""

Value = Any
"""An array, a sequence as a list of arrays, or None for an optional that has no value."""

Values = Mapping[str, Value]
