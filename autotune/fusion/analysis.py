"""Analysis of a group into nests: regions inferred backwards, then buffers and stages forwards."""

from __future__ import annotations

from functools import lru_cache

from autotune.errors import ScheduleError
from autotune.fusion.buffers import BufferTable
from autotune.fusion.group import Group
from autotune.fusion.nest import (
    BY_FACTORS,
    MAX_RANK,
    Buffer,
    BufferRole,
    Contraction,
    Epilogue,
    Link,
    Nest,
    Rejection,
    Stage,
    k_axis,
)
from autotune.fusion.online_softmax import STATE_WORDS
from autotune.fusion.patches import patches_of
from autotune.fusion.region_inference import Regions, infer_regions, stored_padding
from autotune.fusion.stage_merging import StageMerger
from autotune.isa.formats import Format
from autotune.operators.axis_map import Footprint, full
from autotune.operators.contraction import is_depthwise
from autotune.operators.families import input_footprint
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.strassen import scratch_footprints
from autotune.operators.winograd_conv import padded_footprint, tile_footprints

STRIDED = frozenset((Family.TRANSPOSE, Family.SLICE, Family.PAD, Family.EXPAND))
"""Families that strides over any operand can express, without a copy."""


def analyse(group: Group) -> tuple[Nest, ...] | Rejection:
    """Return the nests of a group, or the Rejection that no program can be made.

    The last output has a nest. Every other output has one too, unless an earlier nest makes its
    tiles exactly.
    """
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
        regions = infer_regions(group, output, covered)
        if isinstance(regions, Rejection):
            return regions
        nest = _NestBuilder(regions).nest()
        nests.append(nest)
        covered.update(nest.stores)
    return tuple(nests)


@lru_cache(maxsize=1024)
def nests_of(group: Group) -> tuple[Nest, ...]:
    """Return the nests of a group. Raises ``ScheduleError`` if no program can be made of it."""
    nests = analyse(group)
    if isinstance(nests, Rejection):
        raise ScheduleError(f"group of {', '.join(op.name for op in group.ops)}: {nests.reason}")
    return nests


def _position(group: Group, tensor: str) -> int:
    return next(i for i, op in enumerate(group.ops) if op.output == tensor)


