"""A temporary ONNX file for a session, which may read its file again while it lives."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class TemporaryModel:
    """The path of an ONNX file, whose folder is removed with its owner or when the process ends.

    The owner is this object until ``belong_to`` names another.
    """

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="autotune-")
        self.path = Path(folder, "model.onnx")
        self._removal: weakref.finalize[..., object] = weakref.finalize(
            self, shutil.rmtree, folder, ignore_errors=True
        )

    def belong_to(self, owner: object) -> None:
        """Keep the file while ``owner`` lives."""
        self._removal.detach()
        folder = self.path.parent
        self._removal = weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
