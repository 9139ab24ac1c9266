"""The analysis of a group into nests: footprints from the output backwards, then buffers and stages
from the inputs forwards."""

from __future__ import annotations

import math
from dataclasses import replace

from autotune.fusion.footprint import (
    Footprint,
    axis_range,
    channels_per_group,
    forced_dims,
    full,
    hull,
    input_footprint,
    is_depthwise,
    padded_footprint,
    ragged,
    root_footprint,
    tile_footprints,
)
from autotune.fusion.group import Group
from autotune.fusion.nest import (
    EPILOGUE_FNS,
    MAX_RANK,
    MAX_SIDES,
    MAX_STAGES,
    Buffer,
    BufferRole,
    Contraction,
    Epilogue,
    Link,
    Nest,
    Rejection,
    Side,
    Stage,
    k_axis,
)
from autotune.graph.op import Family, Op, OpKind
from autotune.graph.winograd import POINTS

PADDING = frozenset((Family.CONV, Family.WINOGRAD, Family.POOL, Family.SLIDE, Family.PAD))
"""What reads past its operand's borders."""
STRIDED = frozenset((Family.TRANSPOSE, Family.SLICE, Family.PAD, Family.EXPAND))
"""What strides over any operand can express, and no copy is needed for."""


def analyse(group: Group) -> tuple[Nest, ...] | Rejection:
    """The nests of a group: one for its last output, and one more for every other output whose
    tiles do not fall out of an earlier nest exactly. Rejection if no program can be made."""
    for name, kind in group.types:
        if len(kind.shape) > MAX_RANK:
            return Rejection(
                f"tensor {name!r} has rank {len(kind.shape)}; programs move at most {MAX_RANK} dimensions"
            )
    nests: list[Nest] = []
    covered: set[str] = set()
    for output in sorted(group.outputs, key=lambda x: -_position(group, x)):
        if output in covered:
            continue
        nest = _Builder(group, output, covered).build()
        if isinstance(nest, Rejection):
            return nest
        nests.append(nest)
        covered.update(nest.stores)
    return tuple(nests)


def _position(group: Group, tensor: str) -> int:
    return next(i for i, op in enumerate(group.ops) if op.output == tensor)


def _needed(group: Group, root: str) -> tuple[Op, ...]:
    wanted = {root}
    for op in reversed(group.ops):
        if op.output in wanted:
            wanted.update(op.inputs)
    return tuple(op for op in group.ops if op.output in wanted)


