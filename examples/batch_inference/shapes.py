"""Pictures to try the example with: shapes of random place and size, with noise."""

from pathlib import Path

import numpy
from PIL import Image

LABELS = ("circle", "cross", "square")
SIDE = 16


def draw(label: str, random: numpy.random.Generator) -> numpy.ndarray:
    """A picture of SIDE x SIDE grey levels from 0 to 255."""
    x, y = numpy.meshgrid(numpy.arange(SIDE), numpy.arange(SIDE))
    x, y = x - random.uniform(7, 9), y - random.uniform(7, 9)
    size = random.uniform(4.5, 6)
    inside = {
        "circle": numpy.abs(numpy.hypot(x, y) - size) < 1.2,
        "cross": (numpy.minimum(abs(x), abs(y)) < 1.2) & (numpy.maximum(abs(x), abs(y)) < size),
        "square": numpy.abs(numpy.maximum(abs(x), abs(y)) - size) < 1.2,
    }[label]
    return numpy.clip(40 + 160 * inside + random.normal(0, 12, (SIDE, SIDE)), 0, 255).astype("uint8")


def write(folder: Path, count: int) -> None:
    """Write so many pictures, each named after its shape."""
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(7)
    for number in range(count):
        label = LABELS[number % len(LABELS)]
        Image.fromarray(draw(label, random)).save(folder / f"{label}-{number:03}.png")
