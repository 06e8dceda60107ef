"""Random shifts of images (Yarats et al. 2021): pad by repeating the border, crop at a random place."""

import torch
from torch import Tensor


def draw_shifts(lead: tuple[int, ...], largest: int, generator: torch.Generator) -> Tensor:
    """Return shifts (*lead, 2) int64 of rows and columns [pixels], uniform in [-largest, largest]."""
    return torch.randint(-largest, largest + 1, (*lead, 2), generator=generator)


def shift_images(images: Tensor, shifts: Tensor) -> Tensor:
    """Return images whose pixel (y, x) is pixel (y + dy, x + dx) of ``images``, or the nearest border pixel.

    Args:
        images: (B, H, W, C), contiguous.
        shifts: (B, 2) int64, dy and dx, of whole pixels: nothing is interpolated.
    """
    rows, height, width, channels = images.shape
    y = torch.arange(height, device=images.device) + shifts[:, :1]
    x = torch.arange(width, device=images.device) + shifts[:, 1:]
    first = torch.arange(0, rows * height, height, device=images.device).unsqueeze(1)
    # Whole lines are selected first, then elements of each line: ten times as fast as indexing with both at once.
    lines = images.view(rows * height, width * channels).index_select(0, (first + y.clamp(0, height - 1)).flatten())
    element = x.clamp(0, width - 1).unsqueeze(2) * channels + torch.arange(channels, device=images.device)
    element = element.view(rows, 1, width * channels).expand(-1, height, -1)
    return lines.view(rows, height, width * channels).gather(2, element).view(images.shape)
