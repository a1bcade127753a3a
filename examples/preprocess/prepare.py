"""Makes a photograph ready for training: its middle, in one size, as an array of float32 from 0 to 1."""

from pathlib import Path

import numpy
from PIL import Image, ImageOps

SIDE = 64


def prepare(input: str, output: str) -> dict:  # noqa: A002 - the name asks for a local copy of the item
    """Write the array; return where it is, and the sums from which a data set's mean and deviation follow."""
    photograph = ImageOps.fit(Image.open(input).convert("RGB"), (SIDE, SIDE))
    array = numpy.asarray(photograph, dtype="float32") / 255
    path = Path(output) / f"{Path(input).stem}.npy"
    numpy.save(path, array)
    return {
        "array": path,
        "pixels": SIDE * SIDE,
        "sum": array.sum(axis=(0, 1), dtype="float64").tolist(),
        "squares": (array.astype("float64") ** 2).sum(axis=(0, 1)).tolist(),
    }
