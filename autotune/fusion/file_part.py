"""A fusion group together with the nodes of the file that it stands for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autotune.fusion.group import Group

Node = tuple[str, tuple[int, ...]]
"""A node of a file: its operator, and the positions of the group's operators that import made of it."""


@dataclass(frozen=True, repr=False)
class FilePart(Group):
    """A group whose operators import made of some nodes of an ONNX file; ``model`` holds these nodes.

    Import writes some operators in others (a normalisation over channels, a recurrent layer, a resize): ``nodes`` are
    those. A system that reads ONNX is timed on the file's own, so that they are part of the key and of the text.
    """

    nodes: tuple[Node, ...] = ()
    model: bytes = field(default=b"", compare=False)

    @classmethod
    def of(cls, group: Group, nodes: tuple[Node, ...], model: bytes = b"") -> FilePart:
        """Return a group as a part of a file: with the ``nodes`` that import wrote in other operators, and the serialized model
        that ``FileNodes.between`` makes."""
        return cls(group.ops, group.types, group.outputs, group.constants, nodes, model)

    @cached_property
    def canonical(self) -> Group:
        """The part with positional names, without its model: equal for parts of equal cost."""
        return FilePart.of(super().canonical, self.nodes)

    def _plain(self) -> dict[str, Any]:
        return super()._plain() | ({"nodes": self.nodes} if self.nodes else {})

    @classmethod
    def from_json(cls, text: str) -> FilePart:
        """Read what ``to_json`` of a part or of a group wrote."""
        named = json.loads(text).get("nodes", ())
        nodes = tuple((kind, tuple(places)) for kind, places in named)
        return cls.of(Group.from_json(text), nodes)
