"""Merging of operators into the stage before them: epilogues of contractions, element-wise
chains."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.fusion.buffers import BufferTable
from autotune.fusion.nest import EPILOGUE_FNS, MAX_SIDES, MAX_STAGES, Epilogue, Link, SideOperand
from autotune.fusion.region_inference import Regions
from autotune.isa.formats import Format
from autotune.operators.axis_map import Footprint
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.winograd_conv import ragged, winograd_tile

_ROUNDINGS = {OpKind.BF16: Format.BF16, OpKind.FP16: Format.FP16}
"""Roundings to formats of two bytes."""


@dataclass(frozen=True, slots=True)
class StageMerger:
    """Merges operators of a nest into the stage before them, and loads their operands."""

    regions: Regions
    buffers: BufferTable

    def epilogue(self, op: Op, bias: int | None) -> tuple[Epilogue, tuple[str, ...]]:
        """Return the epilogue of a contraction and the tensors made along with it.

        It may add a bias vector and another tile, then apply an activation. ``bias`` is the buffer
        of the contraction's own.
        """
        epilogue, output = Epilogue(bias), op.output
        if op.zeros is not None:
            return epilogue, ()  # sums of integers: they become numbers first
        merged: tuple[str, ...] = ()
        user = self._only_user(output)
        while user is not None and epilogue.fn is None and output not in self.regions.masks:
            extended = self._extend(epilogue, op, user, output)
            if extended is None:
                break
            epilogue, output, merged = extended, user.output, (*merged, user.output)
            user = self._only_user(output)
        return epilogue, merged

    def _extend(self, epilogue: Epilogue, op: Op, user: Op, output: str) -> Epilogue | None:
        """Return the epilogue of ``op`` extended by ``user`` of ``output``; None if it has no
        place."""
        if user.kind in EPILOGUE_FNS:
            return replace(epilogue, fn=user)
        other = self._addend(user, output)
        if other is None:
            return None
        made = self.regions.makes(other)
        is_row = self.regions.shape(other) == self.regions.shape(output)[-1:]
        by_rows = op.family in (Family.MATMUL, Family.STRASSEN)
        if by_rows and epilogue.bias is None and is_row and not made:
            row = self.regions.footprints[user.output][-1:]
            return replace(epilogue, bias=self.buffers.load(other, row))
        index = user.inputs.index(other)
        need = self.regions.need(user, index)
        if epilogue.residual is not None or not (made or self._at_hand(other, need)):
            return None
        if op.family is Family.WINOGRAD and self._is_ragged(op):
            return None
        if op.family is Family.STRASSEN:  # its products add what others have made
            return None
        buffer = None if made else self.buffers.load(other, need)
        return replace(epilogue, residual=SideOperand(other, need, buffer))

    def _is_ragged(self, op: Op) -> bool:
        """Return True if Winograd's tiles reach beyond the result, where a residual has no
        elements."""
        tile = winograd_tile(op, self.regions.group.type_of)
        return any(ragged(n, tile) for n in op.axes.sizes(self.regions.shape(op.output)))

    def links(self, op: Op) -> tuple[Link, ...]:
        """Return the element-wise operators behind ``op`` that its pass can take along."""
        links: tuple[Link, ...] = ()
        sides, output = set(op.inputs[1:]), op.output
        while len(links) < MAX_STAGES - 1:
            link = self._link(output)
            if link is None:
                break
            if link.side is not None:
                sides.add(link.side.tensor)
            if len(sides) > MAX_SIDES:
                break
            links, output = (*links, link), link.op.output
        return links

    def rounding(self, output: str) -> Op | None:
        """Return the rounding to BF16 or FP16 that alone reads a result and that all its readers repeat."""
        user = self._only_user(output)
        if user is None or output in self.regions.masks or not self.rounds_for_nothing(user):
            return None
        return user

    def rounds_for_nothing(self, op: Op) -> bool:
        """Return True for a rounding to BF16 or FP16 whose result is stored in that format, and multiplied in it:
        STORE and CONVERT round in the same way."""
        if op.kind not in _ROUNDINGS:
            return False
        readers = [user for user in self.regions.ops if op.output in user.inputs]
        if any(
            user.multiplied is not _ROUNDINGS[op.kind] or op.output in user.inputs[2:]
            for user in readers
        ):
            return False
        is_stored = op.output in self.regions.stores
        return not is_stored or self.regions.group.type_of[op.output].storage is _ROUNDINGS[op.kind]

    def _link(self, output: str) -> Link | None:
        """Return the only user of ``output`` if it is element-wise and its other operand is at
        hand."""
        user = self._only_user(output)
        if user is None or user.family not in (Family.UNARY, Family.BINARY):
            return None
        if user.family is Family.UNARY:
            return Link(user)
        if self.regions.shape(user.output) != self.regions.shape(output):
            return None
        index = 1 - user.inputs.index(output)
        other = user.inputs[index]
        need = self.regions.need(user, index)
        made = self.regions.makes(other)
        if other not in self.buffers.located if made else not self._at_hand(other, need):
            return None
        return Link(
            user, SideOperand(other, need, None if made else self.buffers.load(other, need))
        )

    def _at_hand(self, tensor: str, need: Footprint) -> bool:
        """Return True if a stage may wait for one more operand from DRAM.

        It is a vector, or an earlier stage loaded it. A whole tile would come while a product runs,
        and is better added behind it (docs/decisions/0009-fused-primitives.md has the cycles).
        """
        is_vector = sum(n > 1 for n in self.regions.shape(tensor)) <= 1
        return is_vector or self.buffers.loads(tensor, need)

    def _addend(self, user: Op, output: str) -> str | None:
        """Return the other operand if ``user`` only adds it to every element of ``output``.

        It must exist by then: loaded, or made by an earlier stage.
        """
        shape = self.regions.shape
        if user.kind is not OpKind.ADD or shape(user.output) != shape(output):
            return None
        other = next(x for x in user.inputs if x != output)
        return None if self.regions.makes(other) and other not in self.buffers.located else other

    def _only_user(self, tensor: str) -> Op | None:
        """Return the only reader of a made tensor if it reads it tile for tile."""
        if self.regions.uses.get(tensor, 0) != 1 or tensor in self.regions.stores:
            return None
        user = next(op for op in self.regions.ops if tensor in op.inputs)
        footprints = self.regions.footprints
        return user if footprints[user.output] == footprints[tensor] else None
