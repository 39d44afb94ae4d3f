"""Random variants of images: flip, affine, perspective, colour jitter, grey-scale, noise.

Every alteration has a chance of its own and, if it happens, a strength drawn uniformly. Geometry is
one map from an output pixel to where it comes from, so an image is interpolated once:
p_in = F A R H p_out    H: the picture's corners moved inwards, R: a rotation, F: left for right
                        A: (u, v) -> ((u + k v) / s - 2 a, v / s - 2 b), sheared, scaled, shifted
colour: x <- b x;  x <- m + c (x - m);  x <- l + s (x - l);  hue <- hue + t
with l = 0.299 r + 0.587 g + 0.114 b and m its mean over the image. Nothing is clipped, so the order
of the first three makes no difference, and features need not lie in [0, 1].
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unalike import rng
from unalike.rng import Key

# Uniform numbers of an image, in this order: does it happen, and how much.
_WIDTHS = [1, 1, 1, 1, 8, 1, 4, 1, 1]


@dataclass(frozen=True)
class Variants:
    """How images are altered; jitter and grey-scale need three channels and are skipped else."""

    rotation: float = 20.0  # degrees
    noise: float = 0.05
    flip: bool = True
    perspective: float = 0.3  # corners move by at most half of this share of a side
    jitter: float = 0.3  # factors of brightness, contrast and saturation are within 1 +- jitter
    hue: float = 0.3  # of a whole turn
    grey: float = 0.1  # chance of losing all colour
    chance: float = 0.5  # of flip, rotation and noise
    perspective_chance: float = 0.5
    jitter_chance: float = 0.5
    shift: float = 0.0  # share of a side, across and down
    scale: float = 0.0  # sizes are within 1 +- scale
    shear: float = 0.0  # degrees

    def __call__(self, x: Tensor, key: Key) -> Tensor:
        """Each image of [n, c, h, w] in its own way, which depends on its place and the key."""
        u = rng.uniform(rng.fold_in(key, 0), len(x), sum(_WIDTHS)).to(x.dtype)
        flips, turns, angle, warps, corners, jitters, colour, greys, noisy = u.split(_WIDTHS, 1)
        x = warp(
            x,
            flips[:, 0] < self.chance * self.flip,
            (2 * angle - 1)[:, 0] * (turns[:, 0] < self.chance) * math.radians(self.rotation),
            corners * (warps < self.perspective_chance) * (self.perspective / 2),
            self._affine(x, key),
        )
        if x.shape[1] == 3:
            change = (2 * colour - 1) * (jitters < self.jitter_chance)
            b, c, s = (1 + self.jitter * change[:, :3]).unbind(1)
            x = recolour(x, b, c, s, self.hue * change[:, 3])
            x = torch.where((greys < self.grey)[..., None, None], luma(x), x)
        loud = self.noise * (noisy < self.chance)[..., None, None]
        return x + loud * rng.normal(rng.fold_in(key, 1), *x.shape)

    def _affine(self, x: Tensor, key: Key) -> Tensor | None:
        """[n, 4] moves across and down, sizes and shears; None if there are none."""
        if not (self.shift or self.scale or self.shear):
            return None
        u = rng.uniform(rng.fold_in(key, 2), len(x), 5).to(x.dtype)
        a, b, s, k = (2 * u[:, 1:] - 1).mul(u[:, :1] < self.chance).unbind(1)
        slope = torch.tan(k * math.radians(self.shear))
        return torch.stack([self.shift * a, self.shift * b, 1 + self.scale * s, slope], 1)


def warp(
    x: Tensor, mirror: Tensor, angle: Tensor, corners: Tensor, affine: Tensor | None = None
) -> Tensor:
    """Each image mirrored or not, then shifted, scaled and sheared, rotated, in perspective.

    ``corners`` are four moves across and four down, clockwise from the top left, in shares of the
    sides; ``affine`` are two shifts, likewise, a size and a slope. The sampling grid is made by
    hand: affine_grid has no batching rule.
    """
    h, w = x.shape[-2:]
    t = ((torch.arange(h, device=x.device, dtype=x.dtype) + 0.5) / h)[:, None]
    s = ((torch.arange(w, device=x.device, dtype=x.dtype) + 0.5) / w)[None]
    s, t = origin(corners[..., None, None], s, t)
    u, v = 2 * s - 1, 2 * t - 1
    cos, sin = (f(angle)[:, None, None] for f in (torch.cos, torch.sin))
    across, down = cos * u - sin * v * (h / w), sin * u * (w / h) + cos * v  # angles in pixels
    if affine is not None:
        a, b, size, slope = (v[:, None, None] for v in affine.unbind(1))
        across, down = (across + slope * down) / size - 2 * a, down / size - 2 * b
    sign = 1 - 2 * mirror.to(x.dtype)[:, None, None]
    return F.grid_sample(x, torch.stack([sign * across, down], -1), align_corners=False)


def origin(corners: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """The point of the unit square that is seen at (s, t) once its corners have moved.

    The homography from the square to a quadrangle in closed form (Heckbert 1989), inverted by its
    adjugate: no linear system, which would have to be checked for success.
    """
    left, right, low_right, low_left, *down = corners.unbind(1)
    x0, x1, x2, x3 = left, 1 - right, 1 - low_right, low_left
    y0, y1, y2, y3 = down[0], down[1], 1 - down[2], 1 - down[3]
    x12, x32, sx = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    y12, y32, sy = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = x12 * y32 - x32 * y12
    g, h = (sx * y32 - x32 * sy) / area, (x12 * sy - sx * y12) / area
    a, b, c = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + h * y3, y0
    z = (d * h - e * g) * s + (b * g - a * h) * t + (a * e - b * d)
    z = z.clamp(min=1e-6)  # what lies behind the horizon is far outside of the picture
    across = (e - f * h) * s + (c * h - b) * t + (b * f - c * e)
    along = (f * g - d) * s + (a - c * g) * t + (c * d - a * f)
    return across / z, along / z


def luma(x: Tensor) -> Tensor:
    """The brightness of colour images [n, 3, h, w], as [n, 1, h, w] (ITU-R BT.601)."""
    r, g, b = x.split(1, 1)
    return 0.299 * r + 0.587 * g + 0.114 * b


def recolour(
    x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, turn: Tensor
) -> Tensor:
    """Colour images with three factors and a turn of hue, one of each per image."""
    b, c, s, t = (v[:, None, None, None] for v in (brightness, contrast, saturation, turn))
    x = b * x
    grey = luma(x)
    x = grey + s * (x - grey)
    mean = grey.mean((2, 3), keepdim=True)
    return turned(mean + c * (x - mean), t)


def turned(x: Tensor, turn: Tensor) -> Tensor:
    """Colours with their hue moved along the hexagon of HSV by a share of a whole turn."""
    r, g, b = x.split(1, 1)
    top = x.amax(1, keepdim=True)
    chroma = top - x.amin(1, keepdim=True)
    safe = chroma + (chroma == 0)  # grey has no hue
    side = torch.where(top == g, 2 + (b - r) / safe, 4 + (r - g) / safe)
    hue = torch.where(top == r, (g - b) / safe, side) + 6 * turn

    def channel(n: int) -> Tensor:
        k = torch.remainder(n + hue, 6)
        return top - chroma * torch.minimum(k, 4 - k).clamp(0, 1)

    return torch.cat([channel(5), channel(3), channel(1)], 1)
