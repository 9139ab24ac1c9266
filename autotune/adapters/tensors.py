"""PyTorch tensors as NumPy arrays and back, over the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from autotune.errors import ModelError

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_REFUSED = frozenset({torch.float64, torch.complex32, torch.complex64, torch.complex128})
"""Element types that would lose accuracy (float64 is computed as float32) or are not supported."""


def array_of(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a CPU tensor as an array that shares its memory."""
    if tensor.dtype is torch.bfloat16:
        return tensor.detach().view(torch.int16).numpy().view(_BFLOAT16)  # type: ignore[no-any-return]
    return tensor.numpy(force=True)  # type: ignore[no-any-return]


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return an array as a contiguous tensor, which shares its memory if it is writable and dense."""
    dense = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    owned = dense if dense.flags.writeable else dense.copy()
    if owned.dtype == _BFLOAT16:
        return torch.from_numpy(owned.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(owned)


def check_tensor(name: str, tensor: object) -> None:
    """Raise ``ModelError`` for a tensor that a session cannot take or give."""
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"{name} is {type(tensor).__name__}, not a tensor")
    if tensor.device.type != "cpu":
        raise ModelError(f"{name} is on {tensor.device}; move the module to the CPU")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise ModelError(f"{name} is sparse or quantised; only dense tensors are supported")
    if tensor.dtype in _REFUSED:
        raise ModelError(f"{name} is {tensor.dtype}; convert the module with .float()")