class _Builder:
    """Collects footprints, then buffers and stages, of one nest."""

    def __init__(self, group: Group, root: str, covered: set[str]) -> None:
        self.group = group
        self.types = group.type_of
        self.root = root
        self.root_shape = self.types[root].shape
        self.ops = _needed(group, root)
        self.footprints: dict[str, Footprint] = {}
        self.uses: dict[str, int] = {}
        self.covered = covered
        self.buffers: list[Buffer] = []
        self.stages: list[Stage] = []
        self.contractions: list[Contraction] = []
        self.located: dict[str, tuple[int, bool]] = {}
        self.load_keys: dict[Buffer, int] = {}
        self.shared: set[int] = set()
        """Buffers that a view shares with something else that reads its operand."""

    def build(self) -> Nest | Rejection:
        rejection = self._spread()
        if rejection is not None:
            return rejection
        rejection = self._winograd_neighbours()
        if rejection is not None:
            return rejection
        masks = self._masks()
        if isinstance(masks, Rejection):
            return masks
        self.stores = self._stores()
        skip: set[str] = set()
        for op in self.ops:
            if op.output not in skip:
                skip.update(self._stage(op, masks))
        forced = frozenset(d for d, a in enumerate(self.footprints[self.root]) if a.dim is None)
        return Nest(
            self.root,
            self.root_shape,
            forced,
            tuple(self.stages),
            tuple(self.buffers),
            tuple(self.contractions),
            self.stores,
            self.types,
        )

    def _spread(self) -> Rejection | None:
        """Footprints of all tensors made in the nest, from the root backwards. Forcing a whole
        dimension of the root changes what everything below needs, hence the restart."""
        root_op = self.group.producer[self.root]
        forced = set(forced_dims(root_op, self.types))
        self.footprints = {self.root: root_footprint(self.root_shape, frozenset(forced))}
        for op in reversed(self.ops):
            if _is_left_to_dma(op) and op.inputs[0] in self.group.producer:
                return Rejection(
                    f"{op.name}: {op.kind} takes {op.inputs[0]!r} by single rows or backwards; only DMA "
                    "does that, from DRAM"
                )
            footprint = list(self.footprints[op.output])
            for d in self._whole(op):
                extent = self.types[op.output].shape[d]
                low, high = axis_range(footprint[d], self.root_shape)
                if low < 0 or high > extent:
                    return Rejection(
                        f"{op.name}: {op.kind} needs dimension {d} whole, but its consumer pads it"
                    )
                footprint[d] = full(extent)
            self.footprints[op.output] = tuple(footprint)
            for index, x in enumerate(op.inputs):
                self.uses[x] = self.uses.get(x, 0) + 1
                if x not in self.group.producer:
                    continue
                need = input_footprint(op, index, self.footprints[op.output], self.types)
                known = self.footprints.get(x)
                self.footprints[x] = need if known is None else hull(known, need, self.root_shape)
        return None

    def _whole(self, op: Op) -> frozenset[int]:
        """Output dimensions that are computed whole: the operator's own, and channels in groups
        that the root's tiles do not lie on."""
        channel = op.axes.channel
        if channels_per_group(op, self.types) is None or (
            self.footprints[op.output][channel].is_identity()
        ):
            return forced_dims(op, self.types)
        return frozenset((channel,))

    def _winograd_neighbours(self) -> Rejection | None:
        """Its tiles begin at multiples of four of the result: what follows must keep every element
        in its place. Its weight and bias come from DRAM."""
        reached: dict[str, str] = {}
        for op in self.ops:
            behind = next((reached[x] for x in op.inputs if x in reached), None)
            if behind is not None and op.family not in (Family.UNARY, Family.BINARY):
                return Rejection(
                    f"{op.name}: {op.kind} behind {behind}; only element-wise operators may follow "
                    "Winograd's convolution in its group"
                )
            if op.family is Family.WINOGRAD:
                behind = op.name
                made = [x for x in op.inputs[1:] if x in self.group.producer]
                if made:
                    return Rejection(f"{op.name}: {made[0]!r} is made in its group")
            if behind is not None:
                reached[op.output] = behind
        return None

    def _outside(self, tensor: str) -> bool:
        shape = self.types[tensor].shape
        ranges = (axis_range(a, self.root_shape) for a in self.footprints[tensor])
        return any(low < 0 or high > n for (low, high), n in zip(ranges, shape, strict=True))

    def _masks(self) -> dict[str, float] | Rejection:
        """Made tensors whose padding is read by a window operator, with the padding's value."""
        masks: dict[str, float] = {}
        for op in self.ops:
            x = op.inputs[0]
            if op.family not in PADDING or x not in self.group.producer:
                continue
            if not self._outside(x):
                continue
            value = padding_value(op)
            if masks.setdefault(x, value) != value:
                return Rejection(f"{op.name}: consumers of {x!r} need different padding values")
        return masks

    def _stores(self) -> tuple[str, ...]:
        """Group outputs whose tiles this nest makes exactly: the root, and those that it covers."""

        def exact(tensor: str) -> bool:
            shape = self.types[tensor].shape
            return all(
                (a.is_identity() or a.dim is None) and axis_range(a, self.root_shape) == (0, n)
                for a, n in zip(self.footprints[tensor], shape, strict=True)
            )

        return tuple(
            op.output
            for op in self.ops
            if op.output in self.group.outputs
            and op.output not in self.covered
            and (op.output == self.root or exact(op.output))
        )

    def _add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _load(
        self,
        tensor: str,
        footprint: Footprint,
        chunk: tuple[int, int] | None = None,
        pad: float = 0.0,
    ) -> int:
        buffer = Buffer(BufferRole.LOAD, tensor, footprint, chunk, pad)
        if buffer not in self.load_keys:
            self.load_keys[buffer] = self._add(buffer)
        return self.load_keys[buffer]

    def _only_user(self, tensor: str) -> Op | None:
        """The one operator that reads a made tensor nothing else needs, tile for tile."""
        if self.uses.get(tensor, 0) != 1 or tensor in self.stores:
            return None
        user = next(op for op in self.ops if tensor in op.inputs)
        return user if self.footprints[user.output] == self.footprints[tensor] else None

    def _stage(self, op: Op, masks: dict[str, float]) -> tuple[str, ...]:
        """Append the stage of ``op``; returns the tensors of operators merged into it."""
        if op.family is Family.RESHAPE or op.family in STRIDED:
            self._rename(op, masks)
            return ()
        contraction = self._contraction(op)
        operands = tuple(self._operand(op, i, contraction) for i in range(len(op.inputs)))
        epilogue, output = Epilogue(), op.output
        merged: tuple[str, ...] = ()
        if contraction is not None:
            epilogue, output, merged = self._epilogue(op, operands, masks)
        links: tuple[Link, ...] = ()
        if op.family in (Family.UNARY, Family.BINARY):
            links = self._links(op)
            merged = tuple(link.op.output for link in links)
            output = merged[-1] if links else output
        footprint = self.footprints[output]
        result = self._in_place(op, operands)
        if result is None:
            room = footprint
            if op.family is Family.WINOGRAD:
                room = padded_footprint(op, footprint, self.types)
            result = self._add(Buffer(BufferRole.VALUE, output, room))
        self.located[output] = (result, True)
        self.stages.append(
            Stage(
                op,
                output,
                footprint,
                result,
                operands,
                self._temps(op),
                epilogue,
                contraction,
                links=links,
                mask=masks.get(output),
            )
        )
        return merged

    def _operand(self, op: Op, index: int, contraction: int | None) -> int | None:
        x = op.inputs[index]
        if x in self.group.producer or (op.family is Family.GATHER and index == 0):
            return None
        need = input_footprint(op, index, self.footprints[op.output], self.types)
        axis = k_axis(op, index, self.types[x].shape) if contraction is not None else None
        pad = padding_value(op)
        if contraction is None or axis is None or not self.contractions[contraction].chunkable:
            return self._load(x, need, None, pad)
        return self._load(x, need, (contraction, axis), pad)

    def _contraction(self, op: Op) -> int | None:
        if op.family is Family.CONV and not is_depthwise(op, self.types):
            k_extent = self.types[op.inputs[1]].shape[op.axes.in_channel]
            free = op.int("group") == 1
        elif op.family is Family.WINOGRAD:  # its points are no sum, but come in pieces as well
            k_extent, free = POINTS, True
        elif op.family is Family.MATMUL:
            shape = self.types[op.inputs[0]].shape
            k_extent = shape[-2] if op.int("trans_a") else shape[-1]
            free = True
        else:
            return None
        loaded = any(x not in self.group.producer for x in op.inputs[:2])
        self.contractions.append(Contraction(k_extent, free and loaded))
        return len(self.contractions) - 1

    def _epilogue(
        self, op: Op, operands: tuple[int | None, ...], masks: dict[str, float]
    ) -> tuple[Epilogue, str, tuple[str, ...]]:
        """Sums with a bias vector and with another tile, then an activation, that follow a
        contraction and can leave with its accumulator."""
        convolves = op.family in (Family.CONV, Family.WINOGRAD)
        bias = operands[2] if convolves and len(op.inputs) == 3 else None
        epilogue, output = Epilogue(bias), op.output
        merged: tuple[str, ...] = ()
        user = self._only_user(output)
        while user is not None and epilogue.fn is None and output not in masks:
            grown = self._grown(epilogue, op, user, output)
            if grown is None:
                break
            epilogue, output, merged = grown, user.output, (*merged, user.output)
            user = self._only_user(output)
        return epilogue, output, merged

    def _grown(self, epilogue: Epilogue, op: Op, user: Op, output: str) -> Epilogue | None:
        """The epilogue of ``op`` with ``user`` of ``output`` in it; None where it has no place."""
        if user.kind in EPILOGUE_FNS:
            return replace(epilogue, fn=user)
        other = self._addend(user, output)
        if other is None:
            return None
        made = other in self.group.producer
        is_row = self.types[other].shape == self.types[output].shape[-1:]
        if op.family is Family.MATMUL and epilogue.bias is None and is_row and not made:
            return replace(epilogue, bias=self._load(other, (self.footprints[user.output][-1],)))
        index = user.inputs.index(other)
        need = input_footprint(user, index, self.footprints[user.output], self.types)
        if epilogue.residual is not None or not (made or self._at_hand(other, need)):
            return None
        if op.family is Family.WINOGRAD and self._is_ragged(op):
            return None
        buffer = None if made else self._load(other, need)
        return replace(epilogue, residual=Side(other, need, buffer))

    def _is_ragged(self, op: Op) -> bool:
        """Whether tiles of Winograd's convolution reach beyond its result, where no residual is."""
        return any(ragged(n) for n in op.axes.sizes(self.types[op.output].shape))

    def _links(self, op: Op) -> tuple[Link, ...]:
        """The element-wise operators behind ``op`` that its pass can take along."""
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

    def _link(self, output: str) -> Link | None:
        """The only user of ``output`` if it is element-wise and all else that it reads is there."""
        user = self._only_user(output)
        if user is None or user.family not in (Family.UNARY, Family.BINARY):
            return None
        if user.family is Family.UNARY:
            return Link(user)
        if self.types[user.output].shape != self.types[output].shape:
            return None
        index = 1 - user.inputs.index(output)
        other = user.inputs[index]
        need = input_footprint(user, index, self.footprints[user.output], self.types)
        made = other in self.group.producer
        if other not in self.located if made else not self._at_hand(other, need):
            return None
        return Link(user, Side(other, need, None if made else self._load(other, need)))

    def _at_hand(self, tensor: str, need: Footprint) -> bool:
        """Whether a stage may wait for one more operand from DRAM: it was loaded for an earlier
        stage, or is a vector. A whole tile would come while a product runs and is added behind it
        (docs/decisions/0009-fused-primitives.md has the cycles)."""
        loaded = Buffer(BufferRole.LOAD, tensor, need) in self.load_keys
        return loaded or sum(n > 1 for n in self.types[tensor].shape) <= 1

    def _addend(self, user: Op, output: str) -> str | None:
        """What ``user`` adds to every element of ``output``, if that is all it does and the
        addend is there by then: loaded, or made by an earlier stage."""
        if user.kind is not OpKind.ADD or self.types[user.output].shape != self.types[output].shape:
            return None
        other = next(x for x in user.inputs if x != output)
        return None if other in self.group.producer and other not in self.located else other

    def _in_place(self, op: Op, operands: tuple[int | None, ...]) -> int | None:
        """A dying operand of the same shape whose buffer the result can take over, and nothing else
        reads."""
        if op.family not in (Family.UNARY, Family.BINARY, Family.SOFTMAX):
            return None
        for x, loaded in zip(op.inputs, operands, strict=True):
            if (
                self.uses[x] != 1
                or x in self.stores
                or self.types[x].shape != self.types[op.output].shape
            ):
                continue
            if loaded is not None:
                if self.buffers[loaded].footprint == self.footprints[op.output]:
                    return loaded
                continue  # an axis of 1 is loaded once, however far the result is padded along it
            buffer, plain = self.located[x]
            if buffer in self.shared:
                continue
            if plain and self.footprints[x] == self.footprints[op.output]:
                return buffer
        return None

    def _temps(self, op: Op) -> tuple[int, ...]:
        """Scratch buffers an operator's emitter asks for."""
        footprint = self.footprints[op.output]
        if op.family is Family.WINOGRAD:
            found = tile_footprints(op, footprint, self.types)
            return tuple(self._add(Buffer(BufferRole.TEMP, op.output, f)) for f in found)
        if op.family is Family.SOFTMAX:
            kept = tuple(full(1) if d == op.int("axis") else a for d, a in enumerate(footprint))
            return (self._add(Buffer(BufferRole.TEMP, op.output, kept)),)
        if op.family is Family.LAYER_NORM:
            kept = tuple(full(1) if d >= op.int("axis") else a for d, a in enumerate(footprint))
            rows = (*kept[:-1], full(2))
            return (self._add(Buffer(BufferRole.TEMP, op.output, rows)),)
        if (
            op.kind is OpKind.AVERAGE_POOL
            and any(op.ints("pads"))
            and not op.int("count_include_pad")
        ):
            need, axes = input_footprint(op, 0, footprint, self.types), op.axes
            spatial = axes.image(full(1), full(1), axes.sizes(need))
            counts = axes.image(full(1), full(1), axes.sizes(footprint))
            return (
                self._add(Buffer(BufferRole.TEMP, op.output, spatial)),
                self._add(Buffer(BufferRole.TEMP, op.output, counts)),
            )
        return ()

    def _rename(self, op: Op, masks: dict[str, float]) -> None:
        """What only rearranges: a view of its operand where strides can express it."""
        x = op.inputs[0]
        footprint = self.footprints[op.output]
        need = input_footprint(op, 0, footprint, self.types)
        loaded = None
        if x not in self.group.producer:
            loaded = self._load_moved(op, need)
            buffer, plain = loaded, True
        else:
            buffer, plain = self.located[x]
            plain = plain and self.footprints[x] == need
        is_view = op.output not in masks and (plain or op.family in STRIDED)
        if not is_view:
            buffer = self._add(Buffer(BufferRole.VALUE, op.output, footprint))
        elif self.uses[x] != 1 or x in self.stores:
            self.shared.add(buffer)
        dense = not is_view or (plain and _stays_dense(op, loaded is not None))
        self.located[op.output] = (buffer, dense)
        self.stages.append(
            Stage(
                op,
                op.output,
                footprint,
                buffer,
                (loaded,),
                view=is_view,
                mask=masks.get(op.output),
            )
        )

    def _load_moved(self, op: Op, need: Footprint) -> int:
        """The loaded operand of an operator that only rearranges. A slice that leaves elements out
        or turns them round comes as it is wanted, element by element."""
        if op.family is not Family.SLICE or set(op.ints("steps")) == {1}:
            return self._load(op.inputs[0], need, None, padding_value(op))
        sample = tuple(zip(op.ints("starts"), op.ints("steps"), strict=True))
        footprint = self.footprints[op.output]
        buffer = Buffer(BufferRole.LOAD, op.inputs[0], footprint, sample=sample)
        if buffer not in self.load_keys:
            self.load_keys[buffer] = self._add(buffer)
        return self.load_keys[buffer]


def padding_value(op: Op) -> float:
    """What an operator reads outside of its operand."""
    if op.family is Family.PAD:
        return op.float("value")
    return -math.inf if op.kind is OpKind.MAX_POOL else 0.0


def _is_left_to_dma(op: Op) -> bool:
    """Whether an operator takes its first operand by rows that numbers choose, or backwards along
    some axis."""
    if op.family is Family.GATHER:
        return True
    return op.family is Family.SLICE and min(op.ints("steps"), default=1) < 0


def _stays_dense(op: Op, is_loaded: bool) -> bool:
    """Whether a view of a dense operand is dense in its own shape too."""
    match op.family:
        case Family.SLICE:
            return is_loaded or set(op.ints("steps")) <= {1}
        case Family.RESHAPE | Family.PAD:
            return True
        case _:
            return False
