"""Casts rays at a model of spheres: a picture per view."""

import os
from pathlib import Path

import numpy
from PIL import Image

MODELS = {
    # Spheres: centre x, y, z, radius.
    "molecule": [(0, 0, 0, 1.0), (1.3, 0.6, 0, 0.6), (-1.3, 0.6, 0, 0.6)],
    "snowman": [(0, -1.1, 0, 1.0), (0, 0.4, 0, 0.7), (0, 1.4, 0, 0.45)],
}
LIGHTS = {"noon": (0.1, 1.0, -0.4), "evening": (-1.0, 0.25, -0.5)}
"""Directions to the light."""


def render(meta: dict, output: str) -> Path:
    """Render the view that the item's metadata describes, and return the picture's path, which becomes its URI."""
    size = int(os.environ.get("SIZE", "128"))
    path = Path(output) / "view.png"
    shade = cast(MODELS[meta["model"]], numpy.radians(meta["angle"]), numpy.array(LIGHTS[meta["light"]]), size)
    Image.fromarray((shade * 255).astype("uint8")).save(path)
    return path


def cast(spheres: list, angle: float, light: numpy.ndarray, size: int) -> numpy.ndarray:
    """Brightness from 0 to 1 of size x size parallel rays that go along z, at a model turned about its y axis."""
    across = numpy.linspace(-2.5, 2.5, size)
    x, y = numpy.meshgrid(across, -across)
    nearest = numpy.full((size, size), numpy.inf)
    shade = numpy.zeros((size, size))
    light = light / numpy.linalg.norm(light)
    for cx, cy, cz, radius in spheres:
        turned = cx * numpy.cos(angle) + cz * numpy.sin(angle), cz * numpy.cos(angle) - cx * numpy.sin(angle)
        depth = radius**2 - (x - turned[0]) ** 2 - (y - cy) ** 2
        hit = depth > 0
        z = turned[1] - numpy.sqrt(numpy.where(hit, depth, 0))
        hit &= z < nearest
        normal = numpy.stack([x - turned[0], y - cy, z - turned[1]], axis=-1) / radius
        shade = numpy.where(hit, 0.15 + 0.85 * numpy.clip(normal @ light, 0, 1), shade)
        nearest = numpy.where(hit, z, nearest)
    return shade
