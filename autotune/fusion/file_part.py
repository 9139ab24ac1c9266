"""A fusion group together with the nodes of the file that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.fusion.group import Group


@dataclass(frozen=True, repr=False)
class FilePart(Group):
    """A group whose operators import made of some nodes of an ONNX file; ``model`` holds these nodes.

    Import writes some operators in others (a normalisation over channels, a recurrent layer, a resize). A system that reads
    ONNX is timed on the file's own. Its key is the group's.
    """

    model: bytes = field(default=b"", compare=False)

    @classmethod
    def of(cls, group: Group, model: bytes) -> FilePart:
        """Return the group with a serialized ONNX model, as ``FileNodes.between`` makes it."""
        return cls(group.ops, group.types, group.outputs, group.constants, model)
