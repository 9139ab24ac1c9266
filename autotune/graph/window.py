"""A window that slides along one axis of an image: taps that read the image, and taps that read
padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op
from autotune.operators.window import window_extent

Run = tuple[int, int]
"""First number and one past the last, of positions, taps or elements."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A window of ``kernel`` taps, ``dilation`` apart, over ``size`` elements.

    There are ``before`` and ``after`` elements of padding. The window moves by ``stride``.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def positions(self) -> int:
        """Number of results along the axis."""
        return window_extent(
            self.size, self.kernel, self.stride, self.dilation, self.before, self.after
        )

    def reading(self, tap: int) -> Run:
        """Return the positions at which ``tap`` reads the image; an empty run if it never does."""
        shift = tap * self.dilation - self.before
        first = max(0, -(shift // self.stride))
        last = min(self.positions, (self.size - 1 - shift) // self.stride + 1)
        return first, max(first, last)

    def reads(self, tap: int) -> bool:
        """Return True if ``tap`` reads the image at any position."""
        first, end = self.reading(tap)
        return end > first

    def elements(self, positions: Run, taps: Run) -> Run:
        """Return the elements from the first to the last that ``taps`` read at ``positions``.

        Padding before the image has negative numbers.
        """
        first = positions[0] * self.stride + taps[0] * self.dilation - self.before
        last = (positions[1] - 1) * self.stride + (taps[1] - 1) * self.dilation - self.before
        return first, last + 1

    def cropped(self, taps: Run) -> WindowAxis:
        """Return the window with ``taps`` alone, at the same positions.

        The removed taps must reach as far as there is padding.
        """
        behind = (self.kernel - taps[1]) * self.dilation
        kernel = taps[1] - taps[0]
        return replace(
            self,
            kernel=kernel,
            dilation=self.dilation if kernel > 1 else 1,
            before=self.before - taps[0] * self.dilation,
            after=self.after - behind,
        )


def window_axes(op: Op, graph: Graph) -> tuple[WindowAxis, WindowAxis]:
    """Return the rows and columns of a convolution or pooling."""
    if op.family is Family.CONV:
        kernel = op.axes.taps(graph.shape(op.inputs[1]))
    else:
        assert op.family is Family.POOL
        kernel = (op.ints("kernel")[0], op.ints("kernel")[1])
    sizes, pads = op.axes.sizes(graph.shape(op.inputs[0])), op.ints("pads")
    strides, dilations = op.ints("strides"), op.ints("dilations")
    rows, columns = (
        WindowAxis(sizes[i], kernel[i], strides[i], dilations[i], pads[i], pads[2 + i])
        for i in range(2)
    )
    return rows, columns