class _NestBuilder:
    """Builds buffers and stages of one nest from its regions, operator by operator."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.types = regions.group.type_of
        self.buffers = BufferTable()
        self.merger = StageMerger(regions, self.buffers)
        self.stages: list[Stage] = []
        self.contractions: list[Contraction] = []

    def nest(self) -> Nest:
        """Build the nest: one stage per operator that no earlier stage takes along."""
        skip: set[str] = set()
        for op in self.regions.ops:
            if op.output not in skip:
                skip.update(self._stage(op))
        root = self.regions.root
        return Nest(
            root,
            self.regions.root_shape,
            frozenset(d for d, a in enumerate(self.regions.footprints[root]) if a.dim is None),
            tuple(self.stages),
            tuple(self.buffers.rows),
            tuple(self.contractions),
            self.regions.stores,
            self.types,
            None if self.regions.online is None else self.regions.online.dim,
        )

    def _stage(self, op: Op) -> tuple[str, ...]:
        """Append the stage of ``op``; returns the tensors of operators merged into it."""
        if op.family is Family.RESHAPE or op.family in STRIDED or self._only_rounds(op):
            self._rename(op)
            return ()
        contraction = self._contraction(op)
        operands = tuple(self._operand(op, i, contraction) for i in range(len(op.inputs)))
        epilogue = Epilogue()
        links: tuple[Link, ...] = ()
        merged: tuple[str, ...] = ()
        reduced = self.regions.online is not None and op.output == self.regions.online.product
        if contraction is not None and not reduced:
            convolves = op.family in (Family.CONV, Family.WINOGRAD)
            bias = operands[2] if convolves and len(op.inputs) == 3 else None
            epilogue, merged = self.merger.epilogue(op, bias)
        elif op.family in (Family.UNARY, Family.BINARY):
            links = self.merger.links(op)
            merged = tuple(link.op.output for link in links)
        output = merged[-1] if merged else op.output
        rounding = self.merger.rounding(output)
        if rounding is not None:
            merged, output = (*merged, rounding.output), rounding.output
        footprint = self.regions.footprints[output]
        result = self._result(op, operands, output)
        self.buffers.located[output] = (result, True)
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
                reduced=reduced,
                mask=self.regions.masks.get(output),
            )
        )
        return merged

    def _only_rounds(self, op: Op) -> bool:
        """Return True if an operator rounds what it loads to BF16, as all that take it do."""
        return not self.regions.makes(op.inputs[0]) and self.merger.rounds_for_nothing(op)

    def _result(self, op: Op, operands: tuple[int | None, ...], output: str) -> int:
        """Return the buffer that a stage makes ``output`` in."""
        dying = self._in_place(op, operands)
        if dying is not None:
            return dying
        room = self.regions.footprints[output]
        if op.family is Family.WINOGRAD:
            room = padded_footprint(op, room, self.types)
        return self.buffers.add(Buffer(BufferRole.VALUE, output, room))

    def _operand(self, op: Op, index: int, contraction: int | None) -> int | None:
        x = op.inputs[index]
        if self.regions.makes(x) or (op.family is Family.GATHER and index == 0):
            return None
        need = self.regions.need(op, index)
        axis = k_axis(op, index, self.regions.shape(x)) if contraction is not None else None
        pad, form = stored_padding(op, self.types[x]), self._format(op, index)
        if contraction is None or axis is None or not self.contractions[contraction].chunkable:
            return self.buffers.load(x, need, None, pad, form=form)
        patches = None
        if index == 0:
            patches = patches_of(op, self.types, self.regions.footprints[op.output])
        return self.buffers.load(x, need, (contraction, axis), pad, patches=patches, form=form)

    def _format(self, op: Op, index: int) -> Format:
        """Return the format in which an operator reads an input from the scratchpad."""
        if op.is_bf16:
            return Format.BF16 if index < 2 else Format.FP32
        if op.zeros is None:
            return Format.FP32
        return self.types[op.inputs[index]].storage if index < 2 else Format.INT32

    def _narrow_temps(self, op: Op) -> tuple[int, ...]:
        """Add a buffer for each made factor of a narrow product."""
        made = (i for i, x in enumerate(op.inputs[:2]) if self.regions.makes(x))
        return tuple(
            self.buffers.add(
                Buffer(
                    BufferRole.TEMP,
                    op.inputs[i],
                    self.regions.need(op, i),
                    format=self._format(op, i),
                )
            )
            for i in made
        )

    def _contraction(self, op: Op) -> int | None:
        if op.family is Family.CONV and not is_depthwise(op, self.types):
            k_extent = self.types[op.inputs[1]].shape[op.axes.in_channel]
            free = op.int("group") == 1
        elif op.family in BY_FACTORS:  # their products are no sum, but come in pieces as well
            k_extent, free = self.types[op.inputs[1]].shape[0], True
        elif op.family is Family.MATMUL:
            shape = self.types[op.inputs[0]].shape
            k_extent = shape[-2] if op.int("trans_a") else shape[-1]
            free = self.regions.online is None or op.output != self.regions.online.product
        else:
            return None
        loaded = any(not self.regions.makes(x) for x in op.inputs[:2])
        self.contractions.append(Contraction(k_extent, free and loaded))
        return len(self.contractions) - 1

    def _in_place(self, op: Op, operands: tuple[int | None, ...]) -> int | None:
        """Return the buffer of a dying operand of the same shape that the result can take over."""
        if op.family not in (Family.UNARY, Family.BINARY, Family.SOFTMAX):
            return None
        for x, loaded in zip(op.inputs, operands, strict=True):
            if (
                self.regions.uses[x] != 1
                or x in self.regions.stores
                or self.regions.shape(x) != self.regions.shape(op.output)
            ):
                continue
            if loaded is not None:
                if self.buffers.rows[loaded].footprint == self.regions.footprints[op.output]:
                    return loaded
                continue  # an axis of 1 is loaded once, however far the result is padded along it
            buffer, plain = self.buffers.located[x]
            if buffer in self.buffers.shared:
                continue
            if plain and self.regions.footprints[x] == self.regions.footprints[op.output]:
                return buffer
        return None

    def _temps(self, op: Op) -> tuple[int, ...]:
        """Add the scratch buffers that an operator's emitter asks for."""
        if op.zeros is not None or op.is_bf16:
            return self._narrow_temps(op)
        footprint = self.regions.footprints[op.output]
        if op.family is Family.WINOGRAD:
            tiles = tile_footprints(op, footprint, self.types)
            return tuple(self.buffers.add(Buffer(BufferRole.TEMP, op.output, f)) for f in tiles)
        if op.family is Family.STRASSEN:
            parts = scratch_footprints(op, footprint, self.types)
            return tuple(self.buffers.add(Buffer(BufferRole.TEMP, op.output, f)) for f in parts)
        if op.family is Family.SOFTMAX:
            online = self.regions.online
            words = STATE_WORDS if online is not None and op.output == online.softmax else 1
            rows = tuple(full(words) if d == op.int("axis") else a for d, a in enumerate(footprint))
            return (self.buffers.add(Buffer(BufferRole.TEMP, op.output, rows)),)
        if op.family is Family.LAYER_NORM:
            reduced = tuple(full(1) if d >= op.int("axis") else a for d, a in enumerate(footprint))
            rows = (*reduced[:-1], full(2))
            return (self.buffers.add(Buffer(BufferRole.TEMP, op.output, rows)),)
        if (
            op.kind is OpKind.AVERAGE_POOL
            and any(op.ints("pads"))
            and not op.int("count_include_pad")
        ):
            need, axes = input_footprint(op, 0, footprint, self.types), op.axes
            spatial = axes.image(full(1), full(1), axes.sizes(need))
            counts = axes.image(full(1), full(1), axes.sizes(footprint))
            return (
                self.buffers.add(Buffer(BufferRole.TEMP, op.output, spatial)),
                self.buffers.add(Buffer(BufferRole.TEMP, op.output, counts)),
            )
        return ()

    def _rename(self, op: Op) -> None:
        """Append the stage of a rearranging operator: a view of its operand where strides can
        express it."""
        x = op.inputs[0]
        footprint = self.regions.footprints[op.output]
        need = input_footprint(op, 0, footprint, self.types)
        loaded = None
        if not self.regions.makes(x):
            loaded = self._load_moved(op, need)
            buffer, plain = loaded, True
        else:
            buffer, plain = self.buffers.located[x]
            plain = plain and self.regions.footprints[x] == need
        is_view = op.output not in self.regions.masks and (plain or op.family in STRIDED)
        if not is_view:
            buffer = self.buffers.add(Buffer(BufferRole.VALUE, op.output, footprint))
        elif self.regions.uses[x] != 1 or x in self.regions.stores:
            self.buffers.shared.add(buffer)
        dense = not is_view or (plain and _stays_dense(op, loaded is not None))
        self.buffers.located[op.output] = (buffer, dense)
        self.stages.append(
            Stage(
                op,
                op.output,
                footprint,
                buffer,
                (loaded,),
                view=is_view,
                mask=self.regions.masks.get(op.output),
            )
        )

    def _load_moved(self, op: Op, need: Footprint) -> int:
        """Load the operand of a rearranging operator.

        A slice with steps other than 1 is loaded as its result, element by element.
        """
        x = op.inputs[0]
        if op.family is not Family.SLICE or set(op.ints("steps")) == {1}:
            return self.buffers.load(x, need, None, stored_padding(op, self.types[x]))
        sample = tuple(zip(op.ints("starts"), op.ints("steps"), strict=True))
        footprint = self.regions.footprints[op.output]
        return self.buffers.load(x, footprint, sample=sample)


def _stays_dense(op: Op, is_loaded: bool) -> bool:
    """Return True if a view of a dense operand is dense in its own shape too."""
    match op.family:
        case Family.SLICE:
            return is_loaded or set(op.ints("steps")) <= {1}
        case Family.RESHAPE | Family.PAD | Family.UNARY:
            return True
        case _:
            return False
