"""Where the taps of a two-dimensional convolution lie."""

from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """Stride, padding and dilation along both axes, and the number of groups."""

    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def size(self, image: Pair, kernel: Pair) -> Pair:
        """Height and width of the output.

        >>> Geometry(stride=(2, 1), padding=(1, 0)).size((7, 7), (3, 5))
        (4, 3)
        """
        one, two = (
            (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, padding, dilation in zip(
                image, kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        return one, two

    def overhangs(self, image: Pair, kernel: Pair, size: Pair) -> bool:
        """Whether a tap of an output of that size lies outside of the image."""
        return any(
            padding > 0 or (outputs - 1) * stride - padding + (taps - 1) * dilation >= pixels
            for pixels, taps, outputs, stride, padding, dilation in zip(
                image, kernel, size, self.stride, self.padding, self.dilation, strict=True
            )
        )


class Phase(NamedTuple):
    """Every ``stride``-th position of an input gradient along one axis: an ordinary correlation.

    The gradient at position ``phase + stride j`` is the sum over i < ``taps`` of weight
    ``last - i step`` times the output's gradient at ``j - padding + i dilation``.
    """

    taps: int
    last: int
    step: int
    padding: int
    dilation: int


def phases(taps: int, stride: int, padding: int, dilation: int) -> list[Phase]:
    """The phases of an input gradient; at stride 1 one, which has all taps, turned around.

    Output o reads input ``o stride - padding + r dilation`` at tap r, so input i receives from
    o = (i + padding - r dilation) / stride where that is whole.

    >>> for phase in phases(3, 2, 1, 1): print(phase)
    Phase(taps=1, last=1, step=2, padding=0, dilation=1)
    Phase(taps=2, last=2, step=2, padding=0, dilation=1)
    """
    common = gcd(stride, dilation)
    out = []
    for phase in range(stride):
        fitting = [r for r in range(taps) if (phase + padding - r * dilation) % stride == 0]
        last = fitting[-1] if fitting else 0
        start = (phase + padding - last * dilation) // stride
        out.append(Phase(len(fitting), last, stride // common, -start, dilation // common))
    return out
