"""Cuts the photographs that scikit-image ships into tiles."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

PHOTOGRAPHS = [
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "retina.jpg",
    "rocket.jpg",
]
EDGE = 192  # pixels


def cut(photograph: Path, folder: Path) -> Iterator[Path]:
    """Writes a photograph's whole tiles, `EDGE` pixels square, as PNG files."""
    image = Image.open(photograph).convert("RGB")
    for top in range(0, image.height - EDGE + 1, EDGE):
        for left in range(0, image.width - EDGE + 1, EDGE):
            tile = folder / f"{photograph.stem}-{top:04d}-{left:04d}.png"
            image.crop((left, top, left + EDGE, top + EDGE)).save(tile)
            yield tile


def cut_all(folder: Path) -> list[Path]:
    """Cuts every photograph into `folder` and returns the tiles in a stable order."""
    folder.mkdir(parents=True, exist_ok=True)
    # The package itself is not imported: what it computes with is not installed for the demo.
    package = find_spec("skimage")
    assert package is not None
    assert package.origin is not None
    data = Path(package.origin).with_name("data")
    return [tile for name in PHOTOGRAPHS for tile in cut(data / name, folder)]
